// SPDX-License-Identifier: Apache-2.0
/* Reading past the cache: when the daemon is away, or has no room. Slower, and never wrong. */
#include "client/client_i.h"

#include "base/mem.h"
#include "base/str.h"

static int open_direct_locked(struct dlc_dataset *ds, struct dlc_err *err)
{
    struct bucket_config bc = BUCKET_CONFIG_INIT;
    struct url u = URL_INIT;
    int rc = url_parse(&u, ds->url, err);
    bool path_style;

    dlc_mtx_assert_held(&ds->mtx);
    bc.endpoint = ds->endpoint;
    bc.region = ds->config.region[0] ? ds->config.region : NULL;
    bc.profile = ds->config.profile[0] ? ds->config.profile : NULL;
    bc.anonymous = ds->opt.anonymous != 0 || ds->config.anonymous;
    if (str_parse_bool(ds->config.path_style, &path_style))
        bc.path_style = path_style;
    bc.lanes = 1;
    bc.retries = (unsigned)ds->config.retries;
    bc.connect_timeout = ds->config.connect_timeout;
    bc.stall_timeout = ds->config.stall_timeout;
    bc.deadline = ds->timeout;
    if (rc == 0)
        rc = bucket_open(&u, &bc, &ds->direct, err);
    url_release(&u);
    return rc;
}

static struct bucket *direct_bucket(struct dlc_dataset *ds, struct dlc_err *err)
{
    struct bucket *b;

    dlc_mtx_lock(&ds->mtx);
    if (ds->direct == NULL && open_direct_locked(ds, err) < 0)
        ds->direct = NULL;
    b = ds->direct;
    dlc_mtx_unlock(&ds->mtx);
    return b;
}

int direct_get(struct dlc_dataset *ds, uint64_t sample, struct dlc_view *out, struct dlc_err *err)
{
    struct dlc_mono start = dlc_mono_now();
    struct bucket *b = direct_bucket(ds, err);
    struct catalog_entry *e;
    void *data = NULL;
    int rc;

    if (b == NULL)
        return err->code;
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
    rc = bucket_read_wait(b, e->key, e->etag, 0, e->size, true, data, err);
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
