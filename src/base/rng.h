// SPDX-License-Identifier: Apache-2.0
/* Random numbers for jitter, sampling and tests: splitmix64. Not for secrets. */
#ifndef DLC_BASE_RNG_H
#define DLC_BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Uniform in [0, n), n > 0. */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
    return (uint64_t)((unsigned __int128)rng_next(r) * n >> 64);
}

/* Uniform in [0, 1). */
static inline double rng_unit(struct rng *r)
{
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}

/* A seed that differs between processes and calls. */
uint64_t rng_seed(void);

#endif
