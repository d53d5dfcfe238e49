// SPDX-License-Identifier: Apache-2.0
#include "cache/memory/tenant_shares.h"

#include "base/check.h"

#define AHEAD_MAX ((uint64_t)64 << 20) /* bytes asked for ahead of use: what a tick brings in */

typedef uint64_t want_f(const struct tenant_share *s, uint64_t least);

static uint64_t wants(const struct tenant_share *s, uint64_t least)
{
    return s->open ? DLC_MAX(s->demand, least) : least;
}

/* What it has beyond that. */
static uint64_t keeps(const struct tenant_share *s, uint64_t least)
{
    (void)least;
    return s->open ? s->now - DLC_MIN(s->now, s->ceiling) : 0;
}

static uint64_t takes(const struct tenant_share *s, uint64_t least)
{
    (void)least;
    return s->open ? UINT64_MAX : 0;
}

/*
 * Water-filling: find the level at which MIN(want, level), summed, is `total`, and raise each
 * ceiling by that. Each round serves those who want no more than an equal part of what is left for
 * the rest, which makes the part larger; it ends when there are none. Returns what is left.
 */
static uint64_t fill(uint64_t total, uint64_t least, struct tenant_share *s, size_t n, want_f *want)
{
    uint64_t left = total, level = 0;
    size_t waiting = n;
    bool later = false;

    for (bool more = true; more && waiting > 0;) {
        uint64_t part = left / waiting;

        more = false;
        for (size_t i = 0; i < n; i++) {
            uint64_t w = want(&s[i], least);

            /* Those of earlier rounds wanted at most `level`, which no later part is below. */
            if (w > part || (later && w <= level))
                continue;
            left -= w;
            waiting--;
            more = true;
        }
        later = true;
        level = part;
    }
    for (size_t i = 0; i < n; i++)
        s[i].ceiling += DLC_MIN(want(&s[i], least), level);
    return left - level * waiting;
}

void tenant_shares_divide(uint64_t total, uint64_t least, struct tenant_share *s, size_t n)
{
    uint64_t left = total;

    for (size_t i = 0; i < n; i++)
        s[i].ceiling = 0;
    left = fill(left, least, s, n, wants);
    if (left >= n) /* else it is what could not be divided, and somebody may want more */
        left = fill(left, least, s, n, keeps);
    if (left >= n)
        fill(left, least, s, n, takes);
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t tenant_demand(uint64_t used, uint64_t to_come, uint64_t ceiling, uint64_t total)
{
    uint64_t need = plus(used, to_come);

    if (used >= ceiling - ceiling / 8)
        need = DLC_MAX(need, plus(used, used));
    /* holes between samples, and what warm-ups leave free */
    return plus(plus(need, need / 8), DLC_MIN(AHEAD_MAX, total / 16));
}
