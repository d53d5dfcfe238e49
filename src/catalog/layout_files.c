// SPDX-License-Identifier: Apache-2.0
/* Layouts whose samples are whole objects, seen from their keys: flat, folders, pairs. */
#include "catalog/layout_i.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

/* ---- flat ---- */

int layout_flat(struct plan *p, struct dlc_err *err)
{
    int rc = 0;

    if (p->n_parts == 1 && p->parts[0].split[0] == '\0' && p->parts[0].first == 0 &&
        p->parts[0].end == p->n)
        return 0; /* the builder's own way */
    for (size_t k = 0; k < p->n_parts && rc == 0; k++) {
        rc = layout_begin_part(p, &p->parts[k], err);
        for (uint64_t j = p->parts[k].first; j < p->parts[k].end && rc == 0; j++)
            rc = layout_add_whole(p, j, SAMPLE_NO_LABEL, err);
    }
    return rc;
}

/* ---- folders ---- */

/* Length of the class folder's name; 0: the object lies in none. */
static size_t class_of(const struct seen *s)
{
    const char *slash = strchr(s->path, '/');

    return slash == NULL || seen_is_junk(s) ? 0 : (size_t)(slash - s->path);
}

bool layout_is_folders(struct plan *p)
{
    struct name_table classes = {.n = 0};
    bool all = true, several;

    for (size_t k = 0; k < p->n_parts; k++) {
        for (uint64_t j = p->parts[k].first; j < p->parts[k].end && all; j++) {
            struct seen s;
            size_t len;

            plan_see(p, &p->parts[k], j, &s);
            len = class_of(&s);
            all = len > 0 || seen_is_junk(&s);
            if (len > 0 && classes.n < 2)
                name_table_add(&classes, s.path, len);
        }
    }
    several = classes.n >= 2;
    name_table_release(&classes);
    return all && several;
}

static int add_classes(struct plan *p, struct name_table *classes, struct dlc_err *err)
{
    int rc = 0;

    for (size_t k = 0; k < p->n_parts; k++) {
        for (uint64_t j = p->parts[k].first; j < p->parts[k].end; j++) {
            struct seen s;
            size_t len;

            plan_see(p, &p->parts[k], j, &s);
            len = class_of(&s);
            if (len > 0)
                name_table_add(classes, s.path, len);
        }
    }
    name_table_sort(classes, name_table_by_bytes, NULL);
    for (size_t i = 0; i < classes->n && rc == 0; i++)
        rc = catalog_builder_class(p->l->builder, classes->v[i], strlen(classes->v[i]), err);
    return rc;
}

/*
 * The samples of a part in the order of torchvision's ImageFolder: by class, then folder, then
 * name. Keys come sorted, which is the same unless classes have folders in them ("cat/a/1" <
 * "cat/b") or begin alike ("cat-2/1" < "cat/1").
 */
struct filed {
    uint64_t object;
    uint32_t label;
};

struct filing {
    const struct plan *plan;
    const struct part *part;
    struct filed *v;
    size_t n, cap;
};

static int compare_bytes(const char *a, size_t na, const char *b, size_t nb)
{
    int c = memcmp(a, b, DLC_MIN(na, nb));

    return c != 0 ? c : (na > nb) - (na < nb);
}

static int by_class_folder_name(const void *x, const void *y, void *priv)
{
    const struct filed *a = x, *b = y;
    const struct filing *f = priv;
    struct seen s, t;
    int c;

    if (a->label != b->label)
        return a->label < b->label ? -1 : 1;
    plan_see(f->plan, f->part, a->object, &s);
    plan_see(f->plan, f->part, b->object, &t);
    c = compare_bytes(s.path, (size_t)(s.base - s.path) - 1, t.path, (size_t)(t.base - t.path) - 1);
    return c != 0 ? c : strcmp(s.base, t.base);
}

static void file_part(struct filing *f, const struct name_table *classes)
{
    bool sorted = true;

    f->n = 0;
    for (uint64_t j = f->part->first; j < f->part->end; j++) {
        struct filed x = {.object = j};
        struct seen s;
        size_t len;

        plan_see(f->plan, f->part, j, &s);
        len = class_of(&s);
        if (len == 0 || !name_table_find(classes, s.path, len, &x.label))
            continue;
        mem_reserve(f->v, f->n, f->cap);
        sorted = sorted && (f->n == 0 || by_class_folder_name(&f->v[f->n - 1], &x, f) < 0);
        f->v[f->n++] = x;
    }
    if (!sorted)
        qsort_r(f->v, f->n, sizeof(*f->v), by_class_folder_name, f);
}

int layout_folders(struct plan *p, struct dlc_err *err)
{
    struct name_table classes = {.n = 0};
    struct filing f = {.plan = p};
    int rc = add_classes(p, &classes, err);

    for (size_t k = 0; k < p->n_parts && rc == 0; k++) {
        rc = layout_begin_part(p, &p->parts[k], err);
        f.part = &p->parts[k];
        file_part(&f, &classes);
        for (size_t i = 0; i < f.n && rc == 0; i++)
            rc = layout_add_whole(p, f.v[i].object, f.v[i].label, err);
    }
    mem_free(&f.v);
    name_table_release(&classes);
    return rc;
}

/* ---- pairs ---- */

static const char *const sample_folders[] = {"images", "image", "imgs",    "img",   "inputs",
                                             "input",  "audio", "samples", "clips", NULL};
static const char *const target_folders[] = {"labels",      "label",      "masks",   "mask",
                                             "annotations", "annotation", "targets", "target",
                                             "gt",          "captions",   NULL};
static const char *const target_suffixes[] = {".txt", ".cls", ".json", ".xml", ".label", NULL};

static bool folder_in(const char *path, const char *const *list)
{
    size_t len = strcspn(path, "/");

    for (; path[len] == '/' && *list != NULL; list++) {
        if (strlen(*list) == len && strncasecmp(path, *list, len) == 0)
            return true;
    }
    return false;
}

enum role { ROLE_NONE, ROLE_SAMPLE, ROLE_TARGET };

/* Two forms: by the names of two folders, or by suffixes in one. */
struct pairing {
    bool folders;
    char targets[64]; /* folders: the name of that of the targets, with '/' */
};

static enum role role_of(const struct pairing *f, const struct seen *s)
{
    if (seen_is_junk(s))
        return ROLE_NONE;
    if (f->folders)
        return folder_in(s->path, sample_folders)   ? ROLE_SAMPLE
               : folder_in(s->path, target_folders) ? ROLE_TARGET
                                                    : ROLE_NONE;
    return *s->dot == '\0'                      ? ROLE_NONE
           : seen_suffix_in(s, target_suffixes) ? ROLE_TARGET
                                                : ROLE_SAMPLE;
}

/* Which form, if any: two folders when an object lies in one of a known name. */
static struct pairing pairing_of(const struct plan *p, const struct part *part)
{
    struct pairing f = {.folders = false};

    for (uint64_t j = part->first; j < part->end; j++) {
        struct seen s;
        size_t len;

        plan_see(p, part, j, &s);
        len = strcspn(s.path, "/") + 1;
        if (folder_in(s.path, target_folders) && len < sizeof(f.targets)) {
            f.folders = true;
            memcpy(f.targets, s.path, len);
            break;
        }
    }
    return f;
}

/* The target of the sample s; the only one that differs from it in folder or suffix alone. */
static bool target_of(const struct plan *p, const struct part *part, const struct pairing *f,
                      const struct seen *s, uint64_t *target)
{
    const char *from = f->folders ? strchr(s->path, '/') + 1 : s->path;
    size_t n = part->skip, more = (size_t)(s->dot - from), dir = strlen(f->targets);
    char stem[CATALOG_KEY_MAX + 80];
    unsigned found = 0;

    memcpy(stem, s->o.key, n);
    if (f->folders) {
        memcpy(stem + n, f->targets, dir);
        n += dir;
    }
    memcpy(stem + n, from, more);
    n += more;
    stem[n++] = '.';
    for (uint64_t j = catalog_builder_seek(p->l->builder, stem, n); j < part->end; j++) {
        struct seen t;

        plan_see(p, part, j, &t);
        if (t.o.key_len < n || memcmp(t.o.key, stem, n) != 0)
            break;
        if (t.dot == t.o.key + n - 1 && role_of(f, &t) == ROLE_TARGET) {
            *target = j;
            found++;
        }
    }
    return found == 1;
}

struct tally {
    uint64_t samples, targets, others, lonely;
    char first[200]; /* lonely sample */
};

/* Match everything; each sample and its target are told. Without `found` it ends at the first that
 * has none: looking is all that is wanted. */
static int match_part(struct plan *p, const struct part *part, struct tally *t,
                      int (*found)(struct plan *, uint64_t, uint64_t, void *, struct dlc_err *),
                      void *priv, struct dlc_err *err)
{
    struct pairing f = pairing_of(p, part);
    int rc = 0;

    for (uint64_t j = part->first; j < part->end && rc == 0; j++) {
        struct seen s;
        uint64_t target;
        enum role role;

        plan_see(p, part, j, &s);
        role = role_of(&f, &s);
        t->targets += role == ROLE_TARGET;
        t->others += role == ROLE_NONE && !seen_is_junk(&s);
        if (role != ROLE_SAMPLE)
            continue;
        t->samples++;
        if (target_of(p, part, &f, &s, &target)) {
            if (found != NULL)
                rc = found(p, j, target, priv, err);
        } else if (t->lonely++ == 0) {
            size_t n = DLC_MIN(s.o.key_len, sizeof(t->first) - 1);

            memcpy(t->first, s.o.key, n);
            t->first[n] = '\0';
            if (found == NULL)
                return 0;
        }
    }
    return rc;
}

bool layout_is_pairs(struct plan *p)
{
    struct tally t = {.samples = 0};

    for (size_t k = 0; k < p->n_parts; k++)
        match_part(p, &p->parts[k], &t, NULL, NULL, NULL);
    return t.samples > 0 && t.samples == t.targets && t.lonely == 0 && t.others == 0;
}

struct pair_list {
    uint64_t *targets;
    size_t n, cap;
};

static int pair_found(struct plan *p, uint64_t j, uint64_t target, void *priv, struct dlc_err *err)
{
    struct pair_list *l = priv;

    mem_reserve(l->targets, l->n, l->cap);
    l->targets[l->n++] = target;
    return layout_add_whole(p, j, SAMPLE_NO_LABEL, err);
}

/* The targets follow as samples of their own, in the order of what they belong to. */
static int add_targets(struct plan *p, const struct pair_list *l, struct dlc_err *err)
{
    struct catalog_builder *b = p->l->builder;
    int rc = l->n > 0 ? catalog_builder_split(b, LAYOUT_TARGETS, true, err) : 0;

    for (size_t i = 0; i < l->n && rc == 0; i++) {
        rc = catalog_builder_target(b, i, catalog_builder_samples(b), err);
        if (rc == 0)
            rc = layout_add_whole(p, l->targets[i], SAMPLE_NO_LABEL, err);
    }
    return rc;
}

int layout_pairs(struct plan *p, struct dlc_err *err)
{
    struct pair_list list = {.n = 0};
    struct tally t = {.samples = 0};
    int rc = 0;

    for (size_t k = 0; k < p->n_parts && rc == 0; k++) {
        rc = layout_begin_part(p, &p->parts[k], err);
        if (rc == 0)
            rc = match_part(p, &p->parts[k], &t, pair_found, &list, err);
    }
    if (rc == 0 && t.lonely > 0)
        rc = dlc_err_set(err, DLC_EINVAL,
                         "%s has no target, or several: %llu of %llu samples; a target has the "
                         "name of its sample in a folder such as labels/ or masks/, or with the "
                         "suffix .txt, .cls, .json, .xml or .label",
                         t.first, (unsigned long long)t.lonely, (unsigned long long)t.samples);
    if (rc == 0)
        rc = add_targets(p, &list, err);
    mem_free(&list.targets);
    return rc;
}
