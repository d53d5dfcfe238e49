// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the manager.
 *
 *     manager.c   open, close, the manager's thread, status and health
 *     auth.c      tokens and roles: the check before each handler
 *     seal.c   what may not lie in clear in the store
 *     route_util.c   fields of bodies, pages, versions, repeated requests, answers
 *     leader.c    who leads; fingerprints.c: what those who may lead have in common
 *     tenants.c, nodes.c, resolve.c, datasets.c, chunks.c, jobs.c, events.c   the routes
 *     node_commands.c    what nodes are told to do
 *     cluster_view.c      what nodes are told of each other; dataset_index.c: what it needs of
 * datasets
 *
 * Threads: handlers run on threads of the HTTP server, one per connection; the manager's own thread
 * keeps the lock, notices nodes that fell silent, makes the view, and calls jobs_tick(). The store
 * is never called with mtx held. No JSON value is shared by two threads, but for those that never
 * change and have an owner with a count of its own (struct view, dataset_entry, shared_json): what
 * else lies in struct control is read and copied with mtx held.
 *
 * (C1) Only the leader writes: the check refuses every method but GET (and routes marked
 * ROUTE_READS) with 503 elsewhere. Writes that slip through as the lock is lost are refused by the
 * store (D2). (C2) A caller that may not see a document gets the answer for one that does not
 * exist. (C3) What a handler answers goes through reply_doc() or is made of named fields: no
 * document of the store is sent as it lies there.
 */
#ifndef DLC_MANAGER_MANAGER_I_H
#define DLC_MANAGER_MANAGER_I_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/mutex.h"
#include "manager/manager.h"
#include "manager/seal_i.h"
#include "net/server.h"
#include "manager/store/store.h"

#define CONTROL_TAG  DLC_TAG4('c', 't', 'r', 'l')
#define NAME_MAX_LEN 63

enum role {
    ROLE_ADMIN = 1 << 0,
    ROLE_TENANT = 1 << 1,
    ROLE_NODE = 1 << 2,
    ROLE_ANY = ROLE_ADMIN | ROLE_TENANT | ROLE_NODE,
    ROUTE_READS =
        1 << 8, /* of a route: writes nothing although it is no GET; any manager answers */
};
/* A route with roles 0 needs no token. */

struct live_node; /* nodes.c */
struct shared_json;
struct view; /* cluster_view_i.h */

/* dataset_index.c: what the view needs of datasets. */
struct dataset_entry;
struct dataset_index {
    struct dataset_entry **entries; /* G: mtx, and what follows; sorted by id, with references */
    size_t n, cap;
    bool known;      /* it has what the store has */
    uint64_t writes; /* how many came by */
    uint64_t loads;  /* how often all documents were read */
};
struct jobs; /* jobs.c: what it keeps in memory, if it needs to */

struct control {
    uint32_t tag;
    struct store *store;
    struct http_server *server;
    struct seal *seal;
    struct http_route *routes;
    char *dir, *advertise; /* advertise: "http://HOST:PORT" or "unix:PATH" */
    struct dlc_dur node_ttl, job_ttl, lock_ttl;
    unsigned char admin_hash[SHA256_LEN], node_hash[SHA256_LEN];
    int dir_lock; /* of DIR/manager.lock: one manager per directory */
    struct dlc_mono started;

    pthread_t thread;
    bool has_thread;
    struct dlc_mtx mtx;   /* rank LCK_control */
    struct dlc_cond wake; /* of the thread */
    bool ending;          /* G: mtx */

    struct jobs *jobs; /* jobs.c's */

    /* weight_exchange.c */
    struct dlc_mtx posting;        /* rank LCK_posting */
    struct dlc_mono weights_swept; /* the thread's */

    /* leader.c */
    char *holder;                /* our name in the lock: differs with each start */
    bool leads;                  /* G: mtx */
    bool estranged;              /* the thread's: our tokens are not the store's, as was said */
    struct dlc_mono lease_until; /* G: mtx; past it we do not lead, whatever `leads` says */
    struct dlc_mono renew_at;    /* the thread's */
    uint64_t fence;              /* G: mtx */
    char *leader;                /* G: mtx; address of who leads, as far as we know; may be NULL */

    /* nodes.c, cluster_view.c */
    struct live_node **nodes; /* G: mtx; sorted by name */
    size_t n_nodes, cap_nodes;
    bool view_dirty;                /* G: mtx */
    uint64_t view_asked, view_made; /* G: mtx; calls of view_changed(); those that the view has */
    struct dlc_cond view_new;
    struct view *view; /* G: mtx; with a reference. Replaced by the thread alone */
    json_t *
        finishing; /* G: mtx; {ID: n}: commands whose results are being written (node_commands.c) */
    struct dlc_list streams; /* G: mtx; of events, that go on (events.c) */
    json_t *orphans;       /* the thread's: {DATASET: since when none of its nodes is there, ns} */
    uint64_t view_version; /* G: mtx; of the view, or of the last before it */
    struct dataset_index index;
};

struct control *control_of(void *ctx);
extern const struct http_route control_tenant_routes[], control_dataset_routes[],
    control_job_routes[], control_node_routes[], control_event_routes[], control_base_routes[],
    control_resolve_routes[];

/* ---- who asks: auth.c ---- */

struct caller {
    enum role role;
    char tenant[NAME_MAX_LEN + 1]; /* of role ROLE_TENANT, else "" */
};

/* As the check found out; valid in handlers, on their thread. */
const struct caller *caller_of(const struct http_request *r);
/* Admins see everything, tenants what is theirs. Nodes see nothing by this. */
bool caller_sees(const struct caller *who, const char *tenant);

#define TOKEN_LEN 47 /* "dlc_" and 43 characters of base64url */
void token_new(char out[static TOKEN_LEN + 1]);
void token_hash(const char *token, unsigned char out[static SHA256_LEN]);
/* Whose is it? DLC_EDENIED: nobody's, or no longer. DLC_EBUCKET: the store is away. */
int token_caller(struct control *c, const char *token, struct caller *out, struct dlc_err *err);
bool control_check(struct http_request *r, const struct http_route *route, struct http_reply *reply,
                   void *ctx);
int auth_open(struct control *c, struct dlc_err *err); /* the files of tokens */

/* ---- what managers have in common: fingerprints.c ---- */

int fingerprints_agree(struct control *c, struct dlc_err *err); /* DLC_EDENIED: ours are others */
/* Are our tokens still those of the store? False: *err says what to do. */
bool fingerprints_match(struct control *c, struct dlc_err *err);

/* ---- requests: route_util.c. Those that return bool have filled the reply when it is false. ----
 */

bool name_ok(const char *s); /* [a-z0-9][a-z0-9._-]{0,62} */

enum field_type {
    FIELD_NAME, /* const char **: as name_ok() */
    FIELD_TEXT, /* const char **: at most `max` bytes (0: 1024), no control characters, not empty */
    FIELD_TEXT0, /* the same, but "" is allowed */
    FIELD_U64,   /* uint64_t *: at most `max` (0: 2^53) */
    FIELD_INT,   /* int64_t *: between -max and max */
    FIELD_BOOL,  /* bool * */
    FIELD_NAMES, /* const json_t **: array of at most `max` (0: 1000) different names */
    FIELD_TEXTS, /* const json_t **: array of at most `max` (0: 1000) texts of at most 1024 bytes */
    FIELD_OBJECT, /* const json_t **: look inside with read_object() */
    FIELD_ARRAY,  /* const json_t **: of at most `max` (0: 1000) elements of any kind */
};

struct field {
    const char *name;
    enum field_type type;
    bool required;
    uint64_t max;
    void *out; /* untouched when the field is absent */
};

/*
 * The body's fields, which end with a NULL name: those that are missing, not in the list, of the
 * wrong type, or too long answer 400 with "field" naming it. No body counts as {}. Texts are
 * borrowed from the body. `where` is put before names in messages: "qos.".
 */
bool read_body(const struct http_request *r, const struct field *fields, struct http_reply *reply);
bool read_object(const json_t *o, const char *where, const struct field *fields,
                 struct http_reply *reply);
void refuse_field(struct http_reply *reply, const char *where, const char *field, const char *fmt,
                  ...) __attribute__((format(printf, 4, 5)));

/* Path parameter i as a name; 404 when it cannot be one. `what`: "tenant". */
const char *read_name(const struct http_request *r, int i, const char *what,
                      struct http_reply *reply);

struct page {
    size_t limit;
    const char *after; /* NULL: from the first; a name, unless the route says otherwise */
};
bool read_page(const struct http_request *r, struct page *out, struct http_reply *reply);
/* The version that a write expects: If-Match, or STORE_ANY. */
bool read_if_match(const struct http_request *r, uint64_t *expect, struct http_reply *reply);

/* Takes body. 200 when status is 0. version 0: no ETag. */
void reply_doc(struct http_reply *reply, int status, json_t *body, uint64_t version);
/* Takes items. next: the cursor of the next page; NULL: this was the last. */
void reply_list(struct http_reply *reply, json_t *items, const char *next);
/* The page that a request wants of the documents of a kind, each as show() makes it. tenant NULL:
 * of all. */
typedef json_t *show_f(struct control *c, const struct store_doc *d, const struct caller *who);
void reply_page(struct control *c, const struct http_request *r, enum store_kind kind,
                const char *tenant, show_f *show, struct http_reply *reply);
void reply_absent(struct http_reply *reply, const char *what, const char *name); /* 404 */
/* A failed call to the store: 404, 412 (If-Match was given), 409, or 503 when we do not lead any
 * more or the store is away. */
void reply_store_error(struct control *c, const struct http_request *r, struct http_reply *reply,
                       const struct dlc_err *err);

/*
 * Read a document, let f change it, write it. When another write came between and expect is
 * STORE_ANY, all of it again. f returns 0, or a code that ends it with nothing written; 1: nothing
 * to change. Gives *out (may be NULL): the document as it is now.
 */
typedef int change_f(struct store_doc *d, void *arg, struct dlc_err *err);
int control_change(struct control *c, enum store_kind kind, const char *id, uint64_t expect,
                   change_f *f, void *arg, struct store_doc *out, struct dlc_err *err);

/* Every document of a kind, page by page; each() returns false to end. tenant NULL: of all. */
int control_each(struct control *c, enum store_kind kind, const char *tenant,
                 bool (*each)(struct store_doc *d, void *arg), void *arg, struct dlc_err *err);

/*
 * Idempotency-Key: true when this request was answered before (within 24 h): the reply is that
 * answer again, or 422 when the body was another, or 400 for a key that cannot be one. Call it
 * first, and idempotency_record() when the reply stands. Answers are kept encrypted.
 */
bool idempotency_replay(struct control *c, const struct http_request *r, struct http_reply *reply);
void idempotency_record(struct control *c, const struct http_request *r,
                        const struct http_reply *reply);
void idempotency_purge(struct control *c); /* thread: forget answers that are too old */
void idempotency_forget(struct control *c,
                        const char *tenant); /* whoever gets its name is another */
/* A name for a new document: from the Idempotency-Key, where there is one, so that a request
 * repeated after a crash makes the same; else random. "j-0123456789abcdef" for prefix 'j'. */
void idempotency_new_id(const struct http_request *r, char prefix, char out[static 20]);

/* Takes details, an object or NULL; adds "type": "tenant.created". Never fails the caller. */
void control_event(struct control *c, const char *tenant, const char *type, json_t *details);
int64_t control_wall_ms(void);
char *control_time(int64_t ms); /* gives "2026-01-31T12:00:00.000Z" */

/* ---- who leads: leader.c ---- */

bool control_leads(struct control *c);
void reply_not_leading(struct control *c,
                       struct http_reply *reply);            /* 503 and the leader's address */
int leader_lock_dir(struct control *c, struct dlc_err *err); /* one manager per directory */
int leader_open(struct control *c, struct dlc_err *err);
void leader_tick(struct control *c, struct dlc_mono now); /* thread */
/* Renews the lock when it is due: between writes, which may be slow, so that many of them do not
 * cost it. For the thread. */
bool leader_holds(struct control *c);
void leader_close(struct control *c);

/* ---- nodes: nodes.c ---- */

enum node_state { NODE_JOINING, NODE_LIVE, NODE_DRAINING, NODE_GONE };
const char *node_state_name(enum node_state s);

/* What the leader knows of a node. All of it is a copy, but for figures and progress: look at them,
 * and copy what is passed on (shared_json_i.h). */
struct node_info {
    char name[NAME_MAX_LEN + 1];
    char address[256];
    enum node_state state;
    uint64_t capacity, memory; /* bytes for chunks, and of memory */
    unsigned gpus;
    struct dlc_dur silent; /* since its last heart-beat */
    json_t *figures;       /* as its last heart-beat said: {"disk_used", "memory_used", "gpus_free",
                            * "datasets": {ID: {"bytes", ...}}, "spent": {...}, ...}; NULL: none yet
                            */
    json_t *progress;      /* {DATASET: {"phase", "done", "total", "bytes"}}; NULL: none */
    struct shared_json *holds[2]; /* what the two are in; NULL: nothing */
    size_t commands;              /* not done yet */
};

/* All known nodes by name. Gives *out; return it with nodes_release(). */
size_t nodes_list(struct control *c, struct node_info **out);
void nodes_release(struct node_info **out, size_t n);
int nodes_load(struct control *c, struct dlc_err *err);  /* thread: we lead from now on */
void nodes_tick(struct control *c, struct dlc_mono now); /* thread: who fell silent */
void nodes_close(struct control *c);

/* ---- commands: node_commands.c ---- */

/*
 * Tell a node to do something: kept in the store, given with each heart-beat until the node says it
 * is done, or leaves. Takes command: {"op": "warm" | "evict" | "snapshot", "dataset": ID,
 * "tenant", ...}; "id" is added. An equal command that is not done yet is not given twice.
 */
int command_send(struct control *c, const char *node, json_t *command, struct dlc_err *err);
/* The same to all nodes that are not gone, or to those named in `nodes` (an array; NULL: all). */
int command_send_all(struct control *c, const json_t *nodes, json_t *command, struct dlc_err *err);
void commands_tick(struct control *c); /* thread, about once a second: nodes that are gone */
/* Forget the commands of a dataset that are not done, but for evictions. */
int commands_withdraw(struct control *c, const struct store_doc *dataset, struct dlc_err *err);

/* ---- the view: cluster_view.c ---- */

/* Something changed that nodes must know: the thread makes a new view if it comes out different. */
void view_changed(struct control *c);
/* Wait until what changed is in the view: nodes carry a command out by the view that they have, and
 * get the command not before that one (heartbeat.c). A while at most. Not in the thread. */
void view_wait(struct control *c);
int view_load(struct control *c, uint64_t fence,
              struct dlc_err *err); /* thread: we lead from now on */
void view_tick(struct control *c);  /* thread */
/* Gives a reference, for view_put(); NULL: there is none but `has`. */
struct view *view_get(struct control *c, uint64_t has);

/* ---- asked of others in this directory ---- */

/* jobs.c; thread, only while leading, about once a second: jobs that fell silent, the queue. */
void jobs_tick(struct control *c, struct dlc_mono now);
/* jobs.c; thread: we lead from now on. Jobs that were heard of by another manager get a full
 * job_ttl. */
int jobs_load(struct control *c, struct dlc_err *err);
/* job_table.c; thread: gives the "jobs" of the view: those that run and keep nothing of what they
 * read. */
json_t *jobs_view(struct control *c);
/* weight_exchange.c; thread, only while leading, about once a second: weights of what is not there
 * any more.
 */
void weights_tick(struct control *c, struct dlc_mono now);
void weights_forget(struct control *c, const char *tenant); /* the tenant goes */
/* jobs.c; at close. */
void jobs_close(struct control *c);
/* dataset_index.c; X. A document of a dataset was written or deleted, or was not (rc). */
void dataset_written(struct control *c, int rc, const struct store_doc *d);
void dataset_deleted(struct control *c, int rc, const char *id);
void datasets_index_forget(struct control *c); /* we lead from now on: all is read again */
void datasets_index_release(struct dataset_index *x);
/* dataset_ops.c; thread: gives the "datasets" of the view, those that are placed on some nodes
 * only or have readers. NULL and *err on failure. */
json_t *datasets_view(struct control *c, struct dlc_err *err);
/* dataset_ops.c; a node has done a command, or failed (error: not NULL). `result` is what it said.
 * May be called again for the same. A failure of the store: it must be. */
int dataset_command_done(struct control *c, const char *node, const json_t *command,
                         const json_t *result, const char *error, struct dlc_err *err);
/* dataset_ops.c; the node that should list it is not there any more. False: nobody else is. */
bool dataset_list_elsewhere(struct control *c, const char *dataset, const char *node);
/* dataset_place.c; thread, only while leading, about once a second: datasets whose nodes are all
 * gone. */
void datasets_tick(struct control *c, struct dlc_mono now);

#endif
