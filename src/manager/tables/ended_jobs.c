// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/ended_jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/store/wall_time.h"
#include "manager/tables/accounting.h"
#include "manager/tables/documents.h"
#include "manager/tables/job_doc.h"
#include "manager/tables/tables.h"

#define SETTLE_MS (INT64_C(20) * 1000)
#define PER_TICK  100 /* deletions, so that the thread goes on */

struct ended_job {
    char id[20];
    char tenant[NAME_MAX_LEN + 1];
    char *of; /* TENANT/NAME of its dataset */
    int64_t ended_ms;
    bool settled;
    struct dlc_mono read; /* as struct job; 0: not known */
};

static struct ended_job *find_locked(struct tables *t, const char *id)
{
    for (size_t i = t->ended.n; i-- > 0;)
        if (strcmp(t->ended.list[i].id, id) == 0)
            return &t->ended.list[i];
    return NULL;
}

static void remove_locked(struct tables *t, const char *id)
{
    struct ended_job *e = find_locked(t, id);

    if (e == NULL)
        return;
    mem_free(&e->of);
    memmove(e, e + 1, (size_t)(t->ended.list + t->ended.n - (e + 1)) * sizeof(*e));
    t->ended.n--;
}

static void ended_job_init(struct ended_job *e, const struct store_doc *d)
{
    *e = (struct ended_job){.ended_ms = json_int_at(d->body, "ended_ms"),
                            .settled = json_true_at(d->body, "settled")};
    snprintf(e->id, sizeof(e->id), "%s", d->id);
    snprintf(e->tenant, sizeof(e->tenant), "%s", d->tenant);
    e->of = mem_fmt("%s/%s", d->tenant, json_text_at(d->body, "dataset"));
}

static void add_locked(struct tables *t, const struct store_doc *d, struct dlc_mono read)
{
    remove_locked(t, d->id);
    mem_reserve(t->ended.list, t->ended.n, t->ended.cap);
    ended_job_init(&t->ended.list[t->ended.n], d);
    t->ended.list[t->ended.n++].read = read;
}

bool ended_job_is_of(struct tables *t, const char *id, const char *of)
{
    const struct ended_job *e;
    bool is;

    dlc_mtx_lock(&t->mtx);
    e = find_locked(t, id);
    is = e != NULL && strcmp(e->of, of) == 0;
    dlc_mtx_unlock(&t->mtx);
    return is;
}

size_t ended_jobs_readers(struct tables *t, const char *of, char (*ids)[20], size_t max)
{
    size_t n = 0;

    dlc_mtx_lock(&t->mtx);
    for (size_t i = 0; i < t->ended.n && n < max; i++) {
        const struct ended_job *e = &t->ended.list[i];

        if (e->read.ns != 0 && dlc_mono_since(e->read).ns < JOB_READ_TIME.ns &&
            strcmp(e->of, of) == 0)
            memcpy(ids[n++], e->id, sizeof(e->id));
    }
    dlc_mtx_unlock(&t->mtx);
    return n;
}

/* ---- (ENDED-3) ---- */

bool ended_job_due(struct tables *t, int64_t now_ms, char id[static 20])
{
    bool due = false;

    dlc_mtx_lock(&t->mtx);
    for (size_t i = t->ended.n; i-- > 0 && !due;) {
        const struct ended_job *e = &t->ended.list[i];

        due = !e->settled && e->ended_ms + SETTLE_MS < now_ms;
        if (due)
            memcpy(id, e->id, sizeof(e->id));
    }
    dlc_mtx_unlock(&t->mtx);
    return due;
}

bool ended_job_is_settled(const struct store_doc *job)
{
    return json_true_at(job->body, "settled");
}

int ended_job_usage(struct store *s, const struct store_doc *job, json_t **out, struct dlc_err *err)
{
    struct account_query q = {.by = BY_JOB, .tenant = job->tenant};
    char since[DAY_LEN + 1];
    char *key = mem_fmt("%s/%s/%s", job->tenant, json_text_at(job->body, "dataset"), job->id);
    json_t *sums = NULL;
    int rc;

    accounting_day(json_int_at(job->body, "created_ms"), since);
    q.since = since;
    rc = accounting_sum(s, &q, &sums, err);
    *out = rc == 0 ? json_incref(json_object_get(sums, key)) : NULL;
    json_decref(sums);
    mem_free(&key);
    return rc;
}

static int set_usage(struct store_doc *d, void *arg, struct dlc_err *err)
{
    (void)err;
    if (arg != NULL)
        json_object_set(d->body, "usage", arg);
    json_object_set_new(d->body, "settled", json_true());
    return 0;
}

int ended_job_settle(struct tables *t, const char *id, const json_t *usage, struct dlc_err *err)
{
    int rc = document_change(t, STORE_ENDED, id, STORE_ANY, set_usage, (void *)(uintptr_t)usage,
                             NULL, err);
    struct ended_job *e;

    if (rc < 0 && rc != DLC_ENOTFOUND)
        return rc;
    dlc_mtx_lock(&t->mtx);
    e = find_locked(t, id);
    if (e != NULL)
        e->settled = true;
    dlc_mtx_unlock(&t->mtx);
    return 0;
}

/* ---- (ENDED-2), and those whose time is over ---- */

/* The oldest one of all whose time is over, or which is one too many. */
static bool next_old(struct tables *t, int64_t now_ms, char out[static 20])
{
    const struct ended_job *e;
    bool found;

    dlc_mtx_lock(&t->mtx);
    e = t->ended.list;
    found = t->ended.n > 0 &&
            (t->ended.n > ENDED_MAX || e->ended_ms + t->keep_ended.ns / 1000000 < now_ms);
    if (found)
        memcpy(out, e->id, sizeof(e->id));
    dlc_mtx_unlock(&t->mtx);
    return found;
}

/* The oldest one of a tenant, if it has more than `most`. */
static bool next_of_tenant(struct tables *t, const char *tenant, size_t most, char out[static 20])
{
    size_t n = 0;

    dlc_mtx_lock(&t->mtx);
    for (size_t i = t->ended.n; i-- > 0;)
        if (strcmp(t->ended.list[i].tenant, tenant) == 0 && ++n > most)
            memcpy(out, t->ended.list[i].id, sizeof(t->ended.list[i].id));
    dlc_mtx_unlock(&t->mtx);
    return n > most;
}

/* False: the store does not answer; it is tried again. */
static bool ended_job_delete(struct tables *t, const char *id)
{
    struct dlc_err err = DLC_ERR_INIT;
    int rc = store_delete(t->store, STORE_ENDED, id, STORE_ANY, &err);

    if (rc < 0 && rc != DLC_ENOTFOUND) {
        log_warn("ended job %s is not deleted yet: %s", id, err.text);
        return false;
    }
    dlc_mtx_lock(&t->mtx);
    remove_locked(t, id);
    dlc_mtx_unlock(&t->mtx);
    return true;
}

void ended_jobs_tick(struct tables *t, int64_t now_ms)
{
    char id[20];

    for (int i = 0; i < PER_TICK && next_old(t, now_ms, id); i++)
        if (!ended_job_delete(t, id))
            return;
}

static void trim_tenant(struct tables *t, const char *tenant, size_t most)
{
    char id[20];

    while (next_of_tenant(t, tenant, most, id))
        if (!ended_job_delete(t, id))
            return;
}

void ended_jobs_forget_tenant(struct tables *t, const char *tenant)
{
    trim_tenant(t, tenant, 0);
}

/* ---- one ends ---- */

static void set_end(json_t *body, const struct job *j, const char *why)
{
    json_object_set_new(body, "state", json_string("ended"));
    json_object_set_new(body, "ended_ms", json_integer((json_int_t)wall_ms()));
    json_object_set_new(body, "why", json_string(why));
    json_object_set_new(body, "was", json_string(job_state_name(j->state)));
    json_object_set_new(body, "epochs_done", json_integer((json_int_t)j->epochs_done));
    json_object_set_new(body, "usage", usage_json(&j->usage));
    if (j->figures != NULL)
        json_object_set(body, "figures", j->figures);
}

int ended_job_add(struct tables *t, const struct job *j, const char *why, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = store_get(t->store, STORE_JOB, j->id, &d, err);

    if (rc == DLC_ENOTFOUND)
        return 0; /* another request ends it */
    if (rc < 0)
        return rc;
    set_end(d.body, j, why);
    rc = store_put(t->store, STORE_ENDED, &d, STORE_ANY, err);
    if (rc == 0) {
        dlc_mtx_lock(&t->mtx);
        add_locked(t, &d, j->read);
        dlc_mtx_unlock(&t->mtx);
        trim_tenant(t, j->tenant, ENDED_OF_TENANT);
    }
    store_doc_release(&d);
    return rc;
}

/* ---- we lead from now on ---- */

static int by_end(const void *a, const void *b)
{
    int64_t x = ((const struct ended_job *)a)->ended_ms,
            y = ((const struct ended_job *)b)->ended_ms;

    return (x > y) - (x < y);
}

static bool load_one(struct store_doc *d, void *arg)
{
    struct ended_jobs *all = arg;

    mem_reserve(all->list, all->n, all->cap);
    ended_job_init(&all->list[all->n++], d);
    return true;
}

static void ended_jobs_release(struct ended_jobs *all)
{
    for (size_t i = 0; i < all->n; i++)
        mem_free(&all->list[i].of);
    mem_free(&all->list);
    all->n = all->cap = 0;
}

int ended_jobs_load(struct tables *t, struct dlc_err *err)
{
    struct ended_jobs fresh = {0}, old;
    int rc = store_each(t->store, STORE_ENDED, NULL, load_one, &fresh, err);

    if (rc < 0) {
        ended_jobs_release(&fresh);
        return rc;
    }
    if (fresh.n > 0)
        qsort(fresh.list, fresh.n, sizeof(*fresh.list), by_end);
    dlc_mtx_lock(&t->mtx);
    old = t->ended;
    t->ended = fresh;
    dlc_mtx_unlock(&t->mtx);
    ended_jobs_release(&old);
    return 0;
}

void ended_jobs_close(struct tables *t)
{
    ended_jobs_release(&t->ended);
}
