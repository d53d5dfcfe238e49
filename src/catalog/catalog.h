// SPDX-License-Identifier: Apache-2.0
/*
 * A catalog: the frozen list of a dataset's samples and of the objects they are made of. One file,
 * made once per snapshot of the bucket, written under a temporary name and renamed, memory-mapped
 * read-only by every process. Its format is docs/format/catalog.md.
 *
 * Objects (key, size, ETag) are sorted by key. Samples are sequences of pieces
 * (docs/design/0003-samples.md); when sample i is object i as a whole, for all i, nothing is stored
 * for them. About 30 bytes per object for typical keys, about 16 per member of an archive.
 *
 * A reader treats the file as hostile: every access is checked against the mapping.
 */
#ifndef DLC_CATALOG_CATALOG_H
#define DLC_CATALOG_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "catalog/sample.h"

#define CATALOG_KEY_MAX     1024 /* S3's limit, without NUL; of names of samples too */
#define CATALOG_ETAG_MAX    128
#define CATALOG_SAMPLES_MAX (UINT32_MAX - 1) /* when they are not whole objects */
#define CATALOG_CELL_MAX    ((size_t)1 << 20)
#define CATALOG_COLUMNS_MAX 256
#define CATALOG_SPLITS_MAX  256
#define CATALOG_NAME_MAX    256 /* of a split or column, with NUL */
#define CATALOG_FEW_PIECES  16

struct catalog_entry {
    char key[CATALOG_KEY_MAX + 1];
    char etag[CATALOG_ETAG_MAX]; /* "" when unknown */
    uint64_t size;
};

/* ---- building: one thread at a time. After a failure a builder can only be freed ---- */

struct catalog_builder;
struct catalog_builder *catalog_builder_new(void);
/* From now on more objects, or more bytes of memory for all that was added, are DLC_ENOSPACE. 0: no
 * limit, as at first. */
void catalog_builder_limit(struct catalog_builder *b, uint64_t objects, uint64_t bytes);
bool catalog_builder_is_full(const struct catalog_builder *b); /* one of these has failed so */
/* Add an object; in any order. DLC_EINVAL: key too long, empty or with a NUL inside, ETag too long;
 * DLC_ENOMEM; DLC_ENOSPACE. */
int catalog_builder_add(struct catalog_builder *b, const char *key, size_t key_len, uint64_t size,
                        const char *etag, struct dlc_err *err);
uint64_t catalog_builder_count(const struct catalog_builder *b); /* objects */

/*
 * No more objects: sort them, keep the last added of each key. From here on they have their
 * numbers, and samples can be added; if none are, every object is a sample. Harmless to repeat.
 */
void catalog_builder_settle(struct catalog_builder *b);

struct catalog_object { /* borrowed from the builder */
    const char *key;
    size_t key_len;
    uint64_t size;
};
void catalog_builder_object(const struct catalog_builder *b, uint64_t j,
                            struct catalog_object *out);
void catalog_builder_etag(const struct catalog_builder *b, uint64_t j,
                          char etag[static CATALOG_ETAG_MAX]);
/* The first object whose key is not less; the number of objects when there is none. */
uint64_t catalog_builder_seek(const struct catalog_builder *b, const char *key, size_t key_len);
/* 0 or DLC_ENOTFOUND */
int catalog_builder_find(const struct catalog_builder *b, const char *key, size_t key_len,
                         uint64_t *j);

/* Classes and columns come before the first sample (but see catalog_builder_labels()) and are
 * numbered as they come. */
int catalog_builder_class(struct catalog_builder *b, const char *name, size_t len,
                          struct dlc_err *err);
int catalog_builder_column(struct catalog_builder *b, const char *name, struct dlc_err *err);
/* The samples added from here on, until the next split or the end, are of this one. The samples of
 * a hidden split and of those after it are not counted as samples of the dataset. */
int catalog_builder_split(struct catalog_builder *b, const char *name, bool hidden,
                          struct dlc_err *err);

struct catalog_text {
    const char *s;
    size_t len;
};

struct catalog_new_sample { /* all borrowed */
    const char *name;       /* NULL: the whole object `object`, under its own key */
    size_t name_len;
    uint64_t object;
    const struct piece *pieces; /* objects by their numbers */
    size_t n_pieces;
    uint32_t label;                   /* SAMPLE_NO_LABEL, or less than the number of classes */
    const struct catalog_text *cells; /* as many as there are columns; NULL: all empty */
};
/* DLC_EINVAL: a name that is too long; pieces outside of their object; DLC_ENOMEM. */
int catalog_builder_sample(struct catalog_builder *b, const struct catalog_new_sample *s,
                           struct dlc_err *err);
uint64_t catalog_builder_samples(const struct catalog_builder *b); /* added so far */
/* Labels of all samples, where they are known only after the samples are added: then classes come
 * last, and there are no columns. `labels` is n uint32_t, borrowed. */
int catalog_builder_labels(struct catalog_builder *b, const void *labels, size_t n,
                           struct dlc_err *err);
/* The unpacked copy of object j has this many bytes. Once per object. */
int catalog_builder_derived(struct catalog_builder *b, uint64_t j, uint64_t size,
                            struct dlc_err *err);
/* Sample `target` is the target of sample i; both may still be to come. */
int catalog_builder_target(struct catalog_builder *b, uint64_t i, uint64_t target,
                           struct dlc_err *err);

/* Settle and write to path. `url` names the dataset and is stored. */
int catalog_builder_finish(struct catalog_builder *b, const char *path, const char *url,
                           struct dlc_err *err);
void catalog_builder_free(struct catalog_builder **bp);

/* Where a catalog is kept below the daemon's directory: `parts` say whose it is, where its bucket is
 * and its URL (canonical, without shape), as name_hash_of() takes them. Gives. */
char *catalog_path(const char *dir, const char *const *parts, size_t n);

struct catalog;

/* ---- on disk: store.c. `path` is that of catalog_path() ---- */

#define CATALOG_KEEP 8 /* old catalogs of a dataset that stay, beside those in use */

/* Where an older catalog is kept. Gives. */
char *catalog_snapshot_path(const char *path, uint64_t snapshot);
/* The catalog in `file` becomes the one at `path`; the one that is there stays as an older one if
 * it is of another snapshot. `file` is gone in any case. */
int catalog_install(const char *file, const char *path, struct dlc_err *err);
/* Only rename it, durably: it survives a power cut. */
int catalog_place(const char *file, const char *path, struct dlc_err *err);
/* The stored catalog of this snapshot, be it the newest or an older one. Returns as
 * catalog_open(). */
int catalog_load_snapshot(const char *path, uint64_t snapshot, struct catalog **out,
                          struct dlc_err *err);
/* Remove files that a killed daemon has left half written below its directory `dir`. The caller
 * holds the directory's lock. */
void catalog_clean(const char *dir);
/* Remove older catalogs, except those of the snapshots in `used`, and the latest CATALOG_KEEP of
 * the others within max_bytes. Returns how many. */
unsigned catalog_prune(const char *path, const uint64_t *used, size_t n_used, uint64_t max_bytes);

/* ---- reading ---- */

/* Map the file. DLC_ECORRUPT when it is damaged or of another version, DLC_ENOTFOUND when absent.
 */
int catalog_open(const char *path, struct catalog **out, struct dlc_err *err);
/* The same from a descriptor (borrowed), as a client gets it. */
/* The same, but its bytes are copied into sealed memory: later changes of the file, or failures of
 * its disk, cannot harm readers. Blocks. */
int catalog_load(const char *path, struct catalog **out, struct dlc_err *err);
uint64_t catalog_stored_snapshot(const char *path); /* blocks; 0: there is none, or it is damaged */
int catalog_open_fd(int fd, struct catalog **out, struct dlc_err *err);
void catalog_close(struct catalog **cp);

/* All X: a catalog never changes. */
uint64_t catalog_count(const struct catalog *c);   /* samples, with hidden ones */
uint64_t catalog_visible(const struct catalog *c); /* samples [0, visible) make up the dataset */
uint64_t catalog_objects(const struct catalog *c);
uint64_t catalog_bytes(const struct catalog *c); /* sum of the sizes of the visible */
const char *catalog_url(const struct catalog *c);
/* Hash of all objects and samples: identifies the snapshot. */
uint64_t catalog_snapshot(const struct catalog *c);
/* Are they equal, byte by byte? A damaged one does not equal a good one. */
bool catalog_same(const struct catalog *a, const struct catalog *b);
uint64_t catalog_file_size(const struct catalog *c);
int catalog_fd(const struct catalog *c);        /* borrowed: for handing it to clients */
bool catalog_is_whole(const struct catalog *c); /* sample i is object i */

/* Name and size of sample i; the ETag is that of the first object in it. */
int catalog_get(const struct catalog *c, uint64_t i, struct catalog_entry *out,
                struct dlc_err *err);
/* The sample of that name. 0, DLC_ENOTFOUND, or DLC_ECORRUPT when the search met damage. */
int catalog_find(const struct catalog *c, const char *key, uint64_t *i);

int catalog_object(const struct catalog *c, uint64_t j, struct catalog_entry *out,
                   struct dlc_err *err);
/* Bytes of the unpacked copy of object j; DLC_ENOTFOUND: it has none. */
int catalog_derived(const struct catalog *c, uint64_t j, uint64_t *size, struct dlc_err *err);

struct catalog_sample {
    char name[CATALOG_KEY_MAX + 1];
    uint64_t size;
    size_t n_pieces;
    struct piece *pieces; /* `few`, or memory of its own; inline bytes are borrowed from c */
    struct piece few[CATALOG_FEW_PIECES];
};
/* Gives *out, also on failure: return it with catalog_sample_release(). The pieces are verified:
 * (SAMPLES-1) of docs/design/0003 holds. A sample that is a whole object has one piece. */
int catalog_sample(const struct catalog *c, uint64_t i, struct catalog_sample *out,
                   struct dlc_err *err);
void catalog_sample_release(struct catalog_sample *s);

/* *label is SAMPLE_NO_LABEL when it has none. */
int catalog_label(const struct catalog *c, uint64_t i, uint32_t *label, struct dlc_err *err);
uint64_t catalog_classes(const struct catalog *c);
/* Texts are borrowed from c and have no NUL at their end. */
int catalog_class_name(const struct catalog *c, uint64_t k, struct catalog_text *out,
                       struct dlc_err *err);

struct catalog_split {
    char name[CATALOG_NAME_MAX];
    uint64_t first, count;
    bool hidden;
};
unsigned catalog_splits(const struct catalog *c);
const struct catalog_split *catalog_split_at(const struct catalog *c, unsigned k);    /* borrowed */
const struct catalog_split *catalog_split(const struct catalog *c, const char *name); /* or NULL */

unsigned catalog_columns(const struct catalog *c);
const char *catalog_column_name(const struct catalog *c, unsigned k); /* borrowed */
int catalog_cell(const struct catalog *c, uint64_t i, unsigned column, struct catalog_text *out,
                 struct dlc_err *err);
/* The sample that is the target of sample i; DLC_ENOTFOUND: it has none. */
int catalog_target(const struct catalog *c, uint64_t i, uint64_t *target, struct dlc_err *err);

#endif
