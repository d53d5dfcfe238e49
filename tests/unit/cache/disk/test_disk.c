// SPDX-License-Identifier: Apache-2.0
/* Opening, closing, dropping, one process at a time. */
#include "util.h"

#include "cache/disk/disk_i.h"

#include "base/fault.h"

static void test_round_trip(void **state)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 100000, (3 << 20) + 7};
    struct disk *d = open_limited(0);
    uint64_t hits = count_read(disk_hits), stores = count_read(disk_stores);

    (void)state;
    for (unsigned i = 0; i < DLC_COUNT(sizes); i++) {
        assert_false(disk_has(d, id_of(i)));
        assert_int_equal(fetch(d, i, sizes[i]), DLC_EMISS);
        assert_int_equal(store(d, i, sizes[i]), 0);
        assert_true(disk_has(d, id_of(i)));
        assert_int_equal(fetch(d, i, sizes[i]), 0);
        assert_int_equal(store(d, i, sizes[i]), 0); /* again: nothing to do */
    }
    assert_int_equal(count_read(disk_hits) - hits, DLC_COUNT(sizes));
    assert_int_equal(count_read(disk_stores) - stores, DLC_COUNT(sizes));
    assert_int_equal(figures_of(d).chunks, DLC_COUNT(sizes));
    assert_int_equal(count_files("tmp", ""), 0);
    disk_close(&d);
    disk_close(&d);
}

static void test_drop(void **state)
{
    struct disk *d = open_limited(0);

    (void)state;
    for (unsigned i = 0; i < 10; i++)
        store(d, i, 1000);
    disk_drop(d, id_of(3));
    disk_drop(d, id_of(3));
    disk_drop(d, id_of(99));
    assert_false(disk_has(d, id_of(3)));
    assert_int_equal(count_files("chunks", ""), 9);
    assert_int_equal(figures_of(d).bytes, 9000);
    assert_int_equal(disk_drop_all(d), 9000);
    assert_int_equal(count_files("chunks", ""), 0);
    assert_int_equal(figures_of(d).chunks, 0);
    assert_int_equal(store(d, 3, 1000), 0);
    assert_int_equal(fetch(d, 3, 1000), 0);
    disk_close(&d);
}

/* The bytes behind an id changed (it should not happen): the new ones are kept, once. */
static void test_replace(void **state)
{
    struct disk *d = open_limited(0);
    char got[3];

    (void)state;
    assert_int_equal(disk_store(d, id_of(1), "old", 3, NULL), 0);
    assert_int_equal(disk_store(d, id_of(1), "new", 3, NULL), 0);
    assert_int_equal(disk_read(d, id_of(1), got, 3, NULL), 0);
    assert_memory_equal(got, "new", 3);
    assert_int_equal(count_files("chunks", ""), 1);
    assert_int_equal(figures_of(d).bytes, 3);
    disk_close(&d);
}

static void test_second_process(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct disk *d = open_limited(0), *other;
    char *want = mem_fmt("disk tier %s is in use by process %d ", root, (int)getpid());

    (void)state;
    /* flock belongs to the open file, so a second opening here is as good as another process. */
    assert_int_equal(disk_open(&(struct disk_config){.root = root}, &other, &err), DLC_EBUSY);
    assert_non_null(strstr(err.text, want));
    assert_null(other);
    disk_close(&d);
    d = open_limited(0);
    disk_close(&d);
    mem_free(&want);
}

static int open_denied(void)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct disk *d;

    return disk_open(&(struct disk_config){.root = root}, &d, &err) == DLC_EDENIED &&
                   strstr(err.text, root) != NULL
               ? 0
               : 1;
}

static void test_bad_roots(void **state)
{
    char *below_file = mem_fmt("%s/file/below", root), *file = mem_fmt("%s/file", root);
    struct dlc_err err = DLC_ERR_INIT;
    char longest[5000];
    struct disk *d;

    (void)state;
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(disk_open(&(struct disk_config){.root = ""}, &d, &err), DLC_EINVAL);
    assert_int_equal(disk_open(&(struct disk_config){.root = longest}, &d, &err), DLC_EINVAL);
    assert_int_equal(os_write_file(file, "", 0, 0600, NULL), 0);
    assert_int_equal(disk_open(&(struct disk_config){.root = below_file}, &d, &err), DLC_ENOTFOUND);
    assert_int_equal(chmod(root, 0555), 0);
    assert_int_equal(in_child(open_denied), 0);
    chmod(root, 0700);
    mem_free(&below_file);
    mem_free(&file);
}

#ifndef __SANITIZE_THREAD__ /* faults and the scanning thread: a race in the test, not in the tier \
                             */
static void test_open_faults(void **state)
{
    struct disk *d = open_limited(0);
    bool fired = true;

    (void)state;
    store(d, 1, 1000);
    disk_close(&d);
    for (int nth = 1; fired; nth++) {
        int rc;

        fault_arm(FAULT_SYSCALL | FAULT_ALLOC, nth);
        rc = disk_open(&(struct disk_config){.root = root}, &d, NULL);
        while (rc == 0 && figures_of(d).scanning)
            sched_yield();
        fired = fault_disarm();
        assert_int_equal(rc < 0, d == NULL);
        assert_true(fired || rc == 0);
        if (rc == 0) /* whatever the scan missed is found on use */
            assert_int_equal(fetch(d, 1, 1000), 0);
        disk_close(&d);
    }
}
#endif

/* The table answers without a file, and never waits: also not for who holds the lock. */
static void test_lookup(void **state)
{
    struct disk *d = open_limited(0);
    struct disk_group_figures g;
    uint32_t group;

    (void)state;
    assert_int_equal(disk_lookup(d, id_of(1)), DISK_ABSENT);
    assert_int_equal(store(d, 1, 1000), 0);
    assert_int_equal(disk_lookup(d, id_of(1)), DISK_PRESENT);
    disk_lock(d);
    assert_int_equal(disk_lookup(d, id_of(1)), DISK_UNKNOWN);
    group = disk_group(d, 77, "name");
    disk_group_join(d, group);
    disk_group_cost(d, group, 1, 1000);
    disk_group_cost(d, group, 1, 1000);
    assert_int_equal(d->notes.n, 3); /* the costs are one */
    disk_group_figures(d, group, &g);
    assert_int_equal(g.jobs, 0); /* not yet */
    disk_unlock(d);
    disk_group_figures(d, group, &g);
    assert_int_equal(g.jobs, 1);
    assert_int_equal(d->notes.n, 0);
    assert_int_equal(disk_group(d, 77, "name"), group);
    disk_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        disk_test(test_lookup),      disk_test(test_round_trip),     disk_test(test_drop),
        disk_test(test_replace),     disk_test(test_second_process), disk_test(test_bad_roots),
#ifndef __SANITIZE_THREAD__
        disk_test(test_open_faults),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
