// SPDX-License-Identifier: Apache-2.0
/*
 * Spread: which share of a dataset's bytes each node gets (docs/design/0023-locality.md). Pure.
 *
 * The homes of a dataset, the nodes that its jobs run on, are filled first, by their weights. What
 * does not fit there goes to the others, by the room that they have. Without homes all are filled by
 * their weights. A dataset that does not fit at all is spread as if there was room for it.
 */
#ifndef DLC_MANAGER_TABLES_SPREAD_H
#define DLC_MANAGER_TABLES_SPREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spread_node {
    bool live, home;
    double weight; /* its part where nothing else counts: view_weight() */
    uint64_t room; /* bytes that it could have of the dataset */
    double share;  /* in: now; out of spread_compute(): what it is to be. All make 1 */
};

/* bytes 0: not known; then it fits. */
void spread_compute(struct spread_node *nodes, size_t n, uint64_t bytes);
/* Bytes of the shares that find no room. */
uint64_t spread_excess(const struct spread_node *nodes, size_t n, uint64_t bytes);

#endif
