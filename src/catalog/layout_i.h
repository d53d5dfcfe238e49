// SPDX-License-Identifier: Apache-2.0
/*
 * Internals of layouts: layout.c chooses; layout_files.c, layout_archive.c and layout_manifest.c
 * add samples; layout_parts.c has what they share.
 */
#ifndef DLC_CATALOG_LAYOUT_I_H
#define DLC_CATALOG_LAYOUT_I_H

#include "base/check.h"
#include "catalog/layout.h"
#include "catalog/name_table_i.h"

/* One folder of objects that is a split, or the only one. */
struct part {
    char split[CATALOG_NAME_MAX]; /* "": the dataset has no splits */
    uint64_t first, end;          /* objects */
    size_t skip;                  /* bytes of their keys that are above the part */
};

struct plan {
    struct layout *l;
    uint64_t n; /* objects */
    struct part *parts;
    size_t n_parts, cap_parts;
    const char *begun; /* the split whose samples are added; NULL: none */
};

struct manifest_source {
    uint64_t object;
    const char *split; /* of all its rows; NULL: rows say it, or nobody */
};

/* layout_select.c: parts, and manifests, as they are selected. *v is given: mem_free(). */
int plan_select(struct plan *p, struct dlc_err *err);
int plan_select_manifests(struct plan *p, struct manifest_source **v, size_t *n,
                          struct dlc_err *err);
bool layout_selects(const struct layout *l, enum layout_select_kind kind);
/* Samples and targets that are selected each by their own prefixes. */
int layout_selected_pairs(struct plan *p, struct dlc_err *err);

/* layout_parts.c */
/* Divide parts that have no split by the folders of splits in them, if all can be. */
void plan_split_parts(struct plan *p);
void plan_group_parts(struct plan *p); /* parts of one split become neighbours */
void plan_one_part(struct plan *p);    /* all objects in one */
/* Only the split that was asked for. DLC_EINVAL: there is none of that name. */
int plan_choose_part(struct plan *p, struct dlc_err *err);

struct seen { /* an object as a part sees it */
    struct catalog_object o;
    const char *path; /* below the part */
    const char *base; /* last name of the path */
    const char *dot;  /* last dot of base, not its first character; the end when it has none */
};
void plan_see(const struct plan *p, const struct part *part, uint64_t j, struct seen *out);
bool seen_is_junk(const struct seen *s); /* .DS_Store, _SUCCESS: no layout but flat counts them */
bool seen_suffix_in(const struct seen *s, const char *const *list);

bool split_is_known(const char *s, size_t len); /* train, val, test and so on */
/* The canonical name of a split, or the name itself. */
const char *split_name(const char *s, size_t len, char out[static CATALOG_NAME_MAX]);

int layout_add_whole(struct plan *p, uint64_t j, uint32_t label, struct dlc_err *err);
int layout_begin_part(struct plan *p, const struct part *part, struct dlc_err *err);

int layout_flat(struct plan *p, struct dlc_err *err);
int layout_folders(struct plan *p, struct dlc_err *err);
bool layout_is_folders(struct plan *p);
int layout_pairs(struct plan *p, struct dlc_err *err);
bool layout_is_pairs(struct plan *p);
int layout_containers(struct plan *p, bool tables, struct dlc_err *err);
bool layout_is_containers(struct plan *p, bool tables);
/* Read the members of archives without adding samples. On one thread at a time, in the order of the
 * objects. */
struct member_sink {
    bool (*wants)(const struct member_sink *k, uint64_t j); /* object j is an archive to be read */
    int (*found)(const struct member_sink *k, const char *name, size_t len,
                 const struct piece *piece, struct dlc_err *err); /* `piece` has its object */
    void *priv;
};
int layout_read_members(struct plan *p, const struct member_sink *k, struct dlc_err *err);
int layout_manifests(struct plan *p, const struct manifest_source *v, size_t n,
                     struct dlc_err *err);
bool layout_find_manifest(struct plan *p, uint64_t *j);

#endif
