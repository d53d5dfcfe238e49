// SPDX-License-Identifier: Apache-2.0
/*
 * A keyed bijection on [0, n) and its inverse: a shuffle that is computed, not stored.
 *
 * Up to PERMUTATION_SMALL elements it is a table, filled by Fisher and Yates's shuffle, so that
 * every permutation of few elements is equally likely over the seeds. Above, it is a Feistel
 * network on [0, a) x [0, 2^bits) with a = ceil(n / 2^bits): halves of about equal size in a
 * domain that is larger than n by less than 2^bits <= sqrt(2 n), so that hardly any element has to
 * walk on: one in nine at n = 129, fewer than one in 30,000 at 10^9. Eight rounds: the statistics
 * of tests/unit/order/test_shuffle.c find four bad up to n = 4,000, six up to 128, eight nowhere.
 *
 * (PERMUTATION-1) The same (n, seed, epoch) gives the same order in every version and on every
 *                 machine: saved states depend on it, and tests/unit/order/vectors.def holds it in
 *                 place.
 *
 * Pure and X: no allocation, no locks. Not for secrets.
 */
#ifndef DLC_ORDER_PERMUTATION_H
#define DLC_ORDER_PERMUTATION_H

#include <stdint.h>

#define PERMUTATION_SMALL 128
#define PERMUTATION_MAX   ((uint64_t)1 << 40)
#ifndef PERMUTATION_ROUNDS /* a test builds it with fewer, to see that its statistics can tell */
#define PERMUTATION_ROUNDS 8
#endif

struct permutation {
    uint64_t n;
    uint64_t a;    /* size of the left half; 0: a table */
    unsigned bits; /* of the right half */
    union {
        uint64_t keys[PERMUTATION_ROUNDS];
        struct {
            uint8_t at[PERMUTATION_SMALL], inverse[PERMUTATION_SMALL];
        } table;
    };
};

/* 1 <= n <= PERMUTATION_MAX. */
void permutation_init(struct permutation *p, uint64_t n, uint64_t seed, uint64_t epoch);
uint64_t permutation_at(const struct permutation *p, uint64_t k);      /* element at position k */
uint64_t permutation_inverse(const struct permutation *p, uint64_t s); /* position of element s */

#endif
