// SPDX-License-Identifier: Apache-2.0
#include "catalog/member_classes_i.h"

#include <string.h>

#include "base/mem.h"
#include "catalog/layout_i.h"

int member_classes_add(struct member_classes *c, const char *path, size_t len)
{
    const char *slash = memchr(path, '/', len);
    unsigned char *out;
    uint32_t folder;

    c->off = c->off || slash == NULL || slash == path;
    if (c->off)
        return 0;
    out = grown_reserve(&c->labels, sizeof(folder));
    if (out == NULL)
        return -1;
    folder = name_table_add(&c->folders, path, (size_t)(slash - path));
    memcpy(out, &folder, sizeof(folder));
    c->labels.len += sizeof(folder);
    return 0;
}

static bool are_splits(const struct name_table *folders)
{
    for (size_t i = 0; i < folders->n; i++) {
        if (!split_is_known(folders->v[i], strlen(folders->v[i])))
            return false;
    }
    return true;
}

int member_classes_finish(struct member_classes *c, struct catalog_builder *b, struct dlc_err *err)
{
    size_t n = c->labels.len / sizeof(uint32_t);
    uint32_t *order;
    int rc = 0;

    if (c->off || c->folders.n < 2 || are_splits(&c->folders) || n != catalog_builder_samples(b))
        return 0;
    order = mem_alloc(c->folders.n * sizeof(*order));
    name_table_sort(&c->folders, name_table_by_bytes, order);
    for (size_t i = 0; i < n; i++) {
        uint32_t folder;

        memcpy(&folder, c->labels.p + i * sizeof(folder), sizeof(folder));
        memcpy(c->labels.p + i * sizeof(folder), &order[folder], sizeof(folder));
    }
    for (size_t i = 0; i < c->folders.n && rc == 0; i++)
        rc = catalog_builder_class(b, c->folders.v[i], strlen(c->folders.v[i]), err);
    if (rc == 0)
        rc = catalog_builder_labels(b, c->labels.p, n, err);
    mem_free(&order);
    return rc;
}

void member_classes_release(struct member_classes *c)
{
    name_table_release(&c->folders);
    mem_free(&c->labels.p);
}
