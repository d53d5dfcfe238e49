// SPDX-License-Identifier: Apache-2.0
/* Internals of policies, and helpers that several of them use. Private to src/cache/policy. */
#ifndef DLC_CACHE_POLICY_POLICY_I_H
#define DLC_CACHE_POLICY_POLICY_I_H

#include "base/rng.h"
#include "cache/policy/policy.h"

struct policy {
    uint32_t tag;
    const struct policy_ops *ops;
    struct heap order[2]; /* resident and not held; the second only for ops with a side() */
    struct dlc_list held; /* resident and held; the latest last */
    uint64_t own_turns;   /* uses so far */
    uint64_t *turns;      /* those, or a count that several policies share */
    double decay;         /* 1 / half-life */
    double cost_factor;
    struct rng rng;
    size_t ghosts;          /* at most */
    struct ghost_list *own; /* importance */
};

struct policy_item *policy_item_of(struct heap_node *n); /* NULL stays NULL */

/* References that count half after each half-life, as log2 of their sum carried back to time 0:
 * a number that time does not change. One more, at `now`: */
void policy_refer(const struct policy *p, struct policy_item *it, double now);

/*
 * The items that would go to free `bytes` bytes, in turn; `visit` returns false to stop. True when
 * it never did and they do free that much. The order is afterwards as it was.
 */
typedef bool policy_visit_f(struct policy *p, const struct policy_item *victim, void *priv);
bool policy_walk(struct policy *p, uint64_t bytes, double now, policy_visit_f *visit, void *priv);

#endif
