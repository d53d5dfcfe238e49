// SPDX-License-Identifier: Apache-2.0
/*
 * Datasets inside the manager. A document of the store:
 *
 *     {"url", "endpoint"?, "splits": [...], "created_ms",
 *      "nodes"?: [...], "node_count"?: n     where it lies; neither: on all nodes
 *      "snapshot"?: {"id", "samples", "objects", "bytes", "time_ms", "splits": [{"name", "samples",
 *                    "bytes"}]}
 *      "error"?: "..."                       why the last listing failed
 *      "moving"?: {"waiting": [...], "leaving": [...]}}
 *
 * Commands and their results are in docs/design/0006.
 */
#ifndef DLC_MANAGER_ROUTES_DATASETS_I_H
#define DLC_MANAGER_ROUTES_DATASETS_I_H

#include "manager/manager_i.h"

#define SPLITS_MAX    64
#define SPLIT_MAX_LEN 255

/* ---- dataset_doc.c: what is in a document ---- */

/* NULL: it was not listed yet. Borrowed. */
const json_t *dataset_snapshot(const json_t *body);
/* Bytes of splits (an array; empty or NULL: of everything). False: a split is not there. */
bool snapshot_bytes(const json_t *snapshot, const json_t *splits, uint64_t *bytes);
/* What a node says it listed, as it goes into the document. NULL: it makes no sense. */
json_t *snapshot_of_result(const json_t *result);
/* Names of the nodes it lies on; NULL: on all. Borrowed. */
const json_t *dataset_nodes(const json_t *body);
/* Names of splits in a body: short, without '/', different. */
bool splits_ok(const json_t *splits, const char *field, struct http_reply *reply);
/* May this caller make nodes read from there? */
bool dataset_url_ok(const struct caller *who, const char *url, const char *endpoint,
                    struct http_reply *reply);
/* ... and from this http(s) address? `field` is where it stood. */
bool dataset_web_ok(const struct caller *who, const char *url, const char *field,
                    struct http_reply *reply);
/*
 * A command about it, which says whose it is: its name may be another's when it is carried out. An
 * eviction has its URL too. tier: NULL: none. Gives.
 */
json_t *dataset_command(const struct store_doc *d, const char *op, const char *tier);
/* Is that command about it? */
bool dataset_commanded(const struct store_doc *d, const json_t *command);
/* Is it the same one, maybe changed, or another that has its name? */
bool dataset_is(const struct store_doc *now, const struct store_doc *was);
/* As the API shows it. Gives. */
json_t *dataset_json(const struct store_doc *d);

/* ---- datasets.c, dataset_ops.c ---- */

/* The dataset of the path's first parameter, if the caller may see it; else 404 and false. */
bool dataset_read(struct control *c, const struct http_request *r, struct store_doc *out,
                  struct http_reply *reply);
/* Names of nodes that must exist, in a body. */
bool nodes_known(struct control *c, const json_t *nodes, const char *field,
                 struct http_reply *reply);
/* Have it listed, by one of its nodes, whose name is put into `node` (may be NULL): "" when there
 * is none to do it; the first job asks again. */
int dataset_have_listed(struct control *c, const struct store_doc *d, char node[NAME_MAX_LEN + 1],
                        struct dlc_err *err);
/* The same for one that a job waits for. Errors are logged. */
void dataset_list_for_job(struct control *c, const char *name);
/* Names of the nodes that are there and that `only` names (NULL: all). Gives. */
json_t *nodes_there(struct control *c, const json_t *only);
/* dataset_place.c: names of nodes by DLCache's rule. NULL: they cannot hold it. Gives. */
json_t *dataset_choose(struct control *c, const char *name, const json_t *body, unsigned gpus,
                       unsigned count);
/* A node (NULL: none) has fetched its part of a dataset that moves, or is gone. */
int dataset_move_continue(struct control *c, const char *name, const char *node,
                          struct dlc_err *err);

/* dataset_cost.c: {"money", "requests", "bytes"}: what nodes have spent on it. NULL: none says so.
 * Gives.
 */
json_t *dataset_cost(const struct node_info *nodes, size_t n, const struct store_doc *d);

/* ---- dataset_index.c ---- */

struct dataset_entry {
    uint32_t tag;
    _Atomic unsigned refs;
    char *id;
    uint64_t version;
    int64_t created_ms;
    json_t *nodes; /* as dataset_nodes(); to look at: nobody takes a reference to it */
    unsigned count;
    bool moving;
};
/* Thread: all datasets by id, *n of them. Gives an array (mem_free) of references. */
int datasets_index_get(struct control *c, struct dataset_entry ***out, size_t *n,
                       struct dlc_err *err);
void dataset_entry_put(struct dataset_entry **ep);

/* ---- dataset_place.c ---- */

/* Choose nodes for one that wants `node_count` of them and has none yet. Returns 0 or an error. */
int dataset_place(struct control *c, const char *name, unsigned gpus, struct dlc_err *err);
/* While datasets are looked at for a view: begin, each, end. Thread. */
struct orphans_search {
    json_t *found, *known; /* known: names of the nodes that are not gone */
};
void orphans_begin(struct control *c, struct orphans_search *s);
void orphans_look(struct control *c, struct orphans_search *s, const struct dataset_entry *e);
void orphans_end(struct control *c, struct orphans_search *s, bool whole);

http_handler_f dataset_chunks, dataset_do_snapshot, dataset_do_warm, dataset_do_evict,
    dataset_do_move;

#endif
