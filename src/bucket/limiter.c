// SPDX-License-Identifier: Apache-2.0
#include "bucket/limiter_i.h"

#include <string.h>

#include "base/check.h"

#define BLIND_LIMIT   64
#define START_MIN     32
#define START_MAX     512
#define FLOOR         16  /* hill climbing goes no lower */
#define FLOOR_CUT     8   /* throttling does */
#define ASSUMED_LINK  1e9 /* bytes per second ... */
#define ASSUMED_RATE  2e4 /* ... or requests per second, whichever is less */
#define WINDOW_MIN_NS 50000000
#define WINDOW_MIN_N  16
#define LOW_PERIOD_NS 10000000000
#define HOLD_MAX      16

#define RISE       1.20 /* START: goodput must rise by this to double again */
#define GAIN       1.05 /* STEADY: by this to keep a step up ... */
#define GAIN_QUEUE 1.10 /* ... when requests wait in line anyway */
#define LOSS       0.97 /* ... and may fall to this after a step down */
#define FADE       0.99
#define QUEUEING   1.5 /* median over lowest latency */
#define CUT        0.7
#define CUT_SAMPLE 32 /* answers before throttling is believed ... */
#define CUT_SHARE  16 /* ... to be more than a stray: one in so many */

/* The constants are for all lanes together. */
static double floor_of(const struct limiter *l, double all)
{
    return DLC_MIN(DLC_MAX(all / l->lanes, 1.0), (double)l->max);
}

static double bounded(const struct limiter *l, double limit)
{
    return DLC_CLAMP(limit, floor_of(l, FLOOR), (double)l->max);
}

void limiter_init(struct limiter *l, unsigned max, unsigned lanes)
{
    memset(l, 0, sizeof(*l));
    hist_init(&l->latencies, UINT32_MAX);
    l->max = DLC_MAX(max, 1u);
    l->lanes = lanes;
    l->limit = bounded(l, (double)BLIND_LIMIT / lanes);
    l->hold = 1;
}

/* Little's law: what keeps the assumed link busy for one latency. */
static double little(const struct limiter *l, struct dlc_dur latency)
{
    double rate = DLC_MIN(ASSUMED_LINK / (double)DLC_MAX(l->mean, 1u), ASSUMED_RATE);
    double n = l->mean == 0 ? BLIND_LIMIT : dlc_dur_seconds(latency) * rate;

    return bounded(l, DLC_CLAMP(n, START_MIN, START_MAX) / l->lanes);
}

unsigned limiter_allows(const struct limiter *l, struct dlc_mono now)
{
    double limit = l->limit;

    if (l->phase == LIMITER_BLIND && l->first_sent.ns != 0 && l->mean != 0)
        limit = DLC_MAX(limit, little(l, dlc_mono_sub(now, l->first_sent)));
    return (unsigned)limit;
}

void limiter_sent(struct limiter *l, struct dlc_mono now)
{
    if (l->first_sent.ns == 0)
        l->first_sent = now;
}

/* Until the first window ends, the limit follows what is known. */
static void guess(struct limiter *l)
{
    if (l->phase == LIMITER_START && l->best == 0)
        l->limit = little(l, l->ttfb);
}

void limiter_hint(struct limiter *l, uint64_t mean_bytes)
{
    if (l->mean == mean_bytes)
        return;
    l->mean = mean_bytes;
    guess(l);
}

void limiter_began(struct limiter *l, struct dlc_dur ttfb)
{
    if (l->ttfb.ns == 0 || ttfb.ns < l->ttfb.ns)
        l->ttfb.ns = DLC_MAX(ttfb.ns, (int64_t)1);
    if (l->phase == LIMITER_BLIND)
        l->phase = LIMITER_START;
    guess(l);
}

static void window_restart(struct limiter *l, struct dlc_mono from)
{
    l->from = from;
    l->bytes = 0;
    l->n = 0;
    l->slack = false;
    hist_init(&l->latencies, UINT32_MAX);
}

/* A new limit shows its effect only when what was sent under the old one has come back. */
static void set_limit(struct limiter *l, double limit, struct dlc_mono now)
{
    l->limit = limit;
    window_restart(l, dlc_mono_add(now, l->median));
}

static struct dlc_dur lowest(const struct limiter *l)
{
    return l->low.ns == 0 || (l->low_newer.ns != 0 && l->low_newer.ns < l->low.ns) ? l->low_newer
                                                                                   : l->low;
}

static void note_latency(struct limiter *l, struct dlc_mono now, struct dlc_dur latency)
{
    if (dlc_mono_sub(now, l->low_since).ns > LOW_PERIOD_NS) {
        l->low = l->low_newer;
        l->low_newer.ns = 0;
        l->low_since = now;
    }
    if (l->low_newer.ns == 0 || latency.ns < l->low_newer.ns)
        l->low_newer.ns = DLC_MAX(latency.ns, (int64_t)1);
}

static bool queueing(const struct limiter *l)
{
    return (double)l->median.ns > QUEUEING * (double)lowest(l).ns;
}

static void steady(struct limiter *l)
{
    l->phase = LIMITER_STEADY;
    l->step = 0;
    l->hold = 1;
    l->held = 0;
    l->up_next = false;
}

static void end_start(struct limiter *l, struct dlc_mono now, double goodput)
{
    bool first = l->best == 0, rises = goodput >= RISE * l->best;

    if (!first && !rises) {
        l->best = DLC_MAX(l->best, goodput);
        steady(l);
        set_limit(l, l->base, now);
        return;
    }
    l->best = goodput;
    l->base = l->limit;
    if (queueing(l) || l->limit >= l->max) {
        steady(l);
        window_restart(l, now);
        return;
    }
    set_limit(l, bounded(l, 2 * l->limit), now);
}

static void try_step(struct limiter *l, struct dlc_mono now, double goodput, int step)
{
    double limit = bounded(l, step > 0 ? 1.25 * l->limit + 1 : 0.8 * l->limit);

    l->base = l->limit;
    l->base_goodput = goodput;
    if (limit == l->limit) {
        l->step = 0;
        window_restart(l, now);
        return;
    }
    l->step = step;
    set_limit(l, limit, now);
}

/* The window after a step: keep it and go on, or take it back and rest. */
static void judge_step(struct limiter *l, struct dlc_mono now, double goodput)
{
    double gain = queueing(l) ? GAIN_QUEUE : GAIN;
    bool good = l->step > 0 ? goodput >= gain * l->base_goodput : goodput >= LOSS * l->best;

    l->best = DLC_MAX(l->best, goodput);
    if (good && (l->step > 0 || queueing(l))) {
        l->hold = 1;
        try_step(l, now, goodput, l->step);
        return;
    }
    l->hold = good ? 1 : DLC_MIN(2 * l->hold, HOLD_MAX);
    l->held = 0;
    l->up_next = !good && l->step < 0;
    l->step = 0;
    if (good)
        window_restart(l, now);
    else
        set_limit(l, l->base, now);
}

static void end_steady(struct limiter *l, struct dlc_mono now, double goodput)
{
    if (l->limit <= floor_of(l, FLOOR_CUT) && l->max > l->limit) { /* throttling is over */
        l->phase = LIMITER_START;
        l->best = l->base = 0;
        end_start(l, now, goodput);
        return;
    }
    if (l->step != 0) {
        judge_step(l, now, goodput);
        return;
    }
    l->best = DLC_MAX(FADE * l->best, goodput);
    if (++l->held < l->hold) {
        window_restart(l, now);
        return;
    }
    l->held = 0;
    try_step(l, now, goodput, queueing(l) && !l->up_next ? -1 : 1);
    l->up_next = false;
}

static void window_end(struct limiter *l, struct dlc_mono now)
{
    double goodput = (double)l->bytes / dlc_dur_seconds(dlc_mono_sub(now, l->from));

    l->median.ns = (int64_t)hist_percentile(&l->latencies, 0.5);
    l->answers = l->throttled = 0;
    if (l->slack)
        window_restart(l, now);
    else if (l->phase == LIMITER_STEADY)
        end_steady(l, now, goodput);
    else
        end_start(l, now, goodput);
}

void limiter_answered(struct limiter *l, struct dlc_mono now, struct dlc_dur latency,
                      uint64_t bytes)
{
    int64_t span = DLC_MAX(l->median.ns == 0 ? latency.ns : l->median.ns, (int64_t)WINDOW_MIN_NS);

    note_latency(l, now, latency);
    l->answers++;
    if (l->from.ns == 0) {
        window_restart(l, now);
        return;
    }
    if (now.ns < l->from.ns)
        return;
    l->bytes += bytes;
    l->n++;
    hist_add(&l->latencies, (uint64_t)latency.ns);
    if (l->n >= WINDOW_MIN_N && dlc_mono_sub(now, l->from).ns >= span)
        window_end(l, now);
}

void limiter_throttled(struct limiter *l, struct dlc_mono now)
{
    int64_t pause = DLC_MAX(2 * l->median.ns, (int64_t)WINDOW_MIN_NS);

    l->answers++;
    l->throttled++;
    if (l->answers < CUT_SAMPLE || l->throttled * CUT_SHARE <= l->answers ||
        now.ns < l->no_cut_before.ns)
        return;
    l->answers = l->throttled = 0;
    l->no_cut_before.ns = now.ns + pause;
    steady(l);
    set_limit(l, DLC_MAX(CUT * l->limit, floor_of(l, FLOOR_CUT)), now);
}

void limiter_slack(struct limiter *l)
{
    l->slack = true;
}
