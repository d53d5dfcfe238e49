// SPDX-License-Identifier: Apache-2.0
/*
 * Commands that wait for a node. They lie in the node's document, so that a manager that takes over
 * goes on sending them with each heart-beat until the node says that they are done, or leaves. A node
 * may get one twice, when its word that it is done was lost: they are such that this does no harm.
 *
 * (COMMAND-1) A command is taken off the list only after its result is written: a manager that dies in
 *             between hears it again from the node, and writes the same once more.
 * (COMMAND-2) A listing does not wait for a node that is gone or has left: another one gets the
 *             command (command_results.h).
 */
#ifndef DLC_MANAGER_TABLES_NODE_COMMANDS_H
#define DLC_MANAGER_TABLES_NODE_COMMANDS_H

#include <jansson.h>

#include "base/err.h"
#include "manager/store/store.h"

struct tables;

struct node_commands {
    json_t *finishing; /* G: mtx; {ID: n}: commands whose results are being written */
};

/*
 * Tell a node to do something. Takes command: {"op": "warm" | "evict" | "snapshot", "dataset": ID,
 * "tenant", ...}; "id" is added. An equal command that is not done yet is not sent twice.
 */
int command_send(struct tables *t, const char *node, json_t *command, struct dlc_err *err);
/* The same to all nodes that are not gone, or to those named in `nodes` (an array; NULL: all). */
int command_send_all(struct tables *t, const json_t *nodes, json_t *command, struct dlc_err *err);
/* Forget the commands of a dataset that are not done, but for evictions. */
int commands_withdraw(struct tables *t, const struct store_doc *dataset, struct dlc_err *err);
/* Take those named in `done`, an array of {"id", ...}, off the node's list. */
int commands_remove(struct tables *t, const char *node, const json_t *done, struct dlc_err *err);
/* Results of these are being written (more: 1), or no more (-1). An equal command that is sent
 * meanwhile is another one, although the list still has the first. */
void commands_set_finishing(struct tables *t, const json_t *done, int more);
const char *command_id(const json_t *command);
/* The commands to list a bucket that a node has not carried out. Gives. */
json_t *commands_listings(struct tables *t, const char *node);

#endif
