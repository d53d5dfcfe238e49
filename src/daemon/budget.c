// SPDX-License-Identifier: Apache-2.0
/*
 * Prefetch budgets: limits on the work that runs ahead of readers, shared by all datasets; that of
 * memory, by the datasets of a tenant, since they fill the same.
 *
 * Each dataset that uses or wants some of a budget has an equal share. A dataset may borrow what
 * others do not use, except for the last quarter: a dataset whose bucket accepts requests and then
 * stalls must not keep the others from starting. A share is granted even if borrowers have spent
 * the whole budget; until they return it, up to twice the budget is in use.
 */
#include "daemon/budget.h"

#include "catalog/catalog.h"
#include "daemon/dataset.h"
#include "daemon/state.h"
#include "daemon/work.h"

#define FETCHES_MAX 4096
#define FULL_FOR    DLC_MS(20)

/* By all that share it. */
static uint64_t *used_of(const struct dataset *ds, enum budget b)
{
    return b == BUDGET_FILLING ? &ds->tenant_memory->filling : &ds->node->used[b];
}

/* Has it something under way, or waiting? */
static bool wants_some(const struct dataset *ds)
{
    return ds->backlog.len > 0 || ds->budget.used[BUDGET_FETCHES] > 0 || ds->budget.n_warms > 0;
}

void budget_note(struct dataset *ds)
{
    bool wants = wants_some(ds);

    if (wants == ds->budget.shares)
        return;
    ds->budget.shares = wants;
    ds->node->n_sharing += wants ? 1u : -1u;
    ds->tenant_memory->n_sharing += wants ? 1u : -1u;
}

void budget_take(struct dataset *ds, enum budget b, uint64_t amount)
{
    ds->budget.used[b] += amount;
    *used_of(ds, b) += amount;
    budget_note(ds);
}

void budget_give(struct dataset *ds, enum budget b, uint64_t amount)
{
    dlc_check(ds->budget.used[b] >= amount && *used_of(ds, b) >= amount);
    ds->budget.used[b] -= amount;
    *used_of(ds, b) -= amount;
    budget_note(ds);
}

void budget_warm(struct dataset *ds, int more)
{
    ds->budget.n_warms += (unsigned)more;
    budget_note(ds);
}

static bool fits(const struct dataset *ds, enum budget b, uint64_t limit)
{
    unsigned sharing = b == BUDGET_FILLING ? ds->tenant_memory->n_sharing : ds->node->n_sharing;
    uint64_t all = *used_of(ds, b), own = ds->budget.used[b];
    uint64_t share = limit / DLC_MAX(sharing, 1u);

    if (own == 0)
        return true;
    if (own < share)
        return all < 2 * limit;
    return sharing > 1 ? all < limit / 4 * 3 : all < limit;
}

void budget_memory_full(struct dataset *ds)
{
    ds->tenant_memory->full_until = dlc_mono_add(loop_now(ds->node->loop), FULL_FOR);
}

bool budget_for_prefetch(const struct dataset *ds)
{
    uint64_t ceiling = memory_usable(dataset_memory(ds)), all = ds->node->memories.ceiling;

    return loop_now(ds->node->loop).ns >= ds->tenant_memory->full_until.ns &&
           fits(ds, BUDGET_FETCHES, FETCHES_MAX) && fits(ds, BUDGET_FILLING, ceiling / 4) &&
           fits(ds, BUDGET_STORING, DLC_MIN(all / 4, work_bytes(WORK_STORE)) / 2);
}

bool budget_for_store(const struct dataset *ds, uint64_t bytes)
{
    uint64_t limit = DLC_MIN(ds->node->memories.ceiling / 4, work_bytes(WORK_STORE));

    return fits(ds, BUDGET_STORING, limit) && ds->node->used[BUDGET_STORING] + bytes <= 2 * limit;
}
