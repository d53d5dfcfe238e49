// SPDX-License-Identifier: Apache-2.0
/*
 * Bypass: reads samples from the bucket when the daemon is unreachable or has no room. Slower, but
 * never wrong.
 */
#include "client/bypass.h"

#include <string.h>

#include "base/cancel.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/str.h"
#include "bucket/bucket.h"
#include "catalog/archives/scan.h"
#include "catalog/catalog.h"
#include "client/attachment.h"
#include "client/dataset.h"

struct bucket_config direct_config(const struct dlc_dataset *ds)
{
    struct bucket_config bc = BUCKET_CONFIG_INIT;
    bool path_style;

    bc.endpoint = ds->place_endpoint != NULL ? ds->place_endpoint : ds->endpoint;
    bc.foreign_endpoint = ds->place_endpoint != NULL; /* who registered the dataset named it */
    bc.region = ds->config.region[0] ? ds->config.region : NULL;
    bc.profile = ds->config.profile[0] ? ds->config.profile : NULL;
    bc.anonymous = ds->opt.anonymous != 0 || ds->config.anonymous;
    bc.no_machine_role = ds->place != NULL;
    if (str_parse_bool(ds->config.path_style, &path_style))
        bc.path_style = path_style;
    bc.lanes = 1;
    bc.retries = (unsigned)ds->config.retries;
    bc.connect_timeout = ds->config.connect_timeout;
    bc.stall_timeout = ds->config.stall_timeout;
    bc.deadline = ds->timeout;
    return bc;
}

/* ds->direct stays NULL where it fails. */
static void open_direct_locked(struct dlc_dataset *ds, struct dlc_err *err)
{
    const struct bucket_config bc = direct_config(ds);
    struct url u = URL_INIT;

    dlc_mtx_assert_held(&ds->direct_mtx);
    if (url_parse(&u, ds->place != NULL ? ds->place : ds->url, err) == 0)
        bucket_open(&u, &bc, &ds->direct, err);
    url_release(&u);
}

static struct bucket *direct_bucket(struct dlc_dataset *ds, struct dlc_err *err)
{
    struct bucket *b;

    dlc_mtx_lock(&ds->direct_mtx);
    if (ds->direct == NULL)
        open_direct_locked(ds, err);
    b = ds->direct;
    dlc_mtx_unlock(&ds->direct_mtx);
    return b;
}

/* ---- samples made of pieces: docs/design/0003 ---- */

struct object_source {
    struct source source;
    struct bucket *bucket;
    const struct catalog_entry *object;
};

static int read_object(struct source *s, uint64_t off, void *buf, size_t len, struct dlc_err *err)
{
    struct object_source *o = dlc_container(s, struct object_source, source);

    return bucket_read_wait(o->bucket, o->object->key, o->object->etag, off, len,
                            off == 0 && len == s->size, buf, err);
}

/* Keeps one range of what a scanner writes. */
struct range_sink {
    struct scan_sink sink;
    uint64_t offset, length, at;
    char *dst;
};

static int keep_range(struct scan_sink *k, const void *data, size_t len, struct dlc_err *err)
{
    struct range_sink *r = dlc_container(k, struct range_sink, sink);
    uint64_t from = DLC_MAX(r->at, r->offset), to = DLC_MIN(r->at + len, r->offset + r->length);

    (void)err;
    if (from < to)
        memcpy(r->dst + (from - r->offset), (const char *)data + (from - r->at), to - from);
    r->at += len;
    return 0;
}

static int ignore(struct scan *s, const struct scan_sample *sample, struct dlc_err *err)
{
    (void)s;
    (void)sample;
    (void)err;
    return 0;
}

/* Decompress the whole archive for one range of it: without a daemon there is no place to keep it.
 */
static int derive_range(struct bucket *b, const struct catalog_entry *object, const struct piece *p,
                        char *dst, struct dlc_err *err)
{
    const struct scanner *scanner = scanner_of(object->key);
    struct object_source source = {
        .source = {object->key, object->size, read_object}, .bucket = b, .object = object};
    struct range_sink sink = {
        .sink = {keep_range}, .offset = p->offset, .length = p->length, .dst = dst};
    struct scan scan = {.source = &source.source, .sink = &sink.sink, .found = ignore};

    if (scanner == NULL || !scanner->derives)
        return dlc_err_set(err, DLC_ECORRUPT, "%s has no unpacked copy", object->key);
    return scanner->run(&scan, err);
}

static int read_piece(struct dlc_dataset *ds, struct bucket *b, const struct piece *p, char *dst,
                      struct catalog_entry *object, struct dlc_err *err)
{
    int rc;

    if (p->kind == PIECE_INLINE) {
        memcpy(dst, p->bytes, p->length);
        return 0;
    }
    rc = catalog_object(ds->catalog, p->object, object, err);
    if (rc < 0)
        return rc;
    if (p->kind == PIECE_DERIVED)
        return derive_range(b, object, p, dst, err);
    return bucket_read_wait(b, object->key, object->etag, p->offset, p->length,
                            p->offset == 0 && p->length == object->size, dst, err);
}

static int read_pieces(struct dlc_dataset *ds, struct bucket *b, uint64_t sample, char *dst,
                       struct dlc_err *err)
{
    struct catalog_entry *object = mem_new(struct catalog_entry);
    struct catalog_sample s;
    int rc = catalog_sample(ds->catalog, sample, &s, err);

    for (size_t i = 0; rc == 0 && i < s.n_pieces; i++) {
        rc = read_piece(ds, b, &s.pieces[i], dst, object, err);
        dst += s.pieces[i].length;
    }
    catalog_sample_release(&s);
    mem_free(&object);
    return rc;
}

/* ---- one sample ---- */

/* Gives up at a deadline, or when the caller does. */
struct limit {
    struct interrupt interrupt;
    struct interrupt *caller; /* or NULL */
    struct dlc_mono deadline;
};

static bool is_over(struct interrupt *i)
{
    const struct limit *l = dlc_container(i, struct limit, interrupt);

    if (l->caller != NULL && !l->caller->yes)
        l->caller->yes = l->caller->ask(l->caller);
    return (l->caller != NULL && l->caller->yes) || dlc_mono_passed(l->deadline, dlc_mono_now());
}

static int read_in_time(struct dlc_dataset *ds, struct bucket *b, uint64_t sample,
                        struct dlc_mono deadline, char *dst, struct dlc_err *err)
{
    struct limit l = {
        .interrupt = {.ask = is_over}, .caller = interrupt_asked, .deadline = deadline};
    int rc;

    interrupt_asked = &l.interrupt;
    rc = read_pieces(ds, b, sample, dst, err);
    interrupt_asked = l.caller;
    if (rc == DLC_ECANCELED && !interrupted())
        rc = dlc_err_set(err, DLC_ETIMEDOUT, "sample %llu did not come from the bucket in time",
                         (unsigned long long)sample);
    return rc;
}

int direct_get(struct dlc_dataset *ds, uint64_t sample, struct dlc_mono deadline,
               struct dlc_view *out, struct dlc_err *err)
{
    struct dlc_mono start = dlc_mono_now();
    struct bucket *b = direct_bucket(ds, err);
    struct catalog_entry *e;
    void *data = NULL;
    int rc;

    if (b == NULL)
        return err->code;
    if (interrupted())
        return interrupt_err(err);
    e = mem_new(struct catalog_entry);
    rc = catalog_get(ds->catalog, sample, e, err);
    if (rc < 0)
        goto out;
    data = mem_try_alloc(e->size);
    if (data == NULL) {
        rc = dlc_err_set(err, DLC_ENOMEM, "no memory for %s (%llu bytes)", e->key,
                         (unsigned long long)e->size);
        goto out;
    }
    rc = read_in_time(ds, b, sample, deadline, data, err);
    if (rc < 0)
        goto out;
    *out = (struct dlc_view){data, e->size, {0, VIEW_HEAP}};
    data = NULL;
    atomic_fetch_add_explicit(&ds->direct_reads, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&ds->direct_bytes, e->size, memory_order_relaxed);
    atomic_fetch_add_explicit(&ds->direct_ns, (uint64_t)dlc_mono_since(start).ns,
                              memory_order_relaxed);
out:
    mem_free(&data);
    mem_free(&e);
    return rc;
}
