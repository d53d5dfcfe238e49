// SPDX-License-Identifier: Apache-2.0
/*
 * Derived forms: an archive read from the bucket in large pieces, decompressed by its scanner,
 * appended to a chunk of the disk tier. Everything here blocks and runs on workers.
 */
#include "node/derive.h"

#include <string.h>

#include "catalog/scan/scan.h"
#include "node/cataloguer.h"

/* ---- an object of the bucket as a source ---- */

static int read_object(struct source *s, uint64_t off, void *buf, size_t len, struct dlc_err *err)
{
    struct object_source *o = dlc_container(s, struct object_source, source);

    return bucket_read_wait(o->ds->bucket, o->object->key, o->object->etag, off, len,
                            off == 0 && len == s->size, buf, err);
}

void object_source_init(struct object_source *o, struct dataset *ds,
                        const struct catalog_entry *object)
{
    o->ds = ds;
    o->object = object;
    o->source = (struct source){.name = object->key, .size = object->size, .read = read_object};
}

/* ---- a chunk of the disk tier as a sink ---- */

static int write_chunk(struct scan_sink *k, const void *data, size_t len, struct dlc_err *err)
{
    struct chunk_sink *c = dlc_container(k, struct chunk_sink, sink);

    return disk_fill_append(c->disk, c->fill, data, len, err);
}

struct chunk_id derived_id(const struct dataset *ds, const struct catalog_entry *object)
{
    struct chunk_id id = derived_chunk_id(ds->disk_id, object->key, object->etag);

    id.group = ds->group;
    return id;
}

int chunk_sink_open(struct chunk_sink *c, struct dataset *ds, const struct catalog_entry *object,
                    struct dlc_err *err)
{
    c->disk = ds->node->disk;
    c->fill = NULL;
    c->sink = (struct scan_sink){.write = write_chunk};
    if (c->disk == NULL)
        return dlc_err_set(err, DLC_EINVAL,
                           "%s is compressed: reading its members needs a disk tier (--disk is 0)",
                           object->key);
    return disk_fill_begin(c->disk, derived_id(ds, object), 0, &c->fill, err);
}

int chunk_sink_close(struct chunk_sink *c, bool keep, struct dlc_err *err)
{
    if (keep)
        return disk_fill_commit(c->disk, &c->fill, err);
    disk_fill_abandon(c->disk, &c->fill);
    return 0;
}

/* ---- again ---- */

static int ignore(struct scan *s, const struct scan_sample *sample, struct dlc_err *err)
{
    (void)s;
    (void)sample;
    (void)err;
    return 0;
}

int derive_to_disk(struct dataset *ds, const struct catalog_entry *object, struct dlc_err *err)
{
    const struct scanner *scanner = scanner_of(object->key);
    struct object_source source;
    struct chunk_sink sink;
    struct scan scan = {.found = ignore};
    int rc;

    if (scanner == NULL || !scanner->derives)
        return dlc_err_set(err, DLC_ECORRUPT, "%s has no derived form", object->key);
    rc = chunk_sink_open(&sink, ds, object, err);
    if (rc < 0)
        return rc;
    object_source_init(&source, ds, object);
    scan.source = &source.source;
    scan.sink = &sink.sink;
    rc = scanner->run(&scan, err);
    if (rc < 0)
        chunk_sink_close(&sink, false, NULL);
    else
        rc = chunk_sink_close(&sink, true, err);
    return rc;
}
