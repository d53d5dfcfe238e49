// SPDX-License-Identifier: Apache-2.0
/* The table of all policies. Owners that know which one they want do not need it. */
#include <string.h>

#include "cache/policy/policy.h"

const struct policy_ops *const policies[] = {
    &policy_lru,         &policy_lfu,
    &policy_lrfu,        &policy_random,
    &policy_greedy,      &policy_cost_aware_lrfu,
    &policy_clairvoyant, &policy_importance,
    &policy_worth,       NULL,
};

const struct policy_ops *policy_find(const char *name)
{
    for (const struct policy_ops *const *o = policies; *o != NULL; o++)
        if (strcmp((*o)->name, name) == 0)
            return *o;
    return NULL;
}
