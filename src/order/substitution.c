// SPDX-License-Identifier: Apache-2.0
#include "order/substitution.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"

static void *value_of(uint64_t n)
{
    return (void *)(uintptr_t)(n + 1);
}

/* ORDER_NONE: absent. */
static uint64_t look_up(const struct map *m, uint64_t key)
{
    return (uint64_t)(uintptr_t)map_get(m, key) - 1;
}

static uint64_t take_out(struct map *m, uint64_t key)
{
    return (uint64_t)(uintptr_t)map_remove(m, key) - 1;
}

void swaps_release(struct swaps *w)
{
    map_release(&w->at);
    map_release(&w->where);
}

uint64_t swaps_at(const struct swaps *w, const struct order *o, uint64_t k)
{
    uint64_t s = look_up(&w->at, k);

    return s != ORDER_NONE ? s : order_at(o, k);
}

uint64_t swaps_next(const struct swaps *w, const struct order *o, uint64_t s, uint64_t from)
{
    uint64_t k = look_up(&w->where, s);

    if (k != ORDER_NONE)
        return k >= from ? k : ORDER_NONE;
    k = order_next(o, s, from);
    return k != ORDER_NONE && map_get(&w->at, k) == NULL ? k : ORDER_NONE;
}

/* s is read at k; whatever was there before is put somewhere else by the caller. */
static void place(struct swaps *w, const struct order *o, uint64_t k, uint64_t s)
{
    if (order_at(o, k) == s) {
        map_remove(&w->at, k);
        map_remove(&w->where, s);
        return;
    }
    map_set(&w->at, k, value_of(s));
    map_set(&w->where, s, value_of(k));
}

bool swaps_exchange(struct swaps *w, const struct order *o, uint64_t p, uint64_t q)
{
    uint64_t x, y;

    if (w->at.n + 2 > SWAPS_MAX)
        return false;
    x = swaps_at(w, o, p);
    y = swaps_at(w, o, q);
    place(w, o, p, y);
    place(w, o, q, x);
    return true;
}

static void forget(struct swaps *w, uint64_t k)
{
    uint64_t s = take_out(&w->at, k);

    if (s != ORDER_NONE)
        map_remove(&w->where, s);
}

void swaps_pass(struct swaps *w, uint64_t from, uint64_t to)
{
    struct swaps left = SWAPS_INIT;

    if (w->at.n == 0)
        return;
    if (to - from <= w->at.cap) {
        for (uint64_t k = from; k < to; k++)
            forget(w, k);
        return;
    }
    map_each(e, &w->at)
    {
        if (e->key >= to) {
            map_set(&left.at, e->key, e->value);
            map_set(&left.where, (uint64_t)(uintptr_t)e->value - 1, value_of(e->key));
        }
    }
    swaps_release(w);
    *w = left;
}

static int by_position(const void *a, const void *b)
{
    const struct swap_pair *x = a, *y = b;

    return (x->position > y->position) - (x->position < y->position);
}

size_t swaps_list(const struct swaps *w, uint64_t from, struct swap_pair **pairs)
{
    size_t n = 0;

    *pairs = w->at.n > 0 ? mem_alloc(w->at.n * sizeof(**pairs)) : NULL;
    map_each(e, &w->at)
    {
        if (e->key >= from)
            (*pairs)[n++] = (struct swap_pair){e->key, (uint64_t)(uintptr_t)e->value - 1};
    }
    if (n > 0)
        qsort(*pairs, n, sizeof(**pairs), by_position);
    else
        mem_free(pairs);
    return n;
}

/* One pair of a list: its position is to be read, and neither end was in a pair before it. */
static bool load_one(struct swaps *w, const struct order *o, const struct swap_pair *p,
                     uint64_t from)
{
    if (p->position < from || p->position >= o->length ||
        order_next(o, p->sample, 0) == ORDER_NONE || map_get(&w->at, p->position) != NULL ||
        map_get(&w->where, p->sample) != NULL)
        return false;
    map_set(&w->at, p->position, value_of(p->sample));
    map_set(&w->where, p->sample, value_of(p->position));
    return true;
}

/* Does another position read this sample as well: its own, which is in no pair? */
static bool comes_twice(const struct swaps *w, const struct order *o, uint64_t s, uint64_t from)
{
    uint64_t k = order_next(o, s, from);

    return k != ORDER_NONE && map_get(&w->at, k) == NULL;
}

int swaps_load(struct swaps *w, const struct order *o, const struct swap_pair *pairs, size_t n,
               uint64_t from, struct dlc_err *err)
{
    bool well = n <= SWAPS_MAX;

    dlc_check(w->at.n == 0 && o->spec.kind != ORDER_EXPLICIT);
    for (size_t i = 0; well && i < n; i++)
        well = load_one(w, o, &pairs[i], from);
    for (size_t i = 0; well && i < n; i++)
        well = !comes_twice(w, o, pairs[i].sample, from);
    if (well)
        return 0;
    swaps_release(w);
    return dlc_err_set(err, DLC_EINVAL,
                       "swaps that are not of position %" PRIu64 " of epoch %" PRIu64
                       " of this order: take them, epoch and position from one state",
                       from, o->epoch);
}
