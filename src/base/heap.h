// SPDX-License-Identifier: Apache-2.0
/*
 * Intrusive min-heap. A node remembers its place, so that any node can be removed or re-keyed in
 * O(log n). Keys are compared by (key, seq): equal keys leave in the order they came, or in that of
 * the ties they were given. A heap uses ties for all its nodes or for none.
 *
 * A place has four below it, and holds the key beside the node: with millions of nodes each level
 * is then one or two lines of memory that are not in the cache, and there are half as many levels
 * as in a binary heap. The nodes on the way are written to, but never waited for.
 */
#ifndef DLC_BASE_HEAP_H
#define DLC_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    double key;
    size_t at; /* place + 1; 0: in no heap */
};

struct heap_place {
    double key;
    uint64_t seq;
    struct heap_node *node;
};

struct heap {
    struct heap_place *places;
    size_t n, cap;
    uint64_t seq;
};

#define HEAP_INIT                                                                                  \
    {                                                                                              \
        NULL, 0, 0, 0                                                                              \
    }

void heap_push(struct heap *h, struct heap_node *n, double key);
void heap_update(struct heap *h, struct heap_node *n, double key);
void heap_push_tied(struct heap *h, struct heap_node *n, double key, uint64_t tie);
void heap_update_tied(struct heap *h, struct heap_node *n, double key, uint64_t tie);
void heap_remove(struct heap *h, struct heap_node *n); /* no-op when in no heap */
struct heap_node *heap_top(const struct heap *h);      /* NULL when empty */
struct heap_node *heap_pop(struct heap *h);            /* NULL when empty */
void heap_release(struct heap *h);

static inline bool heap_has(const struct heap_node *n)
{
    return n->at != 0;
}

#endif
