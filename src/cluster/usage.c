// SPDX-License-Identifier: Apache-2.0
#include "cluster/usage.h"

#include <string.h>
#include <unistd.h>

#include <openssl/rand.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/job_id.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "base/usage.h"
#include "cluster/member.h"
#include "daemon/client_conn.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/session.h"
#include "daemon/state.h"

#define BATCH_EVERY DLC_SEC(5)
#define ROWS_MAX    1024u              /* in a batch; then jobs have no rows of their own, ... */
#define STEP        64u                /* datasets accounted in one turn of the loop */
#define FILE_MAX    ((size_t)64 << 20) /* of usage.json */

struct usage_report {
    char id[33];
    uint64_t seq;    /* of the newest batch */
    json_t *batches; /* not acknowledged yet, oldest first: those of earlier processes, then ours */
    json_t *rows;    /* for the next batch */
    size_t n_rows;
    uint64_t at; /* dataset_step() */
    bool more;   /* ... and the other datasets are in the next batch: no need to wait for it */
    bool ending;
    bool soon; /* a reader of a job has ended: people look at what it used */
    struct dlc_mono batched;
};

/* ---- rows ---- */

/* Only names as the manager gives them have rows of their own: any program may invent others. */
static const char *job_key(const char *job)
{
    return job != NULL && job_id_is_registered(job) ? job : "";
}

static json_t *row_of(struct usage_report *u, const char *dataset, const char *job)
{
    json_t *jobs = json_object_get(u->rows, dataset), *row;

    if (jobs == NULL) {
        jobs = json_object();
        if (json_object_set_new(u->rows, dataset, jobs) < 0)
            return NULL; /* a name that JSON cannot represent */
    }
    row = json_object_get(jobs, job);
    if (row == NULL && u->n_rows >= ROWS_MAX && job[0] != '\0')
        return row_of(u, dataset, "");
    if (row == NULL) {
        row = json_object();
        json_object_set_new(jobs, job, row);
        u->n_rows++;
    }
    return row;
}

/* Add what has come since the last time. now: counters that grow; *accounted: as they were then. */
static void account(struct node *n, const char *dataset, const char *job, const struct usage *now,
                    struct usage *accounted)
{
    json_t *row = NULL;

    for (int i = 0; i < USAGE_COUNTERS; i++) {
        uint64_t more = now->n[i] > accounted->n[i] ? now->n[i] - accounted->n[i] : 0;

        if (more == 0 || more > INT64_MAX / 4) /* a client writes some of them as it likes */
            continue;
        if (row == NULL)
            row = row_of(n->member->usage, dataset, job);
        if (row == NULL)
            return;
        json_add_int(row, usage_name((enum usage_counter)i), (json_int_t)more);
        accounted->n[i] = now->n[i];
    }
}

static void account_session(struct session *s, const struct mem_session_stats *st)
{
    struct usage now = s->waited;

    if (s->ds->cid == NULL || s->decoded != NULL)
        return;
    now.n[USAGE_samples] = st->hits + st->misses + st->bypasses;
    now.n[USAGE_memory_hits] += st->hits;
    now.n[USAGE_read_bytes] = st->bytes;
    now.n[USAGE_stall_ns] = st->stall_ns;
    account(s->ds->node, s->ds->shared_as, job_key(s->conn->job), &now, &s->accounted);
}

static void account_dataset(struct dataset *ds)
{
    struct usage now = {0};

    if (ds->cid == NULL)
        return;
    now.n[USAGE_requests] = ds->tally->requests;
    now.n[USAGE_bytes] = ds->tally->bytes;
    now.n[USAGE_money_nano] = ds->tally->money_nano;
    account(ds->node, ds->shared_as, "", &now, &ds->accounted);
}

static void account_users(struct dataset *ds)
{
    account_dataset(ds);
    dlc_list_each (k, &ds->sessions) {
        struct session *s = dlc_container(k, struct session, link);
        struct mem_session_stats st = {0};

        session_add_stats(s, &st);
        account_session(s, &st);
    }
}

/* True: that was the last one, or there is no room for rows of another. */
static bool account_next(struct node *n)
{
    struct usage_report *u = n->member->usage;
    struct dataset *ds = dataset_step(n, &u->at);

    if (ds != NULL)
        account_users(ds);
    u->more = ds != NULL && u->n_rows >= ROWS_MAX;
    return ds == NULL || u->more;
}

static void usage_session_closed(const struct session *s, const struct mem_session_stats *st)
{
    account_session((struct session *)(uintptr_t)s, st);
    if (job_key(s->conn->job)[0] != '\0')
        s->ds->node->member->usage->soon = true;
}

/* ---- batches ---- */

/* What has been collected becomes a batch. */
static void make_batch(struct node *n)
{
    struct usage_report *u = n->member->usage;

    u->batched = dlc_mono_now();
    u->soon = false;
    if (json_object_size(u->rows) == 0)
        return;
    json_array_append_new(u->batches, json_pack("{s:s, s:I, s:o}", "id", u->id, "seq",
                                                (json_int_t)++u->seq, "rows", u->rows));
    u->rows = json_object();
    u->n_rows = 0;
}

bool usage_collect(struct node *n)
{
    struct usage_report *u = n->member->usage;

    if (json_array_size(u->batches) > 0 ||
        (!u->ending && !u->soon && !u->more && dlc_mono_since(u->batched).ns < BATCH_EVERY.ns))
        return true;
    for (unsigned i = 0; i < STEP; i++) {
        if (account_next(n)) {
            make_batch(n);
            return true;
        }
    }
    return false;
}

json_t *usage_batch(struct node *n)
{
    /* Another thread sends it. */
    return json_deep_copy(json_array_get(n->member->usage->batches, 0));
}

void usage_heard(struct node *n, const json_t *acknowledged)
{
    struct usage_report *u = n->member->usage;
    const json_t *first = json_array_get(u->batches, 0);

    if (acknowledged != NULL && first != NULL &&
        strcmp(json_text_at(first, "id"), json_text_at(acknowledged, "id")) == 0 &&
        json_u64_at(first, "seq") == json_u64_at(acknowledged, "seq"))
        json_array_remove(u->batches, 0);
}

void usage_end(struct node *n)
{
    n->member->usage->ending = true;
}

/* ---- usage.json ---- */

static char *usage_path(const struct node *n)
{
    return mem_fmt("%s/usage.json", n->config->dir);
}

static void usage_save(struct node *n)
{
    struct usage_report *u = n->member->usage;
    struct dlc_err err = DLC_ERR_INIT;
    char *path = usage_path(n), *text;

    if (json_array_size(u->batches) == 0) {
        os_unlink(path); /* or it is not there */
        mem_free(&path);
        return;
    }
    text = json_dumps(u->batches, JSON_COMPACT);
    if (text == NULL || os_write_file(path, text, strlen(text), 0600, &err) < 0)
        log_warn("%s: %s; what readers used here since the manager was last heard of is not "
                 "accounted if the node ends now",
                 path, err.text);
    free(text);
    mem_free(&path);
}

/* As usage_save() has written it; anything else is not ours. */
static bool is_batch(const json_t *b)
{
    return json_is_string(json_object_get(b, "id")) && json_is_integer(json_object_get(b, "seq")) &&
           json_is_object(json_object_get(b, "rows"));
}

void usage_open(struct node *n)
{
    struct usage_report *u = n->member->usage = mem_new(struct usage_report);
    unsigned char random[16];
    char *path = usage_path(n);
    struct buf text = BUF_INIT;
    json_t *old = NULL, *b;
    size_t i;

    dlc_check(RAND_bytes(random, sizeof(random)) == 1);
    str_hex(random, sizeof(random), u->id);
    u->batches = json_array();
    u->rows = json_object();
    if (os_read_file(path, FILE_MAX, &text, NULL) == 0)
        old = json_loadb(buf_str(&text), text.len, 0, NULL);
    json_array_foreach(old, i, b) if (is_batch(b)) json_array_append(u->batches, b);
    json_decref(old);
    buf_release(&text);
    mem_free(&path);
}

void usage_close(struct node *n)
{
    struct usage_report *u = n->member->usage;

    if (u == NULL)
        return;
    do {
        while (!account_next(n))
            ;
        make_batch(n);
    } while (u->more);
    usage_save(n);
    json_decref(u->batches);
    json_decref(u->rows);
    mem_free(&n->member->usage);
}

const struct node_events usage_events = {.dataset_closing = account_dataset,
                                         .session_closed = usage_session_closed};
