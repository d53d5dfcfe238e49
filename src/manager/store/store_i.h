// SPDX-License-Identifier: Apache-2.0
/*
 * Between the front (store.c) and the stores. The front has checked every argument and turned
 * JSON into text before a store is called; a store knows bytes only.
 */
#ifndef DLC_MANAGER_STORE_STORE_I_H
#define DLC_MANAGER_STORE_STORE_I_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/check.h"
#include "manager/store/store.h"

#define META_TAG        DLC_TAG4('m', 'e', 't', 'a')
#define META_ID_MAX     255
#define META_KEY_MAX    4096
#define META_BODY_MAX   (8u << 20)
#define META_SIZE_MAX   ((uint64_t)1 << 53) /* Lua counts in doubles */
#define META_EVENTS_MAX 100000

extern uint64_t meta_events_kept; /* META_EVENTS_MAX; tests lower it before they open a store */

/* A document as a store has it. */
struct meta_raw {
    char *id, *tenant;
    char *body;
    size_t body_len;
    uint64_t version;
};

struct meta_raw_event {
    uint64_t seq;
    int64_t time_ms;
    char *tenant, *body;
};

struct chunk_stream;
struct page_range;

/* Any thread. All are required. fence: 0, or what the write carries (D2). */
struct meta_ops {
    const char *(*kind)(const struct meta *m);
    void (*close)(struct meta *m);
    int (*get)(struct meta *m, enum meta_kind kind, const char *id, struct meta_raw *out,
               struct dlc_err *err);
    /* Borrows d; sets d->version. */
    int (*put)(struct meta *m, enum meta_kind kind, struct meta_raw *d, uint64_t expect,
               uint64_t fence, struct dlc_err *err);
    int (*delete_)(struct meta *m, enum meta_kind kind, const char *id, uint64_t expect,
                   uint64_t fence, struct dlc_err *err);
    int (*list)(struct meta *m, enum meta_kind kind, const char *tenant, const char *after,
                size_t max, struct meta_raw *out, size_t *n, struct dlc_err *err);
    /* before: NULL: no bound. */
    int (*ids)(struct meta *m, enum meta_kind kind, const char *tenant, const char *after,
               const char *before, size_t max, char **out, size_t *n, struct dlc_err *err);
    int (*count)(struct meta *m, enum meta_kind kind, const char *tenant, uint64_t *n,
                 struct dlc_err *err);
    int (*chunks_put)(struct meta *m, const struct meta_chunk *c, size_t n, uint64_t fence,
                      struct dlc_err *err);
    int (*chunks_drop)(struct meta *m, const char *dataset, const char *node, uint64_t fence,
                       struct dlc_err *err);
    int (*chunks_drop_keys)(struct meta *m, const char *dataset, const char *node,
                            const char *const *keys, size_t n, uint64_t fence, struct dlc_err *err);
    /* A stream (chunk_merge_i.h) for each sorted run of keys that the dataset has, on node or on
     * all. */
    int (*streams)(struct meta *m, const char *dataset, const char *node, struct chunk_stream **out,
                   size_t *n, struct dlc_err *err);
    /* Up to `limit` further rows for each of the streams. */
    int (*fetch)(struct meta *m, const char *dataset, const struct page_range *range,
                 struct chunk_stream **s, size_t n, size_t limit, struct dlc_err *err);
    int (*sums)(struct meta *m, const char *dataset, struct meta_sum *out, size_t max, size_t *n,
                struct dlc_err *err);
    int (*lock)(struct meta *m, const char *name, const char *holder, struct dlc_dur ttl,
                uint64_t *fence, struct dlc_err *err);
    int (*unlock)(struct meta *m, const char *name, const char *holder, struct dlc_err *err);
    /* From now on refuse smaller fences. */
    int (*raise)(struct meta *m, uint64_t fence, struct dlc_err *err);
    int (*event)(struct meta *m, const char *tenant, const char *body, uint64_t fence,
                 struct dlc_err *err);
    /* Gives out[0..*n), of which tenant and body are to be freed. */
    int (*events)(struct meta *m, const char *tenant, uint64_t after, size_t max,
                  struct meta_raw_event *out, size_t *n, struct dlc_err *err);
};

/* The front's part of a store; first member of each. */
struct meta {
    uint32_t tag;
    const struct meta_ops *ops;
    _Atomic uint64_t fence; /* relaxed: it orders nothing else */
};

int meta_sqlite_open(const char *path, struct meta **out, struct dlc_err *err);
int meta_redis_open(const char *url, struct meta **out, struct dlc_err *err);

/* The same words whichever store finds it. expect, there: versions; there 0: no such document. */
int meta_err_version(struct dlc_err *err, enum meta_kind kind, const char *id, uint64_t expect,
                     uint64_t there);
int meta_err_fence(struct dlc_err *err, uint64_t fence, uint64_t newest);
int meta_err_held(struct dlc_err *err, const char *name, const char *holder);
int meta_err_absent(struct dlc_err *err, enum meta_kind kind, const char *id);

const char *meta_kind_name(enum meta_kind kind); /* "dataset" */
int64_t meta_wall_ms(void);

#endif
