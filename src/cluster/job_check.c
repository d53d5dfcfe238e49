// SPDX-License-Identifier: Apache-2.0
#include "cluster/job_check.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cluster/agent.h"
#include "cluster/member.h"
#include "daemon/state.h"

#define GOOD_FOR DLC_SEC(10) /* workers of a loader open one after the other */

struct job_call {
    struct agent_call call;
    struct node *node;
    char *job, *key;
    uint64_t opened;
    job_check_f *done;
    void *arg;
};

/* By job and dataset; the oldest makes room. */
static struct checked_job *find_checked(struct node *n, const char *key)
{
    for (size_t i = 0; i < CHECKED_JOBS; i++)
        if (n->member->checked_jobs[i].key != NULL &&
            strcmp(n->member->checked_jobs[i].key, key) == 0)
            return &n->member->checked_jobs[i];
    return NULL;
}

/* opened: the answer has to name the snapshot, which does not change any more. */
static bool is_good(const struct checked_job *c, uint64_t opened)
{
    return c != NULL && !dlc_mono_passed(c->until, dlc_mono_now()) &&
           (opened == 0 || c->snapshot != 0);
}

static void remember_good(struct node *n, const char *key, uint64_t snapshot)
{
    struct checked_job *c = find_checked(n, key);

    if (c == NULL)
        c = &n->member->checked_jobs[n->member->next_checked++ % CHECKED_JOBS];
    mem_free(&c->key);
    c->key = mem_str(key);
    c->snapshot = snapshot;
    c->until = dlc_mono_add(dlc_mono_now(), GOOD_FOR);
}

static void warn_unknown(const char *job, uint64_t opened, const char *why)
{
    if (opened != 0)
        log_warn(
            "job %s: a rank here reads snapshot %016llx; whether ranks on other nodes read the "
            "same is not known: %s",
            job, (unsigned long long)opened, why);
}

static void answered(struct agent_call *call)
{
    struct job_call *j = dlc_container(call, struct job_call, call);
    struct dlc_err err = call->err;
    int rc = call->rc == DLC_ENOTFOUND ? DLC_EINVAL : 0;
    uint64_t snapshot = 0;

    if (call->rc == 0)
        str_parse_hex64(json_text_at(call->answer, "snapshot"), &snapshot);
    if (rc < 0)
        dlc_err_set(&err, DLC_EINVAL,
                    "DLCACHE_JOB is %s: %.300s. Register a job on this dataset with `dlcache job "
                    "create` and set DLCACHE_JOB to its number, or unset it",
                    j->job, call->err.text);
    else if (call->rc == 0)
        remember_good(j->node, j->key, snapshot);
    if (call->rc == 0)
        agent_beat_now(j->node->member->agent); /* the view may name this node as an owner by now */
    else
        warn_unknown(j->job, j->opened, call->err.text);
    j->done(j->node, snapshot, rc < 0 ? &err : NULL, j->arg);
    agent_call_release(&j->call);
    mem_free(&j->job);
    mem_free(&j->key);
    mem_free(&j);
}

/* In the query, which an older manager ignores. Gives. */
static char *path_of(const char *job, const char *tenant, const char *dataset, uint64_t opened,
                     const char *node)
{
    return opened != 0
               ? mem_fmt("/v1/jobs/%s/heartbeat?dataset=%s&tenant=%s&snapshot=%016llx&node=%s", job,
                         dataset, tenant, (unsigned long long)opened, node)
               : mem_fmt("/v1/jobs/%s/heartbeat?dataset=%s&tenant=%s&node=%s", job, dataset, tenant,
                         node);
}

void job_check(struct node *n, const char *job, const char *tenant, const char *dataset,
               uint64_t opened, job_check_f *done, void *arg)
{
    char *key = mem_fmt("%s %s/%s", job, tenant, dataset);
    const struct checked_job *c = find_checked(n, key);
    struct job_call *j;

    if (is_good(c, opened) || agent_manager_away(n->member->agent)) {
        if (c == NULL || c->snapshot == 0)
            warn_unknown(job, opened, "the manager does not answer");
        mem_free(&key);
        done(n, c != NULL ? c->snapshot : 0, NULL, arg);
        return;
    }
    j = mem_new(struct job_call);
    *j = (struct job_call){
        .node = n, .job = mem_str(job), .key = key, .opened = opened, .done = done, .arg = arg};
    j->call = (struct agent_call){
        .method = "POST",
        .path = path_of(job, tenant, dataset, opened, agent_name(n->member->agent)),
        .body = json_object(),
        .done = answered};
    agent_ask(n->member->agent, &j->call);
}
