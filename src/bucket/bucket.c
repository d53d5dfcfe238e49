// SPDX-License-Identifier: Apache-2.0
/*
 * A bucket's lifetime: the origin for its URL, its lanes, and the figures they publish. bucket_i.h
 * describes what happens to requests.
 */
#include "bucket/bucket.h"

#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "bucket/bucket_i.h"

#define BUCKET_TAG DLC_TAG4('b', 'c', 'k', 't')

#define LANES_MAX  8
#define RATE_STALE DLC_SEC(2)

static const char *const scheme_names[] = {
    [URL_S3] = "s3",     [URL_GS] = "gs",         [URL_HTTP] = "http", [URL_HTTPS] = "https",
    [URL_FILE] = "file", [URL_NAMED] = "dlcache", [URL_AZ] = "az",
};

static unsigned bucket_lanes(const struct bucket_config *c)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (c->lanes != 0)
        return DLC_MIN(c->lanes, LANES_MAX);
    return (unsigned)DLC_CLAMP(cores / 2, 1, LANES_MAX);
}

static void resolve(struct bucket *b, const struct bucket_config *c)
{
    const struct origin *o = b->origin;
    struct bucket_config *r = &b->config;

    *r = *c;
    r->endpoint = r->region = r->profile = NULL; /* the origin has its own copies */
    if (r->max_requests == 0)
        r->max_requests = 1024;
    if (r->stall_timeout.ns <= 0)
        r->stall_timeout = DLC_SEC(20);
    if (r->deadline.ns <= 0)
        r->deadline = DLC_SEC(300);
    /* per 1000 requests and per GB -> nano per request and per byte */
    b->nano_get = (c->price_get < 0 ? o->price_get : c->price_get) * 1e6;
    b->nano_list = (c->price_list < 0 ? o->price_list : c->price_list) * 1e6;
    b->nano_byte = c->price_gb < 0 ? o->price_gb : c->price_gb;
}

static void bucket_free(struct bucket *b)
{
    b->origin->ops->free(b->origin);
    dlc_cond_release(&b->drained);
    dlc_mtx_release(&b->mtx);
    mem_free(&b->place);
    mem_free(&b->root);
    mem_free(&b->lanes);
    b->tag = 0;
    mem_free(&b);
}

int bucket_open_origin(struct origin *origin, const char *root, const struct bucket_config *c,
                       unsigned lanes, struct bucket **out, struct dlc_err *err)
{
    struct bucket *b = mem_new(struct bucket);
    int rc = 0;

    b->tag = BUCKET_TAG;
    b->origin = origin;
    b->place = mem_str(""); /* bucket_open() knows better */
    b->root = mem_str(root);
    dlc_mtx_init(&b->mtx, LCK_sync);
    dlc_cond_init(&b->drained);
    resolve(b, c);
    b->n_lanes = lanes;
    b->lanes = aligned_alloc(_Alignof(struct lane), lanes * sizeof(struct lane));
    dlc_check(b->lanes != NULL);
    memset(b->lanes, 0, lanes * sizeof(struct lane));
    for (unsigned i = 0; i < lanes && rc == 0; i++)
        rc = lane_open(&b->lanes[i], b, i, err);
    if (rc < 0) {
        for (unsigned i = 0; i < lanes; i++)
            lane_stop(&b->lanes[i]);
        bucket_free(b);
        b = NULL;
    }
    *out = b;
    return rc;
}

static int origin_new(const struct url *u, const struct bucket_config *c, unsigned lanes,
                      struct origin **out, struct dlc_err *err)
{
    switch (u->scheme) {
    case URL_S3: return origin_s3_new(u, c, lanes, out, err);
    case URL_GS: return origin_gs_new(u, c, lanes, out, err);
    case URL_AZ: return origin_azure_new(u, c, lanes, out, err);
    case URL_HTTP:
    case URL_HTTPS: return origin_http_new(u, c, lanes, out, err);
    case URL_NAMED:
        return dlc_err_set(err, DLC_EINVAL,
                           "%s is the name of a dataset of a cluster, not its place: only a daemon "
                           "with a manager knows where it lies (`dlcache serve`, `dlcache node`)",
                           u->shown);
    case URL_FILE: break;
    }
    return origin_file_new(u, c, lanes, out, err);
}

/* Gives the string. */
static char *place_of(const struct url *u)
{
    switch (u->scheme) {
    case URL_S3:
    case URL_AZ:
    case URL_GS: return mem_fmt("%s://%s/", scheme_names[u->scheme], u->bucket);
    case URL_FILE: return mem_fmt("file://%s/", u->prefix);
    case URL_HTTP:
    case URL_HTTPS:
    case URL_NAMED: break;
    }
    return mem_str(u->shown);
}

int bucket_open(const struct url *u, const struct bucket_config *c, struct bucket **out,
                struct dlc_err *err)
{
    struct origin *o = NULL;
    unsigned lanes = bucket_lanes(c);
    int rc;

    *out = NULL;
    rc = origin_new(u, c, lanes, &o, err);
    if (rc == 0 && u->shape.active)
        rc = origin_shaped_new(&u->shape, o, &o, err);
    if (rc == 0)
        rc = bucket_open_origin(o, u->scheme == URL_FILE ? "" : u->prefix, c, lanes, out, err);
    if (rc == 0) {
        (*out)->scheme = u->scheme;
        mem_free(&(*out)->place);
        (*out)->place = place_of(u);
    }
    return rc;
}

static unsigned load_of_all(struct bucket *b)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < b->n_lanes; i++)
        sum += atomic_load(&b->lanes[i].load);
    return sum;
}

void bucket_close(struct bucket **bp)
{
    struct bucket *b = *bp;

    *bp = NULL;
    if (b == NULL)
        return;
    dlc_check(b->tag == BUCKET_TAG);
    atomic_store(&b->closing, true); /* pairs with request_end() */
    for (unsigned i = 0; i < b->n_lanes; i++)
        lane_drain(&b->lanes[i]);
    dlc_mtx_lock(&b->mtx);
    while (b->closed < b->n_lanes || load_of_all(b) > 0)
        dlc_cond_wait(&b->drained, &b->mtx);
    dlc_mtx_unlock(&b->mtx);
    for (unsigned i = 0; i < b->n_lanes; i++)
        lane_stop(&b->lanes[i]);
    bucket_free(b);
}

void bucket_hint_size(struct bucket *b, uint64_t mean_bytes)
{
    atomic_store_explicit(&b->hint, mean_bytes, memory_order_relaxed); /* read with the next read */
}

void bucket_figures(struct bucket *b, struct bucket_figures *out)
{
    int64_t now = dlc_mono_now().ns;
    unsigned load = 0;

    memset(out, 0, sizeof(*out));
    for (unsigned i = 0; i < b->n_lanes; i++) {
        struct lane_figures *f = &b->lanes[i].figures;
        int64_t p50 = atomic_load_explicit(&f->p50, memory_order_relaxed);
        int64_t p99 = atomic_load_explicit(&f->p99, memory_order_relaxed);

        load += atomic_load_explicit(&b->lanes[i].load, memory_order_relaxed);
        out->in_flight += atomic_load_explicit(&f->in_flight, memory_order_relaxed);
        out->limit += atomic_load_explicit(&f->limit, memory_order_relaxed);
        out->p50.ns = DLC_MAX(out->p50.ns, p50);
        out->p99.ns = DLC_MAX(out->p99.ns, p99);
        if (now - atomic_load_explicit(&f->rate_at, memory_order_relaxed) < RATE_STALE.ns)
            out->bytes_per_s += (double)atomic_load_explicit(&f->rate, memory_order_relaxed);
    }
    out->queued = load > out->in_flight ? load - out->in_flight : 0;
}

void bucket_prices(const struct bucket *b, double *get, double *byte)
{
    *get = b->nano_get / 1e9;
    *byte = b->nano_byte / 1e9;
}
