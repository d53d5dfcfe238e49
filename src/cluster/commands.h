// SPDX-License-Identifier: Apache-2.0
/* Executes the commands that the manager sends to this node: warm, evict, snapshot. */
#ifndef DLC_CLUSTER_COMMANDS_H
#define DLC_CLUSTER_COMMANDS_H

#include <jansson.h>

struct node;

void commands_take(struct node *n, const json_t *messages);  /* starts the new ones */
json_t *commands_done(struct node *n);                       /* for the heartbeat. Gives */
void commands_confirmed(struct node *n, const json_t *done); /* the manager has confirmed these */
void commands_go_on(struct node *n); /* the last copy of a dataset that was being taken has come */
void commands_free(struct node *n);

#endif
