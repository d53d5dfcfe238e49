// SPDX-License-Identifier: Apache-2.0
#include "daemon/fetch/hedge.h"

#include "base/histogram.h"
#include "base/mem.h"
#include "daemon/fetch/source.h"
#include "daemon/state.h"

#define CHECK_EVERY DLC_MS(25) /* for late attempts */

struct hedge {
    struct node *node;
    void (*late)(struct fetch_attempt *a);
    struct dlc_list watched; /* struct fetch_attempt.link */
    struct timer timer;
    struct hist latency[]; /* of each source's attempts, in microseconds */
};

static struct dlc_dur patience(struct hedge *h, const struct fetch_attempt *a, unsigned row,
                               bool patient)
{
    const struct fetch_source *s = a->source;
    int64_t us = (int64_t)hist_percentile(&h->latency[row], 0.99) * 4;

    us = DLC_CLAMP(us, s->least.ns / 1000, s->most.ns / 1000) + (int64_t)(a->size / s->slowest);
    return (struct dlc_dur){us * (patient ? 10000 : 1000)};
}

void hedge_watch(struct hedge *h, struct fetch_attempt *a, unsigned row, bool patient)
{
    struct loop *l = h->node->loop;

    if (a->source->slowest == 0)
        return;
    a->due = dlc_mono_add(a->began, patience(h, a, row, patient));
    if (dlc_list_empty(&h->watched))
        loop_timer_set(l, &h->timer, dlc_mono_add(loop_now(l), CHECK_EVERY));
    dlc_list_push_tail(&h->watched, &a->link);
}

void hedge_ended(struct hedge *h, struct fetch_attempt *a, unsigned row)
{
    dlc_list_remove(&a->link);
    if (a->source->slowest > 0)
        hist_add(&h->latency[row], (uint64_t)a->took.ns / 1000);
}

static void check_late(struct timer *t)
{
    struct hedge *h = dlc_container(t, struct hedge, timer);
    struct loop *loop = h->node->loop;
    struct dlc_list late, *l;

    dlc_list_init(&late);
    dlc_list_each_safe (n, &h->watched) {
        if (!dlc_mono_passed(dlc_container(n, struct fetch_attempt, link)->due, loop_now(loop)))
            continue;
        dlc_list_remove(n);
        dlc_list_push_tail(&late, n);
    }
    while ((l = dlc_list_pop_head(&late)) != NULL)
        h->late(dlc_container(l, struct fetch_attempt, link));
    if (!dlc_list_empty(&h->watched))
        loop_timer_set(loop, t, dlc_mono_add(loop_now(loop), CHECK_EVERY));
}

struct hedge *hedge_new(struct node *n, unsigned n_sources, void (*late)(struct fetch_attempt *a))
{
    struct hedge *h = mem_zero(sizeof(*h) + n_sources * sizeof(h->latency[0]));

    h->node = n;
    h->late = late;
    h->timer.fire = check_late;
    dlc_list_init(&h->watched);
    for (unsigned i = 0; i < n_sources; i++)
        hist_init(&h->latency[i], 1000);
    return h;
}

void hedge_free(struct hedge **hp)
{
    mem_free(hp);
}
