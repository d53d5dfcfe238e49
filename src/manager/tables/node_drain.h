// SPDX-License-Identifier: Apache-2.0
/*
 * The end of a drain. A node that drains reports with its figures how many of its copies their new
 * owners have (cluster/handover.h). When they have all, the manager writes "drained" into the
 * node's document: {"samples", "bytes", "unpacked_bytes", "at_ms"}. It stays there until the node is told to own
 * chunks again, or leaves for good: neither a restart of the node nor of the manager takes it away.
 */
#ifndef DLC_MANAGER_TABLES_NODE_DRAIN_H
#define DLC_MANAGER_TABLES_NODE_DRAIN_H

#include <stdbool.h>

#include <jansson.h>

#include "base/err.h"

struct store_doc;
struct tables;

/* A heartbeat of the node has come. figures may be NULL. */
void node_drain_heard(struct tables *t, const char *name, const json_t *figures);
/* Begin, or end, a drain: a change_f of its document; arg: const bool *. */
int node_drain_set(struct store_doc *d, void *arg, struct dlc_err *err);
/* "drained" where all copies are handed over, else `state`. */
const char *node_drain_state(const json_t *doc, const char *state);

#endif
