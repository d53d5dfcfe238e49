// SPDX-License-Identifier: Apache-2.0
/*
 * Layouts: how a list of objects becomes samples. docs/datasets.md describes them for users.
 *
 *     flat      every object is a sample
 *     folders   the folder directly below the root is the class
 *     manifest  a CSV or JSON-lines file names samples, labels, splits and columns
 *     pairs     a sample and its target have the same name except for folder or suffix
 *     archive   members of archives are samples
 *     table     large csv, npy and parquet files are cut into partitions
 *
 * Folders named train, validation (val, valid) and test directly below the root are splits in all
 * of them except manifest, which may have a column for it.
 *
 * Runs on a worker: reading manifests and archives blocks.
 */
#ifndef DLC_CATALOG_LAYOUT_H
#define DLC_CATALOG_LAYOUT_H

#include "catalog/catalog.h"
#include "catalog/archives/scan.h"

enum layout_kind {
    LAYOUT_AUTO,
    LAYOUT_FLAT,
    LAYOUT_FOLDERS,
    LAYOUT_MANIFEST,
    LAYOUT_PAIRS,
    LAYOUT_ARCHIVE,
    LAYOUT_TABLE,
};

#define LAYOUT_PARTITION ((uint64_t)64000000)
#define LAYOUT_TARGETS   "(targets)" /* the hidden split */

/* Which objects a dataset is made of, where not all that are listed. */
enum layout_select_kind { SELECT_SAMPLES, SELECT_TARGETS, SELECT_MANIFEST };
struct layout_select {
    enum layout_select_kind kind;
    const char *split; /* "": not said */
    char *prefix;      /* of whole keys; the caller's */
    const char *shown; /* as the user wrote it */
    bool one;          /* the prefix is the key of an object */
};

struct layout {
    struct catalog_builder *builder; /* has the objects; gets the samples */
    enum layout_kind kind;           /* AUTO: becomes what was found */
    const char *root;                /* keys below it are seen from there: "" or ends with '/' */
    const char *split;               /* only this one; NULL: all */
    struct layout_select *select;    /* in order; borrowed */
    size_t n_select;                 /* 0: every object that is listed */
    uint64_t partition;              /* 0: LAYOUT_PARTITION */
    int group;                       /* WebDataset groups: 1 yes, 0 no, -1: when members show it */
    unsigned parallel; /* archives and tables that are read at once, by as many threads; 0: one */

    /* Reading object j. open() gives *out until close(). Where `parallel` is more than one, these
     * and the following are called on several threads. */
    int (*open)(struct layout *l, uint64_t j, struct source *out, struct dlc_err *err);
    void (*close)(struct layout *l, struct source *s);
    /* Keeping the unpacked copy of object j: derive() gives a sink, derived() takes it; keep is
     * false when the scan failed. NULL: there is no place for it, and archives that need one fail.
     */
    int (*derive)(struct layout *l, uint64_t j, struct scan_sink **out, struct dlc_err *err);
    int (*derived)(struct layout *l, struct scan_sink **k, bool keep, struct dlc_err *err);
    /* Progress: "reading archives", 3 of 100; or NULL. Non-zero: stop with that code. */
    int (*progress)(struct layout *l, const char *phase, uint64_t done, uint64_t total);
    void *priv;
};

/* Settle the builder and add its samples. DLC_EINVAL: the objects do not fit the layout, or a
 * manifest is wrong: the text names line and key of the first fault and the number of all. */
int layout_apply(struct layout *l, struct dlc_err *err);

/* "folders" and so on; false: no such layout. */
bool layout_parse(const char *name, enum layout_kind *kind);
const char *layout_name(enum layout_kind kind);

#endif
