// SPDX-License-Identifier: Apache-2.0
/*
 * The Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998), seeded and drawn from as NumPy's
 * legacy generator does, so that experiments that called numpy.random.seed() and shuffle() can be
 * repeated to the letter. For nothing else: base/rng.h is better and faster.
 */
#ifndef DLC_SIM_MT19937_H
#define DLC_SIM_MT19937_H

#include <stdint.h>

struct mt19937 {
    uint32_t state[624];
    unsigned at;
};

void mt_seed(struct mt19937 *m, uint32_t seed); /* numpy.random.seed(seed) */
uint32_t mt_next(struct mt19937 *m);            /* uniform 32 bits */

/* Uniform in [0, max]: draws are masked to the bits of max and drawn again while above it. */
uint32_t mt_upto(struct mt19937 *m, uint32_t max);

#endif
