// SPDX-License-Identifier: Apache-2.0
/*
 * Internals of the builder: builder.c has the objects, build_samples.c the samples, write.c the
 * file.
 */
#ifndef DLC_CATALOG_BUILDER_I_H
#define DLC_CATALOG_BUILDER_I_H

#include "base/check.h"
#include "base/u64map.h"
#include "catalog/catalog.h"
#include "catalog/format_i.h"
#include "catalog/key_sort_i.h"

#define BUILDER_TAG DLC_TAG4('c', 't', 'l', 'b')

/* Bytes that grow by half, so that realloc's slack stays small. */
struct grown {
    unsigned char *p;
    size_t len, cap;
};

/* Room for `more` bytes at p + len, or NULL. */
unsigned char *grown_reserve(struct grown *g, size_t more);

/* Records as they will lie in the file: blocks, and the table of blocks. */
struct records {
    struct grown data, table;
    size_t start; /* of the open block */
    uint64_t n;
};

static inline bool records_at_start(const struct records *r)
{
    return r->n % CATALOG_BLOCK == 0;
}

/* What the next sample is coded against; forgotten at the start of each block. */
struct sample_state {
    uint64_t object, end, inline_off;
    size_t name_len;
    char name[CATALOG_KEY_MAX];
};

struct catalog_builder {
    uint32_t tag;
    bool sorted;                     /* so far every key was greater than the one before */
    bool settled;                    /* no more objects */
    uint64_t max_objects, max_bytes; /* 0: no limit */
    bool full;                       /* one of them was met */
    unsigned char *arena;
    size_t arena_len, arena_cap;
    struct record_ref *refs;
    size_t n, refs_cap;

    bool whole; /* so far sample i is object i */
    struct records samples, texts;
    struct grown names, inlined, derived, labels, targets;
    struct map inline_seen; /* hash -> offset + 1 */
    struct sample_state last;
    uint64_t bytes, visible;
    uint64_t n_samples, n_classes;
    struct catalog_split *splits;
    size_t n_splits, splits_cap;
    char (*columns)[CATALOG_NAME_MAX];
    size_t n_columns, columns_cap;
};

static inline void builder_check(const struct catalog_builder *b)
{
    dlc_check(b != NULL && b->tag == BUILDER_TAG);
}

static inline const unsigned char *record_at(const struct catalog_builder *b, size_t i)
{
    return b->arena + b->refs[i].off;
}

int builder_no_memory(const struct catalog_builder *b, struct dlc_err *err);
int builder_check_limits(struct catalog_builder *b, struct dlc_err *err);
int builder_bad_name(const char *what, const char *name, size_t len, struct dlc_err *err);
/* All that was added is complete and in order: ready to be written. */
int builder_seal(struct catalog_builder *b, struct dlc_err *err);
void builder_release_samples(struct catalog_builder *b);

#endif
