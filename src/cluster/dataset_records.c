// SPDX-License-Identifier: Apache-2.0
#include "cluster/dataset_records.h"

#include <dirent.h>
#include <string.h>

#include <jansson.h>

#include "base/config.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "base/thread_pool.h"
#include "cluster/agent.h"
#include "cluster/member.h"
#include "cluster/peer/view.h"
#include "daemon/state.h"
#include "daemon/work.h"
#include "ipc/frame.h"

#define RECORD_SUFFIX  ".record"
#define DELETED_SUFFIX ".deleted"
#define RECORD_MAX     ((size_t)256 << 10)
#define RECORDS_MAX    1000                /* in an answer */
#define ANSWER_MAX     ((size_t)512 << 10) /* bytes of them: a request has 1 MiB */

/* Gives; NULL: that is not a name. */
static char *path_of(const struct node *n, const char *name, const char *tenant, const char *suffix)
{
    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL ||
        strchr(tenant, '/') != NULL)
        return NULL;
    return mem_fmt("%s/catalogs/%s@%s%s", n->config->dir, name, tenant, suffix);
}

/* ---- keeping ---- */

struct keeping {
    struct work work;
    char *path, *text;
};

static void keep(struct work *w)
{
    struct keeping *k = dlc_container(w, struct keeping, work);
    struct dlc_err err = DLC_ERR_INIT;
    struct buf old = BUF_INIT;

    if ((os_read_file(k->path, RECORD_MAX, &old, NULL) < 0 ||
         strcmp(buf_str(&old), k->text) != 0) &&
        os_write_file(k->path, k->text, strlen(k->text), 0600, &err) < 0)
        log_warn("the record of a dataset is not kept: %s", err.text);
    buf_release(&old);
    mem_free(&k->path);
    mem_free(&k->text);
    mem_free(&k);
}

void dataset_record_keep(struct node *n, const struct grant *g)
{
    char *path = n->disk != NULL && g->record != NULL
                     ? path_of(n, g->dataset, g->tenant, RECORD_SUFFIX)
                     : NULL;
    struct keeping *k;

    if (path == NULL)
        return;
    k = mem_new(struct keeping);
    k->work.run = keep;
    k->path = path;
    k->text = mem_str(g->record);
    if (!work_try(n->work, WORK_BACKGROUND, &k->work, strlen(k->text))) {
        mem_free(&k->path); /* the next answer brings it */
        mem_free(&k->text);
        mem_free(&k);
    }
}

void dataset_record_delete(struct node *n, const char *name, const char *tenant)
{
    char *from = path_of(n, name, tenant, RECORD_SUFFIX);
    char *to = path_of(n, name, tenant, DELETED_SUFFIX);

    if (from != NULL && to != NULL)
        os_rename(from, to); /* it may not have one */
    mem_free(&from);
    mem_free(&to);
}

/* ---- telling ---- */

struct telling {
    struct work work;
    struct task task;
    struct agent_call call;
    struct node *node;
    json_t *records, *deleted;
    size_t bytes;
};

static void add_file(struct telling *t, const char *dir, const char *name, json_t *to)
{
    char *path = mem_fmt("%s/%s", dir, name);
    struct buf text = BUF_INIT;
    json_t *record = NULL;

    if (json_array_size(to) < RECORDS_MAX && os_read_file(path, RECORD_MAX, &text, NULL) == 0 &&
        t->bytes + text.len <= ANSWER_MAX)
        record = json_loadb(buf_str(&text), text.len, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(record)) {
        t->bytes += text.len;
        json_array_append(to, record);
    } else {
        log_warn("%s is not told to the manager: it cannot be read, or there are too many", path);
    }
    json_decref(record);
    buf_release(&text);
    mem_free(&path);
}

static void read_records(struct work *w)
{
    struct telling *t = dlc_container(w, struct telling, work);
    char *path = mem_fmt("%s/catalogs", t->node->config->dir);
    DIR *dir = os_opendir(path);
    const struct dirent *e;

    while (dir != NULL && (e = os_readdir(dir)) != NULL) {
        if (e->d_name[0] == '.' || strchr(e->d_name, '@') == NULL)
            continue;
        if (str_ends(e->d_name, RECORD_SUFFIX))
            add_file(t, path, e->d_name, t->records);
        else if (str_ends(e->d_name, DELETED_SUFFIX))
            add_file(t, path, e->d_name, t->deleted);
    }
    os_closedir(&dir);
    mem_free(&path);
    loop_post(t->node->loop, &t->task);
}

static void told(struct agent_call *call)
{
    struct telling *t = dlc_container(call, struct telling, call);

    if (call->rc < 0)
        log_info("the manager did not take the records of datasets: %s", call->err.text);
    t->node->member->telling = false;
    agent_call_release(&t->call);
    mem_free(&t);
}

static void tell(struct task *task)
{
    struct telling *t = dlc_container(task, struct telling, task);
    const struct agent *a = t->node->member->agent;

    t->node->pending--;
    t->call = (struct agent_call){.method = "POST",
                                  .path = mem_fmt("/v1/nodes/%s/inventory", agent_name(a)),
                                  .body = json_pack("{s:o, s:o, s:o}", "instance",
                                                    msg_string(agent_instance(a)), "records",
                                                    t->records, "deleted", t->deleted),
                                  .done = told};
    agent_ask(t->node->member->agent, &t->call);
}

void dataset_records_tell(struct node *n)
{
    struct telling *t;

    if (n->member->telling || n->stopping)
        return;
    n->member->telling = true;
    t = mem_new(struct telling);
    t->node = n;
    t->records = json_array();
    t->deleted = json_array();
    t->work.run = read_records;
    t->task.run = tell;
    n->pending++;
    work_run(n->work, WORK_BACKGROUND, &t->work);
}
