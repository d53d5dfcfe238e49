// SPDX-License-Identifier: Apache-2.0
/*
 * Pending commands of nodes. They lie in the node's document, so that a new leader continues to
 * send them with each heartbeat until the node reports them done, or leaves. A node may get a
 * command twice, if its report was lost: commands are idempotent.
 *
 * (COMMAND-1) A command is removed from the list only after its result is written: if a manager
 *             dies in between, the node reports the result again to the next one, which writes the
 *             same again.
 * (COMMAND-2) A listing does not wait for a node that is gone or has left: another node gets the
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
 * Send a command to a node. Takes command: {"op": "warm" | "evict" | "snapshot", "dataset": ID,
 * "tenant", ...}; "id" is added. An equal command that is not done yet is not sent twice.
 */
int command_send(struct tables *t, const char *node, json_t *command, struct dlc_err *err);
/* The same to all nodes that are not gone, or to those named in `nodes` (an array; NULL: all). */
int command_send_all(struct tables *t, const json_t *nodes, json_t *command, struct dlc_err *err);
/* Remove the pending commands of a dataset, except evictions. */
int commands_withdraw(struct tables *t, const struct store_doc *dataset, struct dlc_err *err);
/* Remove those named in `done`, an array of {"id", ...}, from the node's list. */
int commands_remove(struct tables *t, const char *node, const json_t *done, struct dlc_err *err);
/* Results of these are being written (more: 1), or no more (-1). An equal command sent meanwhile is
 * a new one, although the list still has the first. */
void commands_set_finishing(struct tables *t, const json_t *done, int more);
const char *command_id(const json_t *command);
/* The pending listing commands of a node. Gives. */
json_t *commands_listings(struct tables *t, const char *node);

#endif
