// SPDX-License-Identifier: Apache-2.0
/*
 * Hedging: when a read has not begun to answer after the time in which 99 of 100 do, ask a second
 * time; the first answer wins. The second answer goes into a buffer of its own (BUCKET-4), and at
 * most 5 % of reads are asked twice, so that a bucket that is slow for everybody is not asked twice
 * for everything.
 */
#include "base/counters.h"
#include "base/mem.h"
#include "bucket/bucket_i.h"

#define SHARE      0.05
#define TOKENS_MAX 10.0
#define SEEN_MIN   100 /* observations before the percentile means something */
#define LATE_MIN   DLC_MS(20)

void hedge_earn(struct lane *l)
{
    l->hedge_tokens = DLC_MIN(l->hedge_tokens + SHARE, TOKENS_MAX);
}

/* A histogram's bucket is up to an eighth wide, and most answers may lie in the same one. */
static int64_t late_after(const struct lane *l)
{
    int64_t p99 = (int64_t)hist_percentile(&l->ttfb, 0.99);

    return DLC_MAX(p99 + p99 / 8, LATE_MIN.ns);
}

static bool wants_hedge(const struct try *t)
{
    const struct op *op = t->op;

    return op->kind == ATTEMPT_GET && t == op->first && !t->hedged && t->a.first_byte.ns == 0;
}

void hedge_check(struct lane *l, struct dlc_mono now)
{
    int64_t late;

    if (l->bucket->config.no_hedge || l->ttfb.total < SEEN_MIN || l->hedge_tokens < 1)
        return;
    late = late_after(l);
    dlc_list_each (n, &l->flying) {
        struct try *t = dlc_container(n, struct try, link);
        void *buffer;

        if (dlc_mono_sub(now, t->started).ns < late || l->hedge_tokens < 1)
            return; /* the rest is younger still */
        if (!wants_hedge(t))
            continue;
        buffer = mem_try_alloc(t->op->length);
        if (buffer == NULL)
            return;
        t->hedged = true;
        l->hedge_tokens -= 1;
        bucket_count(l->bucket, hedges, bucket_hedges, 1);
        try_start(t->op, &t->op->hedge, buffer);
        t->op->hedge->buffer = buffer;
    }
}
