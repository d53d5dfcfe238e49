// SPDX-License-Identifier: Apache-2.0
/*
 * The clairvoyant policy (Belady): next uses are known, and the item that is needed latest is
 * evicted first. An item that is needed later than all it would evict is not admitted. Of items
 * that are never needed again the least recently used is evicted first.
 *
 * Items whose next use must be asked for again (policy_forget_use) come after these, the most
 * recent first: jobs scan, so the item that was read last is most likely needed last.
 */
#include "cache/policy/policy_i.h"

static double clairvoyant_key(const struct policy *p, const struct policy_item *it)
{
    (void)p;
    return -it->next_use;
}

static uint64_t clairvoyant_tie(const struct policy_item *it)
{
    return it->asked ? it->turn : UINT64_MAX - it->turn;
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
    .input = POLICY_NEXT_USE,
    .key = clairvoyant_key,
    .tie = clairvoyant_tie,
    .admit = clairvoyant_admit,
};
