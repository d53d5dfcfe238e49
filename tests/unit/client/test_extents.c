// SPDX-License-Identifier: Apache-2.0
/* The client's mappings of extents, with a real daemon. */
#include "daemon.h"

#include <sys/wait.h>

#include "base/fault.h"

#define N       40u
#define SIZE    100000u
#define EXTENTS ((4096 + N * (SIZE + 32) + 65535) / 65536) /* of 64 KB, when all is resident */
#define HELD    20u /* in the middle: the holes on both sides are worth giving back */

static struct daemon d;
static char url[512];

static int setup(void **state)
{
    (void)state;
    daemon_init(&d, "d", "8MB", false);
    daemon_start(&d);
    dataset("e", N, SIZE, "", url);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    daemon_end(&d);
    return 0;
}

/* How many extents this process maps, by the kernel's own list. */
static unsigned mapped(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned n = 0;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL)
        n += strstr(line, "memfd:dlcache-extent") != NULL;
    fclose(f);
    return n;
}

static void evict_all(void)
{
    struct msg m = MSG_INIT;
    int sock = dial_greeted(&d);

    tell(sock, json_pack("{s:s}", "op", "evict"), &m);
    assert_true(json_is_true(json_object_get(m.body, "ok")));
    msg_release(&m);
    os_close(&sock);
}

static void read_all(struct dlc_dataset *ds)
{
    for (unsigned i = 0; i < N; i++)
        read_one(ds, i);
}

/* A client that makes no call gives memory back: its thread hears of it. */
static void test_idle_client_unmaps(void **state)
{
    struct dlc_dataset *ds = open_at(&d, url, 5000);
    struct dlc_view held;

    (void)state;
    assert_int_equal(mapped(), 0);
    read_all(ds);
    assert_true(mapped() >= 10);
    evict_all();
    until(mapped() == 0);
    read_all(ds); /* into other extents, at the same places */
    assert_int_equal(dlc_get(ds, HELD, &held), 0);
    evict_all();
    until(mapped() > 0 && mapped() <= 3); /* those of the view */
    assert_true(is_sample(&held, HELD));
    dlc_put(ds, &held);
    dlc_close(&ds);
}

/* A second process finds samples in memory that it has not mapped: hits, each of them. */
static void test_a_late_client_hits(void **state)
{
    struct dlc_dataset *ds = open_at(&d, url, 5000), *late;
    struct dlc_stats st;
    struct dlc_view v;

    (void)state;
    read_all(ds);
    late = open_at(&d, url, 5000);
    assert_int_equal(dlc_try_get(late, 3, &v), 0);
    assert_true(is_sample(&v, 3));
    dlc_put(late, &v);
    read_all(late);
    dlc_dataset_stats(late, &st);
    assert_int_equal(st.hits, N + 1);
    assert_int_equal(st.misses, 0);
    dlc_close(&late);
    dlc_close(&ds);
}

/* A process that has read nothing maps what is there when it opens, and later what others bring. */
static void test_mapped_ahead(void **state)
{
    struct dlc_dataset *idle = open_at(&d, url, 5000), *ds = open_at(&d, url, 5000), *late;

    (void)state;
    evict_all();
    until(mapped() == 0);
    read_all(ds);
    until(mapped() == 2 * EXTENTS); /* both of them */
    late = open_at(&d, url, 5000);
    assert_int_equal(mapped(), 3 * EXTENTS);
    evict_all();
    until(mapped() == 0);
    dlc_close(&late);
    dlc_close(&ds);
    dlc_close(&idle);
}

/* A kernel that refuses mappings is not asked for each sample: for a second they are read past the
 * daemon. */
static void test_mapping_fails_for_a_while(void **state)
{
    struct dlc_dataset *ds = open_at(&d, url, 5000);
    struct dlc_stats st;
    uint64_t all[N];
    struct dlc_view v;
    int hits;

    (void)state;
    for (unsigned i = 0; i < N; i++)
        all[i] = i;
    evict_all();
    until(mapped() == 0);
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(mmap_at), .nth = 1, .times = 1000000});
    assert_int_equal(dlc_prefetch(ds, all, N), 0);
    until(stat_of(&d, "datasets", "resident") == N);
    until(fault_hits() >= (int)EXTENTS); /* the thread that maps ahead has tried */
    assert_int_equal(dlc_try_get(ds, 3, &v), DLC_EMISS);
    hits = fault_hits();
    assert_true(hits > (int)EXTENTS);
    assert_int_equal(dlc_try_get(ds, 4, &v), DLC_EMISS);
    assert_int_equal(fault_hits(), hits);
    fault_disarm();
    assert_int_equal(dlc_try_get(ds, 3, &v), DLC_EMISS);
    assert_int_equal(dlc_get(ds, 3, &v), 0); /* from the bucket */
    assert_true(is_sample(&v, 3));
    dlc_put(ds, &v);
    dlc_dataset_stats(ds, &st);
    assert_int_equal(st.bypasses, 1);
    assert_int_equal(mapped(), 0);
    dlc_clock_advance(DLC_SEC(1));
    assert_int_equal(dlc_try_get(ds, 3, &v), 0);
    assert_true(is_sample(&v, 3));
    dlc_put(ds, &v);
    dlc_close(&ds);
}

/* What is resident is read while the daemon stands still, also by who has read nothing. */
static void test_read_while_daemon_stands(void **state)
{
    struct dlc_dataset *idle = open_at(&d, url, 5000), *ds = open_at(&d, url, 5000), *late;
    struct dlc_stats st;

    (void)state;
    read_all(ds);
    late = open_at(&d, url, 5000);
    assert_int_equal(kill(d.pid, SIGSTOP), 0);
    read_all(late);
    read_all(idle);
    assert_int_equal(kill(d.pid, SIGCONT), 0);
    dlc_dataset_stats(late, &st);
    assert_int_equal(st.hits, N);
    assert_int_equal(st.misses + st.bypasses, 0);
    dlc_dataset_stats(idle, &st);
    assert_int_equal(st.hits, N);
    assert_int_equal(st.misses + st.bypasses, 0);
    dlc_close(&late);
    dlc_close(&ds);
    dlc_close(&idle);
}

static void child_checks(struct dlc_dataset *ds, struct dlc_view *held, int from)
{
    char c;

    if (read(from, &c, 1) != 1 || !is_sample(held, HELD))
        _exit(1);
    dlc_put(ds, held);
    read_all(ds); /* attaches for itself */
    _exit(0);
}

/* A child holds a view of its parent, which puts its own; then the daemon drops what it can. */
static void test_child(void **state)
{
    struct dlc_dataset *ds = open_at(&d, url, 5000);
    struct dlc_view held;
    int go[2], status;
    pid_t pid;

    (void)state;
    read_all(ds);
    assert_int_equal(dlc_get(ds, HELD, &held), 0);
    assert_int_equal(pipe(go), 0);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child_checks(ds, &held, go[0]);
    dlc_put(ds, &held);
    evict_all();
    until(mapped() == 0);
    assert_int_equal(write(go[1], "x", 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(go[0]);
    close(go[1]);
    dlc_close(&ds);
}

/* The daemon is killed: what is mapped stays, and goes with the last view. */
static void test_daemon_is_killed(void **state)
{
    struct dlc_dataset *ds = open_at(&d, url, 5000);
    struct dlc_view held;

    (void)state;
    read_all(ds);
    assert_int_equal(dlc_get(ds, HELD, &held), 0);
    daemon_kill(&d);
    assert_true(is_sample(&held, HELD));
    dlc_put(ds, &held);
    until(mapped() == 0);
    dlc_close(&ds);
    daemon_start(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_client_unmaps),
        cmocka_unit_test(test_a_late_client_hits),
        cmocka_unit_test(test_mapped_ahead),
        cmocka_unit_test(test_mapping_fails_for_a_while),
        cmocka_unit_test(test_read_while_daemon_stands),
        cmocka_unit_test(test_child),
        cmocka_unit_test(test_daemon_is_killed),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
