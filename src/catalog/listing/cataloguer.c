// SPDX-License-Identifier: Apache-2.0
#include "catalog/listing/cataloguer.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#define SCANS 16 /* archives that are read at once: what a bucket answers in a few round trips */

void cataloguer_init(struct cataloguer *c)
{
    dlc_mtx_init(&c->opening, LCK_opening);
    dlc_mtx_init(&c->mtx, LCK_sync);
    dlc_list_init(&c->reading);
    dlc_cond_init(&c->ended);
}

void cataloguer_release(struct cataloguer *c)
{
    dlc_check(dlc_list_empty(&c->reading) && c->bucket == NULL);
    mem_free(&c->derived);
    dlc_cond_release(&c->ended);
    dlc_mtx_release(&c->mtx);
    dlc_mtx_release(&c->opening);
}

/*
 * A prefix names a folder: `s3://b/train` is what lies below `train/`, not `training/...` too. A
 * star at the end makes it a plain prefix: `s3://b/part-*`.
 */
char *list_prefix(const struct url *u)
{
    size_t n = strlen(u->prefix);

    if (!url_is_cloud(u->scheme))
        return NULL;
    if (n > 0 && u->prefix[n - 1] == '*')
        return mem_strn(u->prefix, n - 1);
    return n == 0 || u->prefix[n - 1] == '/' ? NULL : mem_fmt("%s/", u->prefix);
}

/* ---- selected parts ---- */

/* The folder that the prefixes of a URL's parts are seen from. Gives. */
static char *parts_root(const struct url *u)
{
    const char *slash = strrchr(u->prefix, '/');
    size_t n = strlen(u->prefix);

    if (!url_is_cloud(u->scheme))
        return mem_str("");
    if (n > 0 && u->prefix[n - 1] == '*')
        return mem_strn(u->prefix, slash == NULL ? 0 : (size_t)(slash + 1 - u->prefix));
    return n == 0 || u->prefix[n - 1] == '/' ? mem_str(u->prefix) : mem_fmt("%s/", u->prefix);
}

/* Manifests alone select nothing: their rows name what they like. */
static bool selects(const struct url *u)
{
    return url_parts_have(&u->layout.parts, URL_SAMPLES);
}

size_t list_count(const struct url *u)
{
    return url_is_cloud(u->scheme) && selects(u) ? u->layout.parts.n : 1;
}

char *list_prefix_at(const struct url *u, size_t k)
{
    const struct url_part *p = &u->layout.parts.v[k];
    char *root, *prefix;

    if (!url_is_cloud(u->scheme) || !selects(u))
        return list_prefix(u);
    root = parts_root(u);
    prefix = mem_fmt("%s%.*s", root, (int)url_part_len(p), p->prefix);
    mem_free(&root);
    return prefix;
}

bool list_takes(const struct url *u, const char *key)
{
    char *root;
    bool takes = false;

    if (!selects(u))
        return true;
    root = parts_root(u);
    for (size_t i = 0; i < u->layout.parts.n && !takes && str_starts(key, root); i++)
        takes = url_part_has(&u->layout.parts.v[i], key + strlen(root));
    mem_free(&root);
    return takes;
}

/* The folder that keys are seen from. Gives. */
static char *root_of(const struct cataloguer *c)
{
    bool cloud = url_is_cloud(c->url->scheme);
    const char *p = cloud ? c->url->prefix : "", *slash;
    char *prefix = list_prefix(c->url), *root;
    struct catalog_object o = {.key = ""};

    if (selects(c->url)) {
        mem_free(&prefix);
        return parts_root(c->url);
    }
    if (catalog_builder_count(c->builder) > 0)
        catalog_builder_object(c->builder, 0, &o);
    if (prefix != NULL && strcmp(o.key, p) != 0) /* else the URL names one object */
        p = prefix;
    slash = strrchr(p, '/');
    root = slash == NULL ? mem_str("") : mem_strn(p, (size_t)(slash + 1 - p));
    mem_free(&prefix);
    return root;
}

/* ---- reading objects ---- */

struct object { /* source.priv */
    struct cataloguer *c;
    char *key;
    char etag[CATALOG_ETAG_MAX];
    struct bucket_read read;
    struct dlc_list link; /* c->reading, while `read` is under way; G: c->mtx */
};

/* On a lane. */
static void on_read(struct bucket_read *r)
{
    struct object *o = r->priv;
    struct cataloguer *c = o->c;

    dlc_mtx_lock(&c->mtx);
    dlc_list_remove(&o->link);
    dlc_cond_broadcast(&c->ended);
    dlc_mtx_unlock(&c->mtx);
}

static int stopped(struct dlc_err *err)
{
    return dlc_err_set(err, DLC_ECANCELED, "cataloguing was given up");
}

static int read_object(struct source *s, uint64_t off, void *buf, size_t len, struct dlc_err *err)
{
    struct object *o = s->priv;
    struct cataloguer *c = o->c;

    o->read = (struct bucket_read){
        .key = o->key,
        .etag = o->etag,
        .offset = off,
        .length = len,
        .whole = off == 0 && len == s->size,
        .dst = buf,
        .done = on_read,
        .priv = o,
    };
    dlc_mtx_lock(&c->mtx);
    if (c->stop) {
        dlc_mtx_unlock(&c->mtx);
        return stopped(err);
    }
    dlc_list_push_tail(&c->reading, &o->link);
    bucket_read(c->bucket, &o->read);
    while (!dlc_list_empty(&o->link))
        dlc_cond_wait(&c->ended, &c->mtx);
    dlc_mtx_unlock(&c->mtx);
    if (o->read.rc < 0 && err != NULL)
        *err = o->read.err;
    return o->read.rc;
}

void cataloguer_stop(struct cataloguer *c)
{
    dlc_mtx_lock(&c->mtx);
    c->stop = true;
    dlc_list_each (l, &c->reading)
        bucket_read_cancel(c->bucket, &dlc_container(l, struct object, link)->read);
    dlc_mtx_unlock(&c->mtx);
}

static int source_open(struct cataloguer *c, const char *key, size_t key_len, const char *etag,
                       uint64_t size, struct source *out, struct dlc_err *err)
{
    struct object *o;
    int rc = 0;

    dlc_mtx_lock(&c->opening);
    if (c->bucket == NULL)
        rc = bucket_open(c->url, &c->config, &c->bucket, err);
    dlc_mtx_unlock(&c->opening);
    if (rc < 0)
        return rc;
    o = mem_new(struct object);
    dlc_list_init(&o->link);
    o->c = c;
    o->key = mem_strn(key, key_len);
    snprintf(o->etag, sizeof(o->etag), "%s", etag);
    *out = (struct source){.name = o->key, .size = size, .read = read_object, .priv = o};
    return 0;
}

static void source_close(struct source *s)
{
    struct object *o = s->priv;

    mem_free(&o->key);
    mem_free(&o);
    s->priv = NULL;
}

static int open_object(struct layout *l, uint64_t j, struct source *out, struct dlc_err *err)
{
    char etag[CATALOG_ETAG_MAX];
    struct catalog_object o;

    catalog_builder_object(l->builder, j, &o);
    catalog_builder_etag(l->builder, j, etag);
    return source_open(l->priv, o.key, o.key_len, etag, o.size, out, err);
}

static void close_object(struct layout *l, struct source *s)
{
    (void)l;
    source_close(s);
}

/* ---- unpacked copies ---- */

struct derived_sink {
    struct scan_sink sink;
    struct disk *disk;
    struct disk_fill *chunk;
    uint64_t object;
    struct dlc_mono begun;
};

struct chunk_id derived_chunk_id(struct name_hash disk_id, const char *key, const char *etag)
{
    char *name = mem_fmt("%s\nderived", key); /* no key of a bucket that we list ends like this */
    struct chunk_id id = chunk_id_of(disk_id, name, etag);

    mem_free(&name);
    return id;
}

static int write_derived(struct scan_sink *k, const void *data, size_t len, struct dlc_err *err)
{
    struct derived_sink *s = dlc_container(k, struct derived_sink, sink);

    return disk_fill_append(s->disk, s->chunk, data, len, err);
}

static int sink_open(struct cataloguer *c, const char *key, const char *etag,
                     struct scan_sink **out, struct dlc_err *err)
{
    struct chunk_id id = derived_chunk_id(c->disk_id, key, etag);
    struct derived_sink *s = mem_new(struct derived_sink);
    int rc;

    id.group = c->group;
    s->sink.write = write_derived;
    s->disk = c->disk;
    s->begun = dlc_mono_now();
    rc = disk_fill_begin(c->disk, id, 0, &s->chunk, err);
    if (rc < 0)
        mem_free(&s);
    else
        *out = &s->sink;
    return rc;
}

static int sink_close(struct scan_sink **k, bool keep, struct dlc_err *err)
{
    struct derived_sink *s = dlc_container(*k, struct derived_sink, sink);
    int rc = 0;

    *k = NULL;
    if (keep)
        rc = disk_fill_commit(s->disk, &s->chunk, err);
    else
        disk_fill_abandon(s->disk, &s->chunk);
    mem_free(&s);
    return rc;
}

static void note_time(struct cataloguer *c, uint64_t object, struct dlc_mono begun)
{
    dlc_mtx_lock(&c->mtx);
    mem_reserve(c->derived, c->n_derived, c->cap_derived);
    c->derived[c->n_derived++] = (struct derived_time){object, dlc_mono_since(begun)};
    dlc_mtx_unlock(&c->mtx);
}

static int derive(struct layout *l, uint64_t j, struct scan_sink **out, struct dlc_err *err)
{
    char etag[CATALOG_ETAG_MAX];
    struct catalog_object o;
    int rc;

    catalog_builder_object(l->builder, j, &o);
    catalog_builder_etag(l->builder, j, etag);
    rc = sink_open(l->priv, o.key, etag, out, err);
    if (rc == 0)
        dlc_container(*out, struct derived_sink, sink)->object = j;
    return rc;
}

static int derived(struct layout *l, struct scan_sink **k, bool keep, struct dlc_err *err)
{
    const struct derived_sink *s = dlc_container(*k, struct derived_sink, sink);
    struct dlc_mono begun = s->begun;
    uint64_t object = s->object;
    int rc = sink_close(k, keep, err);

    if (rc == 0 && keep)
        note_time(l->priv, object, begun);
    return rc;
}

static int ignore(struct scan *s, const struct scan_sample *sample, struct dlc_err *err)
{
    (void)s;
    (void)sample;
    (void)err;
    return 0;
}

int cataloguer_derive(struct cataloguer *c, const struct catalog_entry *object, struct dlc_err *err)
{
    const struct scanner *scanner = scanner_of(object->key);
    struct source source;
    struct scan scan = {.source = &source, .found = ignore};
    int rc;

    if (scanner == NULL || !scanner->derives)
        return dlc_err_set(err, DLC_ECORRUPT, "%s has no unpacked copy", object->key);
    rc = source_open(c, object->key, strlen(object->key), object->etag, object->size, &source, err);
    if (rc < 0)
        return rc;
    rc = sink_open(c, object->key, object->etag, &scan.sink, err);
    if (rc == 0) {
        rc = scanner->run(&scan, err);
        rc = rc < 0 ? (sink_close(&scan.sink, false, NULL), rc) : sink_close(&scan.sink, true, err);
    }
    source_close(&source);
    bucket_close(&c->bucket);
    return rc;
}

/* ---- all ---- */

static int on_progress(struct layout *l, const char *phase, uint64_t done, uint64_t total)
{
    struct cataloguer *c = l->priv;
    bool stop;

    /* relaxed: whoever looks may see the numbers of the phase before for a moment */
    atomic_store_explicit(&c->phase, phase, memory_order_relaxed);
    atomic_store_explicit(&c->done, done, memory_order_relaxed);
    atomic_store_explicit(&c->total, total, memory_order_relaxed);
    dlc_mtx_lock(&c->mtx);
    stop = c->stop;
    dlc_mtx_unlock(&c->mtx);
    return stop ? -1 : 0;
}

/* Of the URL, by whole keys. */
static void select_parts(struct cataloguer *c, const char *root)
{
    const struct url_parts *parts = &c->url->layout.parts;
    struct layout_select *v = mem_zero((parts->n + 1) * sizeof(*v));

    for (size_t i = 0; i < parts->n; i++) {
        const struct url_part *p = &parts->v[i];
        size_t len = url_part_len(p);
        bool star = p->prefix[len] != '\0', folder;
        char *prefix = mem_fmt("%s%.*s", root, (int)len, p->prefix);
        uint64_t j;

        v[i] = (struct layout_select){.split = p->split, .shown = p->prefix};
        v[i].kind = p->kind == URL_SAMPLES   ? SELECT_SAMPLES
                    : p->kind == URL_TARGETS ? SELECT_TARGETS
                                             : SELECT_MANIFEST;
        v[i].one = !star && catalog_builder_find(c->builder, prefix, strlen(prefix), &j) == 0;
        folder = !star && !v[i].one && p->kind != URL_MANIFEST && !str_ends(prefix, "/");
        v[i].prefix = mem_fmt("%s%s", prefix, folder ? "/" : "");
        mem_free(&prefix);
    }
    c->layout.select = v;
    c->layout.n_select = parts->n;
}

static void release_parts(struct cataloguer *c)
{
    for (size_t i = 0; i < c->layout.n_select; i++)
        mem_free(&c->layout.select[i].prefix);
    mem_free(&c->layout.select);
    c->layout.n_select = 0;
}

static int set_layout(struct cataloguer *c, const char *root, struct dlc_err *err)
{
    const struct url_layout *u = &c->url->layout;

    c->layout = (struct layout){
        .builder = c->builder,
        .root = root,
        .split = u->split,
        .partition = u->partition,
        .group = u->group,
        .parallel = SCANS,
        .open = open_object,
        .close = close_object,
        .derive = c->disk != NULL ? derive : NULL,
        .derived = c->disk != NULL ? derived : NULL,
        .progress = on_progress,
        .priv = c,
    };
    select_parts(c, root);
    if (u->layout != NULL && !layout_parse(u->layout, &c->layout.kind))
        return dlc_err_set(err, DLC_EINVAL, "there is no layout '%.60s'", u->layout);
    return 0;
}

int cataloguer_run(struct cataloguer *c, const char *path, struct dlc_err *err)
{
    char *root;
    int rc;

    catalog_builder_settle(c->builder);
    root = root_of(c);
    rc = set_layout(c, root, err);
    if (rc == 0)
        rc = layout_apply(&c->layout, err);
    if (rc == 0)
        rc = catalog_builder_finish(c->builder, path, c->url->text, err);
    if (rc == 0)
        log_info("%s: layout %s, %llu objects, %llu samples", c->url->shown,
                 layout_name(c->layout.kind), (unsigned long long)catalog_builder_count(c->builder),
                 (unsigned long long)catalog_builder_samples(c->builder));
    bucket_close(&c->bucket);
    release_parts(c);
    mem_free(&root);
    return rc;
}
