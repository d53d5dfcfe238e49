// SPDX-License-Identifier: Apache-2.0
/*
 * Importance weights of jobs: how much a model has yet to learn from each sample
 * (docs/design/0008). They lie in memory that all ranks of a job on this node write; they decide
 * which samples stay in memory (next_use.c).
 *
 * (JOB-WEIGHTS-1) The daemon does not trust that memory: its size is ours and sealed, a value that
 *                 is not a positive finite number counts as never learnt, and one look does a
 *                 bounded amount of work whatever is marked.
 * (JOB-WEIGHTS-2) Weights belong to a user and a token, as decoded caches do: a job of the same
 *                 name of another owner has its own weights.
 * (JOB-WEIGHTS-3) Weights stay when the job's last session ends, for later sessions, until the
 *                 dataset closes or another job needs the slot. Weights of a process without a job
 *                 end with it.
 */
#include "daemon/job_weights.h"

#include <string.h>

#include "base/mem.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/session.h"
#include "catalog/catalog.h"
#include "daemon/client_conn.h"

#define WEIGHINGS_MAX 8     /* of one dataset */
#define SLICE         1024u /* weights that are counted in one look */

static void send_release(struct job_weights *w)
{
    mem_free(&w->send.samples);
    w->send.n = w->send.cap = 0;
}

static void job_weights_free(struct job_weights *w)
{
    dlc_check(w->users == 0);
    dlc_list_remove(&w->link);
    mem_common_free(&w->memory);
    send_release(w);
    mem_common_free(&w->uses_memory);
    mem_free(&w->job);
    mem_free(&w);
}

/* The one that was used longest ago, of those that nobody uses when a session leaves this one
 * (NULL: none). *n: how many there are in all then. */
static struct job_weights *job_weights_oldest(const struct dataset *ds,
                                              const struct job_weights *left, unsigned *n)
{
    struct job_weights *oldest = NULL;

    *n = 0;
    dlc_list_each (l, &ds->job_weights) {
        struct job_weights *w = dlc_container(l, struct job_weights, link);
        bool unused = w->users == (w == left ? 1u : 0u);

        if (unused && w->own)
            continue; /* it goes with its session */
        (*n)++;
        if (unused && (oldest == NULL || oldest == left ||
                       (w != left && w->last_used.ns < oldest->last_used.ns)))
            oldest = w;
    }
    return oldest;
}

static struct job_weights *job_weights_find(const struct dataset *ds, const unsigned char *owner,
                                            const char *job)
{
    dlc_list_each (l, &ds->job_weights) {
        struct job_weights *w = dlc_container(l, struct job_weights, link);

        if (memcmp(w->owner, owner, sizeof(w->owner)) == 0 && strcmp(w->job, job) == 0)
            return w;
    }
    return NULL;
}

/* Gives; NULL: *err. */
static struct job_weights *job_weights_new(const struct dataset *ds, struct dlc_err *err)
{
    uint64_t n = catalog_count(ds->catalog);
    struct job_weights *w = mem_new(struct job_weights);
    int rc;

    dlc_list_init(&w->link);
    if (n == 0)
        rc = dlc_err_set(err, DLC_EINVAL, "weights: %s has no samples", ds->url.shown);
    else
        rc = mem_common_new("dlcache-weights", weights_size(n), &w->memory, err);
    if (rc == 0) {
        weights_format(mem_common_map(w->memory), n, catalog_snapshot(ds->catalog));
        rc = weights_open(&w->w, mem_common_map(w->memory), weights_size(n), n, err);
    }
    if (rc == 0)
        rc = mem_common_new("dlcache-uses", n * sizeof(*w->uses), &w->uses_memory, err);
    if (rc == 0)
        w->uses = mem_common_map(w->uses_memory);
    if (rc < 0) {
        job_weights_free(w);
        return NULL;
    }
    return w;
}

int job_weights_get(struct session *s, const char *job, bool own, struct dlc_err *err)
{
    struct dataset *ds = s->ds;
    struct job_weights *w = job_weights_find(ds, s->conn->owner, job), *old;
    unsigned n;

    if (w == NULL) {
        old = job_weights_oldest(ds, s->job_weights, &n);
        if (n >= WEIGHINGS_MAX && old == NULL)
            return dlc_err_set(err, DLC_EBUSY,
                               "weights: %u jobs have some of this dataset already: wait until one "
                               "of them has ended",
                               WEIGHINGS_MAX);
        w = job_weights_new(ds, err);
        if (w == NULL)
            return err->code; /* it keeps those it has */
        job_weights_put(&s->job_weights);
        if (n >= WEIGHINGS_MAX)
            job_weights_free(old);
        w->job = mem_str(job);
        w->own = own;
        memcpy(w->owner, s->conn->owner, sizeof(w->owner));
        dlc_list_push_tail(&ds->job_weights, &w->link);
    }
    w->users++;
    job_weights_put(&s->job_weights);
    s->job_weights = w;
    return 0;
}

void job_weights_send_soon(struct job_weights *w)
{
    if (w != NULL && !w->send.refused)
        w->send.next.ns = DLC_MIN(w->send.next.ns, dlc_mono_add(w->send.last, SENDING_AT_LEAST).ns);
}

void job_weights_put(struct job_weights **wp)
{
    struct job_weights *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    w->users--;
    w->last_used = dlc_mono_now();
    job_weights_send_soon(w);
    if (w->own && w->users == 0)
        job_weights_free(w);
}

static void job_weights_all_free(struct dataset *ds)
{
    while (!dlc_list_empty(&ds->job_weights))
        job_weights_free(dlc_container(ds->job_weights.next, struct job_weights, link));
}

/* ---- what they say ---- */

bool job_weights_take(struct job_weights *w, uint64_t *steps, uint64_t *sample)
{
    uint64_t stored = weights_stored(&w->w, WEIGHTS_KEEPER);

    if (w->place == 0) {
        if (stored == w->round)
            return false; /* nothing was stored since the last round began */
        w->round = stored;
    }
    if (weights_take(&w->w, WEIGHTS_KEEPER, &w->place, steps, sample))
        return true;
    if (w->place >= w->w.n)
        w->place = 0;
    return false;
}

/* The mean is taken by going round: a sum that follows each change would be off for good once a
 * giant has come and gone. */
void job_weights_measure(struct job_weights *w)
{
    uint64_t stored = weights_stored(&w->w, WEIGHTS_KEEPER), end;

    if (w->count.at == 0) {
        if (stored == w->count.stored)
            return; /* nothing was stored since the last round began */
        w->count.stored = stored;
    }
    end = DLC_MIN(w->count.at + SLICE, w->w.n);
    for (; w->count.at < end; w->count.at++) {
        float weight = weights_get(&w->w, w->count.at);

        w->count.sum += (double)weight;
        w->count.learnt += weight > 0;
    }
    if (w->count.at == w->w.n || w->mean <= 0) { /* the first one: as far as it is known */
        w->mean = w->count.learnt > 0 ? w->count.sum / (double)w->count.learnt : 0;
        w->learnt = w->count.learnt;
    }
    if (w->count.at == w->w.n) {
        w->count.at = w->count.learnt = 0;
        w->count.sum = 0;
    }
}

/* How often a sample was used is a part of what it is worth. */
static void count_use(struct session *s, uint64_t at, uint64_t sample)
{
    struct job_weights *w = s->job_weights;

    (void)at;
    if (w != NULL && sample < w->w.n && w->uses[sample] < UINT16_MAX)
        w->uses[sample]++;
}

static void send_json(const struct job_weights *w, json_t *to)
{
    json_object_set_new(to, "sent", json_integer((json_int_t)w->send.sent));
    json_object_set_new(to, "received", json_integer((json_int_t)w->send.received));
}

json_t *job_weights_all_json(const struct dataset *ds)
{
    json_t *list = json_array();

    dlc_list_each (l, &ds->job_weights) {
        const struct job_weights *w = dlc_container(l, struct job_weights, link);
        json_t *one = json_pack("{s:s, s:i, s:I, s:f}", "job", w->job, "sessions", (int)w->users,
                                "learnt", (json_int_t)w->learnt, "mean", w->mean);

        if (ds->cid != NULL)
            send_json(w, one);
        json_array_append_new(list, one);
    }
    return list;
}

const struct node_events job_weights_events = {
    .dataset_closing = job_weights_all_free,
    .sample_passed = count_use,
};
