// SPDX-License-Identifier: Apache-2.0
/*
 * In which sequence a rank reads samples in an epoch: computed, not stored.
 *
 * One global order per epoch (a keyed bijection on [0, n)), extended or cut to a multiple of the
 * world size as PyTorch's DistributedSampler does; rank r takes global positions r, r + world,
 * r + 2 world, ... so that the sequence of global batches is the same on any number of ranks. The
 * state to save is (seed, epoch, position).
 *
 *     n = 5, world = 2        global position   0  1  2  3  4 | 5
 *     padded                  element of order  a  b  c  d  e | a    rank 0: a c e   rank 1: b d a
 *     drop_last                                 a  b  c  d           rank 0: a c     rank 1: b d
 *
 * (ORDER-1) Without drop_last every sample is read by some rank in every epoch, and with it no
 *           sample is read twice. A rank by itself never reads a sample twice in an epoch.
 *
 * Pure and X: no allocation, no locks, no clock.
 * Not here: running on over epochs (order/cursor.h), explicit lists (order/next_use_index.h).
 */
#ifndef DLC_ORDER_ORDER_H
#define DLC_ORDER_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "order/permutation.h"

#define ORDER_NONE UINT64_MAX

struct order_index; /* order/next_use_index.h */

enum order_kind {
    ORDER_SEQUENTIAL, /* 0, 1, 2, ... */
    ORDER_SHUFFLED,   /* a new permutation per epoch */
    ORDER_EXPLICIT,   /* as listed by the caller, one list per epoch */
};

struct order_spec {
    enum order_kind kind;
    uint64_t n;     /* samples in the dataset (or in the split); first + n <= PERMUTATION_MAX */
    uint64_t first; /* number of the split's first sample; added to every element */
    uint64_t seed;
    uint32_t rank, world; /* world 0 counts as 1 */
    bool drop_last;       /* cut to a multiple of world; else padded with samples from the start */
};

/* One rank's order of one epoch. */
struct order {
    struct order_spec spec;
    uint64_t epoch;
    uint64_t total;  /* global positions, a multiple of world */
    uint64_t length; /* positions of this rank; 0 when drop_last leaves nothing (n < world) */
    struct permutation perm;         /* SHUFFLED */
    const uint64_t *list;            /* EXPLICIT: length sample numbers of this rank; borrowed */
    const struct order_index *index; /* EXPLICIT: of list, borrowed; NULL: no order_next */
};

/* DLC_EINVAL with a text that says what is wrong: rank >= world, n = 0, too many samples, a kind
 * that is not computed. */
int order_init(struct order *o, const struct order_spec *spec, uint64_t epoch, struct dlc_err *err);

/* The same rank's order of another epoch; not for explicit orders. */
void order_set_epoch(struct order *o, uint64_t epoch);

/* The caller's list as one rank's order. Borrows: list, as long as *o is used. */
int order_init_explicit(struct order *o, const uint64_t *list, uint64_t length, uint64_t epoch,
                        struct dlc_err *err);

/* The same with the list of an index, which also answers order_next(). Borrows: ix, as above. */
void order_init_indexed(struct order *o, const struct order_index *ix, uint64_t epoch);

/* Sample at this rank's position k < length. */
uint64_t order_at(const struct order *o, uint64_t k);

/* This rank's next position >= from at which sample s is read in this epoch; ORDER_NONE: none. An
 * explicit order needs an index for it. */
uint64_t order_next(const struct order *o, uint64_t s, uint64_t from);

#endif
