// SPDX-License-Identifier: Apache-2.0
#include "order/permutation.h"

#include "base/check.h"
#include "base/rng.h"

/* All 64 bits of x reach the high bits of the result: only those may be used. */
static inline uint64_t mix(uint64_t x)
{
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    return x * 0x9e3779b97f4a7c15u;
}

/* The high bits of h as a number in [0, a). */
static inline uint64_t scale(uint64_t h, uint64_t a)
{
    return (uint64_t)((unsigned __int128)h * a >> 64);
}

static uint64_t forward(const struct permutation *p, uint64_t x)
{
    uint64_t a = p->a, l = x >> p->bits, r = x & (((uint64_t)1 << p->bits) - 1);

    for (unsigned i = 0; i < PERMUTATION_ROUNDS; i += 2) {
        l += scale(mix(r + p->keys[i]), a);
        l -= l >= a ? a : 0;
        r ^= mix(l + p->keys[i + 1]) >> (64 - p->bits);
    }
    return l << p->bits | r;
}

static uint64_t backward(const struct permutation *p, uint64_t x)
{
    uint64_t a = p->a, l = x >> p->bits, r = x & (((uint64_t)1 << p->bits) - 1);

    for (unsigned i = PERMUTATION_ROUNDS; i > 0; i -= 2) {
        uint64_t f;

        r ^= mix(l + p->keys[i - 1]) >> (64 - p->bits);
        f = scale(mix(r + p->keys[i - 2]), a);
        l += l < f ? a - f : -f;
    }
    return l << p->bits | r;
}

static void fill_table(struct permutation *p, struct rng *r)
{
    for (unsigned k = 0; k < p->n; k++) {
        unsigned j = (unsigned)rng_below(r, k + 1);

        p->table.at[k] = p->table.at[j];
        p->table.at[j] = (uint8_t)k;
    }
    for (unsigned k = 0; k < p->n; k++)
        p->table.inverse[p->table.at[k]] = (uint8_t)k;
}

/* The stream of random numbers that belongs to (n, seed, epoch): neighbours share nothing. */
static struct rng stream(uint64_t n, uint64_t seed, uint64_t epoch)
{
    struct rng r = {seed};

    r.state = rng_next(&r) ^ epoch;
    r.state = rng_next(&r) ^ n;
    r.state = rng_next(&r);
    return r;
}

void permutation_init(struct permutation *p, uint64_t n, uint64_t seed, uint64_t epoch)
{
    struct rng r = stream(n, seed, epoch);

    dlc_check(n > 0 && n <= PERMUTATION_MAX);
    *p = (struct permutation){.n = n};
    if (n <= PERMUTATION_SMALL) {
        fill_table(p, &r);
        return;
    }
    p->bits = (unsigned)(64 - __builtin_clzll(n)) / 2; /* 2^bits is nearest to sqrt(n) */
    p->a = (n + ((uint64_t)1 << p->bits) - 1) >> p->bits;
    for (unsigned i = 0; i < PERMUTATION_ROUNDS; i++)
        p->keys[i] = rng_next(&r);
}

uint64_t permutation_at(const struct permutation *p, uint64_t k)
{
    dlc_check(k < p->n);
    if (p->a == 0)
        return p->table.at[k];
    do
        k = forward(p, k);
    while (k >= p->n);
    return k;
}

uint64_t permutation_inverse(const struct permutation *p, uint64_t s)
{
    dlc_check(s < p->n);
    if (p->a == 0)
        return p->table.inverse[s];
    do
        s = backward(p, s);
    while (s >= p->n);
    return s;
}
