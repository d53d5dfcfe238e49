// SPDX-License-Identifier: Apache-2.0
#include "cluster/peer/peer_health.h"

#include "base/backoff.h"
#include "base/check.h"

#define FAILURES_MAX 3
#define PAUSE_FIRST  DLC_SEC(1)
#define PAUSE_MAX    DLC_SEC(30)
#define SIGNS_MIN    20 /* before the percentile means something */
#define SIGNS_FADE   1024

void health_init(struct health *h, struct dlc_dur least, struct dlc_dur most)
{
    *h = (struct health){.least = least, .most = most};
    hist_init(&h->signs, SIGNS_FADE);
}

bool health_skipping(const struct health *h)
{
    return h->skipped.ns != 0;
}

bool health_usable(const struct health *h, struct dlc_mono now)
{
    return !health_skipping(h) || (!h->trial && dlc_mono_passed(h->skipped, now));
}

enum health_verdict health_admit(struct health *h, struct dlc_mono now)
{
    if (!health_skipping(h))
        return HEALTH_ASK;
    if (!health_usable(h, now))
        return HEALTH_SKIP;
    h->trial = true;
    return HEALTH_TRY;
}

void health_good(struct health *h)
{
    h->failures = 0;
    h->skipped = h->left = (struct dlc_mono){0};
    h->pause = (struct dlc_dur){0};
    h->trial = false;
}

void health_answers(struct health *h)
{
    h->failures = FAILURES_MAX - 1;
    h->skipped = h->left = (struct dlc_mono){0};
    h->trial = false;
}

void health_left(struct health *h, struct dlc_mono now)
{
    if (h->left.ns == 0)
        h->left = now;
}

bool health_bad(struct health *h, bool trial, struct dlc_mono now)
{
    h->failures++;
    if (trial)
        h->trial = false;
    else if (health_skipping(h) || h->failures < FAILURES_MAX)
        return false; /* asked before it was skipped: that says nothing new */
    h->pause = backoff_next(h->pause, PAUSE_FIRST, PAUSE_MAX);
    h->skipped = dlc_mono_add(now, h->pause);
    return true;
}

void health_neither(struct health *h, bool trial)
{
    if (trial)
        h->trial = false;
}

void health_sign(struct health *h, struct dlc_dur waited)
{
    hist_add(&h->signs, (uint64_t)DLC_MAX(waited.ns, 1));
}

struct dlc_dur health_patience(const struct health *h)
{
    int64_t p99 = (int64_t)hist_percentile(&h->signs, 0.99);

    if (h->signs.total < SIGNS_MIN)
        return h->most;
    return (struct dlc_dur){DLC_CLAMP(p99 * 4, h->least.ns, h->most.ns)};
}
