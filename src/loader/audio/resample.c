// SPDX-License-Identifier: Apache-2.0
#include "loader/audio/resample_i.h"

#include <math.h>
#include <stdbool.h>

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"
#include "loader/audio/kernels_i.h"

#define BETA      5.0
#define TABLE_MAX ((uint64_t)4 << 20) /* taps */
#define RATIO_MAX 256

/* The modified Bessel function of the first kind and order 0. */
static double bessel(double x)
{
    double sum = 1, term = 1;

    for (int k = 1; term > sum * 1e-17; k++) {
        term *= x / (2 * k) * (x / (2 * k));
        sum += term;
    }
    return sum;
}

/* h[i] without its scale. */
static double tap(uint64_t i, uint64_t half, uint64_t max)
{
    double at = (double)i - (double)half, x = M_PI * at / (double)max, edge = at / (double)half;

    return (at == 0 ? 1 : sin(x) / x) * bessel(BETA * sqrt(1 - edge * edge));
}

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Tap i belongs to phase i % up; the later it is the earlier the sample it meets. */
static void fill(struct resampler *r, uint64_t max)
{
    uint64_t n = 2 * r->half + 1;
    double sum = 0, scale;

    for (uint64_t i = 0; i < n; i++) {
        double h = tap(i, r->half, max);

        r->table[i % r->up * r->taps + (r->taps - 1 - i / r->up)] = (float)h;
        sum += h;
    }
    scale = r->up / sum;
    for (size_t i = 0; i < r->up * r->taps; i++)
        r->table[i] = (float)(r->table[i] * scale);
}

static int make(struct resampler *r, uint32_t from, uint32_t to, struct dlc_err *err)
{
    uint32_t divisor = common_divisor(from, to);
    uint64_t max = DLC_MAX(from, to) / divisor, each;

    mem_free(&r->table);
    *r = (struct resampler){.up = to / divisor, .down = from / divisor, .half = 10 * max};
    each = DLC_ALIGN_UP((2 * r->half + r->up) / r->up, (uint64_t)LANES);
    if (each * r->up > TABLE_MAX || max / DLC_MIN(r->up, r->down) > RATIO_MAX)
        return dlc_err_set(
            err, DLC_EINVAL,
            "cannot be resampled from %u to %u Hz: they are too far apart, or have too "
            "small a divisor in common; ask for another rate",
            from, to);
    r->taps = (size_t)each;
    r->table = mem_try_zero(r->up * r->taps * sizeof(float));
    if (r->table == NULL)
        return dlc_err_set(err, DLC_ENOMEM, "no memory for a filter of %u by %zu taps", r->up,
                           r->taps);
    fill(r, max);
    r->from = from;
    r->to = to;
    return 0;
}

int resamplers_get(struct resamplers *s, uint32_t from, uint32_t to, const struct resampler **r,
                   struct dlc_err *err)
{
    struct resampler *oldest = &s->slots[0];

    for (size_t i = 0; i < RESAMPLERS; i++) {
        struct resampler *slot = &s->slots[i];

        if (slot->from == from && slot->to == to) {
            oldest = slot;
            break;
        }
        if (slot->last < oldest->last)
            oldest = slot;
    }
    if (oldest->from != from || oldest->to != to) {
        int rc = make(oldest, from, to, err);

        if (rc != 0)
            return rc;
    }
    oldest->last = ++s->clock;
    *r = oldest;
    return 0;
}

void resamplers_release(struct resamplers *s)
{
    for (size_t i = 0; i < RESAMPLERS; i++)
        mem_free(&s->slots[i].table);
    *s = (struct resamplers){0};
}

uint64_t resample_length(const struct resampler *r, uint64_t n)
{
    return (n * r->up + r->down - 1) / r->down;
}

uint64_t resample_reach(const struct resampler *r, uint64_t n)
{
    return n == 0 ? 0 : ((n - 1) * r->down + r->half) / r->up + 1;
}

uint64_t resample_span(const struct resampler *r, uint64_t n)
{
    return (n * r->down + r->up - 1) / r->up;
}
