// SPDX-License-Identifier: Apache-2.0
/*
 * Substitutions: positions of an epoch at which a rank reads another sample than its order says,
 * because two positions were exchanged (docs/design/0008). Only positions that are still to be read
 * are kept, as pairs that can be found from both sides:
 *
 *     order       a b c d e f        exchange 0 and 3, then 1 and 3
 *     is read     d a c b e f        pairs (0, d), (1, a), (3, b)
 *                                    after 0 was passed: (1, a), (3, b)
 *
 * (SUBSTITUTION-1) The samples at positions that are not passed are a permutation of those that are
 *                  left, whatever was exchanged: no sample comes twice and none is lost. A sample
 *                  whose own position holds another one, and which is at no other position, was
 *                  read.
 *
 * Positions count from the start of the epoch. For computed orders only: there a rank reads a
 * sample at most once in an epoch. Owned by one thread at a time.
 */
#ifndef DLC_ORDER_SUBSTITUTION_H
#define DLC_ORDER_SUBSTITUTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/u64map.h"
#include "order/order.h"

#define SWAPS_MAX ((size_t)1 << 22) /* pairs: 256 MiB */

struct swap_pair {
    uint64_t position, sample;
};

struct swaps {
    struct map at;    /* position -> sample + 1 */
    struct map where; /* sample -> position + 1 */
};

#define SWAPS_INIT                                                                                 \
    {                                                                                              \
        MAP_INIT, MAP_INIT                                                                         \
    }

void swaps_release(struct swaps *w);

/* As order_at() and order_next(), of an order with these swaps. */
uint64_t swaps_at(const struct swaps *w, const struct order *o, uint64_t k);
uint64_t swaps_next(const struct swaps *w, const struct order *o, uint64_t s, uint64_t from);

/* Exchange what is read at positions p and q. false: there are SWAPS_MAX pairs already. */
bool swaps_exchange(struct swaps *w, const struct order *o, uint64_t p, uint64_t q);

/* Positions [from, to) were read, and those before from had been passed. */
void swaps_pass(struct swaps *w, uint64_t from, uint64_t to);

/* All pairs at positions from `from` on, in the order of positions. Gives *pairs, or NULL where
 * there are none. */
size_t swaps_list(const struct swaps *w, uint64_t from, struct swap_pair **pairs);

/*
 * The pairs that were listed at position `from`, in any order; w is empty before.
 * Returns: 0; DLC_EINVAL when (SUBSTITUTION-1) would not hold, or that many are not possible: w is
 * empty then.
 */
int swaps_load(struct swaps *w, const struct order *o, const struct swap_pair *pairs, size_t n,
               uint64_t from, struct dlc_err *err);

#endif
