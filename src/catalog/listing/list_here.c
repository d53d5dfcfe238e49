// SPDX-License-Identifier: Apache-2.0
#include "catalog/listing/list_here.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "catalog/listing/cataloguer.h"

struct listing {
    struct catalog_builder *builder;
    const struct url *url;
    void (*seen)(void *priv, uint64_t objects);
    void *priv;
    int rc;
    struct dlc_err err;
};

static bool on_page(struct bucket_list *l, const struct bucket_object *objects, size_t n)
{
    struct listing *s = l->priv;

    for (size_t i = 0; i < n && s->rc == 0; i++) {
        if (objects[i].size == 0 && str_ends(objects[i].key, "/"))
            continue; /* the mark that consoles leave for an empty folder: the daemon skips it too
                       */
        if (!list_takes(s->url, objects[i].key))
            continue;
        s->rc = catalog_builder_add(s->builder, objects[i].key, strlen(objects[i].key),
                                    objects[i].size, objects[i].etag, &s->err);
    }
    if (s->seen != NULL)
        s->seen(s->priv, catalog_builder_count(s->builder));
    return s->rc == 0;
}

/* The URL may name one object. */
static int list_one(struct bucket *b, const struct url *u, struct listing *s, struct dlc_err *err)
{
    struct bucket_stat stat;
    int rc = bucket_stat_wait(b, u->prefix, &stat, err);

    if (rc == DLC_ENOTFOUND)
        return 0;
    if (rc == 0)
        rc = catalog_builder_add(s->builder, u->prefix, strlen(u->prefix), stat.size, stat.etag,
                                 err);
    return rc;
}

/* List the bucket into s->builder, as the daemon does. */
static int list_bucket(const struct bucket_config *bc, const struct url *u, struct listing *s,
                       struct dlc_err *err)
{
    char *prefix = list_prefix(u);
    struct bucket *b = NULL;
    int rc = bucket_open(u, bc, &b, err);

    s->url = u;
    for (size_t k = 0; k < list_count(u) && rc == 0 && s->rc == 0; k++) {
        char *one = list_prefix_at(u, k);

        rc = bucket_list_wait(b, one, on_page, s, err);
        mem_free(&one);
    }
    if (s->rc < 0) {
        *err = s->err;
        rc = s->rc;
    }
    if (rc == 0 && catalog_builder_count(s->builder) == 0 && prefix != NULL &&
        !str_ends(u->prefix, "*"))
        rc = list_one(b, u, s, err);
    bucket_close(&b);
    mem_free(&prefix);
    return rc;
}

static int make_catalog(const struct url *u, const struct bucket_config *bc, struct listing *s,
                        const char *path, struct dlc_err *err)
{
    struct cataloguer g = {.url = u, .config = *bc, .builder = s->builder};
    int rc = list_bucket(&g.config, u, s, err);

    cataloguer_init(&g);
    if (rc == 0)
        rc = cataloguer_run(&g, path, err);
    cataloguer_release(&g);
    return rc;
}

int list_here(const struct url *u, const struct bucket_config *bc,
              void (*seen)(void *priv, uint64_t objects), void *priv, struct catalog **out,
              struct dlc_err *err)
{
    struct listing s = {.builder = catalog_builder_new(), .seen = seen, .priv = priv};
    const char *tmp = getenv("TMPDIR");
    char *dir = mem_fmt("%s/dlcache-list-XXXXXX", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    char *path = NULL;
    int rc = 0;

    if (mkdtemp(dir) == NULL) {
        rc = dlc_err_sys(err, "cannot make %s", dir);
    } else {
        path = mem_fmt("%s/catalog", dir);
        rc = make_catalog(u, bc, &s, path, err);
        if (rc == 0)
            rc = catalog_open(path, out, err); /* mapped: the file may go */
        os_rmtree(dir);
    }
    catalog_builder_free(&s.builder);
    mem_free(&path);
    mem_free(&dir);
    return rc;
}
