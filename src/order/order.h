// SPDX-License-Identifier: Apache-2.0
/*
 * In which sequence a rank reads samples in an epoch: computed, not stored.
 *
 * One global order per epoch (a keyed bijection on [0, n)), extended or cut to a multiple of the
 * world size as PyTorch's DistributedSampler does; rank r takes positions r, r + world, r + 2
 * world, ... so that the sequence of global batches is the same on any number of ranks. The state
 * to save is (seed, epoch, position).
 *
 * Pure and X: no allocation after init, no locks, no clock.
 */
#ifndef DLC_ORDER_ORDER_H
#define DLC_ORDER_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* A keyed bijection on [0, n): Feistel network with cycle walking. */
struct permutation {
    uint64_t n;
    uint64_t keys[8];
    unsigned bits; /* of one half */
};

void permutation_init(struct permutation *p, uint64_t n, uint64_t seed, uint64_t epoch);
uint64_t permutation_at(const struct permutation *p, uint64_t k);      /* element at position k */
uint64_t permutation_inverse(const struct permutation *p, uint64_t s); /* position of element s */

enum order_kind {
    ORDER_SEQUENTIAL, /* 0, 1, 2, ... */
    ORDER_SHUFFLED,   /* a new permutation per epoch */
    ORDER_EXPLICIT,   /* as listed by the caller, one list per epoch */
};

struct order_spec {
    enum order_kind kind;
    uint64_t n;     /* samples in the dataset (or in the split) */
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
    uint64_t length; /* positions of this rank */
    struct permutation perm;
    const uint64_t *list; /* EXPLICIT: length sample numbers of this rank; borrowed */
};

/* DLC_EINVAL: rank >= world, n = 0, and the like, with a text that says so. */
int order_init(struct order *o, const struct order_spec *spec, uint64_t epoch, struct dlc_err *err);
int order_init_explicit(struct order *o, const uint64_t *list, uint64_t length, uint64_t epoch,
                        struct dlc_err *err);

uint64_t order_at(const struct order *o,
                  uint64_t k); /* sample at this rank's position k < length */

/* This rank's next position >= from at which sample s is read in this epoch; UINT64_MAX: none. Not
 * for EXPLICIT orders (they need an index of their own). */
uint64_t order_next(const struct order *o, uint64_t s, uint64_t from);

#endif
