// SPDX-License-Identifier: Apache-2.0
/* Catalog data of samples: key, size, labels, splits, targets, columns. */
#include <string.h>

#include "base/err.h"
#include "catalog/catalog.h"
#include "client/dataset.h"
#include "client/last_error.h"

/* As dlc_key() returns texts. */
static int give(struct catalog_text t, char *buf, size_t cap)
{
    if (t.len < cap) {
        memcpy(buf, t.s, t.len);
        buf[t.len] = '\0';
    }
    return (int)t.len;
}

static int give_string(const char *s, char *buf, size_t cap)
{
    return give((struct catalog_text){s, strlen(s)}, buf, cap);
}

uint64_t dlc_snapshot(const struct dlc_dataset *ds)
{
    return catalog_snapshot(ds->catalog);
}

int dlc_location(const struct dlc_dataset *ds, char *buf, size_t cap)
{
    return give_string(ds->place != NULL ? ds->place : ds->url, buf, cap);
}

uint64_t dlc_count(const struct dlc_dataset *ds)
{
    return catalog_visible(ds->catalog);
}

static int entry_of(struct dlc_dataset *ds, uint64_t i, struct catalog_entry *e)
{
    struct dlc_err err = DLC_ERR_INIT;

    return catalog_get(ds->catalog, i, e, &err) < 0 ? client_fail(&err) : 0;
}

int dlc_key(struct dlc_dataset *ds, uint64_t i, char *buf, size_t cap)
{
    struct catalog_entry e;
    int rc = entry_of(ds, i, &e);
    size_t n;

    if (rc < 0)
        return rc;
    n = strlen(e.key);
    if (n < cap)
        memcpy(buf, e.key, n + 1);
    return (int)n;
}

int64_t dlc_size(struct dlc_dataset *ds, uint64_t i)
{
    struct catalog_entry e;
    int rc = entry_of(ds, i, &e);

    return rc < 0 ? rc : (int64_t)e.size;
}

int dlc_find(struct dlc_dataset *ds, const char *key, uint64_t *i)
{
    int rc = catalog_find(ds->catalog, key, i);

    return rc < 0 ? client_failf(rc, "%s holds no %s", ds->shown, key) : 0;
}

int64_t dlc_label(struct dlc_dataset *ds, uint64_t i)
{
    struct dlc_err err = DLC_ERR_INIT;
    uint32_t label;

    if (catalog_label(ds->catalog, i, &label, &err) < 0)
        return client_fail(&err);
    if (label == SAMPLE_NO_LABEL)
        return client_failf(DLC_ENOTFOUND, "sample %llu of %s has no label", (unsigned long long)i,
                            ds->shown);
    return label;
}

uint64_t dlc_class_count(const struct dlc_dataset *ds)
{
    return catalog_classes(ds->catalog);
}

int dlc_class_name(struct dlc_dataset *ds, uint64_t k, char *buf, size_t cap)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog_text t;

    if (catalog_class_name(ds->catalog, k, &t, &err) < 0)
        return client_fail(&err);
    return give(t, buf, cap);
}

/* Split k of those that are not hidden, or NULL. */
static const struct catalog_split *visible_split(const struct dlc_dataset *ds, unsigned k)
{
    for (unsigned j = 0; j < catalog_splits(ds->catalog); j++) {
        const struct catalog_split *s = catalog_split_at(ds->catalog, j);

        if (!s->hidden && k-- == 0)
            return s;
    }
    return NULL;
}

unsigned dlc_split_count(const struct dlc_dataset *ds)
{
    unsigned n = 0;

    while (visible_split(ds, n) != NULL)
        n++;
    return n;
}

int dlc_split_name(struct dlc_dataset *ds, unsigned k, char *buf, size_t cap)
{
    const struct catalog_split *s = visible_split(ds, k);

    if (s == NULL)
        return client_failf(DLC_EINVAL, "no split %u: %s has %u", k, ds->shown,
                            dlc_split_count(ds));
    return give_string(s->name, buf, cap);
}

int dlc_split(struct dlc_dataset *ds, const char *name, uint64_t *first, uint64_t *count)
{
    const struct catalog_split *s = catalog_split(ds->catalog, name);

    if (s == NULL || s->hidden)
        return client_failf(DLC_ENOTFOUND, "%s has no split '%s'", ds->shown, name);
    *first = s->first;
    *count = s->count;
    return 0;
}

int dlc_target(struct dlc_dataset *ds, uint64_t i, uint64_t *target)
{
    struct dlc_err err = DLC_ERR_INIT;

    return catalog_target(ds->catalog, i, target, &err) < 0 ? client_fail(&err) : 0;
}

unsigned dlc_column_count(const struct dlc_dataset *ds)
{
    return catalog_columns(ds->catalog);
}

int dlc_column_name(struct dlc_dataset *ds, unsigned k, char *buf, size_t cap)
{
    if (k >= catalog_columns(ds->catalog))
        return client_failf(DLC_EINVAL, "no column %u: %s has %u", k, ds->shown,
                            catalog_columns(ds->catalog));
    return give_string(catalog_column_name(ds->catalog, k), buf, cap);
}

int dlc_column(struct dlc_dataset *ds, uint64_t i, const char *name, char *buf, size_t cap)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog_text t;

    for (unsigned k = 0; k < catalog_columns(ds->catalog); k++) {
        if (strcmp(catalog_column_name(ds->catalog, k), name) != 0)
            continue;
        if (catalog_cell(ds->catalog, i, k, &t, &err) < 0)
            return client_fail(&err);
        return give(t, buf, cap);
    }
    return client_failf(DLC_ENOTFOUND, "%s has no column '%s'", ds->shown, name);
}
