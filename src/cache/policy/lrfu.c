// SPDX-License-Identifier: Apache-2.0
/*
 * LRFU: recency and frequency in one number, the sum over all uses of 2^(-age / half-life). It
 * fades, but for all items alike, so that the logarithm of the sum carried back to time 0 keeps
 * their order for ever (policy_refer). The cost-aware kind is DLCache's: cost decides between equal
 * numbers only, that is, between what the same jobs have used at the same times.
 *
 * The past of an item outlives its eviction, as long as its record does.
 */
#include <math.h>
#include <string.h>

#include "cache/policy/policy_i.h"

static void lrfu_used(struct policy *p, struct policy_item *it, double now)
{
    policy_refer(p, it, now);
}

static double lrfu_key(const struct policy *p, const struct policy_item *it)
{
    (void)p;
    return it->uses > 0 ? it->score : -INFINITY;
}

/* The bits of a number that is not negative are in its order. */
static uint64_t cost_tie(const struct policy_item *it)
{
    double cost = fmax(it->cost, 0);
    uint64_t bits;

    memcpy(&bits, &cost, sizeof(bits));
    return bits;
}

const struct policy_ops policy_lrfu = {
    .name = "lrfu",
    .summary = "What was used least, recent uses counting more, goes first.",
    .half_life = 3600,
    .by_arrival = true,
    .used = lrfu_used,
    .key = lrfu_key,
};

const struct policy_ops policy_cost_aware_lrfu = {
    .name = "cost-aware-lrfu",
    .summary = "As lrfu; of those used alike the cheapest goes first (DLCache's own).",
    .half_life = 3600,
    .used = lrfu_used,
    .key = lrfu_key,
    .tie = cost_tie,
};
