// SPDX-License-Identifier: Apache-2.0
/* Weights of a job in shared memory: who maps them, for how long, and from whom they are taken. */
#include "lock_held.h"
#include "proc_self.h"

#include <sys/socket.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "catalog/catalog.h"
#include "client/dataset.h"
#include "client/job_weights.h"
#include "client/process.h"
#include "ipc/frame.h"

#define N    10u
#define NAME "dlcache-weights"

/* A dataset of N samples, and a daemon that the test plays: its answers lie in the socket before it
 * is asked. */
struct world {
    struct dlc_dataset ds;
    struct shm_segment_hdr header;
    struct attachment a;
    int end;
};

static int setup(void **state)
{
    struct world *w = test_calloc(1, sizeof(*w));
    struct catalog_builder *b = catalog_builder_new();
    char key[8], path[256];
    int fds[2];

    for (unsigned i = 0; i < N; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(catalog_builder_add(b, key, 2, 1, "e", NULL), 0);
    }
    assert_int_equal(catalog_builder_finish(b, unit_path("c", path), "file:///x/", NULL), 0);
    catalog_builder_free(&b);
    assert_int_equal(catalog_open(path, &w->ds.catalog, NULL), 0);
    w->ds.n = N;
    w->ds.timeout = DLC_SEC(5);
    dlc_mtx_init(&w->ds.mtx, LCK_dataset);
    importance_init(&w->ds.importance);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    w->a.header = &w->header;
    w->a.sock = fds[0];
    w->a.generation = 5;
    w->end = fds[1];
    dlc_mtx_init(&w->a.rpc, LCK_rpc);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    importance_release(&w->ds.importance);
    dlc_mtx_release(&w->ds.importance.mtx);
    dlc_mtx_release(&w->ds.mtx);
    dlc_mtx_release(&w->a.rpc);
    catalog_close(&w->ds.catalog);
    os_close(&w->a.sock);
    os_close(&w->end);
    test_free(w);
    assert_int_equal(proc_mapped(NAME), 0);
    return 0;
}

static struct mapped_weights *own(struct world *w)
{
    struct mapped_weights *m = NULL;

    assert_int_equal(mapped_weights_own(&w->ds, &m, NULL), 0);
    return m;
}

/* Who uses weights keeps them, also when there are others by now. */
static void test_references(void **state)
{
    struct world *w = *state;
    struct mapped_weights *used, *second;

    assert_null(mapped_weights_get(&w->ds));
    mapped_weights_install(&w->ds, own(w), false);
    used = mapped_weights_get(&w->ds);
    second = mapped_weights_get(&w->ds);
    assert_ptr_equal(used, second);
    mapped_weights_install(&w->ds, own(w), false);
    assert_int_equal(proc_mapped(NAME), 2);
    mapped_weights_put(&w->ds, &second);
    assert_null(second);
    assert_int_equal(proc_mapped(NAME), 2);
    weights_set(&used->w, 3, 2);
    assert_true(weights_get(&used->w, 3) == 2);
    mapped_weights_put(&w->ds, &used);
    assert_int_equal(proc_mapped(NAME), 1);
    mapped_weights_put(&w->ds, &used); /* NULL: nothing */
}

/* Of the same job: what was learned comes along, unless the others know better. */
static void test_bring_along(void **state)
{
    struct world *w = *state;
    struct mapped_weights *first = own(w), *same = own(w), *other = own(w);

    weights_set(&first->w, 0, 2);
    weights_set(&first->w, N - 1, 3);
    weights_set(&same->w, N - 1, 4);
    mapped_weights_install(&w->ds, first, true);
    mapped_weights_install(&w->ds, same, true);
    assert_true(weights_get(&same->w, 0) == 2);
    assert_true(weights_get(&same->w, N - 1) == 4);
    assert_int_equal(weights_stored(&same->w, WEIGHTS_SENDER),
                     2); /* nothing that was not learned */
    mapped_weights_install(&w->ds, other, false);
    assert_true(weights_get(&other->w, 0) <= 0);
}

static struct world *installing;

static void installs(void *arg)
{
    mapped_weights_install(&installing->ds, arg, false);
}

static void lock_weights(void)
{
    dlc_mtx_lock(&installing->ds.importance.mtx);
}

static void unlock_weights(void)
{
    dlc_mtx_unlock(&installing->ds.importance.mtx);
}

/* Neither fork() nor who learns finds others in the middle of something. */
static void test_install_is_locked(void **state)
{
    installing = *state;
    assert_true(waits_for(client_lock, client_unlock, installs, own(installing)));
    assert_true(waits_for(lock_weights, unlock_weights, installs, own(installing)));
    assert_int_equal(proc_mapped(NAME), 1);
}

static void test_own_refused(void **state)
{
    struct world *w = *state;
    unsigned before = proc_descriptors(), refused = 0;
    bool fired = true;

    for (int nth = 1; fired; nth++) {
        struct mapped_weights *m = (void *)w;
        struct dlc_err err = DLC_ERR_INIT;

        fault_arm(FAULT_SYSCALL, nth);
        int rc = mapped_weights_own(&w->ds, &m, &err);

        fired = fault_disarm();
        assert_int_equal(rc < 0, fired);
        assert_int_equal(m == NULL, fired);
        assert_int_equal(err.code, rc);
        refused += fired;
        mapped_weights_put(&w->ds, &m);
        assert_int_equal(proc_descriptors(), before);
        assert_int_equal(proc_mapped(NAME), 0);
    }
    assert_int_equal(refused, 4); /* memfd, its size, which is looked at, and the mapping */
}

/* Answer with weights of `size` bytes. */
static void answer(struct world *w, uint64_t size, bool formatted)
{
    json_t *body = json_pack("{s:b}", "ok", 1);
    int fd = os_memfd(NAME);
    void *map;

    assert_int_equal(os_ftruncate(fd, size), 0);
    map = os_map(fd, 0, size, true);
    if (formatted)
        weights_format(map, N, 7);
    os_unmap(map, size);
    assert_int_equal(msg_send(w->end, body, &fd, 1, NULL), 0);
    json_decref(body);
    os_close(&fd);
}

static void answer_json(struct world *w, json_t *body)
{
    assert_int_equal(msg_send(w->end, body, NULL, 0, NULL), 0);
    json_decref(body);
}

static int ask(struct world *w, struct mapped_weights **m)
{
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    *m = (void *)w; /* of no meaning */
    rc = mapped_weights_ask(&w->ds, &w->a, "job", true, m, &err);
    assert_int_equal(rc, err.code);
    assert_int_equal(rc < 0, *m == NULL);
    return rc;
}

static void test_ask(void **state)
{
    struct world *w = *state;
    unsigned before = proc_descriptors();
    struct mapped_weights *m;
    struct msg q = MSG_INIT;

    answer(w, weights_size(N), true);
    assert_int_equal(ask(w, &m), 0);
    assert_int_equal(m->generation, 5);
    assert_int_equal(proc_mapped(NAME), 1);
    mapped_weights_put(&w->ds, &m);
    assert_int_equal(proc_mapped(NAME), 0);
    assert_int_equal(msg_recv(w->end, &q, DLC_SEC(5), NULL), 0);
    assert_string_equal(json_string_value(json_object_get(q.body, "job")), "job");
    assert_true(json_is_true(json_object_get(q.body, "own")));
    assert_int_equal(q.n_fds, 0);
    msg_release(&q);
    answer(w, weights_size(N) + 4096, true);
    assert_int_equal(ask(w, &m), DLC_EPROTO);
    answer(w, weights_size(N), false); /* zeros */
    assert_true(ask(w, &m) < 0);
    answer_json(w, json_pack("{s:b}", "ok", 1)); /* no descriptor */
    assert_int_equal(ask(w, &m), DLC_EPROTO);
    answer_json(w, json_pack("{s:b, s:i}", "ok", 0, "code", DLC_EDENIED));
    assert_int_equal(ask(w, &m), DLC_EDENIED);
    assert_int_equal(proc_mapped(NAME), 0);
    assert_int_equal(proc_descriptors(), before);
}

/* A daemon that refuses changes nothing, and the caller is told. */
static void test_tell(void **state)
{
    struct world *w = *state;
    struct dlc_err err = DLC_ERR_INIT;
    struct mapped_weights *mine = own(w);
    char job[] = "job";

    mapped_weights_install(&w->ds, mine, false);
    dlc_mtx_lock(&w->ds.mtx);
    assert_int_equal(importance_tell(&w->ds, &w->a, &err), 0); /* no job: nothing is asked */
    w->ds.importance.job = job;
    answer_json(w, json_pack("{s:b, s:i}", "ok", 0, "code", DLC_EDENIED));
    assert_int_equal(importance_tell(&w->ds, &w->a, &err), DLC_EDENIED);
    assert_ptr_equal(w->ds.importance.mapped, mine);
    weights_set(&mine->w, 1, 9);
    answer(w, weights_size(N), true);
    assert_int_equal(importance_tell(&w->ds, &w->a, &err), 0);
    dlc_mtx_unlock(&w->ds.mtx);
    assert_int_equal(w->ds.importance.mapped->generation, 5);
    assert_true(weights_get(&w->ds.importance.mapped->w, 1) == 9);
    w->ds.importance.job = NULL;
}

/* What is asked, refused or given up leaves nothing behind; nor does an end. */
static void test_nothing_is_left(void **state)
{
    struct world *w = *state;
    struct importance *im = &w->ds.importance;
    struct mapped_weights *m;
    size_t used = 0;

    for (unsigned i = 0; i < 101; i++) {
        struct msg q = MSG_INIT;

        answer(w, weights_size(N), true);
        assert_int_equal(ask(w, &m), 0);
        mapped_weights_put(&w->ds, &m);
        answer_json(w, json_pack("{s:b, s:i}", "ok", 0, "code", DLC_EDENIED));
        assert_int_equal(ask(w, &m), DLC_EDENIED);
        for (unsigned k = 0; k < 2; k++) {
            assert_int_equal(msg_recv(w->end, &q, DLC_SEC(5), NULL), 0);
            msg_release(&q);
        }
        mapped_weights_install(&w->ds, own(w), false);
        im->job = mem_str("job");
        im->samples = mem_alloc(100);
        im->scale.count = 7;
        importance_release(im);
        assert_null(im->mapped);
        assert_int_equal(im->scale.count, 0);
        used = i == 0 ? unit_heap() : used;
    }
    if (!UNIT_SANITIZED)
        assert_true(unit_heap() < used + 1600);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_references), T(test_bring_along), T(test_install_is_locked), T(test_own_refused),
        T(test_ask),        T(test_tell),        T(test_nothing_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
