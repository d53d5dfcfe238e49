// SPDX-License-Identifier: Apache-2.0
/*
 * Selections: prefixes of samples, prefixes of targets, and manifests, each of a split or of none,
 * make one dataset. The objects below one prefix of samples are a part; parts come in the order
 * of the selection, those of one split together.
 *
 * (SELECT-1) A selection that finds no object is an error, and so is an object that two prefixes of
 *            samples select: nothing is left out, and nothing is read twice, without a word.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "catalog/layout_i.h"

bool layout_selects(const struct layout *l, enum layout_select_kind kind)
{
    for (size_t i = 0; i < l->n_select; i++) {
        if (l->select[i].kind == kind)
            return true;
    }
    return false;
}

/* The objects below a prefix are neighbours. */
static struct part part_of(const struct plan *p, const struct layout_select *s)
{
    size_t len = strlen(s->prefix), skip = len;
    struct part part = {.first = catalog_builder_seek(p->l->builder, s->prefix, len)};

    for (part.end = part.first; part.end < p->n; part.end++) {
        struct catalog_object o;

        catalog_builder_object(p->l->builder, part.end, &o);
        if (strncmp(o.key, s->prefix, len) != 0 || (s->one && o.key_len != len))
            break;
    }
    while (skip > 0 && s->prefix[skip - 1] != '/')
        skip--;
    part.skip = skip;
    split_name(s->split, strlen(s->split), part.split);
    return part;
}

static int nothing(const struct layout_select *s, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_ENOTFOUND, "there is no object below '%.300s', which is selected",
                       s->shown);
}

static int by_first(const void *a, const void *b)
{
    const struct part *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

static int check_overlap(const struct plan *p, struct dlc_err *err)
{
    struct part *sorted = mem_alloc((p->n_parts + 1) * sizeof(*sorted));
    struct catalog_object o;
    int rc = 0;

    memcpy(sorted, p->parts, p->n_parts * sizeof(*sorted));
    qsort(sorted, p->n_parts, sizeof(*sorted), by_first);
    for (size_t k = 1; k < p->n_parts && rc == 0; k++) {
        if (sorted[k].first >= sorted[k - 1].end)
            continue;
        catalog_builder_object(p->l->builder, sorted[k].first, &o);
        rc = dlc_err_set(err, DLC_EINVAL,
                         "%.300s is below two of the selected prefixes: a sample is there once",
                         o.key);
    }
    mem_free(&sorted);
    return rc;
}

/* Samples: their parts; or targets of `split`, added to the parts. */
static int add_parts(struct plan *p, enum layout_select_kind kind, struct dlc_err *err)
{
    for (size_t i = 0; i < p->l->n_select; i++) {
        const struct layout_select *s = &p->l->select[i];
        struct part part;

        if (s->kind != kind)
            continue;
        part = part_of(p, s);
        if (part.first == part.end)
            return nothing(s, err);
        mem_reserve(p->parts, p->n_parts, p->cap_parts);
        p->parts[p->n_parts++] = part;
    }
    return 0;
}

static int check_splits(const struct plan *p, struct dlc_err *err)
{
    for (size_t k = 1; k < p->n_parts; k++) {
        if ((p->parts[k].split[0] == '\0') != (p->parts[0].split[0] == '\0'))
            return dlc_err_set(err, DLC_EINVAL,
                               "samples are selected with a split and without one: give all of "
                               "them one, or none");
    }
    return 0;
}

int plan_select(struct plan *p, struct dlc_err *err)
{
    int rc;

    p->n_parts = 0;
    rc = add_parts(p, SELECT_SAMPLES, err);
    if (rc == 0)
        rc = check_splits(p, err);
    if (rc == 0)
        rc = check_overlap(p, err);
    if (rc == 0)
        plan_group_parts(p);
    return rc;
}

/* Manifests say what is a sample: selected samples of a split that has none would be left out. */
static int check_has_manifest(const struct layout *l, const struct layout_select *s,
                              struct dlc_err *err)
{
    for (size_t i = 0; i < l->n_select; i++) {
        const struct layout_select *m = &l->select[i];

        if (m->kind == SELECT_MANIFEST &&
            (m->split[0] == '\0' || s->split[0] == '\0' || strcmp(m->split, s->split) == 0))
            return 0;
    }
    return dlc_err_set(err, DLC_EINVAL,
                       "'%.300s' of the split %s is selected, and no manifest is of that split",
                       s->shown, s->split);
}

int plan_select_manifests(struct plan *p, struct manifest_source **v, size_t *n,
                          struct dlc_err *err)
{
    const struct layout *l = p->l;
    char want[CATALOG_NAME_MAX] = "";

    if (l->split != NULL)
        split_name(l->split, strlen(l->split), want);
    *n = 0;
    *v = mem_zero((l->n_select + 1) * sizeof(**v));
    for (size_t i = 0; i < l->n_select; i++) {
        const struct layout_select *s = &l->select[i];
        uint64_t *j = &(*v)[*n].object;

        if (s->kind != SELECT_MANIFEST) {
            struct part part = part_of(p, s);

            if (part.first == part.end)
                return nothing(s, err);
            if (check_has_manifest(l, s, err) < 0)
                return DLC_EINVAL;
            continue;
        }
        if (want[0] != '\0' && s->split[0] != '\0' && strcmp(want, s->split) != 0)
            continue; /* of another split than the one that is wanted */
        if (catalog_builder_find(l->builder, s->prefix, strlen(s->prefix), j) < 0 &&
            catalog_builder_find(l->builder, s->shown, strlen(s->shown), j) < 0)
            return dlc_err_set(err, DLC_EINVAL, "the manifest %s is not among the %llu objects",
                               s->shown, (unsigned long long)p->n);
        (*v)[(*n)++].split = s->split[0] == '\0' ? NULL : s->split;
    }
    if (*n == 0)
        return dlc_err_set(err, DLC_EINVAL, "there is no manifest of the split '%s'", want);
    return 0;
}

/* ---- samples and targets ---- */

/* The target of a sample: the one of its name, but for the suffix, below a prefix of targets of its
 * split. */
static int target_of(const struct plan *p, const struct part *targets, size_t n,
                     const struct part *part, uint64_t j, uint64_t *target, struct dlc_err *err)
{
    char stem[2 * CATALOG_KEY_MAX + 2];
    unsigned found = 0;
    bool none = true; /* no targets are selected for the split */
    struct seen s, t;

    plan_see(p, part, j, &s);
    for (size_t k = 0; k < n; k++) {
        size_t len = (size_t)(s.dot - s.path), skip = targets[k].skip;
        struct catalog_object first;

        if (strcmp(targets[k].split, part->split) != 0)
            continue;
        none = false;
        catalog_builder_object(p->l->builder, targets[k].first, &first);
        memcpy(stem, first.key, skip);
        memcpy(stem + skip, s.path, len);
        len += skip;
        for (uint64_t i = catalog_builder_seek(p->l->builder, stem, len); i < targets[k].end; i++) {
            plan_see(p, &targets[k], i, &t);
            if (t.o.key_len < len || memcmp(t.o.key, stem, len) != 0)
                break;
            if (i < targets[k].first || t.dot != t.o.key + len)
                continue;
            *target = i;
            found++;
        }
    }
    if (none)
        *target = UINT64_MAX;
    if (none || found == 1)
        return 0;
    return dlc_err_set(err, DLC_EINVAL,
                       found == 0 ? "%.300s has no target of its name below the selected prefixes"
                                  : "%.300s has several targets of its name",
                       s.o.key);
}

static int add_pairs(struct plan *p, const struct part *targets, size_t n, uint64_t **list,
                     struct dlc_err *err)
{
    size_t cap = 0, count = 0;
    int rc = 0;

    for (size_t k = 0; k < p->n_parts && rc == 0; k++) {
        rc = layout_begin_part(p, &p->parts[k], err);
        for (uint64_t j = p->parts[k].first; j < p->parts[k].end && rc == 0; j++) {
            struct seen s;

            plan_see(p, &p->parts[k], j, &s);
            if (seen_is_junk(&s))
                continue;
            mem_reserve(*list, count, cap);
            rc = target_of(p, targets, n, &p->parts[k], j, &(*list)[count], err);
            count++;
            if (rc == 0)
                rc = layout_add_whole(p, j, SAMPLE_NO_LABEL, err);
        }
    }
    return rc;
}

int layout_selected_pairs(struct plan *p, struct dlc_err *err)
{
    struct plan targets = {.l = p->l, .n = p->n};
    uint64_t *list = NULL, n;
    int rc = plan_select(p, err);

    if (rc == 0)
        rc = plan_choose_part(p, err);
    if (rc == 0)
        rc = add_parts(&targets, SELECT_TARGETS, err);
    if (rc == 0)
        rc = add_pairs(p, targets.parts, targets.n_parts, &list, err);
    n = catalog_builder_samples(p->l->builder);
    if (rc == 0)
        rc = catalog_builder_split(p->l->builder, LAYOUT_TARGETS, true, err);
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        if (list[i] == UINT64_MAX)
            continue;
        rc = catalog_builder_target(p->l->builder, i, catalog_builder_samples(p->l->builder), err);
        if (rc == 0)
            rc = layout_add_whole(p, list[i], SAMPLE_NO_LABEL, err);
    }
    mem_free(&list);
    mem_free(&targets.parts);
    return rc;
}
