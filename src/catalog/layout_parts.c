// SPDX-License-Identifier: Apache-2.0
/*
 * Parts, which all layouts share: the objects as a list of parts. A part is a folder directly below
 * the root whose name is that of a split, or everything.
 */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "catalog/layout_i.h"

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

bool split_is_known(const char *s, size_t len)
{
    return known_split(s, len) != NULL;
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

void plan_one_part(struct plan *p)
{
    p->n_parts = 0;
    mem_reserve(p->parts, p->n_parts, p->cap_parts);
    p->parts[p->n_parts++] = (struct part){.end = p->n};
    if (p->n > 0)
        p->parts[0].skip = root_skip(p, 0);
    for (uint64_t j = 1; j < p->n; j++) /* objects outside of the root: see all from the top */
        p->parts[0].skip = DLC_MIN(p->parts[0].skip, root_skip(p, j));
}

struct part_list {
    struct part *v;
    size_t n, cap;
};

static bool have_split(const struct part_list *l, size_t from, const char *name)
{
    for (size_t k = from; k < l->n; k++) {
        if (strcmp(l->v[k].split, name) == 0)
            return true;
    }
    return false;
}

/* Folders directly below a part as parts; false: they are not all splits. Objects that lie in no
 * folder are in no part; unless they are junk there must be none. */
static bool split_part(const struct plan *p, const struct part *whole, struct part_list *out)
{
    size_t from = out->n;

    for (uint64_t j = whole->first; j < whole->end; j++) {
        struct part *last = out->n == from ? NULL : &out->v[out->n - 1];
        const char *slash, *split;
        struct seen s;
        size_t skip;

        plan_see(p, whole, j, &s);
        slash = strchr(s.path, '/');
        if (slash == NULL) {
            if (seen_is_junk(&s))
                continue;
            return false;
        }
        split = known_split(s.path, (size_t)(slash - s.path));
        if (split == NULL)
            return false;
        skip = whole->skip + (size_t)(slash + 1 - s.path);
        if (last != NULL && strcmp(last->split, split) == 0 && last->skip == skip) {
            last->end = j + 1;
            continue;
        }
        if (have_split(out, from, split)) /* val/ and valid/: which one is meant? */
            return false;
        mem_reserve(out->v, out->n, out->cap);
        last = &out->v[out->n++];
        *last = (struct part){.first = j, .end = j + 1, .skip = skip};
        split_name(split, strlen(split), last->split);
    }
    return out->n > from;
}

void plan_group_parts(struct plan *p)
{
    for (size_t k = 1; k < p->n_parts; k++) {
        struct part part = p->parts[k];
        size_t to = k;

        for (size_t i = 0; i < k; i++) {
            if (strcmp(p->parts[i].split, part.split) == 0)
                to = i + 1;
        }
        memmove(&p->parts[to + 1], &p->parts[to], (k - to) * sizeof(part));
        p->parts[to] = part;
    }
}

void plan_split_parts(struct plan *p)
{
    struct part_list list = {.n = 0};
    bool all = p->n_parts > 0;

    for (size_t k = 0; k < p->n_parts && all; k++)
        all = p->parts[k].split[0] == '\0' && split_part(p, &p->parts[k], &list);
    if (all) {
        mem_free(&p->parts);
        p->parts = list.v;
        p->n_parts = list.n;
        p->cap_parts = list.cap;
        plan_group_parts(p);
    } else {
        mem_free(&list.v);
    }
}

int plan_choose_part(struct plan *p, struct dlc_err *err)
{
    char want[CATALOG_NAME_MAX];
    size_t n = 0;

    if (p->l->split == NULL)
        return 0;
    split_name(p->l->split, strlen(p->l->split), want);
    for (size_t k = 0; k < p->n_parts; k++) {
        if (strcmp(p->parts[k].split, want) == 0)
            p->parts[n++] = p->parts[k];
    }
    if (n > 0) {
        p->n_parts = n;
        return 0;
    }
    return dlc_err_set(err, DLC_EINVAL,
                       "there is no split '%s': splits are folders train/, validation/ and test/ "
                       "directly below the URL, or a column of a manifest",
                       want);
}

int layout_begin_part(struct plan *p, const struct part *part, struct dlc_err *err)
{
    if (part->split[0] == '\0' || (p->begun != NULL && strcmp(p->begun, part->split) == 0))
        return 0;
    p->begun = part->split;
    return catalog_builder_split(p->l->builder, part->split, false, err);
}

int layout_add_whole(struct plan *p, uint64_t j, uint32_t label, struct dlc_err *err)
{
    struct catalog_new_sample s = {.object = j, .label = label};

    return catalog_builder_sample(p->l->builder, &s, err);
}
