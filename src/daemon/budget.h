// SPDX-License-Identifier: Apache-2.0
/* Prefetch budgets: limits on the work that runs ahead of readers, shared by all datasets. */
#ifndef DLC_DAEMON_BUDGET_H
#define DLC_DAEMON_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct dataset;
struct node;

enum budget {
    BUDGET_FETCHES, /* fetches in progress */
    BUDGET_FILLING, /* bytes of its tenant's memory that fetches have reserved */
    BUDGET_STORING, /* bytes of memory held while samples are written to disk */
};
#define N_BUDGETS 3

struct budget_use {
    uint64_t used[N_BUDGETS];
    unsigned n_warms; /* warm-ups of it */
    bool shares;      /* uses or wants some, and is counted among those that share */
};

void budget_take(struct dataset *ds, enum budget b, uint64_t amount);
void budget_give(struct dataset *ds, enum budget b, uint64_t amount);
void budget_warm(struct dataset *ds, int more); /* a warm-up of it begins (1) or ends (-1) */
void budget_note(struct dataset *ds);           /* its backlog has changed */
/* All memory of its tenant is pinned or being filled: no prefetch tries again for a while, since
 * finding that out takes a look at every pin. */
void budget_memory_full(struct dataset *ds);
/* May this dataset start another prefetch? Demand misses do not ask. */
bool budget_for_prefetch(const struct dataset *ds);
/* May this many more bytes of the dataset wait to be written to disk? */
bool budget_for_store(const struct dataset *ds, uint64_t bytes);

#endif
