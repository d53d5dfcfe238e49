// SPDX-License-Identifier: Apache-2.0
/*
 * Moving a dataset to other nodes. A move takes effect at once: the view names the new nodes. These
 * are commanded to fetch the parts they now own; when the last of them is done (or gone), the
 * former nodes are commanded to evict theirs.
 */
#ifndef DLC_MANAGER_TABLES_DATASET_MOVE_H
#define DLC_MANAGER_TABLES_DATASET_MOVE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "manager/store/store.h"

struct tables;

struct move_request {
    const json_t *nodes;    /* names; empty: all */
    const json_t *everyone; /* all nodes present */
    bool warm;              /* something of it is cached: set by dataset_move_begin() */
    uint64_t count;
    const struct store_doc *seen; /* the document as the caller saw it; only this one is moved */
};

/* Not in the thread. Gives *out: the document after the change. */
int dataset_move_begin(struct tables *t, struct move_request *m, uint64_t expect,
                       struct store_doc *out, struct dlc_err *err);
/* A node (NULL: none) has fetched its part of a dataset that moves, or is gone. */
int dataset_move_continue(struct tables *t, const char *name, const char *node,
                          struct dlc_err *err);

#endif
