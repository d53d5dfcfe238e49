// SPDX-License-Identifier: Apache-2.0
#include "daemon/dataset_chunks.h"

#include <string.h>

#include "base/hash.h"
#include "catalog/catalog.h"
#include "catalog/listing/cataloguer.h"
#include "daemon/dataset.h"
#include "daemon/state.h"

struct chunk_id dataset_chunk(const struct dataset *ds, const char *key, const char *etag)
{
    struct chunk_id id = chunk_id_of(ds->disk.id, key, etag);

    id.group = ds->disk.group;
    return id;
}

struct chunk_id dataset_derived_chunk(const struct dataset *ds, const struct catalog_entry *object)
{
    struct chunk_id id = derived_chunk_id(ds->disk.id, object->key, object->etag);

    id.group = ds->disk.group;
    return id;
}

/* ---- the group ---- */

void dataset_enter_group(struct dataset *ds)
{
    if (ds->node->disk != NULL)
        ds->disk.group = disk_group(ds->node->disk, hash64_str(ds->catalog_path), ds->url.shown);
}

void dataset_join(struct dataset *ds)
{
    if (ds->node->disk != NULL)
        disk_group_join(ds->node->disk, ds->disk.group);
}

void dataset_leave(struct dataset *ds)
{
    if (ds->node->disk != NULL)
        disk_group_leave(ds->node->disk, ds->disk.group);
}

/* ---- dropping ---- */

static uint64_t drop(struct disk *d, struct chunk_id id, uint64_t size)
{
    if (!disk_has(d, id))
        return 0;
    disk_drop(d, id);
    return size;
}

/* Does one of them have the same version of the sample? */
static bool is_shared(struct catalog *const *others, size_t n, const struct catalog_entry *e)
{
    struct catalog_entry same;
    uint64_t at;

    for (size_t i = 0; i < n; i++)
        if (catalog_find(others[i], e->key, &at) == 0 &&
            catalog_get(others[i], at, &same, NULL) == 0 && strcmp(same.etag, e->etag) == 0)
            return true;
    return false;
}

/* Does one of them have samples of this version of the object? Objects are sorted by key. */
static bool has_object(struct catalog *const *others, size_t n, const struct catalog_entry *e)
{
    struct catalog_entry same;

    for (size_t i = 0; i < n; i++) {
        uint64_t low = 0, high = catalog_objects(others[i]);

        while (low < high) {
            uint64_t mid = low + (high - low) / 2;
            int order =
                catalog_object(others[i], mid, &same, NULL) == 0 ? strcmp(same.key, e->key) : 1;

            if (order == 0 && strcmp(same.etag, e->etag) == 0)
                return true;
            low = order < 0 ? mid + 1 : low;
            high = order < 0 ? high : mid;
            if (order == 0)
                break;
        }
    }
    return false;
}

uint64_t catalog_drop_chunks(struct disk *d, const struct catalog *c, struct name_hash disk_id,
                             struct catalog *const *others, size_t n)
{
    struct catalog_entry e;
    uint64_t bytes = 0, size;

    for (uint64_t i = 0; i < catalog_count(c); i++)
        if (catalog_get(c, i, &e, NULL) == 0 && !is_shared(others, n, &e))
            bytes += drop(d, chunk_id_of(disk_id, e.key, e.etag), e.size);
    for (uint64_t j = 0; j < catalog_objects(c); j++)
        if (catalog_derived(c, j, &size, NULL) == 0 && catalog_object(c, j, &e, NULL) == 0 &&
            !has_object(others, n, &e))
            bytes += drop(d, derived_chunk_id(disk_id, e.key, e.etag), size);
    return bytes;
}

uint64_t dataset_drop_chunks(const struct dataset *ds, struct catalog *const *others, size_t n)
{
    return catalog_drop_chunks(ds->node->disk, ds->catalog, ds->disk.id, others, n);
}
