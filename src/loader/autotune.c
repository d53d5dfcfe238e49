// SPDX-License-Identifier: Apache-2.0
#include "loader/autotune.h"

#include <math.h>

#include "base/check.h"

#define WEIGHT   0.2  /* of the newest batch */
#define MARGIN   1.15 /* steps are not all alike */
#define DRY      0.02 /* waiting below this share of the time is noise */
#define PATIENCE 8u

void pace_init(struct pace *p, unsigned most)
{
    dlc_check(most > 0);
    *p = (struct pace){.most = most, .now = most, .make_s = -1, .step_s = -1};
}

static void smooth(double *mean, double value)
{
    *mean = *mean < 0 ? value : *mean + WEIGHT * (value - *mean);
}

static unsigned needed(const struct pace *p)
{
    double need = p->step_s > 0 ? ceil(p->make_s * MARGIN / p->step_s) : p->most;

    return (unsigned)DLC_CLAMP(need, 1.0, (double)p->most);
}

unsigned pace_step(struct pace *p, const struct pace_batch *b)
{
    unsigned need;

    smooth(&p->make_s, b->make_s);
    smooth(&p->step_s, b->step_s);
    need = needed(p);
    if (b->waited_s > DRY * (b->waited_s + b->step_s)) {
        p->patience = 0;
        p->now = DLC_CLAMP(p->now + 1, need, p->most);
    } else if (b->ready + 1 < b->ring) {
        p->patience = 0;
        p->now = DLC_MAX(p->now, need);
    } else if (++p->patience >= PATIENCE && need < p->now) {
        p->patience = 0;
        p->now = need + (p->now - need) / 2;
    }
    return p->now;
}
