// SPDX-License-Identifier: Apache-2.0
/*
 * Accounts of days that are over become fewer: one document for each day, whatever the number of
 * nodes, and one for all days that are not kept any more. Each step writes the sum and the names of
 * what is in it as one document, and deletes what was summed after that: a manager that dies between
 * the two leaves documents that count no more, and the next sweep deletes them.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "manager/tables/accounting_i.h"
#include "manager/tables/documents.h"
#include "manager/tables/tables.h"

#define OPEN_DAYS 2     /* days before today that nodes may still write to */
#define ROWS_MAX  16384 /* of a day; then jobs have no rows of their own */
#define BEFORE    "before"

static int put_empty(struct tables *t, const char *id, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc;

    d.id = mem_str(id);
    d.tenant = mem_str("");
    d.body = json_pack("{s:{}}", "rows");
    rc = store_put(t->store, STORE_USAGE, &d, STORE_NEW, err);
    store_doc_release(&d);
    return rc;
}

/* document_change() of one that is made first if it is not there. */
static int change_or_make(struct tables *t, const char *id, change_f *f, void *arg,
                          struct dlc_err *err)
{
    int rc = document_change(t, STORE_USAGE, id, STORE_ANY, f, arg, NULL, err);

    if (rc == DLC_ENOTFOUND)
        rc = put_empty(t, id, err);
    else
        return rc;
    return rc == 0 ? document_change(t, STORE_USAGE, id, STORE_ANY, f, arg, NULL, err) : rc;
}

static int delete_doc(struct tables *t, const char *id, uint64_t expect, struct dlc_err *err)
{
    int rc = store_delete(t->store, STORE_USAGE, id, expect, err);

    return rc == DLC_ENOTFOUND || rc == DLC_EBUSY ? 0 : rc;
}

struct sweep {
    struct tables *t;
    const char *today, *closed,
        *oldest; /* days before `closed` are over, before `oldest` not kept */
};

/* ---- nodes that have been silent: their last day ---- */

static int change_day(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const struct sweep *w = arg;
    int rc;

    if (strcmp(json_text_at(d->body, "day"), w->closed) >= 0)
        return 1; /* it has reported just now */
    rc = usage_archive(w->t->store, d->id + strlen("node/"), d, err);
    if (rc < 0)
        return rc;
    json_object_set_new(d->body, "day", json_string(w->today));
    json_object_set_new(d->body, "rows", json_object());
    return 0;
}

/* One without rows has not been heard of since before the oldest day. */
static int close_node(struct store_doc *d, void *arg, struct dlc_err *err)
{
    struct sweep *w = arg;
    const char *day = json_text_at(d->body, "day");
    int rc = 0;

    if (!leader_holds(w->t))
        return 1;
    if (json_object_size(json_object_get(d->body, "rows")) > 0 && strcmp(day, w->closed) < 0)
        rc = document_change(w->t, STORE_USAGE, d->id, STORE_ANY, change_day, w, NULL, err);
    else if (strcmp(day, w->oldest) < 0)
        rc = delete_doc(w->t, d->id, d->version, err);
    return rc == DLC_ENOTFOUND ? 0 : rc;
}

/* ---- (ACCOUNT-5) days that are over ---- */

struct fold {
    struct sweep *w;
    char day[DAY_LEN + 1];
    json_t *docs; /* {NODE: rows}, of one day */
};

static void fold_row(const char *of, const char *job, const struct usage *u, void *arg)
{
    json_t *rows = arg, *jobs = json_object_get(rows, of);
    bool full = json_object_get(jobs, job) == NULL && rows_count(rows) >= ROWS_MAX;

    rows_add(rows, of, full ? "" : job, u);
}

static int change_all(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const struct fold *f = arg;
    json_t *nodes = json_object_get(d->body, "nodes"), *rows;
    const char *node;
    int rc = 1;

    (void)err;
    if (nodes == NULL)
        json_object_set_new(d->body, "nodes", nodes = json_object());
    json_object_foreach(f->docs, node, rows)
    {
        if (json_object_get(nodes, node) != NULL)
            continue; /* a manager died before it deleted this one */
        rows_each(rows, fold_row, json_object_get(d->body, "rows"));
        json_object_set_new(nodes, node, json_true());
        rc = 0;
    }
    return rc;
}

static int fold_collected(struct fold *f, struct dlc_err *err)
{
    char *id = mem_fmt("day/%s/" DAY_ALL, f->day);
    const char *node;
    json_t *rows;
    int rc = 0;

    if (json_object_size(f->docs) > 0)
        rc = leader_holds(f->w->t) ? change_or_make(f->w->t, id, change_all, f, err) : 1;
    json_object_foreach(f->docs, node, rows)
    {
        mem_free(&id);
        id = mem_fmt("day/%s/%s", f->day, node);
        if (rc == 0)
            rc = delete_doc(f->w->t, id, STORE_ANY, err);
    }
    mem_free(&id);
    json_object_clear(f->docs);
    return rc;
}

#define FOLD_AT_ONCE 128

static int collect_day(struct store_doc *d, void *arg, struct dlc_err *err)
{
    struct fold *f = arg;
    const char *day = d->id + strlen("day/"), *node = strchr(day, '/');
    int rc = 0;

    if (node == NULL || node - day != DAY_LEN || strcmp(node + 1, DAY_ALL) == 0)
        return 0;
    if (strncmp(day, f->w->closed, DAY_LEN) >= 0)
        return 1;
    if (strncmp(day, f->day, DAY_LEN) != 0 || json_object_size(f->docs) >= FOLD_AT_ONCE)
        rc = fold_collected(f, err);
    memcpy(f->day, day, DAY_LEN);
    json_object_set(f->docs, node + 1, json_object_get(d->body, "rows"));
    return rc;
}

static int fold_days(struct sweep *w, struct dlc_err *err)
{
    struct fold f = {.w = w, .docs = json_object()};
    int rc = usage_docs_each(w->t->store, "day/", "day/", collect_day, &f, err);

    if (rc == 0)
        rc = fold_collected(&f, err);
    json_decref(f.docs);
    return rc < 0 ? rc : 0;
}

/* ---- (ACCOUNT-6) days that are not kept any more ---- */

struct expiry {
    struct sweep *w;
    const char *day;
    const json_t *rows;
};

static void add_before(const char *of, const char *job, const struct usage *u, void *arg)
{
    (void)job;
    rows_add(arg, of, "", u);
}

static int change_before(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const struct expiry *e = arg;

    (void)err;
    if (strcmp(json_text_at(d->body, "through"), e->day) >= 0)
        return 1; /* a manager died before it deleted the day */
    rows_each(e->rows, add_before, json_object_get(d->body, "rows"));
    json_object_set_new(d->body, "through", json_string(e->day));
    return 0;
}

/* Days come in order, and one document has all of a day: what others have is in there. */
static int expire_day(struct store_doc *d, void *arg, struct dlc_err *err)
{
    struct sweep *w = arg;
    char day[DAY_LEN + 1];
    struct expiry e = {.w = w, .day = day, .rows = json_object_get(d->body, "rows")};
    int rc = 0;

    snprintf(day, sizeof(day), "%s", d->id + strlen("day/"));
    if (strcmp(day, w->oldest) >= 0 || !leader_holds(w->t))
        return 1;
    if (strcmp(d->id + strlen("day/") + DAY_LEN, "/" DAY_ALL) == 0)
        rc = change_or_make(w->t, BEFORE, change_before, &e, err);
    return rc == 0 ? delete_doc(w->t, d->id, STORE_ANY, err) : rc;
}

int accounting_roll_up(struct tables *t, int64_t now_ms, const char *oldest, struct dlc_err *err)
{
    char today[DAY_LEN + 1], closed[DAY_LEN + 1];
    struct sweep w = {.t = t, .today = today, .closed = closed, .oldest = oldest};
    int rc;

    accounting_day(now_ms, today);
    accounting_day(now_ms - OPEN_DAYS * INT64_C(86400000), closed);
    if (strcmp(oldest, closed) > 0)
        snprintf(closed, sizeof(closed), "%s", oldest);
    rc = usage_docs_each(t->store, "node/", "node/", close_node, &w, err);
    if (rc == 0)
        rc = fold_days(&w, err);
    if (rc == 0)
        rc = usage_docs_each(t->store, "day/", "day/", expire_day, &w, err);
    return rc;
}

static void sum_before(const char *of, const char *job, const struct usage *u, void *arg)
{
    json_t *sums = arg;
    struct usage sum;

    (void)job;
    usage_of_json(&sum, json_object_get(sums, of));
    usage_add(&sum, u);
    json_object_set_new(sums, of, usage_json(&sum));
}

int accounting_add_before(struct store *s, json_t *sums, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = store_get(s, STORE_USAGE, BEFORE, &d, err);

    if (rc == DLC_ENOTFOUND)
        return 0;
    if (rc == 0)
        rows_each(json_object_get(d.body, "rows"), sum_before, sums);
    store_doc_release(&d);
    return rc;
}
