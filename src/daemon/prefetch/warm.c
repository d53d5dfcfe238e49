// SPDX-License-Identifier: Apache-2.0
/* Warm-ups: walk a dataset and fetch all of it, as fast as prefetch_pump() allows. */
#include "daemon/prefetch/warm.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "daemon/ownership.h"
#include "daemon/client_conn.h"
#include "daemon/dataset.h"
#include "daemon/dataset_chunks.h"
#include "daemon/fetch/fetch.h"
#include "daemon/job_weights.h"
#include "daemon/prefetch/pump.h"
#include "daemon/state.h"
#include "catalog/catalog.h"

#define WARM_TAG  DLC_TAG4('w', 'a', 'r', 'm')
#define WARMS_MAX 64
#define PASS_MAX  1024u
/* Fetches to disk at once, of all warm-ups: each has a file mapped, and map_guard.c knows 1024 of
 * them. */
#define DISK_AT_ONCE 512u

json_t *warm_figures(const struct warm *w)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "phase", "warming", "done",
                     (json_int_t)(w->done + w->failed), "total", (json_int_t)w->total, "bytes",
                     (json_int_t)w->bytes, "total_bytes", (json_int_t)catalog_bytes(w->ds->catalog),
                     "failed", (json_int_t)w->failed);
}

int warm_shortfall(const struct warm *w, struct dlc_err *err)
{
    struct memory_figures m;
    char used[24], limit[24];

    if (w->failed > 0)
        return dlc_err_set(
            err, DLC_EBUCKET, "%llu of %llu samples could not be read; the first: %s",
            (unsigned long long)w->failed, (unsigned long long)w->total, w->first_error.text);
    if (w->left == 0)
        return 0;
    if (w->node->disk != NULL)
        return dlc_err_set(err, DLC_ENOSPACE,
                           "%llu of %llu samples are not cached: the disk tier takes no more; "
                           "`dlcache stat` shows if it is full (give it more with --disk, or evict "
                           "other datasets) or cannot be written",
                           (unsigned long long)w->left, (unsigned long long)w->total);
    memory_figures(dataset_memory(w->ds), &m);
    return dlc_err_set(err, DLC_ENOSPACE,
                       "%llu of %llu samples are not cached: memory is full (%s of %s used). Give "
                       "more with --memory, a disk tier with --disk, or evict other datasets",
                       (unsigned long long)w->left, (unsigned long long)w->total,
                       str_size(m.used, used), str_size(m.ceiling, limit));
}

void warm_progress(struct warm *w)
{
    struct conn *c = conn_by_id(w->node, w->conn);

    if (c != NULL)
        conn_progress(c, warm_figures(w));
}

void warm_free(struct warm **wp)
{
    struct warm *w = *wp;

    *wp = NULL;
    dlc_list_remove(&w->link);
    budget_warm(w->ds, -1);
    dataset_leave(w->ds);
    dataset_put(&w->ds);
    w->tag = 0;
    mem_free(&w);
}

static void warm_check_end(struct warm *w)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct conn *c;

    if (w->running > 0 || w->next < w->end)
        return;
    c = w->ended == NULL ? conn_by_id(w->node, w->conn) : NULL;
    if (w->ended != NULL)
        w->ended(w, w->arg);
    else if (c != NULL && warm_shortfall(w, &err) <= 0)
        conn_send(c,
                  json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:o}", "ok", 1, "samples",
                            (json_int_t)w->done, "total", (json_int_t)w->total, "bytes",
                            (json_int_t)w->bytes, "failed", (json_int_t)w->failed, "left",
                            (json_int_t)w->left, "error", msg_string(err.text)),
                  NULL, 0);
    warm_free(&w);
}

/* One of its fetches ended: that may end the walk. */
static void warm_fetch_ended(struct fetch_listener *l, uint64_t bytes, int rc,
                             const struct dlc_err *err)
{
    struct warm *w = dlc_container(l, struct warm, listener);

    dlc_check(w->tag == WARM_TAG && w->running > 0);
    w->running--;
    if (rc == 0) {
        w->done++;
        w->bytes += bytes;
    } else if (rc == DLC_EBYPASS) {
        w->left++;
        w->full = w->full || w->node->disk != NULL; /* the disk takes no more */
    } else if (w->failed++ == 0 && err != NULL) {
        w->first_error = *err;
    }
    warm_check_end(w);
}

static struct warm *warm_new(struct dataset *ds, enum fetch_goal goal)
{
    struct node *n = ds->node;
    struct warm *w;
    unsigned others = 0;

    dlc_list_each (l, &n->warms)
        others++;
    if (others >= WARMS_MAX)
        return NULL;
    w = mem_new(struct warm);
    w->tag = WARM_TAG;
    w->listener.ended = warm_fetch_ended;
    w->node = n;
    w->ds = ds;
    w->goal = goal;
    w->end = w->total = catalog_count(ds->catalog);
    dataset_ref(ds);
    budget_warm(ds, 1);
    dataset_join(ds);
    dlc_list_push_tail(&n->warms, &w->link);
    return w;
}

bool warm_start(struct conn *c, struct dataset *ds, enum fetch_goal goal)
{
    struct warm *w = warm_new(ds, goal);

    if (w == NULL)
        return false;
    w->conn = c->id;
    prefetch_pump(c->node); /* may end it at once */
    return true;
}

bool warm_start_command(struct dataset *ds, enum fetch_goal goal, uint64_t first, uint64_t count,
                        void (*ended)(struct warm *w, void *arg), void *arg)
{
    struct warm *w = warm_new(ds, goal);

    if (w == NULL)
        return false;
    w->next = first;
    w->end = first + count;
    w->total = count;
    w->ended = ended;
    w->arg = arg;
    prefetch_pump(ds->node);
    return true;
}

void warm_cut(struct node *n, const char *cid, const char *tenant)
{
    dlc_list_each (l, &n->warms) {
        struct warm *w = dlc_container(l, struct warm, link);

        if (w->ended == NULL || w->ds->cid == NULL || strcmp(w->ds->cid, cid) != 0 ||
            strcmp(w->ds->tenant, tenant) != 0)
            continue;
        w->total -= w->end - w->next;
        w->end = w->next;
    }
    prefetch_pump(n); /* ends those that nothing is under way for */
}

/* Does memory have room for the next sample without pushing out what this walk brought in? */
static bool has_room(const struct warm *w)
{
    struct memory_figures m;
    struct catalog_entry next;

    if (catalog_get(w->ds->catalog, w->next, &next, NULL) < 0)
        return true; /* the fetch will say why not */
    memory_figures(dataset_memory(w->ds), &m);
    return m.used - m.decoded_bytes + next.size <=
           m.ceiling - m.ceiling / 16; /* decoded samples go first */
}

/* A command is for the samples that this node owns. False: there are more of other nodes, for the
 * next call. */
static bool pass_over_theirs(struct warm *w)
{
    for (unsigned i = 0; i < PASS_MAX; i++) {
        if (w->next == w->end || dataset_owns(w->ds, w->next))
            return true;
        w->next++;
        w->total--;
    }
    return false;
}

static bool is_cached(const struct warm *w, uint64_t sample)
{
    struct disk *d = w->node->disk;
    struct catalog_entry e;

    if (mem_index_ready(w->ds->index, sample))
        return true;
    return d != NULL && catalog_get(w->ds->catalog, sample, &e, NULL) == 0 &&
           disk_lookup(d, dataset_chunk(w->ds, e.key, e.etag)) == DISK_PRESENT;
}

/* Nothing more fits: what of the rest is cached already, and what is left? As warm_step(). */
static bool count_rest(struct warm *w)
{
    for (unsigned i = 0; i < PASS_MAX && w->next < w->end; i++, w->next++) {
        if (w->ended != NULL && !dataset_owns(w->ds, w->next))
            w->total--;
        else if (is_cached(w, w->next))
            w->done++;
        else
            w->left++;
    }
    if (w->next < w->end)
        return true;
    warm_check_end(w);
    return false; /* w may be gone */
}

static uint64_t running(const struct node *n)
{
    uint64_t all = 0;

    dlc_list_each (l, &n->warms)
        all += dlc_container(l, struct warm, link)->running;
    return all;
}

bool warm_step(struct warm *w)
{
    enum fetch_goal goal = w->goal;

    dlc_check(w->tag == WARM_TAG);
    if (w->full)
        return count_rest(w);
    if (w->ended != NULL && !pass_over_theirs(w))
        return true;
    if (w->next == w->end) {
        warm_check_end(w); /* an order may find nothing of ours */
        return false;      /* w may be gone */
    }
    if (goal == FETCH_MEMORY && !mem_index_ready(w->ds->index, w->next) && !has_room(w)) {
        if (w->node->disk == NULL) {
            w->full = true; /* and nowhere else to put the rest */
            return count_rest(w);
        }
        goal = FETCH_DISK;
    }
    if (goal == FETCH_DISK && running(w->node) >= DISK_AT_ONCE)
        return false; /* one that ends goes on */
    w->running++;
    fetch_start(w->ds, w->next++, goal, NULL, &w->listener);
    return true;
}
