// SPDX-License-Identifier: Apache-2.0
/* The permutation with half its rounds, under other names: what the statistics must find bad. */
#define PERMUTATION_ROUNDS  4
#define permutation         weak
#define permutation_init    weak_init
#define permutation_at      weak_at
#define permutation_inverse weak_inverse
#include "order/permutation.c"

#include "weak.h"

uint64_t weak_element(uint64_t n, uint64_t seed, uint64_t k)
{
    struct weak p;

    weak_init(&p, n, seed, 0);
    return weak_at(&p, k);
}
