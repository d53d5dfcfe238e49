// SPDX-License-Identifier: Apache-2.0
/* A manager without server and thread, so that a test moves it step by step. */
#ifndef DLC_TESTS_CONTROL_BARE_H
#define DLC_TESTS_CONTROL_BARE_H

#include <poll.h>

#include "base/check.h"
#include "base/syscalls.h"
#include "manager/manager_i.h"
#include "manager/tables/cluster_view_i.h"
#include "manager/store/each_store.h"

/* dir: below the test's directory, made. */
static inline struct control *bare_open(const char *url, const char *dir, struct dlc_dur lock_ttl)
{
    struct control *c = mem_new(struct control);
    char path[256];

    c->tag = CONTROL_TAG;
    c->dir_lock = -1;
    c->lock_ttl = lock_ttl;
    c->node_ttl = DLC_SEC(10);
    c->dir = mem_str(unit_path(dir, path));
    c->advertise = mem_fmt("http://%s", dir);
    dlc_mtx_init(&c->mtx, LCK_control);
    dlc_cond_init(&c->wake);
    dlc_cond_init(&c->view_new);
    assert_int_equal(os_mkdirs(c->dir, 0700), 0);
    ok(store_open(url, &c->store, &err));
    return c;
}

static inline void bare_close(struct control **cp)
{
    struct control *c = *cp;

    *cp = NULL;
    leader_close(c);
    jobs_close(c);
    nodes_close(c);
    view_put(&c->view);
    json_decref(c->orphans);
    datasets_index_release(&c->index);
    store_close(&c->store);
    mem_free(&c->dir);
    mem_free(&c->advertise);
    dlc_cond_release(&c->wake);
    dlc_cond_release(&c->view_new);
    dlc_mtx_release(&c->mtx);
    mem_free(&c);
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
