// SPDX-License-Identifier: Apache-2.0
/*
 * Which datasets may have an object of a place: an index over all that are ready, for
 * same_object.c. A miss looks at few of them, however many are open.
 */
#ifndef DLC_DAEMON_FETCH_OBJECT_INDEX_H
#define DLC_DAEMON_FETCH_OBJECT_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/u64map.h"

struct dataset;
struct node_events;

/* Of a node. */
struct object_index {
    struct map places; /* hash of dataset.disk.id -> struct object_place */
    struct map groups; /* hash of a place and the beginning of keys -> struct object_group */
};

/* Of a dataset. */
struct object_entry {
    struct dlc_list link; /* in object_group.all */
    bool indexed;
    unsigned len; /* all its keys begin with the same `len` bytes ... */
    uint64_t of;  /* ... and this is the hash of those, and of the place */
};

/* The first dataset at the place of `ds`, the newest first, of which has() is true; NULL: none of
 * those that were looked at. Each look is counted: same_object_looks. */
struct dataset *object_index_find(const struct dataset *ds, const char *key,
                                  bool (*has)(struct dataset *of, void *arg), void *arg);

extern const struct node_events object_index_events;

#endif
