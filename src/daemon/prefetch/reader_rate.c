// SPDX-License-Identifier: Apache-2.0
#include "daemon/prefetch/reader_rate.h"

#include <math.h>

#define KEEP       0.8 /* weight of the past after RATE_SPAN, ... */
#define KEEP_LEAST 0.7 /* ... but so much at least: steps may be long */
#define LATE       2   /* steps without a move that are nothing unusual */

static void new_step(struct rate *r, struct dlc_mono now)
{
    r->since = now;
    r->moved = 0;
    r->waited = (struct dlc_dur){0};
}

void rate_restart(struct rate *r)
{
    r->moved_once = false;
}

void rate_waited(struct rate *r, struct dlc_dur d)
{
    r->waited.ns += d.ns;
}

/* Seconds of the step so far in which it did not wait. The waits are others' numbers: some of it
 * is left in any case. */
static double busy_seconds(const struct rate *r, struct dlc_mono now)
{
    double span = dlc_dur_seconds(dlc_mono_sub(now, r->since));

    return fmax(span - dlc_dur_seconds(r->waited), span / 20);
}

static double mean_step(const struct rate *r)
{
    return r->steps > 0 ? r->seconds / r->steps : INFINITY;
}

static void end_step(struct rate *r, struct dlc_mono now)
{
    double busy = fmin(busy_seconds(r, now), RATE_PAUSE * mean_step(r));
    double keep = fmax(pow(KEEP, busy / dlc_dur_seconds(RATE_SPAN)), KEEP_LEAST);

    r->samples = r->samples * keep + (double)r->moved;
    r->seconds = r->seconds * keep + busy;
    r->steps = r->steps * keep + 1;
    r->per_s = r->samples / r->seconds;
    new_step(r, now);
}

void rate_update(struct rate *r, uint64_t moved, bool waits, struct dlc_mono now)
{
    if (moved > 0)
        r->burst += ((double)moved - r->burst) / (r->burst > 0 ? 4 : 1);
    if (moved > 0 && !r->moved_once) {
        r->moved_once = true;
        new_step(r, now);
        return;
    }
    if (!r->moved_once)
        return;
    r->moved += moved;
    if (moved > 0 && dlc_mono_sub(now, r->since).ns >= RATE_SPAN.ns)
        end_step(r, now);
    else if (r->steps > 0 && !waits)
        r->per_s = r->samples / (r->seconds + fmax(busy_seconds(r, now) - LATE * mean_step(r), 0));
}
