// SPDX-License-Identifier: Apache-2.0
#include "order/order.h"

#include <inttypes.h>

#include "base/check.h"
#include "order/next_use_index.h"

static int check_spec(const struct order_spec *s, struct dlc_err *err)
{
    if (s->kind != ORDER_SEQUENTIAL && s->kind != ORDER_SHUFFLED)
        return dlc_err_set(err, DLC_EINVAL,
                           "order of kind %d: only sequential and shuffled orders are computed",
                           (int)s->kind);
    if (s->n == 0)
        return dlc_err_set(err, DLC_EINVAL,
                           "order of 0 samples: the dataset or split is empty; check its URL");
    if (s->n > PERMUTATION_MAX || s->first > PERMUTATION_MAX - s->n)
        return dlc_err_set(err, DLC_EINVAL,
                           "order of %" PRIu64 " samples from %" PRIu64 " on: at most 2^40 are "
                           "possible",
                           s->n, s->first);
    if (s->rank >= s->world)
        return dlc_err_set(err, DLC_EINVAL,
                           "rank %" PRIu32 " of world size %" PRIu32
                           ": ranks count from 0 to world size - 1",
                           s->rank, s->world);
    return 0;
}

int order_init(struct order *o, const struct order_spec *spec, uint64_t epoch, struct dlc_err *err)
{
    struct order_spec s = *spec;
    int rc;

    s.world = s.world == 0 ? 1 : s.world;
    rc = check_spec(&s, err);
    if (rc < 0)
        return rc;
    *o = (struct order){.spec = s};
    o->length = s.n / s.world + (!s.drop_last && s.n % s.world != 0);
    o->total = o->length * s.world;
    order_set_epoch(o, epoch);
    return 0;
}

void order_set_epoch(struct order *o, uint64_t epoch)
{
    dlc_check(o->spec.kind != ORDER_EXPLICIT);
    o->epoch = epoch;
    if (o->spec.kind == ORDER_SHUFFLED)
        permutation_init(&o->perm, o->spec.n, o->spec.seed, epoch);
}

int order_init_explicit(struct order *o, const uint64_t *list, uint64_t length, uint64_t epoch,
                        struct dlc_err *err)
{
    if (list == NULL && length > 0)
        return dlc_err_set(err, DLC_EINVAL,
                           "explicit order of %" PRIu64 " samples without a list; hand one over",
                           length);
    *o = (struct order){.spec = {.kind = ORDER_EXPLICIT, .n = length, .world = 1},
                        .epoch = epoch,
                        .total = length,
                        .length = length,
                        .list = list};
    return 0;
}

void order_init_indexed(struct order *o, const struct order_index *ix, uint64_t epoch)
{
    *o = (struct order){.spec = {.kind = ORDER_EXPLICIT, .n = ix->length, .world = 1},
                        .epoch = epoch,
                        .total = ix->length,
                        .length = ix->length,
                        .list = ix->list,
                        .index = ix};
}

/* Element at global position g: the order, again from its start when it is used up. */
static uint64_t element(const struct order *o, uint64_t g)
{
    uint64_t n = o->spec.n;

    if (g >= n)
        g = g - n < n ? g - n : g % n;
    return o->spec.kind == ORDER_SHUFFLED ? permutation_at(&o->perm, g) : g;
}

uint64_t order_at(const struct order *o, uint64_t k)
{
    dlc_check(k < o->length);
    if (o->spec.kind == ORDER_EXPLICIT)
        return o->list[k];
    return o->spec.first + element(o, o->spec.rank + k * o->spec.world);
}

/* The position of this rank that is global position g, when it is one of its own and >= from. */
static uint64_t own(const struct order *o, uint64_t g, uint64_t from)
{
    uint64_t world = o->spec.world;
    uint64_t k = world == 1 ? g : g / world;

    return g < o->total && g - k * world == o->spec.rank && k >= from ? k : ORDER_NONE;
}

uint64_t order_next(const struct order *o, uint64_t s, uint64_t from)
{
    uint64_t n = o->spec.n, g, k;

    if (o->spec.kind == ORDER_EXPLICIT) {
        dlc_check(o->index != NULL);
        return order_index_next(o->index, s, from);
    }
    if (s < o->spec.first || s - o->spec.first >= n || from >= o->length)
        return ORDER_NONE;
    g = s - o->spec.first;
    if (o->spec.kind == ORDER_SHUFFLED)
        g = permutation_inverse(&o->perm, g);
    if (n < o->spec.world) /* one position each; the order repeats across the ranks */
        return g == o->spec.rank % n ? 0 : ORDER_NONE;
    k = own(o, g, from);
    return k != ORDER_NONE ? k : own(o, g + n, from); /* its repetition in the padding */
}
