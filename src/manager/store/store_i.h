// SPDX-License-Identifier: Apache-2.0
/*
 * The interface between the front (store.c) and the backends. The front has checked every argument
 * and turned JSON into text before it calls a backend, which handles bytes only.
 */
#ifndef DLC_MANAGER_STORE_STORE_I_H
#define DLC_MANAGER_STORE_STORE_I_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/check.h"
#include "manager/store/store.h"
#include "manager/store/store_common_i.h"

#define STORE_TAG DLC_TAG4('s', 't', 'o', 'r')

struct chunk_stream;
struct page_range;

/* Any thread. All are required. fence: 0, or the fence of the write (MANAGER-STORE-2). */
struct store_ops {
    const char *(*kind)(const struct store *m);
    void (*close)(struct store *m);
    int (*reopen)(struct store *m, bool make, struct dlc_err *err); /* NULL: nothing to do */
    int (*get)(struct store *m, enum store_kind kind, const char *id, struct store_raw *out,
               struct dlc_err *err);
    /* Borrows d; sets d->version. */
    int (*put)(struct store *m, enum store_kind kind, struct store_raw *d, uint64_t expect,
               uint64_t fence, struct dlc_err *err);
    int (*delete_)(struct store *m, enum store_kind kind, const char *id, uint64_t expect,
                   uint64_t fence, struct dlc_err *err);
    int (*list)(struct store *m, enum store_kind kind, const char *tenant, const char *after,
                size_t max, struct store_raw *out, size_t *n, struct dlc_err *err);
    /* before: NULL: no bound. */
    int (*ids)(struct store *m, enum store_kind kind, const char *tenant, const char *after,
               const char *before, size_t max, char **out, size_t *n, struct dlc_err *err);
    int (*count)(struct store *m, enum store_kind kind, const char *tenant, uint64_t *n,
                 struct dlc_err *err);
    int (*chunks_put)(struct store *m, const struct store_chunk *c, size_t n, uint64_t fence,
                      struct dlc_err *err);
    int (*chunks_drop)(struct store *m, const char *dataset, const char *node, uint64_t fence,
                       struct dlc_err *err);
    int (*chunks_drop_keys)(struct store *m, const char *dataset, const char *node,
                            const char *const *keys, size_t n, uint64_t fence, struct dlc_err *err);
    /* A stream (chunk_merge_i.h) for each sorted run of keys that the dataset has, on node or on
     * all. */
    int (*streams)(struct store *m, const char *dataset, const char *node,
                   struct chunk_stream **out, size_t *n, struct dlc_err *err);
    /* Up to `limit` further rows for each of the streams. */
    int (*fetch)(struct store *m, const char *dataset, const struct page_range *range,
                 struct chunk_stream **s, size_t n, size_t limit, struct dlc_err *err);
    int (*sums)(struct store *m, const char *dataset, struct store_sum *out, size_t max, size_t *n,
                struct dlc_err *err);
    int (*lock)(struct store *m, const char *name, const char *holder, struct dlc_dur ttl,
                uint64_t *fence, struct dlc_err *err);
    int (*unlock)(struct store *m, const char *name, const char *holder, struct dlc_err *err);
    /* From now on refuse smaller fences. */
    int (*raise)(struct store *m, uint64_t fence, struct dlc_err *err);
    int (*event)(struct store *m, const char *tenant, const char *body, uint64_t fence,
                 struct dlc_err *err);
    /* Gives out[0..*n), of which tenant and body are to be freed. */
    int (*events)(struct store *m, const char *tenant, uint64_t after, size_t max,
                  struct store_raw_event *out, size_t *n, struct dlc_err *err);
};

/* The front's part of a store; first member of each. */
struct store {
    uint32_t tag;
    const struct store_ops *ops;
    _Atomic uint64_t fence;   /* relaxed: it orders nothing else */
    _Atomic uint64_t changes; /* the same */
    const struct seal *seal;  /* NULL: documents are not authenticated; set before the first use */
    store_forged_f *forged;
    void *forged_arg;
};

int sqlite_store_open(const char *path, struct store **out, struct dlc_err *err);
int redis_store_open(const char *url, struct store **out, struct dlc_err *err);

#endif
