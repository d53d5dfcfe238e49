// SPDX-License-Identifier: Apache-2.0
/* Backlog: prefetch requests of a dataset that wait for their turn, a queue of sample numbers. */
#include "daemon/backlog.h"

#include "base/mem.h"
#include "daemon/budget.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/state.h"

#define BACKLOG_MAX (1u << 22)

void dataset_backlog_add(struct dataset *ds, uint64_t sample)
{
    if (ds->backlog.len == BACKLOG_MAX)
        return;                            /* it was only a hint */
    if (dlc_list_empty(&ds->backlog.link)) /* the pump removes it, not whoever takes the last one */
        dlc_list_push_tail(&ds->node->backlogs, &ds->backlog.link);
    if (ds->backlog.len == ds->backlog.cap) {
        size_t cap = ds->backlog.cap == 0 ? 1024 : ds->backlog.cap * 2;
        uint64_t *q = mem_alloc(cap * sizeof(*q));

        for (size_t i = 0; i < ds->backlog.len; i++)
            q[i] = ds->backlog.samples[(ds->backlog.head + i) & (ds->backlog.cap - 1)];
        mem_free(&ds->backlog.samples);
        ds->backlog.samples = q;
        ds->backlog.cap = cap;
        ds->backlog.head = 0;
    }
    ds->backlog.samples[(ds->backlog.head + ds->backlog.len++) & (ds->backlog.cap - 1)] = sample;
    budget_note(ds);
}

static bool backlog_pop(struct dataset *ds, uint64_t *sample)
{
    while (ds->backlog.len > 0) {
        *sample = ds->backlog.samples[ds->backlog.head];
        ds->backlog.head = (ds->backlog.head + 1) & (ds->backlog.cap - 1);
        ds->backlog.len--;
        if (!mem_index_ready(ds->index, *sample) && map_get(&ds->fetching, *sample) == NULL)
            return true;
    }
    dlc_list_remove(&ds->backlog.link);
    return false;
}

bool dataset_backlog_next(struct dataset *ds, uint64_t *sample)
{
    bool is = backlog_pop(ds, sample);

    budget_note(ds);
    return is;
}

static void backlog_clear(struct dataset *ds)
{
    ds->backlog.len = 0;
    dlc_list_remove(&ds->backlog.link);
    if (ds->tenant_memory != NULL) /* it came to be */
        budget_note(ds);
}

static void backlog_free(struct dataset *ds)
{
    mem_free(&ds->backlog.samples);
}

const struct node_events backlog_events = {.dataset_stopping = backlog_clear,
                                           .dataset_closing = backlog_clear,
                                           .dataset_freed = backlog_free};
