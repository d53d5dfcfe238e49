// SPDX-License-Identifier: Apache-2.0
/*
 * The XML documents that clouds send are flat: a root, its children, and a few levels more. A field
 * is known by the names of the elements around it, so a walk needs only the depth, those names, and
 * the text since the last start tag.
 *
 * A listing is kept until the document has ended well: nothing reaches the attempt from a broken
 * one. A document type declaration stops the parser: these documents have none, and without one
 * there are no entities to explode.
 */
#ifndef DLC_BUCKET_ORIGINS_XML_WALK_I_H
#define DLC_BUCKET_ORIGINS_XML_WALK_I_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "bucket/origins/origin.h"

#define WALK_DEEP 5 /* levels whose names are known */

struct walk_entry {
    size_t key, etag; /* offset + 1 in strings; 0: none */
    uint64_t size;    /* UINT64_MAX: none */
};

struct walk {
    const char *root;              /* the name that the document must have */
    unsigned entry_depth;          /* where `now` begins anew */
    void (*field)(struct walk *w); /* an element of level 2 or deeper has ended */
    void (*begin)(struct walk *w, const char **attributes); /* one begins; or NULL */

    unsigned depth;                /* of the element; the root is 1 */
    char names[WALK_DEEP + 1][32]; /* [depth] */
    struct buf text;               /* of the element */

    struct buf strings;
    struct walk_entry now, *entries;
    size_t n_entries, cap_entries;
    size_t *folders; /* offset + 1 in strings */
    size_t n_folders, cap_folders;
    size_t token; /* of the next page, offset + 1 in strings; 0: none */
    bool bad;

    void *priv; /* the document's */
    struct XML_ParserStruct *parser;
};

/* Was the document whole and the one we know? */
bool walk_run(struct walk *w, const char *data, size_t len);
void walk_release(struct walk *w);

bool walk_at(const struct walk *w, unsigned depth, const char *name); /* is this the name there? */
void walk_refuse(struct walk *w); /* the document is bad: stop */
/* Keep the current text; its offset + 1, so that 0 means none. */
size_t walk_keep(struct walk *w);
void walk_add_entry(struct walk *w); /* `now`; one without key or size is bad */
void walk_add_folder(struct walk *w, size_t kept);
/* %XX in place, and '+' for a space with `plus`. False: malformed, or a NUL. */
bool walk_decode(struct walk *w, size_t kept, bool plus);
/* Give all to the attempt. */
void walk_deliver(struct walk *w, bool more, struct attempt *a);

#endif
