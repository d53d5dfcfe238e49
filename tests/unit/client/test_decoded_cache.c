// SPDX-License-Identifier: Apache-2.0
/* Forms at a daemon: given by one process, read by another; what does not belong is not given. */
#include "daemon.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/fault.h"
#include "cache/decoded/decoded_header.h"
#include "cache/memory/memory.h"
#include "client/attach.h"
#include "client/attachment.h"
#include "client/decoded_cache.h"
#include "client/miss.h"
#include "ipc/shm.h"

#define N    50u
#define LEN  3000u
#define KIND 0x1234u

static struct daemon d;
static char url[512];
static struct dlc_dataset *ds;

static int setup(void **state)
{
    (void)state;
    daemon_init(&d, "d", "8MB", false);
    daemon_start(&d);
    ds = open_at(&d, dataset("k", N, 1000, "", url), 5000);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dlc_close(&ds);
    daemon_end(&d);
    return 0;
}

static struct decoded_handle *handle_at(uint64_t policy)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct decoded_handle *k;

    if (decoded_handle_open(ds, policy, &k, &err) < 0)
        fail_msg("%s", err.text);
    return k;
}

/* Give one of LEN bytes. False: the daemon wants none. */
static bool give(struct decoded_handle *k, uint64_t sample)
{
    struct upload g;

    if (!decoded_handle_reserve(k, LEN, &g))
        return false;
    fill_bytes(g.data, sample + 7, LEN);
    decoded_handle_upload(k, &g, sample, LEN);
    assert_null(g.data);
    return true;
}

static struct shm_decoded_hdr last_header; /* of what has() found */

static bool has(struct decoded_handle *k, uint64_t sample)
{
    struct dlc_view v;
    bool there = decoded_handle_get(k, sample, &v);

    if (there) {
        assert_int_equal(v.len, LEN);
        assert_true(is_sample(&v, sample + 7));
        last_header = *((const struct shm_decoded_hdr *)v.data - 1);
        decoded_handle_put(k, &v);
    }
    return there;
}

static void test_given_and_read_by_another(void **state)
{
    struct decoded_handle *a = handle_at(KIND), *b = handle_at(KIND), *other = handle_at(KIND + 1);
    struct decoded_handle_figures f;

    (void)state;
    for (unsigned i = 0; i < N; i++) {
        assert_false(has(b, i));
        until(give(a, i));
    }
    for (unsigned i = 0; i < N; i++) {
        until(has(b, i));
        assert_true(has(a, i));
        assert_int_equal(last_header.policy, KIND); /* how it was decoded goes with it */
        assert_int_equal(last_header.sample, i);
        assert_false(has(other, i));
    }
    until((decoded_handle_figures(b, &f), f.samples == N));
    assert_int_equal(f.bytes, N * (LEN + sizeof(struct shm_decoded_hdr)));
    assert_int_equal(f.unsound, 0);
    assert_int_equal(stat_of(&d, "memory", "decoded"), N);
    assert_int_equal(stat_of(&d, "datasets", "decoded"), N);
    assert_int_equal(stat_of(&d, "datasets", "decoded_bytes"), f.bytes);
    until(give(a, 3)); /* once more: it is there */
    until(give(a, 3));
    assert_int_equal(stat_of(&d, "counters", "decoded_fills"), N);
    read_one(ds, 3); /* the sample is another thing */
    decoded_handle_close(&a);
    assert_true(has(b, 1)); /* it stays for the others, ... */
    decoded_handle_close(&b);
    b = handle_at(KIND);
    assert_true(has(b, 1)); /* ... and for who comes later */
    decoded_handle_close(&b);
    decoded_handle_close(&other);
}

/* An upload that is dropped, and many at once. */
static void test_upload_slots_come_back(void **state)
{
    struct decoded_handle *k = handle_at(KIND + 2);
    struct upload g[SHM_UPLOAD_SLOTS + 1];
    unsigned n;

    (void)state;
    for (unsigned turn = 0; turn < 3; turn++) {
        for (n = 0; n <= SHM_UPLOAD_SLOTS && decoded_handle_reserve(k, LEN, &g[n]); n++)
            ;
        assert_int_equal(n, SHM_UPLOAD_SLOTS);
        while (n-- > 0)
            decoded_handle_cancel(k, &g[n]);
    }
    assert_false(decoded_handle_reserve(k, SHM_UPLOAD_SIZE, &g[0])); /* too large */
    assert_false(has(k, 0));
    decoded_handle_close(&k);
}

struct cancelling {
    struct decoded_handle *k;
    struct upload g;
    _Atomic bool begun;
};

static void *cancels(void *arg)
{
    struct cancelling *c = arg;

    atomic_store(&c->begun, true);
    decoded_handle_cancel(c->k, &c->g);
    return NULL;
}

/* Which slots are used is changed by one thread at a time. */
static void test_slots_are_locked(void **state)
{
    struct cancelling c = {.k = handle_at(KIND + 2)};
    struct attachment *a;
    unsigned number;
    pthread_t t;

    (void)state;
    until(decoded_handle_reserve(c.k, LEN, &c.g));
    a = c.g.a;
    number = c.g.number;
    dlc_mtx_lock(&a->mtx);
    assert_int_equal(pthread_create(&t, NULL, cancels, &c), 0);
    until(atomic_load(&c.begun));
    for (unsigned i = 0; i < 50; i++) {
        poll(NULL, 0, 1);
        assert_int_equal(a->upload_used[number], 1);
    }
    dlc_mtx_unlock(&a->mtx);
    pthread_join(t, NULL);
    assert_int_equal(a->upload_used[number], 0);
    decoded_handle_close(&c.k);
}

/* A decoded sample whose header says another policy is not given, and is counted. */
static void test_of_another_policy(void **state)
{
    struct decoded_handle *k = handle_at(KIND + 3);
    json_int_t before = stat_of(&d, "memory", "decoded");
    struct decoded_handle_figures f;
    struct shm_cell *c;
    struct dlc_view v;
    struct upload g;

    (void)state;
    until(decoded_handle_reserve(k, LEN, &g));
    fill_bytes(g.data, 4, LEN);
    decoded_seal((char *)g.data - sizeof(struct shm_decoded_hdr), 4, KIND, LEN);
    c = &g.a->cells[g.number];
    c->op = SHM_OP_UPLOAD;
    c->sample = 4;
    c->len = sizeof(struct shm_decoded_hdr) + LEN;
    atomic_store(&c->state, SHM_CELL_ASKED);
    miss_submit(g.a, (int)g.number);
    decoded_handle_cancel(k, &g);
    until(stat_of(&d, "memory", "decoded") == before + 1);
    for (unsigned i = 1; i < 3; i++) {
        assert_false(decoded_handle_get(k, 4, &v));
        assert_null(v.data); /* nothing is held */
        decoded_handle_figures(k, &f);
        assert_int_equal(f.unsound, i);
    }
    decoded_handle_close(&k);
}

/* Who has put its views and ended its uploads holds nothing. */
static void test_nothing_is_held(void **state)
{
    struct decoded_handle *k = handle_at(KIND + 4);
    struct attachment *a;
    struct dlc_view v;
    struct upload g;

    (void)state;
    until(decoded_handle_reserve(k, LEN, &g));
    a = g.a;
    assert_int_equal(a->users, 1);
    decoded_handle_cancel(k, &g);
    assert_int_equal(a->users, 0);
    until(give(k, 1));
    assert_int_equal(a->users, 0);
    until(has(k, 1));
    assert_int_equal(attachment_held(a), 0);
    assert_true(decoded_handle_get(k, 1, &v));
    assert_int_equal(attachment_held(a), 1);
    decoded_handle_put(k, &v);
    assert_int_equal(attachment_held(a), 0);
    assert_false(decoded_handle_reserve(k, SHM_UPLOAD_SIZE, &g));
    assert_int_equal(a->users, 0);
    decoded_handle_close(&k);
}

/* Settings that cannot be read: no decoded cache, and a reason. */
static void test_no_settings(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct decoded_handle *k = (void *)&err;

    (void)state;
    setenv("DLCACHE_CONFIG", "/nonexistent/settings", 1);
    assert_true(decoded_handle_open(ds, KIND, &k, &err) < 0);
    unsetenv("DLCACHE_CONFIG");
    assert_null(k);
    assert_non_null(strstr(err.text, "/nonexistent/settings"));
}

/* An upload notices that the daemon has gone, also where no thread watches for it. */
static void test_lost_while_not_watched(void **state)
{
    struct decoded_handle *k;
    struct attachment *a;
    struct upload g;

    (void)state;
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(epoll_ctl), .nth = 1, .pid = getpid()});
    k = handle_at(KIND);
    assert_true(fault_disarm());
    until(decoded_handle_reserve(k, LEN, &g));
    a = g.a;
    assert_false(a->watched);
    decoded_handle_cancel(k, &g);
    daemon_kill(&d);
    assert_false(decoded_handle_reserve(k, LEN, &g));
    assert_true(a->unmapped); /* its memory goes back */
    daemon_start(&d);
    decoded_handle_close(&k);
}

static void test_kinds_are_bounded(void **state)
{
    struct decoded_handle *k[8], *more;
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    for (unsigned i = 0; i < unit_count(k); i++)
        k[i] = handle_at(1000 + i);
    assert_int_equal(decoded_handle_open(ds, 2000, &more, &err), DLC_EBUSY);
    decoded_handle_close(&k[0]);
    until(decoded_handle_open(ds, 2000, &more, &err) ==
          0); /* in the place of the one that nobody uses */
    decoded_handle_close(&more);
    for (unsigned i = 1; i < unit_count(k); i++)
        decoded_handle_close(&k[i]);
}

/* Memory is full of decoded samples: those that nobody uses leave for new ones. */
static void test_idle_make_room(void **state)
{
    const size_t large = 200000;
    struct decoded_handle *a = handle_at(77), *b;
    struct upload g;
    unsigned n = 0;

    (void)state;
    for (; n < N && decoded_handle_reserve(a, large, &g); n++) {
        decoded_handle_upload(a, &g, n, large);
        until(stat_of(&d, "memory", "decoded") > n);
    }
    assert_in_range(n, 20, N - 1);
    b = handle_at(78);
    assert_false(decoded_handle_reserve(b, large, &g)); /* both are in use */
    decoded_handle_close(&a);
    until(decoded_handle_reserve(b, large, &g));
    decoded_handle_upload(b, &g, 0, large);
    until(stat_of(&d, "memory", "decoded") == 1);
    assert_int_equal(stat_of(&d, "counters", "mem_evictions"), 0);
    decoded_handle_close(&b);
}

static void test_daemon_killed(void **state)
{
    struct decoded_handle *k = handle_at(KIND);
    struct dlc_view v;

    (void)state;
    until(give(k, 5));
    until(has(k, 5));
    assert_true(decoded_handle_get(k, 5, &v));
    daemon_kill(&d);
    assert_false(give(k, 6));
    assert_true(is_sample(&v, 5 + 7)); /* who holds one keeps it */
    assert_false(has(k, 5));
    daemon_start(&d);
    until(give(k, 6)); /* finds the new daemon, which has none */
    until(has(k, 6));
    assert_false(has(k, 5));
    assert_true(is_sample(&v, 5 + 7));
    decoded_handle_put(k, &v);
    decoded_handle_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_given_and_read_by_another),
        cmocka_unit_test(test_upload_slots_come_back),
        cmocka_unit_test(test_slots_are_locked),
        cmocka_unit_test(test_of_another_policy),
        cmocka_unit_test(test_nothing_is_held),
        cmocka_unit_test(test_no_settings),
        cmocka_unit_test(test_kinds_are_bounded),
        cmocka_unit_test(test_idle_make_room),
        cmocka_unit_test(test_daemon_killed),
        cmocka_unit_test(test_lost_while_not_watched),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
