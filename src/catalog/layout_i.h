// SPDX-License-Identifier: Apache-2.0
/* Layouts inside: layout.c chooses, the others add samples. */
#ifndef DLC_CATALOG_LAYOUT_I_H
#define DLC_CATALOG_LAYOUT_I_H

#include "base/check.h"
#include "base/u64map.h"
#include "catalog/layout.h"

/* Texts with numbers: classes, splits. */
struct words {
    struct map map;
    char **v;
    size_t n, cap;
};
uint32_t words_add(struct words *w, const char *s, size_t len); /* its number */
bool words_find(const struct words *w, const char *s, size_t len, uint32_t *number);
/* Sort; order (n numbers) tells where each one went, may be NULL. */
void words_sort(struct words *w, int (*cmp)(const void *, const void *), uint32_t *order);
int words_by_bytes(const void *a, const void *b); /* both const char *const * */
void words_release(struct words *w);

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
};

struct seen { /* an object as a part sees it */
    struct catalog_object o;
    const char *path; /* below the part */
    const char *base; /* last name of the path */
    const char *dot;  /* last dot of base, not its first character; the end when it has none */
};
void plan_see(const struct plan *p, const struct part *part, uint64_t j, struct seen *out);
bool seen_is_junk(const struct seen *s); /* .DS_Store, _SUCCESS: no layout but flat counts them */
bool seen_suffix_in(const struct seen *s, const char *const *list);

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
int layout_manifest(struct plan *p, uint64_t j, struct dlc_err *err);
bool layout_find_manifest(struct plan *p, uint64_t *j);

#endif
