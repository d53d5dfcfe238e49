// SPDX-License-Identifier: Apache-2.0
/*
 * Next use known: what is needed latest goes first (Belady). What is itself needed later than all
 * it would push out is not kept. Of those that are never needed again the least recent goes first.
 */
#include "storage/policy/policy_i.h"

static double clairvoyant_key(const struct policy *p, const struct policy_item *it)
{
    (void)p;
    return -it->next_use;
}

static bool needed_later(struct policy *p, const struct policy_item *victim, void *priv)
{
    const double *next_use = priv;

    (void)p;
    return victim->next_use > *next_use;
}

static bool clairvoyant_admit(struct policy *p, const struct policy_item *it, uint64_t bytes,
                              double now)
{
    double next_use = it->next_use;

    return policy_walk(p, bytes, now, needed_later, &next_use);
}

const struct policy_ops policy_clairvoyant = {
    .name = "clairvoyant",
    .summary = "The next use of everything is known: what is needed latest goes first.",
    .key = clairvoyant_key,
    .admit = clairvoyant_admit,
};
