// SPDX-License-Identifier: Apache-2.0
/*
 * Computes the ceiling of the memory tier from the limits of the host.
 *
 * (MEMORY-LIMITS-1) mem_limit_* are pure: the same machine and wish give the same answer.
 * (MEMORY-LIMITS-2) The answer is never above the configured number and never below 16 MB (or the
 *                   configured number, if that is less).
 * (MEMORY-LIMITS-3) Without pressure and with the machine unchanged, repeated calls converge: small
 *                   differences do not move the ceiling.
 */
#include "cache/memory/limits.h"

#include "base/check.h"

#define MB ((uint64_t)1 << 20)

#define FLOOR         (16 * MB)
#define RESERVE_MIN   (64 * MB) /* of small machines and groups; elsewhere a tenth */
#define GROW_MIN      (64 * MB)
#define PRESSURE_CALM 1.0 /* "some avg10", in percent of time: may grow below */
#define PRESSURE_HIGH 10.0
#define PRESSURE_DIRE 40.0

static uint64_t reserve_of(uint64_t total)
{
    return DLC_MAX(total / 10, RESERVE_MIN);
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a - DLC_MIN(a, b);
}

uint64_t mem_limit_max(const struct host_memory *m, uint64_t configured)
{
    uint64_t all = DLC_MIN(m->total, m->cgroup_max);

    return configured != 0 ? configured : DLC_MAX(all / 5 * 4, FLOOR);
}

/* What the tier could have if it took all that is free and left the reserve. */
static uint64_t target_of(const struct host_memory *m, const struct mem_wish *w)
{
    uint64_t target = minus(w->used + m->available, reserve_of(m->total));

    if (m->cgroup_max != UINT64_MAX) {
        uint64_t room = w->used + minus(m->cgroup_max, m->cgroup_used);

        target = DLC_MIN(target, minus(room, reserve_of(m->cgroup_max)));
    }
    return DLC_MIN(target, mem_limit_max(m, w->configured));
}

uint64_t mem_limit_now(const struct host_memory *m, const struct mem_wish *w)
{
    uint64_t target = target_of(m, w), now = w->ceiling;
    uint64_t least = w->configured != 0 ? DLC_MIN(FLOOR, w->configured) : FLOOR;
    uint64_t next = now;

    if (now == 0)
        return DLC_MAX(target, least);
    if (target < now - now / 32)
        next = target;
    else if (target > now + now / 32 && m->pressure < PRESSURE_CALM)
        next = DLC_MIN(target, now + DLC_MAX(now / 8, GROW_MIN));
    if (m->pressure > PRESSURE_DIRE)
        next = DLC_MIN(next, now - now / 4);
    else if (m->pressure > PRESSURE_HIGH)
        next = DLC_MIN(next, now - now / 8);
    next = DLC_MIN(next, mem_limit_max(m, w->configured));
    return DLC_MAX(next, least);
}

uint64_t mem_limit_between(const struct host_memory *m, const struct mem_wish *w)
{
    struct host_memory calm = *m;

    calm.pressure = PRESSURE_CALM; /* neither more nor less for its sake */
    return mem_limit_now(&calm, w);
}
