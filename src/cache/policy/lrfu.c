// SPDX-License-Identifier: Apache-2.0
/*
 * LRFU: recency and frequency in one number, the sum over all uses of 2^(-age / half-life). It
 * fades, but for all items alike, so that the logarithm of the sum carried back to time 0 keeps
 * their order for ever (policy_refer).
 *
 * The cost-aware kind is DLCache's, which has two rules. Its manager multiplies the sum with the
 * cost of the chunk; that is the rule here, with a power of the cost to choose (cost_factor). Its
 * published experiment compares costs only between equal sums, that is, between chunks that the
 * same jobs have used at the same times; under a clock that runs sums are hardly ever equal, and
 * the rule is plain LRFU. POLICY_COST_TIES is that rule, to repeat the experiment.
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

#define COST_LEAST 1e-12 /* what costs nothing still has an order by use */

static double cost_aware_key(const struct policy *p, const struct policy_item *it)
{
    if (it->uses == 0 || p->cost_factor < 0)
        return lrfu_key(p, it);
    return it->score + p->cost_factor * log2(fmax(it->cost, COST_LEAST));
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
    .summary = "What was used least x what it costs to bring back goes first (DLCache's own).",
    .half_life = 3600,
    .cost_factor = 1,
    .used = lrfu_used,
    .key = cost_aware_key,
    .tie = cost_tie,
};
