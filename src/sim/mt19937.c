// SPDX-License-Identifier: Apache-2.0
#include "sim/mt19937.h"

#define N       624
#define M       397
#define UPPER   0x80000000u
#define LOWER   0x7fffffffu
#define TWIST   0x9908b0dfu
#define INIT    1812433253u
#define TEMPER1 0x9d2c5680u
#define TEMPER2 0xefc60000u

void mt_seed(struct mt19937 *m, uint32_t seed)
{
    for (uint32_t i = 0; i < N; i++) {
        m->state[i] = seed;
        seed = INIT * (seed ^ seed >> 30) + i + 1;
    }
    m->at = N;
}

static void refill(struct mt19937 *m)
{
    for (unsigned i = 0; i < N; i++) {
        uint32_t y = (m->state[i] & UPPER) | (m->state[(i + 1) % N] & LOWER);

        m->state[i] = m->state[(i + M) % N] ^ y >> 1 ^ ((y & 1) != 0 ? TWIST : 0);
    }
    m->at = 0;
}

uint32_t mt_next(struct mt19937 *m)
{
    uint32_t y;

    if (m->at == N)
        refill(m);
    y = m->state[m->at++];
    y ^= y >> 11;
    y ^= y << 7 & TEMPER1;
    y ^= y << 15 & TEMPER2;
    return y ^ y >> 18;
}

uint32_t mt_upto(struct mt19937 *m, uint32_t max)
{
    uint32_t mask, v;

    if (max == 0)
        return 0; /* without drawing */
    mask = UINT32_MAX >> __builtin_clz(max);
    do
        v = mt_next(m) & mask;
    while (v > max);
    return v;
}
