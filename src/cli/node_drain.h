// SPDX-License-Identifier: Apache-2.0
/* How far a node that drains has handed over its copies: in words, and waiting for the end. */
#ifndef DLC_CLI_NODE_DRAIN_H
#define DLC_CLI_NODE_DRAIN_H

#include <stddef.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"

struct api;
struct progress;

/* The state of a node as its document says, for a table: "live", "draining 40 %", "drained". */
void node_drain_short(const json_t *node, char *out, size_t len);
/* The same in a sentence. */
void node_drain_text(const json_t *node, struct buf *out);
/* Wait until the node has handed over all that it can. Gives *node as it is then, if it is drained.
 * Else *err says what is left, and why. */
int node_drain_wait(struct api *api, const char *path, struct progress *bar, json_t **node,
                    struct dlc_err *err);

#endif
