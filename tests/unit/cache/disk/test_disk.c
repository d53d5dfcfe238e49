// SPDX-License-Identifier: Apache-2.0
/* Opening, closing, dropping, one process at a time. */
#include "unit.h"
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

/* What the lock file says of its owner, however old or long it is. */
static void test_lock_file(void **state)
{
    char *path = mem_fmt("%s/lock", root), *want = mem_fmt("by process %d (", (int)getpid());
    struct dlc_err err = DLC_ERR_INIT;
    struct disk *d, *other;

    (void)state;
    assert_int_equal(os_write_file(path, "12345678901234567890123456789\n", 30, 0600, NULL), 0);
    d = open_limited(0);
    assert_int_equal(disk_open(&(struct disk_config){.root = root}, &other, &err), DLC_EBUSY);
    assert_non_null(strstr(err.text, want));
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(disk_open(&(struct disk_config){.root = root}, &other, &err), DLC_EBUSY);
    assert_non_null(strstr(err.text, "by process ? ("));
    disk_close(&d);
    mem_free(&path);
    mem_free(&want);
}

/* The longest path that is taken is one at which chunks can be stored. */
static void test_longest_root(void **state)
{
    char path[PATH_MAX];
    struct disk *d;

    (void)state;
    for (int more = 0; more < 2; more++) {
        size_t len = strlen(root), want = PATH_MAX - 128 + (size_t)more;

        memcpy(path, root, len);
        while (len < want) {
            size_t part = DLC_MIN(want - len - 1, (size_t)200);

            part -= part > 0 && want - len - 1 - part == 1; /* no room for a part of its own */
            path[len++] = '/';
            memset(path + len, 'x', part);
            len += part;
        }
        path[len] = '\0';
        assert_int_equal(strlen(path), want);
        assert_int_equal(disk_open(&(struct disk_config){.root = path}, &d, NULL),
                         more ? DLC_EINVAL : 0);
        if (d != NULL) {
            assert_int_equal(store(d, 1, 10), 0);
            assert_int_equal(fetch(d, 1, 10), 0);
        }
        disk_close(&d);
    }
}

static _Atomic unsigned syncs;

static void count_syncs(enum fault_call call, int fd)
{
    (void)fd;
    if (call == CALL_fsync)
        syncs++;
}

/* With sync the names of the tier's directories last as well; without, nothing is synced. */
static void test_syncs(void **state)
{
    struct disk *d;

    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        syncs = 0;
        fault_observe(count_syncs);
        d = open_config(&(struct disk_config){.root = root, .sync = sync});
        fault_observe(NULL);
        assert_int_equal(syncs, sync ? 4 : 0); /* chunks, tmp, the root, and where it is */
        disk_close(&d);
    }
}

/* Chunks of all groups go, and what is freed is said. */
static void test_drop_all_groups(void **state)
{
    struct disk *d = open_limited(0);

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        struct chunk_id id = id_of(i);

        id.group = i % 3 == 0 ? 0 : disk_group(d, i % 3, "name");
        assert_int_equal(disk_store(d, id, "abcdef", i + 1, NULL), 0);
    }
    assert_int_equal(disk_drop_all(d), 21);
    assert_int_equal(figures_of(d).chunks, 0);
    assert_int_equal(count_files("chunks", ""), 0);
    /* a file that stays is not freed, and nobody waits for it to go */
    store(d, 1, 100);
    store(d, 2, 100);
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(unlink), .nth = 1});
    assert_int_equal(disk_drop_all(d), 100);
    assert_true(fault_disarm());
    assert_int_equal(figures_of(d).chunks, 1);
    assert_int_equal(disk_drop_all(d), 100);
    disk_close(&d);
}

/* disk_has() of a group makes the chunk its own. */
static void test_has_claims(void **state)
{
    struct disk *d = open_limited(0);
    struct chunk_id id = id_of(1);
    struct disk_group_figures g;
    char buf[1000];

    (void)state;
    store(d, 1, 1000);
    id.group = disk_group(d, 5, "name");
    assert_true(disk_has(d, id));
    disk_group_figures(d, id.group, &g);
    assert_int_equal(g.chunks, 1);
    assert_int_equal(g.bytes, 1000);
    disk_group_figures(d, 0, &g);
    assert_int_equal(g.chunks, 0);
    id.group = disk_group(d, 6, "another"); /* who reads it does so as well */
    assert_int_equal(disk_read(d, id, buf, 1000, NULL), 0);
    disk_group_figures(d, id.group, &g);
    assert_int_equal(g.chunks, 1);
    disk_close(&d);
}

/* What was asked for is what figures say. */
static void test_figures(void **state)
{
    struct disk *d =
        open_config(&(struct disk_config){.root = root, .limit = 1 << 20, .keep_free = 12345});
    struct disk_figures f = figures_of(d);

    (void)state;
    assert_int_equal(f.limit, 1 << 20);
    assert_int_equal(f.keep_free, 12345);
    assert_true(f.fs_free > 0 && f.fs_free < UINT64_MAX);
    assert_int_equal(f.chunks + f.bytes, 0);
    assert_false(f.scanning || f.read_only);
    disk_note_write_error(d, EROFS);
    assert_true(figures_of(d).read_only);
    assert_int_equal(store(d, 1, 10), DLC_EDENIED);
    disk_close(&d);
}

/* Notes that wait for the lock are applied in their order, or forgotten with the tier. */
static void test_notes(void **state)
{
    struct disk *d = open_limited(0);
    struct disk_group_figures g;
    uint32_t a, b;

    (void)state;
    disk_lock(d);
    a = disk_group(d, 1, "a");
    b = disk_group(d, 2, "b");
    assert_int_equal(disk_group(d, 1, "a"), a);
    assert_int_equal(a, 1);
    assert_int_equal(b, 2);
    disk_group_join(d, a);
    disk_group_join(d, a);
    disk_group_leave(d, a);
    disk_group_cost(d, a, 1.5, 100);
    disk_group_cost(d, a, 2.5, 200);
    disk_group_cost(d, b, 10, 1000); /* of another: a note of its own */
    disk_group_cost(d, a, 4, 400);
    disk_group_expect(d, b, 3);
    disk_group_cost(d, b, 20, 2000);
    assert_int_equal(d->notes.n, 2 + 3 + 3 + 1 + 1);
    disk_unlock(d);
    disk_lock(d); /* whoever takes it next knows them all */
    assert_int_equal(d->notes.n, 0);
    assert_int_equal(d->groups.v[a]->life.jobs, 1);
    disk_group_cost(d, a, 0.25, 30);
    disk_group_cost(d, a, 0.75, 70); /* also when the first note is one of a cost */
    assert_int_equal(d->notes.n, 1);
    disk_unlock(d);
    disk_group_figures(d, a, &g);
    assert_int_equal(g.jobs, 1);
    assert_int_equal(d->notes.n, 0);
    assert_true(d->groups.v[a]->cost == 9 && d->groups.v[a]->fetched == 800);
    assert_true(d->groups.v[b]->cost == 30 && d->groups.v[b]->fetched == 3000);
    disk_group_leave(d, a);
    disk_group_figures(d, a, &g);
    assert_int_equal(g.jobs, 0);
    disk_close(&d);
}

/* There are 65,535 groups besides the first; who asks for more gets that. */
static void test_too_many_groups(void **state)
{
    struct disk *d = open_limited(0);

    (void)state;
    for (uint32_t i = 1; i <= UINT16_MAX; i++)
        assert_int_equal(disk_group(d, 1000 + i, "name"), i);
    assert_int_equal(disk_group(d, 5, "one more"), 0);
    assert_int_equal(disk_group(d, 1000 + UINT16_MAX, "name"), UINT16_MAX);
    disk_close(&d);
}

static void use_once(void)
{
    struct disk *d = open_limited(0);
    char buf[10];
    uint32_t group = disk_group(d, 1, "name");

    disk_group_join(d, group);
    store(d, 1, 1000);
    fetch(d, 1, 1000);
    assert_int_equal(disk_read_range(d, id_of(1), 1000, 5, buf, 10, NULL), 0);
    assert_int_equal(store(d, 2, 1000), 0);
    disk_drop(d, id_of(2));
    disk_close(&d);
}

static void test_no_leak(void **state)
{
    enum { ROUNDS = 100 };
    size_t before;

    (void)state;
    for (unsigned i = 0; i < 10; i++)
        use_once();
    before = unit_heap();
    for (unsigned i = 0; i < ROUNDS; i++)
        use_once();
    assert_true(unit_heap() < before + ROUNDS * 16);
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
        disk_test(test_lock_file),       disk_test(test_longest_root),    disk_test(test_syncs),
        disk_test(test_drop_all_groups), disk_test(test_has_claims),      disk_test(test_figures),
        disk_test(test_notes),           disk_test(test_too_many_groups), disk_test(test_no_leak),
        disk_test(test_lookup),          disk_test(test_round_trip),      disk_test(test_drop),
        disk_test(test_replace),         disk_test(test_second_process),  disk_test(test_bad_roots),
#ifndef __SANITIZE_THREAD__
        disk_test(test_open_faults),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
