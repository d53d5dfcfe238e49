// SPDX-License-Identifier: Apache-2.0
/* The policies of one line each: lru, lfu, random, and greedy by cost. */
#include "cache/policy/policy_i.h"

static double no_key(const struct policy *p, const struct policy_item *it)
{
    (void)p;
    (void)it;
    return 0;
}

const struct policy_ops policy_lru = {
    .name = "lru",
    .summary = "What was used longest ago goes first.",
    .key = no_key,
};

/* Frequency since it came: what went and comes back begins again. */
static void lfu_used(struct policy *p, struct policy_item *it, double now)
{
    (void)p;
    (void)now;
    if (!it->resident)
        it->uses = 1;
}

static double lfu_key(const struct policy *p, const struct policy_item *it)
{
    (void)p;
    return it->uses;
}

const struct policy_ops policy_lfu = {
    .name = "lfu",
    .summary = "What was used least often since it came goes first.",
    .used = lfu_used,
    .key = lfu_key,
};

static struct policy_item *random_least(struct policy *p, double now)
{
    struct policy_item *it = NULL;

    (void)now;
    policy_some(p, &it, 1);
    return it;
}

const struct policy_ops policy_random = {
    .name = "random",
    .summary = "Anything may go.",
    .key = no_key,
    .least = random_least,
};

static double greedy_key(const struct policy *p, const struct policy_item *it)
{
    (void)p;
    return it->cost;
}

const struct policy_ops policy_greedy = {
    .name = "greedy",
    .summary = "What costs least to bring back goes first (DLCache's greedy).",
    .by_arrival = true,
    .key = greedy_key,
};
