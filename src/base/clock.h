// SPDX-License-Identifier: Apache-2.0
/* Clocks. Instants and durations are different types, so that the compiler keeps them apart. */
#ifndef DLC_BASE_CLOCK_H
#define DLC_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct dlc_mono {
    int64_t ns;
}; /* an instant of CLOCK_MONOTONIC; 0 means never */
struct dlc_dur {
    int64_t ns;
}; /* a length of time */

#define DLC_MS(n)  ((struct dlc_dur){(int64_t)(n)*1000000})
#define DLC_SEC(n) ((struct dlc_dur){(int64_t)(n)*1000000000})

struct dlc_mono dlc_mono_now(void);
int64_t dlc_wall_seconds(void); /* Unix time */

void dlc_sleep(struct dlc_dur d); /* a signal may end it */

/* For tests: from now on the monotonic clock runs this much ahead. Adds up. */
void dlc_clock_advance(struct dlc_dur d);

static inline struct dlc_mono dlc_mono_add(struct dlc_mono t, struct dlc_dur d)
{
    struct dlc_mono sum;

    if (__builtin_add_overflow(t.ns, d.ns, &sum.ns))
        sum.ns = INT64_MAX; /* of a deadline that there is not */
    return sum;
}

static inline struct dlc_dur dlc_mono_sub(struct dlc_mono a, struct dlc_mono b)
{
    return (struct dlc_dur){a.ns - b.ns};
}

static inline struct dlc_dur dlc_mono_since(struct dlc_mono t)
{
    return dlc_mono_sub(dlc_mono_now(), t);
}

static inline bool dlc_mono_passed(struct dlc_mono t, struct dlc_mono now)
{
    return t.ns != 0 && now.ns >= t.ns;
}

static inline double dlc_dur_seconds(struct dlc_dur d)
{
    return (double)d.ns / 1e9;
}

static inline struct dlc_dur dlc_dur_of_seconds(double s)
{
    return (struct dlc_dur){(int64_t)(s * 1e9)};
}

#endif
