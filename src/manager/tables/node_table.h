// SPDX-License-Identifier: Apache-2.0
/*
 * Node membership: which nodes are alive, and their last reports. Only the leader has it.
 *
 *     JOINING --heartbeat--> LIVE --silent for node_ttl--> GONE --heartbeat--> LIVE
 *     JOINING --silent for node_ttl--> GONE
 *     LIVE shows as DRAINING while it is told to drain
 *     LIVE --says goodbye, has copies on a disk--> AWAY, for NODES_AWAY_FOR, unless it is back
 *
 * AWAY is not a state of a document: the node is forgotten, as one that leaves for good. Only the
 * view names it for a while: it may be restarted, and the others then wait for it rather than read
 * its share from the bucket (docs/design/0006-cluster.md).
 *
 * A document of kind STORE_NODE: {"address", "capacity", "memory", "gpus", "state": "joining" |
 * "live" | "gone", "drain", "drained" (node_drain.h), "rejoin", "joined_ms", "commands": [...],
 * "instance", "directory"}. A node that says goodbye while it drains stays as one that is gone, so
 * that it goes on to drain when it is back; another one is forgotten. The document is written when one of these changes, not with each heartbeat; what a heartbeat brings (figures,
 * progress, when it came) lives in memory only.
 *
 * Silence is counted on this manager's monotonic clock from the arrival of heartbeats: the clocks
 * of nodes do not matter. A manager that begins to lead gives every node a full node_ttl. So does
 * one that has heard from no node at all, when the first heartbeat arrives: it was cut off itself.
 */
#ifndef DLC_MANAGER_TABLES_NODE_TABLE_H
#define DLC_MANAGER_TABLES_NODE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "manager/store/store.h"
#include "manager/tables/shared_json.h"

struct tables;
struct live_node;
struct away_node;

#define NODES_AWAY_FOR DLC_SEC(30)

struct node_table {
    struct live_node **list; /* G: mtx; sorted by name */
    size_t n, cap;
    struct away_node *away; /* G: mtx; those that said goodbye lately */
    size_t n_away, cap_away;
    struct dlc_mono ask_until; /* G: mtx; who joins before is asked for its records too */
};

enum node_state { NODE_JOINING, NODE_LIVE, NODE_DRAINING, NODE_GONE, NODE_AWAY };
const char *node_state_name(enum node_state s);

/* The leader's knowledge of a node. All of it is a copy, except figures and progress: read those,
 * and copy what is passed on (shared_json.h). */
struct node_info {
    char name[NAME_MAX_LEN + 1];
    char address[256];
    enum node_state state;
    uint64_t capacity, memory; /* bytes for chunks, and of memory */
    unsigned gpus;
    bool disk;             /* it has a disk tier, as its last heartbeat said */
    struct dlc_dur silent; /* since its last heartbeat */
    json_t *figures;       /* as its last heartbeat said: {"disk_used", "memory_used", "gpus_free",
                            * "datasets": {ID: {"bytes", ...}}, "spent": {...}, ...}; NULL: none yet
                            */
    json_t *progress;      /* {DATASET: {"phase", "done", "total", "bytes"}}; NULL: none */
    struct shared_json *holds[2]; /* own the two above; NULL: none */
    size_t commands;              /* not done yet */
};

/* All known nodes by name. Gives *out; return it with nodes_release(). */
size_t nodes_list(struct tables *t, struct node_info **out);
/* The same, with those that are away. */
size_t nodes_of_view(struct tables *t, struct node_info **out);
void nodes_release(struct node_info **out, size_t n);
/* One of them; false: not known. Gives *out; return it with node_info_release(). */
bool nodes_get(struct tables *t, const char *name, struct node_info *out);
void node_info_release(struct node_info *info);
/* Names of the nodes that are live or draining and in `only` (NULL: all). Gives. */
json_t *nodes_present(struct tables *t, const json_t *only);
/* Was it told to drain, and has it not handed over all its copies yet? */
bool nodes_drains(struct tables *t, const char *name);
/* Every node that is there is asked, with its next heartbeat, for the records that it keeps of
 * datasets. */
void nodes_ask_inventory(struct tables *t);
/* Is this one to be asked? */
bool nodes_wants_inventory(struct tables *t, const char *name);
/* It has told them. False: it is not known. */
bool nodes_told_inventory(struct tables *t, const char *name, const json_t *records,
                          const json_t *deleted);
/* [{"node", "state", "told": bool, "records": [...], "deleted": [...]}]. Gives. */
json_t *nodes_inventories(struct tables *t);
/* The commands of a node that are not done. Gives; NULL: the node is not known. */
json_t *nodes_commands(struct tables *t, const char *name);

/* Update from the document, unless a newer one was seen. heard: as if a heartbeat had just come. */
void nodes_remember(struct tables *t, const struct store_doc *d, bool heard);
void nodes_forget(struct tables *t, const char *name);
/* The same of one that has said goodbye itself, and may come back with what is on its disk. */
void nodes_goodbye(struct tables *t, const char *name);
/* A heartbeat. False: the node is unknown, or was asked to join again. *woke: it was joining or
 * gone until now. Borrows figures and progress; NULL: as before. */
bool nodes_heard(struct tables *t, const char *name, const json_t *figures, const json_t *progress,
                 bool *woke);
/* Write "state" into the document. Errors are logged: memory is authoritative, and the next change
 * writes again. */
void nodes_write_state(struct tables *t, const char *name, enum node_state s);
/* Does the process that joined with this number hold the name? Also true if no process holds it, or
 * the holder never sent a number. */
bool nodes_is_holder(struct tables *t, const char *name, const char *instance);
int nodes_load(struct tables *t, struct dlc_err *err);  /* thread: we lead from now on */
void nodes_tick(struct tables *t, struct dlc_mono now); /* thread: who fell silent */
void nodes_close(struct tables *t);

#endif
