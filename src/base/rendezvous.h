// SPDX-License-Identifier: Apache-2.0
/*
 * Owner of a chunk: weighted rendezvous hashing. Pure. Every node computes the same owner from the
 * same view, in whatever order the view lists the nodes.
 *
 * (RENDEZVOUS-1) Shares are proportional to weights.
 * (RENDEZVOUS-2) A node that joins, leaves or changes its weight moves only chunks from or to
 *                itself.
 */
#ifndef DLC_BASE_RENDEZVOUS_H
#define DLC_BASE_RENDEZVOUS_H

#include <stddef.h>
#include <stdint.h>

struct owner_node {
    uint64_t id;   /* hash of its name: owner_id() */
    double weight; /* <= 0: owns nothing */
};

uint64_t owner_id(const char *name);
/* Index into nodes, or -1 when none has weight. chunk: hash of dataset and object key. */
int owner_of(const struct owner_node *nodes, size_t n, uint64_t chunk);
/* The k best in order, for those who skip a dead one. Returns how many. */
size_t owner_rank(const struct owner_node *nodes, size_t n, uint64_t chunk, int *out, size_t k);

#endif
