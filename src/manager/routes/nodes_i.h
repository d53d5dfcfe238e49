// SPDX-License-Identifier: Apache-2.0
/*
 * The leader's table of nodes, between node_table.c, nodes.c, heartbeat.c, node_commands.c and
 * cluster_view.c.
 *
 * A document of kind STORE_NODE: {"address", "capacity", "memory", "gpus", "state": "joining" |
 * "live" | "gone", "drain", "rejoin", "joined_ms", "commands": [...], "instance", "directory"}. It is
 * written when one of these changes, not with each heart-beat; what a heart-beat brings (figures,
 * progress, when it came) lives in memory only.
 */
#ifndef DLC_MANAGER_ROUTES_NODES_I_H
#define DLC_MANAGER_ROUTES_NODES_I_H

#include "manager/manager_i.h"
#include "manager/shared_json_i.h"

struct live_node {
    char name[NAME_MAX_LEN + 1];
    uint64_t version;      /* of the document that the next four are from */
    json_t *doc;           /* its body; never changed: replaced */
    enum node_state state; /* NODE_DRAINING is not here but in `drain` */
    bool drain;
    struct dlc_mono heard;
    struct dlc_mono gone; /* since when, if it fell silent under us; 0: it did not */
    bool forgiven;        /* gone in the store only */
    struct shared_json *figures, *progress; /* of its last heart-beat that had them */
};

struct live_node *nodes_find_locked(struct control *c, const char *name); /* NULL: not known */
/* What the document says, unless a newer one was seen. Heard: as if it had just sent a heart-beat.
 */
void nodes_remember(struct control *c, const struct store_doc *d, bool heard);
void nodes_forget(struct control *c, const char *name);
enum node_state live_state(const struct live_node *n); /* with NODE_DRAINING */
/* Write "state" into the document. Errors are logged: memory counts, and it is tried at the next
 * change.
 */
void nodes_write_state(struct control *c, const char *name, enum node_state s);
/* Is the process that joined with this number the one that has the name? Also when nobody has it,
 * or whoever has it never said a number. */
bool nodes_is_holder(struct control *c, const char *name, const char *instance);
/* 409. holder: the address of who has the name; "": not to be said. */
void nodes_refuse_name(struct control *c, const char *name, const char *holder,
                       struct http_reply *reply);
/* Answer a node with `answer`, an object that is taken, and "commands", "interval_ms", and "view"
 * when there is another than `has` and it names the node. version: as in reply_doc(). */
void nodes_reply(struct control *c, const char *name, uint64_t has, json_t *answer, int status,
                 uint64_t version, struct http_reply *reply);
/* The first that is heard after nobody was: those who fell silent with it are live as well, until
 * they are silent for longer. */
void nodes_forgive_locked(struct control *c, const struct live_node *first);

http_handler_f node_heartbeat; /* heartbeat.c */
/* node_commands.c: write what came of the commands named in `done`, then take them off the node's
 * list. */
int commands_finish(struct control *c, const char *node, const json_t *done, struct dlc_err *err);
/* node_commands.c: the commands to list a bucket that a node has not carried out, and: have them
 * carried out by others, where there are any, since this one is gone or has left. Gives. */
json_t *commands_listings(struct control *c, const char *node);
void commands_hand_over(struct control *c, const char *node, const json_t *listings);

#endif
