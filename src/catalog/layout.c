// SPDX-License-Identifier: Apache-2.0
/*
 * Choosing a layout, and what all of them share. The choice looks at keys and sizes only; the first
 * rule that fits wins (docs/datasets.md has them for users):
 *
 *   1. a manifest is named, or lies in the root under one of its usual names
 *   2. splits: all folders directly below the root are named like one
 *   3. all objects are archives; all are tabular files and one is larger than a partition
 *   4. every object has its counterpart: pairs
 *   5. every object lies in a folder and there are at least two of these
 *   6. flat
 */
#include "catalog/layout_i.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"

static const char *const names[] = {
    [LAYOUT_AUTO] = "auto",         [LAYOUT_FLAT] = "flat",   [LAYOUT_FOLDERS] = "folders",
    [LAYOUT_MANIFEST] = "manifest", [LAYOUT_PAIRS] = "pairs", [LAYOUT_ARCHIVE] = "archive",
    [LAYOUT_TABLE] = "table",
};

bool layout_parse(const char *name, enum layout_kind *kind)
{
    for (unsigned i = 0; i < DLC_COUNT(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            *kind = (enum layout_kind)i;
            return true;
        }
    }
    return false;
}

const char *layout_name(enum layout_kind kind)
{
    return names[kind];
}

/* ---- words ---- */

/* Equal hashes of different words go to the next number. */
static uint64_t word_slot(const struct words *w, const char *s, size_t len, uint32_t *number)
{
    uint64_t h = hash64(s, len);
    uintptr_t at;

    while ((at = (uintptr_t)map_get(&w->map, h)) != 0) {
        const char *have = w->v[at - 1];

        if (strncmp(have, s, len) == 0 && have[len] == '\0') {
            *number = (uint32_t)(at - 1);
            break;
        }
        h++;
    }
    return h;
}

bool words_find(const struct words *w, const char *s, size_t len, uint32_t *number)
{
    *number = UINT32_MAX;
    word_slot(w, s, len, number);
    return *number != UINT32_MAX;
}

uint32_t words_add(struct words *w, const char *s, size_t len)
{
    uint32_t number = UINT32_MAX;
    uint64_t slot = word_slot(w, s, len, &number);

    if (number != UINT32_MAX)
        return number;
    mem_reserve(w->v, w->n, w->cap);
    w->v[w->n++] = mem_strn(s, len);
    map_set(&w->map, slot, (void *)(uintptr_t)w->n);
    return (uint32_t)(w->n - 1);
}

int words_by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void words_sort(struct words *w, int (*cmp)(const void *, const void *), uint32_t *order)
{
    char **old = mem_alloc(DLC_MAX(w->n, 1u) * sizeof(*old));

    if (w->n > 0) {
        memcpy(old, w->v, w->n * sizeof(*old));
        qsort(w->v, w->n, sizeof(*w->v), cmp);
    }
    map_release(&w->map);
    w->map = (struct map)MAP_INIT;
    for (size_t i = 0; i < w->n; i++) {
        uint32_t none;

        map_set(&w->map, word_slot(w, w->v[i], strlen(w->v[i]), &none), (void *)(uintptr_t)(i + 1));
    }
    for (size_t i = 0; order != NULL && i < w->n; i++)
        dlc_check(words_find(w, old[i], strlen(old[i]), &order[i]));
    mem_free(&old);
}

void words_release(struct words *w)
{
    for (size_t i = 0; i < w->n; i++)
        mem_free(&w->v[i]);
    mem_free(&w->v);
    map_release(&w->map);
    *w = (struct words){.n = 0};
}

/* ---- objects as a part sees them ---- */

void plan_see(const struct plan *p, const struct part *part, uint64_t j, struct seen *out)
{
    const char *slash, *end;

    catalog_builder_object(p->l->builder, j, &out->o);
    end = out->o.key + out->o.key_len;
    out->path = out->o.key + part->skip;
    slash = strrchr(out->path, '/');
    out->base = slash == NULL ? out->path : slash + 1;
    out->dot = out->base[0] == '\0' ? NULL : strrchr(out->base + 1, '.');
    if (out->dot == NULL)
        out->dot = end;
}

bool seen_is_junk(const struct seen *s)
{
    return s->base[0] == '.' || s->base[0] == '\0' || strcmp(s->base, "_SUCCESS") == 0 ||
           strcasecmp(s->base, "Thumbs.db") == 0;
}

bool seen_suffix_in(const struct seen *s, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (strcasecmp(s->dot, *list) == 0)
            return true;
    }
    return false;
}

/* ---- splits ---- */

static const struct {
    const char *folder, *split;
} split_names[] = {
    {"train", "train"},      {"training", "train"}, {"validation", "validation"},
    {"valid", "validation"}, {"val", "validation"}, {"test", "test"},
    {"testing", "test"},
};

static const char *known_split(const char *s, size_t len)
{
    for (unsigned i = 0; i < DLC_COUNT(split_names); i++) {
        if (strlen(split_names[i].folder) == len && strncasecmp(split_names[i].folder, s, len) == 0)
            return split_names[i].split;
    }
    return NULL;
}

const char *split_name(const char *s, size_t len, char out[static CATALOG_NAME_MAX])
{
    const char *known = known_split(s, len);

    if (known != NULL) {
        s = known;
        len = strlen(known);
    }
    len = DLC_MIN(len, (size_t)CATALOG_NAME_MAX - 1);
    memcpy(out, s, len);
    out[len] = '\0';
    return out;
}

static size_t root_skip(const struct plan *p, uint64_t j)
{
    struct catalog_object o;

    catalog_builder_object(p->l->builder, j, &o);
    return str_starts(o.key, p->l->root) ? strlen(p->l->root) : 0;
}

static void one_part(struct plan *p)
{
    p->n_parts = 0;
    mem_reserve(p->parts, p->n_parts, p->cap_parts);
    p->parts[p->n_parts++] = (struct part){.end = p->n};
    if (p->n > 0)
        p->parts[0].skip = root_skip(p, 0);
    for (uint64_t j = 1; j < p->n; j++) /* objects outside of the root: see all from the top */
        p->parts[0].skip = DLC_MIN(p->parts[0].skip, root_skip(p, j));
}

static bool have_split(const struct plan *p, const char *name)
{
    for (size_t k = 0; k < p->n_parts; k++) {
        if (strcmp(p->parts[k].split, name) == 0)
            return true;
    }
    return false;
}

/* Folders directly below the root as parts; false: they are not all splits. Objects that lie in no
 * folder are in no part; unless they are junk there must be none. */
static bool split_parts(struct plan *p)
{
    struct part whole = p->parts[0], *last;

    p->n_parts = 0;
    for (uint64_t j = 0; j < p->n; j++) {
        struct seen s;
        const char *slash, *split;

        plan_see(p, &whole, j, &s);
        slash = strchr(s.path, '/');
        if (slash == NULL) {
            if (seen_is_junk(&s))
                continue;
            return false;
        }
        split = known_split(s.path, (size_t)(slash - s.path));
        if (split == NULL)
            return false;
        last = p->n_parts == 0 ? NULL : &p->parts[p->n_parts - 1];
        if (last != NULL && strcmp(last->split, split) == 0 &&
            last->skip == whole.skip + (size_t)(slash + 1 - s.path)) {
            last->end = j + 1;
            continue;
        }
        if (have_split(p, split)) /* val/ and valid/: which one is meant? */
            return false;
        mem_reserve(p->parts, p->n_parts, p->cap_parts);
        last = &p->parts[p->n_parts++];
        *last = (struct part){
            .first = j, .end = j + 1, .skip = whole.skip + (size_t)(slash + 1 - s.path)};
        split_name(split, strlen(split), last->split);
    }
    return p->n_parts > 0;
}

static void find_parts(struct plan *p)
{
    one_part(p);
    if (!split_parts(p))
        one_part(p);
}

/* Only the split that was asked for. */
static int choose_part(struct plan *p, struct dlc_err *err)
{
    char want[CATALOG_NAME_MAX];

    if (p->l->split == NULL)
        return 0;
    split_name(p->l->split, strlen(p->l->split), want);
    for (size_t k = 0; k < p->n_parts; k++) {
        if (strcmp(p->parts[k].split, want) == 0) {
            p->parts[0] = p->parts[k];
            p->n_parts = 1;
            return 0;
        }
    }
    return dlc_err_set(err, DLC_EINVAL,
                       "there is no split '%s': splits are folders train/, validation/ and test/ "
                       "directly below the URL, or a column of a manifest",
                       want);
}

int layout_begin_part(struct plan *p, const struct part *part, struct dlc_err *err)
{
    if (part->split[0] == '\0')
        return 0;
    return catalog_builder_split(p->l->builder, part->split, false, err);
}

int layout_add_whole(struct plan *p, uint64_t j, uint32_t label, struct dlc_err *err)
{
    struct catalog_new_sample s = {.object = j, .label = label};

    return catalog_builder_sample(p->l->builder, &s, err);
}

/* ---- choosing ---- */

static int apply(struct plan *p, struct dlc_err *err)
{
    struct layout *l = p->l;
    uint64_t manifest;

    if (l->kind == LAYOUT_MANIFEST || (l->kind == LAYOUT_AUTO && l->manifest != NULL) ||
        l->kind == LAYOUT_AUTO) {
        one_part(p);
        if (layout_find_manifest(p, &manifest)) {
            l->kind = LAYOUT_MANIFEST;
            return layout_manifest(p, manifest, err);
        }
        if (l->manifest != NULL)
            return dlc_err_set(err, DLC_EINVAL, "the manifest %s is not among the %llu objects",
                               l->manifest, (unsigned long long)p->n);
        if (l->kind == LAYOUT_MANIFEST)
            return dlc_err_set(err, DLC_EINVAL,
                               "no manifest: write ?manifest=KEY, or name it manifest.csv, "
                               "manifest.jsonl, metadata.csv or metadata.jsonl");
    }
    find_parts(p);
    if (l->kind == LAYOUT_AUTO)
        l->kind = layout_is_containers(p, false)  ? LAYOUT_ARCHIVE
                  : layout_is_containers(p, true) ? LAYOUT_TABLE
                  : layout_is_pairs(p)            ? LAYOUT_PAIRS
                  : layout_is_folders(p)          ? LAYOUT_FOLDERS
                                                  : LAYOUT_FLAT;
    if (choose_part(p, err) < 0)
        return DLC_EINVAL;
    switch (l->kind) {
    case LAYOUT_FOLDERS: return layout_folders(p, err);
    case LAYOUT_PAIRS: return layout_pairs(p, err);
    case LAYOUT_ARCHIVE: return layout_containers(p, false, err);
    case LAYOUT_TABLE: return layout_containers(p, true, err);
    case LAYOUT_AUTO:
    case LAYOUT_MANIFEST:
    case LAYOUT_FLAT: break;
    }
    return layout_flat(p, err);
}

int layout_apply(struct layout *l, struct dlc_err *err)
{
    struct plan p = {.l = l};
    int rc;

    catalog_builder_settle(l->builder);
    p.n = catalog_builder_count(l->builder);
    rc = apply(&p, err);
    if (rc == 0 && p.n > 0 && catalog_builder_samples(l->builder) == 0 && l->kind != LAYOUT_FLAT)
        rc = dlc_err_set(err, DLC_EINVAL,
                         "the layout '%s' finds no samples among the %llu objects; "
                         "?layout=flat takes each object as one",
                         layout_name(l->kind), (unsigned long long)p.n);
    mem_free(&p.parts);
    return rc;
}
