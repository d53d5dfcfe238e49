// SPDX-License-Identifier: Apache-2.0
#include "bucket/url_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"

static const struct {
    const char *name;
    enum url_part_kind kind;
    const char *split;
} names[] = {
    {"samples", URL_SAMPLES, ""},
    {"samples-train", URL_SAMPLES, "train"},
    {"samples-validation", URL_SAMPLES, "validation"},
    {"samples-test", URL_SAMPLES, "test"},
    {"targets", URL_TARGETS, ""},
    {"targets-train", URL_TARGETS, "train"},
    {"targets-validation", URL_TARGETS, "validation"},
    {"targets-test", URL_TARGETS, "test"},
    {"manifest", URL_MANIFEST, ""},
    {"manifest-train", URL_MANIFEST, "train"},
    {"manifest-validation", URL_MANIFEST, "validation"},
    {"manifest-test", URL_MANIFEST, "test"},
};

bool url_part_named(const char *name, struct url_part *out)
{
    for (unsigned i = 0; i < DLC_COUNT(names); i++) {
        if (strcmp(name, names[i].name) == 0) {
            *out = (struct url_part){.kind = names[i].kind};
            snprintf(out->split, sizeof(out->split), "%s", names[i].split);
            return true;
        }
    }
    return false;
}

const char *url_part_name(const struct url_part *p)
{
    for (unsigned i = 0; i < DLC_COUNT(names); i++) {
        if (p->kind == names[i].kind && strcmp(p->split, names[i].split) == 0)
            return names[i].name;
    }
    dlc_check(false);
    return NULL;
}

void url_parts_add(struct url_parts *parts, struct url_part part, const char *prefix)
{
    mem_reserve(parts->v, parts->n, parts->cap);
    part.prefix = mem_str(prefix);
    parts->v[parts->n++] = part;
}

void url_parts_release(struct url_parts *parts)
{
    for (size_t i = 0; i < parts->n; i++)
        mem_free(&parts->v[i].prefix);
    mem_free(&parts->v);
}

size_t url_part_len(const struct url_part *p)
{
    size_t n = strlen(p->prefix);

    return n > 0 && p->prefix[n - 1] == '*' ? n - 1 : n;
}

bool url_part_has(const struct url_part *p, const char *key)
{
    size_t n = url_part_len(p);

    if (strncmp(key, p->prefix, n) != 0)
        return false;
    return p->prefix[n] == '*' || key[n] == '\0' || key[n] == '/' ||
           (n > 0 && p->prefix[n - 1] == '/');
}

bool url_parts_have(const struct url_parts *parts, enum url_part_kind kind)
{
    for (size_t i = 0; i < parts->n; i++) {
        if (parts->v[i].kind == kind)
            return true;
    }
    return false;
}
