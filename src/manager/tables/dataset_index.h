// SPDX-License-Identifier: Apache-2.0
/*
 * Index of datasets for views, in memory: the nodes of each dataset, how many nodes it wants,
 * whether it moves. A change of one dataset changes one entry; all documents are read when this
 * manager begins to lead, and again when it is unknown whether a write has reached the store.
 *
 *     UNKNOWN --datasets_index_get(): all documents are read--> KNOWN
 *     KNOWN --a write with an unknown outcome, or out of order; we begin to lead--> UNKNOWN
 *
 * (INDEX-1) Only the leader writes documents, and each of its writes updates this index: in
 *           document_change(), or where a dataset is created or deleted. Those two hold jobs.admit.
 * (INDEX-2) An entry never changes: a new one replaces it. Readers share it by reference.
 * (INDEX-3) Versions of a document grow by one. A write that is not the next one of the known
 *           document, by version and time of creation, makes all UNKNOWN: this happens only when
 *           two threads write the same document at the same time, or its name is used again.
 */
#ifndef DLC_MANAGER_TABLES_DATASET_INDEX_H
#define DLC_MANAGER_TABLES_DATASET_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "manager/store/store.h"

struct tables;

struct dataset_entry {
    uint32_t tag;
    _Atomic unsigned refs;
    char *id;
    uint64_t version;
    int64_t created_ms;
    json_t *nodes;  /* as dataset_nodes(); read-only: no reference is taken to it */
    json_t *spread; /* dataset_spread.h; NULL: none */
    uint64_t bytes; /* of its snapshot; 0: not listed yet */
    unsigned count;
    bool moving;
};

struct dataset_index {
    struct dataset_entry **entries; /* G: mtx, and what follows; sorted by id, with references */
    size_t n, cap;
    bool known;      /* it matches the store */
    uint64_t writes; /* writes seen so far */
    uint64_t loads;  /* how often all documents were read */
};

/* X. A document of a dataset was written or deleted, or the attempt failed (rc). */
void dataset_written(struct tables *t, int rc, const struct store_doc *d);
void dataset_deleted(struct tables *t, int rc, const char *id);
void datasets_index_forget(struct tables *t); /* this manager starts to lead: read all again */
void datasets_index_release(struct dataset_index *x);
/* Thread: all datasets by id, *n of them. Gives an array (mem_free) of references. */
int datasets_index_get(struct tables *t, struct dataset_entry ***out, size_t *n,
                       struct dlc_err *err);
/* X: one of them, with a reference. NULL: there is none, or all have to be read again. */
struct dataset_entry *datasets_index_find(struct tables *t, const char *id);
void dataset_entry_put(struct dataset_entry **ep);

#endif
