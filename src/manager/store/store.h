// SPDX-License-Identifier: Apache-2.0
/*
 * The store: documents (tenants, datasets, jobs, nodes), chunks, locks and events of the cluster.
 * One interface, two backends: SQLite in a directory, Redis (one server or a Cluster).
 *
 * All functions block, may be called by any thread, and are never called on the data path. A store
 * that cannot be reached gives DLC_EBUCKET; the next call tries again.
 *
 * (MANAGER-STORE-1) A document's version grows by one with each write; a write that expects another
 *                   version has no effect (DLC_EBUSY).
 * (MANAGER-STORE-2) After store_set_fence(f), a write of a document or event through any handle
 *                   with a smaller fence has no effect (DLC_EBUSY). The same holds for a write to
 *                   chunks of a dataset on a node after one with a larger fence wrote to the same
 *                   run of them.
 *                   Nor has one of a document or event through a handle with a fence that the store
 *                   knows nothing of (DLC_ECHANGED): it was emptied since.
 * (MANAGER-STORE-3) A batch of chunks is written completely or, after a failure, may be written
 *                   again: writing the same chunk twice changes nothing.
 * (MANAGER-STORE-4) Secrets arrive here encrypted: the store does not look into bodies.
 * (MANAGER-STORE-5) Documents are authenticated (record_auth_i.h). Chunks, locks, fences, events and
 *                   the sorted lists of ids are not: they decide about no access.
 */
#ifndef DLC_MANAGER_STORE_STORE_H
#define DLC_MANAGER_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

struct store;

/*
 * url: "sqlite:PATH" (created if missing, migrated if old, refused if newer), or
 * "redis[s]://[user:password@]HOST:PORT[,HOST:PORT...][/PREFIX]"; a Cluster is detected.
 */
int store_open(const char *url, struct store **out, struct dlc_err *err);
void store_close(struct store **mp);
/*
 * From now on documents carry MACs of the ring, and those that are not authentic are errors
 * (DLC_ECORRUPT; DLC_EDENIED: by a key that is not in the ring), which forged() hears of. Borrows
 * seal and arg. Before the first call that reads or writes; a store without this is for tests.
 */
struct seal;
typedef void store_forged_f(const char *kind, const char *id, const char *why, void *arg);
void store_authenticate(struct store *m, const struct seal *seal, store_forged_f *forged,
                        void *arg);
/* Where a store was removed or replaced below us (DLC_ECHANGED), use the one that is there now;
 * make: an empty one if there is none. */
int store_reopen(struct store *m, bool make, struct dlc_err *err);
const char *store_backend(const struct store *m); /* "sqlite", "redis", "redis cluster" */

/* ---- documents ---- */

#define NAME_MAX_LEN 63 /* of tenants, datasets and nodes: str_is_name() */

enum store_kind {
    STORE_TENANT,
    STORE_DATASET,
    STORE_JOB,
    STORE_NODE,
    STORE_MANAGER, /* the manager's own: owners of tokens, answers to repeat, the key's check */
    STORE_WEIGHTS, /* importance weights that nodes exchange */
    STORE_USAGE,   /* accounting.h */
    STORE_ENDED,   /* ended_jobs.h */
    STORE_KINDS
};

/* A document of STORE_MANAGER that every store in use has, from the first start of a manager on
 * (manager/fingerprints.h). A store without it is new, or has lost its documents. */
#define STORE_MARK "tokens"

/* Has it STORE_MARK? False: DLC_ECHANGED, it has lost its documents; or it cannot be read. */
bool store_is_marked(struct store *m, struct dlc_err *err);

#define STORE_LOST_REMEDY                                                                          \
    "restore a backup of it, or run `dlcache rebuild`, which fills it again from the manager's "   \
    "copy"

#define STORE_ANY UINT64_MAX /* whatever version is there, or none */
#define STORE_NEW 0          /* there must be none */

struct store_doc {
    char *id;     /* 1 to 255 bytes, as the API allows names */
    char *tenant; /* "": it has no owner */
    json_t *body;
    uint64_t version;
    char key[17]; /* id of the key that authenticates it; "": none does */
};
#define STORE_DOC_INIT                                                                             \
    {                                                                                              \
        0                                                                                          \
    }

void store_doc_release(struct store_doc *d); /* zeroed is allowed */
int store_get(struct store *m, enum store_kind kind, const char *id, struct store_doc *out,
              struct dlc_err *err);
/* Borrows d; sets d->version. */
int store_put(struct store *m, enum store_kind kind, struct store_doc *d, uint64_t expect,
              struct dlc_err *err);
int store_delete(struct store *m, enum store_kind kind, const char *id, uint64_t expect,
                 struct dlc_err *err);
/*
 * Up to max documents with id > after (NULL: from the first) sorted by id; tenant NULL: of all.
 * Gives docs[0..*n).
 */
int store_list(struct store *m, enum store_kind kind, const char *tenant, const char *after,
               size_t max, struct store_doc *docs, size_t *n, struct dlc_err *err);
/* Every document of a kind, page by page; each() returns false to end, and may take parts of *d. One
 * that is not authentic is left out, so that it does not stop the manager; forged() hears of it. */
int store_each(struct store *m, enum store_kind kind, const char *tenant,
               bool (*each)(struct store_doc *d, void *arg), void *arg, struct dlc_err *err);
/* The same without reading them: up to max ids with after < id < before (either NULL: no bound).
 * Gives ids[0..*n). */
int store_ids(struct store *m, enum store_kind kind, const char *tenant, const char *after,
              const char *before, size_t max, char **ids, size_t *n, struct dlc_err *err);
/* How many there are; tenant NULL: of all. */
int store_count(struct store *m, enum store_kind kind, const char *tenant, uint64_t *n,
                struct dlc_err *err);

/*
 * A document as text that can lie anywhere: {"id", "tenant", "version", "sealed"}, where "sealed" is
 * what the store itself keeps, authenticated (record_auth_i.h). Gives.
 */
json_t *store_doc_export(struct store *m, enum store_kind kind, const struct store_doc *d);
/* Verify such a text and read the document. DLC_ECORRUPT, DLC_EDENIED: as store_get() has it. */
int store_doc_import(struct store *m, enum store_kind kind, const json_t *text,
                     struct store_doc *out, struct dlc_err *err);

/* How many documents, except weights, were written and deleted through m. */
uint64_t store_changes(const struct store *m);

/* ---- chunks ---- */

struct store_chunk {
    const char *dataset, *node; /* a chunk is known per dataset, key and node */
    const char *key, *etag;
    uint64_t size;
    double cost; /* policy_cost: the cost of fetching it */
    uint32_t references;
    uint8_t state; /* enum life_state */
    uint32_t jobs;
    int64_t changed_ms; /* Unix time */
};

int store_chunks_put(struct store *m, const struct store_chunk *c, size_t n, struct dlc_err *err);
/* Forget those of a dataset (NULL: any) on a node (NULL: any); not both NULL. */
int store_chunks_drop(struct store *m, const char *dataset, const char *node, struct dlc_err *err);
int store_chunks_drop_keys(struct store *m, const char *dataset, const char *node,
                           const char *const *keys, size_t n, struct dlc_err *err);

struct store_chunk_query {
    const char *dataset; /* required */
    const char *node;    /* NULL: any */
    const char *prefix;  /* of the key; NULL: any */
    int state;           /* -1: any */
    const char *after;   /* cursor: as page->next gave it; NULL: from the first */
    size_t max;
};
struct store_chunk_page {
    struct store_chunk *chunks; /* their texts lie in `texts` */
    size_t n;
    char *texts;
    char *next; /* NULL: this was the last page. A page may be short, or empty, and not the last */
};
int store_chunks_query(struct store *m, const struct store_chunk_query *q,
                       struct store_chunk_page *out, struct dlc_err *err);
void store_chunk_page_release(struct store_chunk_page *p);

struct store_sum {
    char node[256];
    uint64_t chunks, bytes;
};
/* What each node has of a dataset; the store updates it with each write and does not count at each
 * call. */
int store_chunks_sums(struct store *m, const char *dataset, struct store_sum *out, size_t max,
                      size_t *n, struct dlc_err *err);

/* ---- locks ---- */

/*
 * Take or renew. DLC_EBUSY: *err names the holder. *fence grows with every new holder, and when a
 * lock that expired is taken again, or renewed after a larger fence wrote. holder must differ for
 * each process; otherwise both hold the lock.
 */
int store_lock(struct store *m, const char *name, const char *holder, struct dlc_dur ttl,
               uint64_t *fence, struct dlc_err *err);
int store_unlock(struct store *m, const char *name, const char *holder, struct dlc_err *err);
/* Document and event writes through m carry this from now on; 0: none, they are never refused. */
void store_set_fence(struct store *m, uint64_t fence);

/* ---- events ---- */

/* Takes body. The newest 100,000 are kept. */
int store_event(struct store *m, const char *tenant, json_t *body, struct dlc_err *err);
/* Events with a number > after; gives an array of {"seq", "time_ms", "tenant", ...body}. */
int store_events(struct store *m, const char *tenant, uint64_t after, size_t max, json_t **out,
                 struct dlc_err *err);

#endif
