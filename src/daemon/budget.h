// SPDX-License-Identifier: Apache-2.0
/* Budgets of what runs ahead of readers, shared by datasets. */
#ifndef DLC_DAEMON_BUDGET_H
#define DLC_DAEMON_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct dataset;
struct node;

enum budget {
    BUDGET_FETCHES, /* under way */
    BUDGET_FILLING, /* bytes of memory reserved by them */
    BUDGET_STORING, /* bytes of memory held while they are written to disk */
};
#define N_BUDGETS 3

struct budget_use {
    uint64_t used[N_BUDGETS];
    unsigned n_warms; /* warm-ups of it */
};

void budget_take(struct dataset *ds, enum budget b, uint64_t amount);
void budget_give(struct dataset *ds, enum budget b, uint64_t amount);
void budget_count(struct node *n); /* who shares; before a round of prefetches */
/* May another prefetch of it start? Demand misses never ask. */
bool budget_for_prefetch(const struct dataset *ds);
/* May so many more bytes of it wait for the disk? */
bool budget_for_store(const struct dataset *ds, uint64_t bytes);

#endif
