// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/accounting_i.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "manager/tables/documents.h"
#include "manager/tables/ended_jobs.h"
#include "manager/tables/job_table.h"
#include "manager/tables/tables.h"

#define SENDERS_MAX   4 /* processes of a node whose batches are known: only the last two send any */
#define ROWS_MAX      4096 /* of a node and day; then jobs have no rows of their own */
#define READERS_MAX   64   /* jobs that share the cost of a dataset */
#define PAGE          128
#define ARCHIVE_TRIES 16
#define SWEEP_EVERY   DLC_SEC(600)

void accounting_day(int64_t ms, char out[static DAY_LEN + 1])
{
    time_t s = (time_t)(ms / 1000);
    struct tm tm;

    gmtime_r(&s, &tm);
    dlc_check(strftime(out, DAY_LEN + 1, "%Y-%m-%d", &tm) == DAY_LEN);
}

/* ---- rows: {OF: {JOB: counters}} ---- */

size_t rows_count(const json_t *rows)
{
    const char *of;
    json_t *jobs;
    size_t n = 0;

    json_object_foreach((json_t *)(uintptr_t)rows, of, jobs) n += json_object_size(jobs);
    return n;
}

void rows_add(json_t *rows, const char *of, const char *job, const struct usage *more)
{
    json_t *jobs = json_object_get(rows, of);
    struct usage sum;

    if (usage_is_zero(more))
        return;
    if (jobs == NULL)
        json_object_set_new(rows, of, jobs = json_object());
    usage_of_json(&sum, json_object_get(jobs, job));
    usage_add(&sum, more);
    json_object_set_new(jobs, job, usage_json(&sum));
}

void rows_each(const json_t *rows, row_f *f, void *arg)
{
    const char *of, *job;
    json_t *jobs, *row;

    json_object_foreach((json_t *)(uintptr_t)rows, of, jobs)
    {
        json_object_foreach(jobs, job, row)
        {
            struct usage u;

            usage_of_json(&u, row);
            f(of, job, &u, arg);
        }
    }
}

/* ---- a batch ---- */

struct intake {
    struct tables *t;
    const char *node, *id;
    uint64_t seq;
    char day[DAY_LEN + 1];
    json_t *rows;
    bool taken; /* out: it was not in the sums before */
};

/* Of a tenant that was deleted meanwhile: "NAME~". Gives. */
static char *account_of(struct tables *t, const char *of)
{
    size_t len = strcspn(of, "/");
    char *tenant = mem_strn(of, len), *out;
    struct store_doc d = STORE_DOC_INIT;
    int rc = len > 0 ? store_get(t->store, STORE_TENANT, tenant, &d, NULL) : 0;

    out = rc == DLC_ENOTFOUND ? mem_fmt("%s~%s", tenant, of + len) : mem_str(of);
    store_doc_release(&d);
    mem_free(&tenant);
    return out;
}

/* Programs may name any job: only those of the dataset have rows. */
static void take_row(const char *of, const char *job, const struct usage *u, void *arg)
{
    struct intake *in = arg;
    char *account = account_of(in->t, of);
    bool known = job[0] != '\0' && (jobs_is_of(in->t, job, of) || ended_job_is_of(in->t, job, of));

    if (known && u->n[USAGE_samples] > 0)
        jobs_reading(in->t, job);
    rows_add(in->rows, account, known ? job : "", u);
    mem_free(&account);
}

/* (ACCOUNT-3) */
static void share_cost(const char *of, const char *job, const struct usage *u, void *arg)
{
    static const enum usage_counter costs[] = {USAGE_requests, USAGE_bytes, USAGE_money_nano};
    struct intake *in = arg;
    char ids[READERS_MAX][20];
    size_t n = 0;
    struct usage share = {0}, rest = *u;

    if (job[0] == '\0') {
        n = jobs_readers(in->t, of, ids, READERS_MAX);
        n += ended_jobs_readers(in->t, of, ids + n, READERS_MAX - n);
    }
    for (size_t i = 0; n > 0 && i < DLC_COUNT(costs); i++) {
        share.n[costs[i]] = u->n[costs[i]] / n;
        rest.n[costs[i]] = u->n[costs[i]] % n;
    }
    for (size_t i = 0; i < n; i++)
        rows_add(in->rows, of, ids[i], &share);
    rows_add(in->rows, of, job, &rest);
}

static void merge_row(const char *of, const char *job, const struct usage *u, void *arg)
{
    json_t *rows = arg, *jobs = json_object_get(rows, of);
    bool full = json_object_get(jobs, job) == NULL && rows_count(rows) >= ROWS_MAX;

    rows_add(rows, of, full ? "" : job, u);
}

int usage_archive(struct store *s, const char *node, const struct store_doc *d, struct dlc_err *err)
{
    struct store_doc old = STORE_DOC_INIT, copy = STORE_DOC_INIT;
    int rc = 0;

    copy.id = mem_fmt("day/%s/%s", json_text_at(d->body, "day"), node);
    copy.tenant = mem_str("");
    copy.body = json_pack("{s:I, s:O}", "of", (json_int_t)d->version, "rows",
                          json_object_get(d->body, "rows"));
    for (int i = 0; i < ARCHIVE_TRIES; i++) {
        rc = store_get(s, STORE_USAGE, copy.id, &old, err);
        if (rc < 0 && rc != DLC_ENOTFOUND)
            break;
        if (rc == 0 && json_u64_at(old.body, "of") >= d->version)
            break;
        rc = store_put(s, STORE_USAGE, &copy, rc == 0 ? old.version : STORE_NEW, err);
        store_doc_release(&old);
        if (rc != DLC_EBUSY)
            break;
    }
    store_doc_release(&old);
    store_doc_release(&copy);
    return rc;
}

static void note_sender(json_t *senders, const char *id, uint64_t seq)
{
    json_object_del(senders, id); /* the latest comes last */
    json_object_set_new(senders, id, json_integer((json_int_t)seq));
    while (json_object_size(senders) > SENDERS_MAX)
        json_object_del(senders, json_object_iter_key(json_object_iter(senders)));
}

static int change_node(struct store_doc *d, void *arg, struct dlc_err *err)
{
    struct intake *in = arg;
    json_t *senders = json_object_get(d->body, "senders");

    in->taken = json_u64_at(senders, in->id) < in->seq;
    if (!in->taken)
        return 1;
    if (strcmp(json_text_at(d->body, "day"), in->day) <
        0) { /* a clock that goes back: no new day */
        int rc = usage_archive(in->t->store, in->node, d, err);

        if (rc < 0)
            return rc;
        json_object_set_new(d->body, "day", json_string(in->day));
        json_object_set_new(d->body, "rows", json_object());
    }
    rows_each(in->rows, merge_row, json_object_get(d->body, "rows"));
    note_sender(senders, in->id, in->seq);
    return 0;
}

static int write_node(struct intake *in, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    char *id = mem_fmt("node/%s", in->node);
    int rc = document_change(in->t, STORE_USAGE, id, STORE_ANY, change_node, in, NULL, err);

    if (rc == DLC_ENOTFOUND) {
        d.id = mem_str(id);
        d.tenant = mem_str("");
        d.body = json_pack("{s:s, s:{}, s:{}}", "day", in->day, "senders", "rows");
        rc = store_put(in->t->store, STORE_USAGE, &d, STORE_NEW, err);
        if (rc == 0 || rc == DLC_EBUSY) /* another request has just made it */
            rc = document_change(in->t, STORE_USAGE, id, STORE_ANY, change_node, in, NULL, err);
        store_doc_release(&d);
    }
    mem_free(&id);
    return rc;
}

static void tell_row(const char *of, const char *job, const struct usage *u, void *arg)
{
    if (job[0] != '\0')
        jobs_used(arg, job, u);
    costs_add(arg, of, u);
}

/* The store may have the batch, and then it is not taken again: the sums are read once more. */
static void doubt_costs(struct tables *t)
{
    dlc_mtx_lock(&t->mtx);
    t->costs.uncertain = true;
    dlc_mtx_unlock(&t->mtx);
}

int accounting_take(struct tables *t, const char *node, const json_t *batch, int64_t now_ms,
                    struct dlc_err *err)
{
    json_t *named = json_object();
    struct intake in = {.t = t,
                        .node = node,
                        .id = json_text_at(batch, "id"),
                        .seq = json_u64_at(batch, "seq"),
                        .rows = named};
    int rc;

    if (in.id[0] == '\0' || strlen(in.id) > 64 || in.seq == 0) {
        json_decref(named);
        return dlc_err_set(err, DLC_EINVAL, "figures.usage has no id or no number");
    }
    accounting_day(now_ms, in.day);
    rows_each(json_object_get(batch, "rows"), take_row, &in);
    in.rows = json_object();
    rows_each(named, share_cost, &in);
    rc = write_node(&in, err);
    if (rc == 0 && in.taken)
        rows_each(in.rows, tell_row, t);
    else if (rc < 0)
        doubt_costs(t);
    json_decref(named);
    json_decref(in.rows);
    return rc;
}

/* ---- sums ---- */

int usage_docs_each(struct store *s, const char *prefix, const char *after,
                    int (*f)(struct store_doc *d, void *arg, struct dlc_err *err), void *arg,
                    struct dlc_err *err)
{
    struct store_doc *docs = mem_zero(PAGE * sizeof(*docs));
    char *last = mem_str(after);
    size_t n = PAGE;
    int rc = 0;

    while (rc == 0 && n == PAGE) {
        rc = store_list(s, STORE_USAGE, NULL, last, PAGE, docs, &n, err);
        if (rc < 0)
            break;
        for (size_t i = 0; i < n; i++) {
            if (rc == 0 && str_starts(docs[i].id, prefix))
                rc = f(&docs[i], arg, err);
            else if (rc == 0)
                rc = 1; /* past them */
            if (i == n - 1) {
                mem_free(&last);
                last = mem_str(docs[i].id);
            }
            store_doc_release(&docs[i]);
        }
    }
    mem_free(&last);
    mem_free(&docs);
    return rc > 0 ? 0 : rc;
}

/* Other threads and managers change documents meanwhile, so rows count when all documents that may
 * have the same ones have been read (ACCOUNT-2, ACCOUNT-5). */
struct summing {
    const struct account_query *q;
    json_t *waiting; /* {DAY: {NODE: rows}} */
    json_t *out;
};

static void sum_row(const char *of, const char *job, const struct usage *u, void *arg)
{
    const struct summing *w = arg;
    size_t tenant = strcspn(of, "/");
    struct usage sum;
    char *key;

    if (w->q->tenant != NULL &&
        (strlen(w->q->tenant) != tenant || strncmp(of, w->q->tenant, tenant) != 0))
        return;
    key = w->q->by == BY_TENANT    ? mem_strn(of, tenant)
          : w->q->by == BY_DATASET ? mem_str(of)
                                   : mem_fmt("%s/%s", of, job);
    usage_of_json(&sum, json_object_get(w->out, key));
    usage_add(&sum, u);
    json_object_set_new(w->out, key, usage_json(&sum));
    mem_free(&key);
}

/* All of days before `day` have been read; NULL: of all days. */
static void sum_waiting(struct summing *w, const char *day)
{
    const char *of_day, *node;
    json_t *nodes, *rows;
    void *next;

    json_object_foreach_safe(w->waiting, next, of_day, nodes)
    {
        if (day != NULL && strcmp(of_day, day) >= 0)
            continue;
        json_object_foreach(nodes, node, rows) rows_each(rows, sum_row, w);
        json_object_del(w->waiting, of_day);
    }
}

/* The first document counts: that of the node comes before the archive of its day. */
static void sum_later(struct summing *w, const char *day, const char *node, json_t *rows)
{
    json_t *nodes = json_object_get(w->waiting, day);

    if (nodes == NULL)
        json_object_set_new(w->waiting, day, nodes = json_object());
    if (json_object_get(nodes, node) == NULL)
        json_object_set(nodes, node, rows);
}

static int sum_node(struct store_doc *d, void *arg, struct dlc_err *err)
{
    struct summing *w = arg;
    const char *day = json_text_at(d->body, "day");

    (void)err;
    if (w->q->since == NULL || strcmp(day, w->q->since) >= 0)
        sum_later(w, day, d->id + strlen("node/"), json_object_get(d->body, "rows"));
    return 0;
}

static int sum_day(struct store_doc *d, void *arg, struct dlc_err *err)
{
    struct summing *w = arg;
    const char *node = d->id + strlen("day/") + DAY_LEN, *folded;
    json_t *rows = json_object_get(d->body, "rows"), *v;
    char day[DAY_LEN + 1];

    (void)err;
    if (strlen(d->id) <= strlen("day/") + DAY_LEN || *node++ != '/')
        return 0;
    snprintf(day, sizeof(day), "%s", d->id + strlen("day/"));
    sum_waiting(w, day);
    if (strcmp(node, DAY_ALL) != 0) {
        sum_later(w, day, node, rows);
        return 0;
    }
    json_object_foreach(json_object_get(d->body, "nodes"), folded, v)
        json_object_del(json_object_get(w->waiting, day), folded);
    rows_each(rows, sum_row, w);
    return 0;
}

int accounting_sum(struct store *s, const struct account_query *q, json_t **out,
                   struct dlc_err *err)
{
    struct summing w = {.q = q, .waiting = json_object(), .out = json_object()};
    char *from = mem_fmt("day/%s", q->since != NULL ? q->since : "");
    int rc = usage_docs_each(s, "node/", "node/", sum_node, &w, err);

    if (rc == 0)
        rc = usage_docs_each(s, "day/", from, sum_day, &w, err);
    sum_waiting(&w, NULL);
    mem_free(&from);
    json_decref(w.waiting);
    *out = w.out;
    if (rc < 0) {
        json_decref(w.out);
        *out = NULL;
    }
    return rc;
}

/* ---- tenants that were deleted, days that are over ---- */

struct rename {
    struct tables *t;
    const char *tenant;
    json_t *rows; /* out */
    bool found;
};

static void rename_row(const char *of, const char *job, const struct usage *u, void *arg)
{
    struct rename *w = arg;
    size_t len = strlen(w->tenant);
    bool ours = strncmp(of, w->tenant, len) == 0 && of[len] == '/';
    char *to = ours ? mem_fmt("%s~%s", w->tenant, of + len) : mem_str(of);

    w->found = w->found || ours;
    rows_add(w->rows, to, job, u);
    mem_free(&to);
}

static int change_names(struct store_doc *d, void *arg, struct dlc_err *err)
{
    struct rename *w = arg;

    (void)err;
    w->rows = json_object();
    w->found = false;
    rows_each(json_object_get(d->body, "rows"), rename_row, w);
    if (!w->found) {
        json_decref(w->rows);
        return 1;
    }
    json_object_set_new(d->body, "rows", w->rows);
    return 0;
}

/* Most documents do not name it, and are not read twice. */
static int rename_in(struct store_doc *d, void *arg, struct dlc_err *err)
{
    struct rename *w = arg;
    int rc = change_names(d, arg, err);

    if (rc != 0)
        return 0;
    rc = document_change(w->t, STORE_USAGE, d->id, STORE_ANY, change_names, w, NULL, err);
    return rc == DLC_ENOTFOUND ? 0 : rc;
}

int accounting_forget_tenant(struct tables *t, const char *tenant, struct dlc_err *err)
{
    struct rename w = {.t = t, .tenant = tenant};
    int rc = usage_docs_each(t->store, "node/", "node/", rename_in, &w, err);

    if (rc == 0)
        rc = usage_docs_each(t->store, "day/", "day/", rename_in, &w, err);
    if (rc == 0)
        rc = usage_docs_each(t->store, "before", "b", rename_in, &w, err);
    if (rc == 0)
        costs_forget_tenant(t, tenant);
    return rc;
}

static void settle_costs(struct tables *t)
{
    struct dlc_err err = DLC_ERR_INIT;
    bool uncertain;

    dlc_mtx_lock(&t->mtx);
    uncertain = t->costs.uncertain;
    dlc_mtx_unlock(&t->mtx);
    if (uncertain)
        accounting_load_costs(t, &err); /* or the next tick does */
}

void accounting_tick(struct tables *t, struct dlc_mono now, int64_t now_ms)
{
    struct dlc_err err = DLC_ERR_INIT;
    char oldest[DAY_LEN + 1];

    settle_costs(t);
    if (t->accounting.swept.ns != 0 && dlc_mono_sub(now, t->accounting.swept).ns < SWEEP_EVERY.ns)
        return;
    t->accounting.swept = now;
    accounting_day(now_ms - t->keep_accounting.ns / 1000000, oldest);
    if (accounting_roll_up(t, now_ms, oldest, &err) < 0)
        log_warn("accounts of days that are over are not summed up yet: %s", err.text);
}

/* ---- this manager begins to lead ---- */

int accounting_load_costs(struct tables *t, struct dlc_err *err)
{
    const struct account_query q = {.by = BY_DATASET};
    unsigned begun = costs_begin(t);
    json_t *sums = NULL;
    int rc = accounting_sum(t->store, &q, &sums, err);

    if (rc == 0)
        rc = accounting_add_before(t->store, sums, err);
    if (rc == 0)
        costs_read(t, begun, sums);
    else
        doubt_costs(t);
    json_decref(sums);
    return rc;
}

int accounting_load_jobs(struct tables *t, struct dlc_err *err)
{
    struct account_query q = {.by = BY_JOB};
    char since[DAY_LEN + 1];
    int64_t oldest = INT64_MAX;
    json_t *sums, *row;
    const char *key;
    size_t n;
    struct job *jobs = jobs_copy_loaded(t, &n);
    int rc;

    for (size_t i = 0; i < n; i++)
        oldest = DLC_MIN(oldest, jobs[i].created_ms);
    jobs_copy_release(&jobs, n);
    if (n == 0)
        return 0;
    accounting_day(DLC_MAX(oldest, 0), since);
    q.since = since;
    rc = accounting_sum(t->store, &q, &sums, err);
    if (rc < 0)
        return rc;
    json_object_foreach(sums, key, row)
    {
        struct usage u;

        usage_of_json(&u, row);
        jobs_used(t, strrchr(key, '/') + 1, &u);
    }
    json_decref(sums);
    return 0;
}
