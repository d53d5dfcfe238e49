// SPDX-License-Identifier: Apache-2.0
#include "daemon/dataset_chunks.h"

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

uint64_t catalog_drop_chunks(struct disk *d, const struct catalog *c, struct name_hash disk_id)
{
    struct catalog_entry e;
    uint64_t bytes = 0, size;

    for (uint64_t i = 0; i < catalog_count(c); i++)
        if (catalog_get(c, i, &e, NULL) == 0)
            bytes += drop(d, chunk_id_of(disk_id, e.key, e.etag), e.size);
    for (uint64_t j = 0; j < catalog_objects(c); j++)
        if (catalog_derived(c, j, &size, NULL) == 0 && catalog_object(c, j, &e, NULL) == 0)
            bytes += drop(d, derived_chunk_id(disk_id, e.key, e.etag), size);
    return bytes;
}

uint64_t dataset_drop_chunks(const struct dataset *ds)
{
    return catalog_drop_chunks(ds->node->disk, ds->catalog, ds->disk.id);
}
