// SPDX-License-Identifier: Apache-2.0
#include "cluster/job_check.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cluster/agent.h"
#include "cluster/member.h"
#include "cluster/peer/view.h"
#include "daemon/state.h"

#define GOOD_FOR DLC_SEC(10) /* workers of a loader open one after the other */

struct job_call {
    struct agent_call call;
    struct node *node;
    char *job, *key;
    job_check_f *done;
    void *arg;
};

/* By job and dataset; the oldest makes room. */
static bool is_good(struct node *n, const char *key)
{
    for (size_t i = 0; i < CHECKED_JOBS; i++)
        if (n->member->checked_jobs[i].key != NULL &&
            strcmp(n->member->checked_jobs[i].key, key) == 0)
            return !dlc_mono_passed(n->member->checked_jobs[i].until, dlc_mono_now());
    return false;
}

static void remember_good(struct node *n, const char *key)
{
    struct checked_job *c = &n->member->checked_jobs[n->member->next_checked++ % CHECKED_JOBS];

    for (size_t i = 0; i < CHECKED_JOBS; i++)
        if (n->member->checked_jobs[i].key != NULL &&
            strcmp(n->member->checked_jobs[i].key, key) == 0)
            c = &n->member->checked_jobs[i];
    mem_free(&c->key);
    c->key = mem_str(key);
    c->until = dlc_mono_add(dlc_mono_now(), GOOD_FOR);
}

static void answered(struct agent_call *call)
{
    struct job_call *j = dlc_container(call, struct job_call, call);
    struct dlc_err err = call->err;
    int rc = call->rc == DLC_ENOTFOUND ? DLC_EINVAL : 0;

    if (rc < 0)
        dlc_err_set(&err, DLC_EINVAL,
                    "DLCACHE_JOB is %s: %.300s. Register a job on this dataset with `dlcache job "
                    "create` and set DLCACHE_JOB to its number, or unset it",
                    j->job, call->err.text);
    else if (call->rc == 0)
        remember_good(j->node, j->key);
    j->done(j->node, rc < 0 ? &err : NULL, j->arg);
    agent_call_release(&j->call);
    mem_free(&j->job);
    mem_free(&j->key);
    mem_free(&j);
}

void job_check(struct node *n, const char *job, const struct grant *g, job_check_f *done, void *arg)
{
    char *key = mem_fmt("%s %s/%s", job, g->tenant, g->dataset);
    struct job_call *j;

    if (is_good(n, key) || agent_manager_away(n->member->agent)) {
        mem_free(&key);
        done(n, NULL, arg);
        return;
    }
    j = mem_new(struct job_call);
    *j = (struct job_call){.node = n, .job = mem_str(job), .key = key, .done = done, .arg = arg};
    /* In the query, which an older manager ignores. */
    j->call = (struct agent_call){
        .method = "POST",
        .path = mem_fmt("/v1/jobs/%s/heartbeat?dataset=%s&tenant=%s", job, g->dataset, g->tenant),
        .body = json_object(),
        .done = answered};
    agent_ask(n->member->agent, &j->call);
}
