// SPDX-License-Identifier: Apache-2.0
#include "operator/kube/work_queue.h"

#include <search.h>
#include <string.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/rng.h"

#define QUEUE_TAG   DLC_TAG4('q', 'u', 'e', 'u')
#define FIRST       DLC_MS(10)
#define MOST        DLC_SEC(300)
#define ADDED_WAITS DLC_SEC(1) /* what a failed key waits at most when it is added */

/* A key that is due some time or worked on; others are not here. */
struct item {
    char *key;
    struct heap_node node; /* in the heap: due at `at` */
    struct dlc_mono at;
    struct dlc_mono not_before; /* after a failure, also when it is added */
    unsigned failures;          /* in a row */
    bool working, wanted;       /* wanted: added while it was worked on, due at `at` */
};

struct queue {
    uint32_t tag;
    struct dlc_mtx mtx; /* rank LCK_queue; all below: G: mtx */
    struct dlc_cond due;
    struct dlc_dur first, most;
    struct dlc_mono begin; /* times in the heap count from here: exact as doubles */
    void *items;           /* tsearch(3), by key */
    struct heap heap;
    struct rng rng;
    bool closed;
    size_t working;
    uint64_t added, taken, failures;
};

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct item *)a)->key, ((const struct item *)b)->key);
}

static struct item *find_locked(struct queue *q, const char *key)
{
    struct item wanted = {.key = (char *)key};
    struct item *const *found = tfind(&wanted, &q->items, by_key);

    return found != NULL ? *found : NULL;
}

static struct item *make_locked(struct queue *q, const char *key)
{
    struct item *i = mem_new(struct item);

    i->key = mem_str(key);
    dlc_check(tsearch(i, &q->items, by_key) != NULL);
    return i;
}

static void free_item(void *priv)
{
    struct item *i = priv;

    mem_free(&i->key);
    mem_free(&i);
}

static void push_locked(struct queue *q, struct item *i, struct dlc_mono at)
{
    i->at = at.ns < i->not_before.ns ? i->not_before : at;
    heap_remove(&q->heap, &i->node);
    heap_push(&q->heap, &i->node, (double)dlc_mono_sub(i->at, q->begin).ns);
    dlc_cond_signal(&q->due);
}

/* -------- adding -------- */

void queue_add_after(struct queue *q, const char *key, struct dlc_dur after)
{
    struct dlc_mono at = dlc_mono_add(dlc_mono_now(), after);
    struct item *i;

    dlc_mtx_lock(&q->mtx);
    dlc_check(q->tag == QUEUE_TAG);
    if (q->closed)
        goto out;
    q->added++;
    i = find_locked(q, key);
    if (i == NULL) {
        i = make_locked(q, key);
        push_locked(q, i, at);
    } else if (i->working) {
        i->at = i->wanted && i->at.ns < at.ns ? i->at : at;
        i->wanted = true;
    } else if (at.ns < i->at.ns) {
        push_locked(q, i, at);
    }
out:
    dlc_mtx_unlock(&q->mtx);
}

void queue_add(struct queue *q, const char *key)
{
    queue_add_after(q, key, DLC_SEC(0));
}

/* -------- taking -------- */

/* How long until the first is due; ns < 0: there is none. */
static struct dlc_dur first_in_locked(const struct queue *q, struct dlc_mono now)
{
    const struct heap_node *n = heap_top(&q->heap);
    const struct item *i;

    if (n == NULL)
        return (struct dlc_dur){-1};
    i = dlc_container(n, struct item, node);
    return (struct dlc_dur){DLC_MAX(i->at.ns - now.ns, 0)};
}

static char *take_locked(struct queue *q)
{
    struct item *i = dlc_container(heap_pop(&q->heap), struct item, node);

    i->working = true;
    i->wanted = false;
    i->not_before = (struct dlc_mono){0};
    q->working++;
    q->taken++;
    if (heap_top(&q->heap) != NULL)
        dlc_cond_signal(&q->due); /* whoever waits for a later time looks again */
    return mem_str(i->key);
}

char *queue_take(struct queue *q, struct dlc_dur wait)
{
    struct dlc_mono end = dlc_mono_add(dlc_mono_now(), wait);
    char *key = NULL;

    dlc_mtx_lock(&q->mtx);
    dlc_check(q->tag == QUEUE_TAG);
    while (!q->closed) {
        struct dlc_mono now = dlc_mono_now();
        struct dlc_dur in = first_in_locked(q, now);
        int64_t left = wait.ns < 0 ? INT64_MAX : end.ns - now.ns;

        if (in.ns == 0) {
            key = take_locked(q);
            break;
        }
        if (left <= 0)
            break;
        if (in.ns < 0 && wait.ns < 0)
            dlc_cond_wait(&q->due, &q->mtx);
        else
            dlc_cond_wait_for(&q->due, &q->mtx,
                              (struct dlc_dur){in.ns < 0 ? left : DLC_MIN(in.ns, left)});
    }
    dlc_mtx_unlock(&q->mtx);
    return key;
}

/* -------- giving back -------- */

/* Takes *key; its item is no longer worked on. */
static struct item *back_locked(struct queue *q, char **key)
{
    struct item *i = find_locked(q, *key);

    dlc_check(q->tag == QUEUE_TAG && i != NULL && i->working);
    mem_free(key);
    i->working = false;
    q->working--;
    return i;
}

/* Due at `at`, or sooner when it was added meanwhile; `at` 0: only then. */
static void settle_locked(struct queue *q, struct item *i, struct dlc_mono at)
{
    if (i->wanted && (at.ns == 0 || i->at.ns < at.ns))
        at = i->at;
    i->wanted = false;
    if (at.ns != 0 && !q->closed) {
        push_locked(q, i, at);
        return;
    }
    tdelete(i, &q->items, by_key);
    free_item(i);
}

void queue_done(struct queue *q, char **key)
{
    struct item *i;

    dlc_mtx_lock(&q->mtx);
    i = back_locked(q, key);
    i->failures = 0;
    settle_locked(q, i, (struct dlc_mono){0});
    dlc_mtx_unlock(&q->mtx);
}

void queue_again(struct queue *q, char **key, struct dlc_dur after)
{
    struct item *i;

    dlc_mtx_lock(&q->mtx);
    i = back_locked(q, key);
    i->failures = 0;
    settle_locked(q, i, dlc_mono_add(dlc_mono_now(), after));
    dlc_mtx_unlock(&q->mtx);
}

void queue_failed(struct queue *q, char **key, struct dlc_dur at_least)
{
    struct dlc_mono now = dlc_mono_now();
    struct dlc_dur wait, least;
    struct item *i;

    dlc_mtx_lock(&q->mtx);
    i = back_locked(q, key);
    i->failures++;
    q->failures++;
    wait = backoff_jitter(backoff_after(i->failures, q->first, q->most), 0.1, &q->rng);
    least = (struct dlc_dur){DLC_MAX(at_least.ns, DLC_MIN(wait.ns, ADDED_WAITS.ns))};
    i->not_before = dlc_mono_add(now, least);
    settle_locked(q, i, dlc_mono_add(now, wait));
    dlc_mtx_unlock(&q->mtx);
}

/* -------- the whole -------- */

struct queue *queue_new(const struct queue_config *c)
{
    struct queue *q = mem_new(struct queue);

    q->tag = QUEUE_TAG;
    q->first = c != NULL && c->first.ns > 0 ? c->first : FIRST;
    q->most = c != NULL && c->most.ns > 0 ? c->most : MOST;
    q->begin = dlc_mono_now();
    q->rng.state = rng_seed();
    dlc_mtx_init(&q->mtx, LCK_queue);
    dlc_cond_init(&q->due);
    return q;
}

void queue_close(struct queue *q)
{
    dlc_mtx_lock(&q->mtx);
    q->closed = true;
    dlc_cond_broadcast(&q->due);
    dlc_mtx_unlock(&q->mtx);
}

void queue_free(struct queue **qp)
{
    struct queue *q = *qp;

    *qp = NULL;
    if (q == NULL)
        return;
    dlc_check(q->tag == QUEUE_TAG && q->working == 0);
    heap_release(&q->heap);
    tdestroy(q->items, free_item);
    dlc_cond_release(&q->due);
    dlc_mtx_release(&q->mtx);
    q->tag = 0;
    mem_free(&q);
}

void queue_figures(struct queue *q, struct queue_figures *out)
{
    struct dlc_mono now = dlc_mono_now();

    memset(out, 0, sizeof(*out));
    dlc_mtx_lock(&q->mtx);
    for (size_t n = 0; n < q->heap.n; n++) {
        const struct item *i = dlc_container(q->heap.places[n].node, struct item, node);
        bool due = i->at.ns <= now.ns;

        out->due += due;
        out->waiting += !due;
        if (due && now.ns - i->at.ns > out->oldest.ns)
            out->oldest.ns = now.ns - i->at.ns;
    }
    out->working = q->working;
    out->added = q->added;
    out->taken = q->taken;
    out->failures = q->failures;
    dlc_mtx_unlock(&q->mtx);
}
