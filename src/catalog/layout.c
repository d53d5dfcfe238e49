// SPDX-License-Identifier: Apache-2.0
/*
 * Choosing a layout. The choice looks at keys and sizes only; the first
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

#include <string.h>

#include "base/mem.h"

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

static int apply_manifests(struct plan *p, struct dlc_err *err)
{
    struct manifest_source *v = NULL;
    size_t n;
    int rc = plan_select_manifests(p, &v, &n, err);

    p->l->kind = LAYOUT_MANIFEST;
    if (rc == 0)
        rc = layout_manifests(p, v, n, err);
    mem_free(&v);
    return rc;
}

static int apply(struct plan *p, struct dlc_err *err)
{
    struct layout *l = p->l;
    uint64_t manifest;
    int rc = 0;

    if (layout_selects(l, SELECT_MANIFEST))
        return apply_manifests(p, err);
    if (layout_selects(l, SELECT_TARGETS)) {
        l->kind = LAYOUT_PAIRS;
        return layout_selected_pairs(p, err);
    }
    if (l->n_select == 0 && (l->kind == LAYOUT_MANIFEST || l->kind == LAYOUT_AUTO)) {
        if (layout_find_manifest(p, &manifest)) {
            l->kind = LAYOUT_MANIFEST;
            return layout_manifests(p, &(struct manifest_source){.object = manifest}, 1, err);
        }
        if (l->kind == LAYOUT_MANIFEST)
            return dlc_err_set(err, DLC_EINVAL,
                               "no manifest: write ?manifest=KEY, or name it manifest.csv, "
                               "manifest.jsonl, metadata.csv or metadata.jsonl");
    }
    if (l->n_select > 0)
        rc = plan_select(p, err);
    else
        plan_one_part(p);
    if (rc < 0)
        return rc;
    plan_split_parts(p);
    if (l->kind == LAYOUT_AUTO)
        l->kind = layout_is_containers(p, false)  ? LAYOUT_ARCHIVE
                  : layout_is_containers(p, true) ? LAYOUT_TABLE
                  : layout_is_pairs(p)            ? LAYOUT_PAIRS
                  : layout_is_folders(p)          ? LAYOUT_FOLDERS
                                                  : LAYOUT_FLAT;
    if (plan_choose_part(p, err) < 0)
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
