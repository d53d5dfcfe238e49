// SPDX-License-Identifier: Apache-2.0
/* The byte limit, the floor of free space, eviction, and a disk that is really full. */
#include "util.h"

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <signal.h>

static void test_limit(void **state)
{
    struct disk *d = open_limited(10000);
    uint64_t evictions = count_read(disk_evictions);

    (void)state;
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(store(d, i, 1000), 0);
    assert_int_equal(count_read(disk_evictions), evictions);
    assert_int_equal(fetch(d, 0, 1000), 0); /* used: not the next to go */
    assert_int_equal(store(d, 10, 2500), 0);
    assert_int_equal(count_read(disk_evictions) - evictions, 3);
    for (unsigned i = 0; i <= 10; i++)
        assert_int_equal(disk_has(d, id_of(i)), i == 0 || i > 3);
    assert_int_equal(figures_of(d).bytes, 9500);
    assert_int_equal(count_files("chunks", ""), 8);
    disk_close(&d);
}

static void test_larger_than_limit(void **state)
{
    struct disk *d = open_limited(10000);
    struct dlc_err err = DLC_ERR_INIT;
    static char data[10001];
    struct disk_fill *f;

    (void)state;
    store(d, 1, 1000);
    assert_int_equal(disk_store(d, id_of(2), data, 10001, &err), DLC_ENOSPACE);
    assert_non_null(strstr(err.text, "limit 10.0 kB"));
    assert_int_equal(disk_fill_begin(d, id_of(2), 10001, &f, &err), DLC_ENOSPACE);
    assert_null(f);
    assert_true(disk_has(d, id_of(1))); /* nothing was evicted in vain */
    assert_int_equal(store(d, 3, 10000), 0);
    assert_false(disk_has(d, id_of(1)));
    disk_close(&d);
}

static void test_set_limit(void **state)
{
    struct disk *d = open_limited(0);

    (void)state;
    for (unsigned i = 0; i < 10; i++)
        store(d, i, 1000);
    disk_set_limit(d, 4500);
    assert_int_equal(figures_of(d).bytes, 4000);
    assert_int_equal(figures_of(d).limit, 4500);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(disk_has(d, id_of(i)), i >= 6);
    disk_set_limit(d, 0);
    assert_int_equal(store(d, 11, 20000), 0);
    disk_close(&d);
}

/* A fill takes its space when it begins. */
static void test_fill_reserves(void **state)
{
    struct disk *d = open_limited(10000);
    struct disk_fill *f;

    (void)state;
    for (unsigned i = 0; i < 10; i++)
        store(d, i, 1000);
    assert_int_equal(disk_fill_begin(d, id_of(20), 7000, &f, NULL), 0);
    assert_int_equal(figures_of(d).bytes, 3000);
    assert_int_equal(store(d, 21, 3001), DLC_ENOSPACE);
    assert_int_equal(figures_of(d).bytes, 3000);
    assert_int_equal(store(d, 21, 3000), 0);
    assert_int_equal(figures_of(d).bytes, 3000);
    disk_fill_abandon(d, &f);
    assert_null(f);
    assert_int_equal(store(d, 22, 7000), 0);
    assert_true(disk_has(d, id_of(21)));
    disk_close(&d);
}

/* A floor above what is free: nothing can be stored, and nothing is evicted for it. */
static void test_keep_free(void **state)
{
    struct disk *d = open_limited(0);
    struct statvfs v;

    (void)state;
    store(d, 1, 1000);
    disk_close(&d);
    assert_int_equal(statvfs(root, &v), 0);
    d = open_config(
        &(struct disk_config){.root = root, .keep_free = (uint64_t)v.f_blocks * v.f_frsize});
    assert_int_equal(store(d, 2, 1000), DLC_ENOSPACE);
    assert_int_equal(fetch(d, 1, 1000), 0);
    disk_close(&d);
    d = open_config(&(struct disk_config){.root = root, .keep_free = UINT64_MAX});
    assert_int_equal(store(d, 2, 1000), DLC_ENOSPACE);
    assert_int_equal(fetch(d, 1, 1000), 0);
    disk_close(&d);
}

/* The limit was lowered between two runs: the scan evicts, the oldest first. */
static void test_limit_after_restart(void **state)
{
    struct disk *d = open_limited(0);

    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        struct timespec ts[2] = {{.tv_sec = 1000000000 + (i * 7 % 10)}};
        struct disk_path path;

        store(d, i, 1000);
        path_of(i, 1000, &path);
        ts[1] = ts[0];
        assert_int_equal(utimensat(AT_FDCWD, path.s, ts, 0), 0);
    }
    disk_close(&d);
    d = open_limited(4000);
    assert_int_equal(figures_of(d).bytes, 4000);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(disk_has(d, id_of(i)), i * 7 % 10 >= 6);
    disk_close(&d);
}

/* A tier that is full when it is opened makes room as any other. */
static void test_full_after_restart(void **state)
{
    struct disk *d = open_limited(10000);

    (void)state;
    for (unsigned i = 0; i < 10; i++)
        store(d, i, 1000);
    disk_close(&d);
    d = open_config(&(struct disk_config){.root = root, .limit = 10000, .keep_free = 1 << 20});
    assert_int_equal(store(d, 10, 1000), 0);
    assert_int_equal(figures_of(d).bytes, 10000);
    disk_close(&d);
}

/* Somebody else takes all that is free, after we last asked: what we believe is free is not. */
static void fill_up(struct disk *d, int hog, size_t len)
{
    struct statvfs v;

    disk_drop_all(d);
    assert_int_equal(ftruncate(hog, 0), 0);
    dlc_clock_advance(DLC_SEC(1));
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(store(d, i, 100000), 0);
    assert_int_equal(statvfs(root, &v), 0);
    assert_int_equal(fallocate(hog, 0, 0, (off_t)(v.f_bavail * v.f_frsize)), 0);
    assert_int_equal(store(d, 50, len), 0); /* the second attempt, after evicting */
    assert_int_equal(fetch(d, 50, len), 0);
    /* And when evicting does not help: an error, and the tier goes on. */
    disk_drop_all(d);
    assert_int_equal(fallocate(hog, 0, 0, (off_t)(4 << 20) - 65536), 0);
    assert_int_equal(store(d, 51, len), DLC_ENOSPACE);
    assert_int_equal(count_files("tmp", ""), 0);
}

/* A file system of 4 MB, so that the disk is really full; needs the right to mount. */
static void test_full_disk(void **state)
{
    char *path = mem_fmt("%s/hog", root);
    struct disk_figures f;
    struct disk *d;
    int hog;

    (void)state;
    if (mount("tmpfs", root, "tmpfs", 0, "size=4m") < 0) {
        mem_free(&path);
        skip();
    }
    d = open_limited(0);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(store(d, i, 100000), 0);
    f = figures_of(d);
    assert_true(f.bytes <= 4 << 20 && f.bytes > 2 << 20);
    assert_true(disk_has(d, id_of(99)));
    hog = open(path, O_WRONLY | O_CREAT, 0600);
    fill_up(d, hog, 100000); /* found out when writing */
    fill_up(d, hog, 500000); /* found out when reserving */
    assert_int_equal(ftruncate(hog, 0), 0);
    close(hog);
    dlc_clock_advance(DLC_SEC(1));
    assert_int_equal(store(d, 52, 100000), 0);
    assert_int_equal(fetch(d, 52, 100000), 0);
    assert_false(figures_of(d).read_only);
    disk_close(&d);
    assert_int_equal(umount(root), 0);
    mem_free(&path);
}

/* A limit on the size of files is no full disk: evicting would not help. */
static void test_file_size_limit(void **state)
{
    struct rlimit old, small;
    struct disk *d = open_limited(0);

    (void)state;
    store(d, 1, 1000);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 50000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(store(d, 2, 100000), DLC_ENOSPACE);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_true(disk_has(d, id_of(1)));
    assert_int_equal(count_files("tmp", ""), 0);
    assert_int_equal(store(d, 2, 100000), 0);
    disk_close(&d);
}

/* Also when the test of the full disk failed in the middle. */
static int unmount_and_remove(void **state)
{
    umount2(root, MNT_DETACH);
    return remove_root(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        disk_test(test_limit),
        disk_test(test_larger_than_limit),
        disk_test(test_set_limit),
        disk_test(test_fill_reserves),
        disk_test(test_keep_free),
        disk_test(test_limit_after_restart),
        disk_test(test_full_after_restart),
        cmocka_unit_test_setup_teardown(test_full_disk, make_root, unmount_and_remove),
        disk_test(test_file_size_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
