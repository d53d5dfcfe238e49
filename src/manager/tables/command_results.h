// SPDX-License-Identifier: Apache-2.0
/* Results of commands: those that nodes report, and listings of nodes that are gone. */
#ifndef DLC_MANAGER_TABLES_COMMAND_RESULTS_H
#define DLC_MANAGER_TABLES_COMMAND_RESULTS_H

#include <jansson.h>

#include "base/err.h"

struct tables;

/* Write the results of the commands named in `done`, then take them off the node's list
 * (COMMAND-1). */
int commands_finish(struct tables *t, const char *node, const json_t *done, struct dlc_err *err);
/* Give these listings to other nodes, if there are any: this node is gone or has left. */
void commands_hand_over(struct tables *t, const char *node, const json_t *listings);
/* Thread, about once a second: nodes that are gone. */
void commands_tick(struct tables *t);

#endif
