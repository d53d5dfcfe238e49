// SPDX-License-Identifier: Apache-2.0
/*
 * Prefetch budgets: limits on the work that runs ahead of readers, shared by all datasets.
 *
 * Each dataset that uses or wants some of a budget has an equal share. A dataset may borrow what
 * others do not use, except for the last quarter: a dataset whose bucket accepts requests and then
 * stalls must not keep the others from starting. A share is granted even if borrowers have spent
 * the whole budget; until they return it, up to twice the budget is in use.
 */
#include "daemon/budget.h"

#include "daemon/dataset.h"
#include "daemon/state.h"
#include "daemon/work.h"

#define FETCHES_MAX 4096
#define COUNT_EVERY DLC_MS(5)

void budget_take(struct dataset *ds, enum budget b, uint64_t amount)
{
    ds->budget.used[b] += amount;
    ds->node->used[b] += amount;
}

void budget_give(struct dataset *ds, enum budget b, uint64_t amount)
{
    dlc_check(ds->budget.used[b] >= amount && ds->node->used[b] >= amount);
    ds->budget.used[b] -= amount;
    ds->node->used[b] -= amount;
}

/* Has it something under way, or waiting? */
static bool wants_some(const struct dataset *ds)
{
    return ds->backlog.len > 0 || ds->budget.used[BUDGET_FETCHES] > 0 || ds->budget.n_warms > 0;
}

void budget_count(struct node *n)
{
    struct dlc_mono now = loop_now(n->loop);

    if (dlc_mono_sub(now, n->shared_at).ns < COUNT_EVERY.ns)
        return; /* each fetch that ends asks */
    n->shared_at = now;
    n->n_sharing = 0;
    dlc_list_each (l, &n->datasets)
        n->n_sharing += wants_some(dlc_container(l, struct dataset, link));
}

static bool fits(const struct dataset *ds, enum budget b, uint64_t limit)
{
    uint64_t all = ds->node->used[b], own = ds->budget.used[b];
    uint64_t share = limit / DLC_MAX(ds->node->n_sharing, 1u);

    if (own == 0)
        return true;
    if (own < share)
        return all < 2 * limit;
    return ds->node->n_sharing > 1 ? all < limit / 4 * 3 : all < limit;
}

bool budget_for_prefetch(const struct dataset *ds)
{
    uint64_t ceiling = memory_ceiling(dataset_memory(ds));

    return fits(ds, BUDGET_FETCHES, FETCHES_MAX) && fits(ds, BUDGET_FILLING, ceiling / 4) &&
           fits(ds, BUDGET_STORING, DLC_MIN(ceiling / 4, work_bytes(WORK_STORE)) / 2);
}

bool budget_for_store(const struct dataset *ds, uint64_t bytes)
{
    uint64_t limit = DLC_MIN(memory_ceiling(dataset_memory(ds)) / 4, work_bytes(WORK_STORE));

    return fits(ds, BUDGET_STORING, limit) && ds->node->used[BUDGET_STORING] + bytes <= 2 * limit;
}
