// SPDX-License-Identifier: Apache-2.0
/*
 * Placement: on which nodes a dataset goes, by DLCache's rule. Pure.
 *
 *     weight = I + (k + alpha (D - K)) / D
 *
 *     I      1 if the node has the GPUs asked for, else 0
 *     k, K   bytes of the dataset on this node, and on all usable nodes
 *     D      bytes of the dataset
 *     alpha  free space of this node / free space of all usable nodes
 */
#ifndef DLC_MANAGER_TABLES_PLACEMENT_H
#define DLC_MANAGER_TABLES_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct place_node {
    bool usable; /* alive, not draining */
    unsigned gpus_free;
    uint64_t cached; /* bytes of this dataset on it */
    uint64_t free;   /* space for chunks, with what may be evicted */
    double weight;   /* out */
};

struct place_ask {
    uint64_t bytes; /* of the dataset's splits */
    unsigned gpus;
    unsigned nodes;  /* how many are wanted; 0: as few as hold it */
    const char *job; /* whose own GPUs count as free; NULL: none */
};

/* Fills weights. Returns the number of nodes chosen, their indices in out[] (best first), or 0 when
 * they cannot hold it. out has room for n. */
size_t place(struct place_node *nodes, size_t n, const struct place_ask *ask, size_t *out);

#endif
