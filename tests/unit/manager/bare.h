// SPDX-License-Identifier: Apache-2.0
/* Tables and an API without server and thread, so that a test moves them step by step. */
#ifndef DLC_TESTS_MANAGER_BARE_H
#define DLC_TESTS_MANAGER_BARE_H

#include <poll.h>

#include "base/check.h"
#include "base/syscalls.h"
#include "manager/routes/api.h"
#include "manager/store/each_store.h"
#include "manager/tables/tables.h"

struct bare {
    struct tables tables; /* first: bare_of() */
    struct api api;
    char *dir;
};

static inline struct bare *bare_of(struct tables *t)
{
    return (struct bare *)t;
}

static inline struct api *bare_api(struct tables *t)
{
    return &bare_of(t)->api;
}

/* dir: below the test's directory, made. */
static inline struct tables *bare_open(const char *url, const char *dir, struct dlc_dur lock_ttl)
{
    static const struct leader_hooks hooks = {.begin = tables_load};
    struct bare *b = mem_new(struct bare);
    struct tables *t = &b->tables;
    char path[256];

    tables_init(t, NULL);
    b->dir = mem_str(unit_path(dir, path));
    t->node_ttl = DLC_SEC(10);
    t->job_ttl = DLC_SEC(60);
    t->keep_ended = DLC_SEC(7 * 86400);
    t->keep_accounting = DLC_SEC(400 * 86400);
    t->leader.hooks = &hooks;
    t->leader.ttl = lock_ttl;
    t->leader.dir = b->dir;
    t->leader.advertise = mem_fmt("http://%s", dir);
    b->api = (struct api){.tag = API_TAG, .tables = t};
    assert_int_equal(os_mkdirs(b->dir, 0700), 0);
    ok(store_open(url, &t->store, &err));
    return t;
}

/* The same, and it leads. */
static inline struct tables *bare_lead(const char *url, const char *dir)
{
    struct tables *t = bare_open(url, dir, DLC_SEC(600));

    ok(leader_lock_dir(t, &err));
    ok(leader_open(t, &err));
    leader_tick(t, dlc_mono_now());
    assert_true(leader_leads(t));
    return t;
}

static inline void bare_close(struct tables **tp)
{
    struct bare *b = bare_of(*tp);
    struct store *store = (*tp)->store;

    *tp = NULL;
    tables_release(&b->tables);
    store_close(&store);
    auth_release(&b->api.auth);
    mem_free(&b->dir);
    mem_free(&b);
}

/* Write a new document as the routes do, and tell the table that holds its kind. Takes body. */
static inline void bare_put(struct tables *t, enum store_kind kind, const char *id,
                            const char *tenant, json_t *body)
{
    struct store_doc d = {(char *)id, (char *)tenant, body, 0};

    assert_non_null(body);
    ok(store_put(t->store, kind, &d, STORE_NEW, &err));
    if (kind == STORE_NODE)
        nodes_remember(t, &d, true);
    else if (kind == STORE_DATASET)
        dataset_written(t, 0, &d);
    json_decref(body);
}

/* A live node with room for so many bytes. */
static inline void bare_put_node(struct tables *t, const char *name, int capacity)
{
    bare_put(t, STORE_NODE, name, "",
             json_pack("{s:s, s:s, s:i}", "address", "", "state", "live", "capacity", capacity));
}

/* Until cond is true, 20 s at most. */
#define bare_wait(cond)                                                                            \
    do {                                                                                           \
        int left_ = 2000;                                                                          \
        while (!(cond) && left_-- > 0)                                                             \
            poll(NULL, 0, 10);                                                                     \
        assert_true(left_ > 0);                                                                    \
    } while (0)

#endif
