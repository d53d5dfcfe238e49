// SPDX-License-Identifier: Apache-2.0
/*
 * What the rows of a manifest name: objects, and members of archives.
 *
 * A name is looked for among the objects first: from the folder of the manifest, from the root, as
 * the whole key. ARCHIVE/MEMBER names a member of that archive, and the path of a member alone names
 * it in whichever archive has it. Members wait until all rows are read; then the archives that rows
 * name are read, or all of them if a row names a member alone.
 *
 *     refs_find() of each row --> refs_read_archives() --> refs_member()
 *
 * (REFS-1) An archive that no row can mean is not read.
 * (REFS-2) A member is found in one archive: two that have it are a fault, unless the row says which.
 */
#ifndef DLC_CATALOG_MANIFEST_REFS_I_H
#define DLC_CATALOG_MANIFEST_REFS_I_H

#include "base/buf.h"
#include "base/u64map.h"
#include "catalog/layout_i.h"

#define REF_MEMBER ((uint64_t)1 << 63) /* a reference: number of a member; else of an object */
#define REF_NONE   UINT64_MAX

struct member_ref {
    uint64_t archive;        /* object that the row names, or REF_NONE: any */
    size_t name, len;        /* in `names`: the path in the archive */
    uint64_t manifest, line; /* of the first row that names it */
    const char *column;      /* of that row; borrowed */
    struct piece piece;      /* where it is; length and object are set when it was found */
    uint64_t also_in;        /* another archive that has it, or REF_NONE */
    size_t same;             /* another reference to the same member, or SIZE_MAX */
    bool found, used;        /* used: by a sample */
};

struct refs {
    struct plan *p;
    uint64_t manifest; /* object: the one that is being read */
    uint64_t last;     /* object that was found last: rows are often in the order of keys */
    uint64_t n_archives;
    struct buf names;
    struct member_ref *members;
    size_t n, cap;
    struct map seen;       /* hash of archive and name -> number + 1 */
    unsigned char *wanted; /* a bit for each object: an archive to read */
    bool all;              /* read every archive */
};

void refs_init(struct refs *r, struct plan *p); /* the caller sets `manifest` */
void refs_release(struct refs *r);

/* Does the text name an object, or ARCHIVE/MEMBER of an archive that there is? */
bool refs_is_known(struct refs *r, struct catalog_text t);
/* An object, or a member that may be found later. False: it names neither. */
bool refs_find(struct refs *r, struct catalog_text t, uint64_t line, const char *column,
               uint64_t *ref);
/* Find the members. Those that are not found, or found twice, are for the caller to report. */
int refs_read_archives(struct refs *r, struct dlc_err *err);
struct member_ref *refs_member(struct refs *r, uint64_t ref); /* borrowed */
/* Add it as a sample: object, name and piece of `s` are set. */
int refs_add_sample(struct refs *r, uint64_t ref, struct catalog_new_sample *s,
                    struct dlc_err *err);

#endif
