// SPDX-License-Identifier: Apache-2.0
#ifndef DLC_TESTS_ORDER_WEAK_H
#define DLC_TESTS_ORDER_WEAK_H

#include <stdint.h>

/* Element k of a permutation of n elements that has too few rounds. */
uint64_t weak_element(uint64_t n, uint64_t seed, uint64_t k);

#endif
