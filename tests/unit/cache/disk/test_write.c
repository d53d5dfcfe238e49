// SPDX-License-Identifier: Apache-2.0
/* Writing: fills, syncing, every failing call, and a directory that cannot be written. */
#include "util.h"

#include <sys/mount.h>

#include "base/fault.h"

static int fill(struct disk *d, unsigned i, size_t len)
{
    unsigned char *p = bytes_of(i, len);
    struct disk_fill *f;
    int rc = disk_fill_begin(d, id_of(i), len, &f, NULL);

    if (rc == 0) {
        memcpy(disk_fill_data(f), p, len);
        rc = disk_fill_commit(d, &f, NULL);
        assert_null(f);
    }
    mem_free(&p);
    return rc;
}

/* In pieces of uneven sizes. */
static int grow(struct disk *d, unsigned i, size_t len)
{
    unsigned char *p = bytes_of(i, len);
    struct disk_fill *g;
    int rc = disk_fill_begin(d, id_of(i), 0, &g, NULL);

    for (size_t at = 0, n; at < len && rc == 0; at += n) {
        n = DLC_MIN(len - at, 1 + at * 3);
        rc = disk_fill_append(d, g, p + at, n, NULL);
    }
    if (rc == 0)
        rc = disk_fill_commit(d, &g, NULL);
    else
        disk_fill_abandon(d, &g);
    assert_null(g);
    mem_free(&p);
    return rc;
}

static void test_grow(void **state)
{
    static const size_t sizes[] = {0, 1, 4096, (9 << 20) + 3};
    struct disk *d = open_limited(0);
    struct disk_fill *g;

    (void)state;
    for (unsigned i = 0; i < DLC_COUNT(sizes); i++) {
        assert_int_equal(grow(d, i, sizes[i]), 0);
        assert_int_equal(fetch(d, i, sizes[i]), 0);
        assert_int_equal(grow(d, i, sizes[i]), 0);
    }
    assert_int_equal(figures_of(d).bytes, 1 + 4096 + (9 << 20) + 3);
    assert_int_equal(disk_fill_begin(d, id_of(9), 0, &g, NULL), 0);
    assert_int_equal(disk_fill_append(d, g, "abc", 3, NULL), 0);
    assert_false(disk_has(d, id_of(9)));
    disk_fill_abandon(d, &g);
    disk_fill_abandon(d, &g);
    assert_int_equal(count_files("tmp", ""), 0);
    disk_close(&d);
}

/* More than the tier may hold: refused, and nothing stays reserved. */
static void test_grow_too_large(void **state)
{
    struct disk *d = open_limited(20 << 20);

    (void)state;
    assert_int_equal(grow(d, 1, 30 << 20), DLC_ENOSPACE);
    assert_int_equal(count_files("tmp", ""), 0);
    assert_int_equal(grow(d, 2, 10 << 20), 0);
    disk_close(&d);
}

static void test_fill(void **state)
{
    static const size_t sizes[] = {0, 1, 4096, (5 << 20) + 3};
    struct disk *d = open_limited(0);
    struct disk_fill *f;

    (void)state;
    for (unsigned i = 0; i < DLC_COUNT(sizes); i++) {
        assert_int_equal(fill(d, i, sizes[i]), 0);
        assert_int_equal(fetch(d, i, sizes[i]), 0);
        assert_int_equal(fill(d, i, sizes[i]), 0); /* the same once more */
    }
    assert_int_equal(figures_of(d).chunks, DLC_COUNT(sizes));
    assert_int_equal(disk_fill_begin(d, id_of(9), 10000, &f, NULL), 0);
    memset(disk_fill_data(f), 1, 10000);
    assert_false(disk_has(d, id_of(9)));
    assert_int_equal(count_files("tmp", ".tmp"), 1);
    disk_fill_abandon(d, &f);
    disk_fill_abandon(d, &f);
    assert_int_equal(count_files("tmp", ""), 0);
    disk_close(&d);
    d = open_limited(0);
    for (unsigned i = 0; i < DLC_COUNT(sizes); i++)
        assert_int_equal(fetch(d, i, sizes[i]), 0);
    disk_close(&d);
}

/* Whatever call fails: the chunk is there whole or not at all, nothing is left, nothing is lost. */
static void sweep(int (*put)(struct disk *, unsigned, size_t), size_t len, bool sync)
{
    struct disk_config c = {.root = root, .sync = sync};
    struct disk *d = open_config(&c);
    bool fired = true;
    unsigned i = 100;

    assert_int_equal(store(d, 1, 1000), 0);
    for (int nth = 1; fired; nth++, i++) {
        int rc;

        fault_arm(FAULT_SYSCALL | FAULT_ALLOC, nth);
        rc = put(d, i, len);
        fired = fault_disarm();
        assert_true(fired || rc == 0);
        assert_int_equal(disk_has(d, id_of(i)), rc == 0);
        assert_int_equal(fetch(d, i, len), rc == 0 ? 0 : DLC_EMISS);
        assert_int_equal(count_files("tmp", ""), 0);
        assert_int_equal(count_files("chunks", ""), (rc == 0) + disk_has(d, id_of(1)));
        disk_drop(d, id_of(i));
        assert_int_equal(figures_of(d).bytes, 1000 * disk_has(d, id_of(1)));
        assert_int_equal(figures_of(d).read_only, rc == DLC_EDENIED);
        if (rc == DLC_EDENIED) {
            disk_close(&d);
            d = open_config(&c);
        }
        /* A full disk evicts; a later store works again. */
        assert_int_equal(store(d, 1, 1000), 0);
    }
    disk_close(&d);
}

static void test_store_faults(void **state)
{
    (void)state;
    sweep(store, 5000, false);
    sweep(store, 300000, false);
}

static void test_store_sync_faults(void **state)
{
    (void)state;
    sweep(store, 300000, true);
}

static void test_fill_faults(void **state)
{
    (void)state;
    sweep(fill, 5000, true);
    sweep(fill, 300000, false);
    sweep(grow, 5000, true);
}

static int read_only_child(void)
{
    uint64_t errors = count_read(disk_errors);
    struct disk *d = open_limited(0);
    struct disk_fill *f;
    char *tmp = mem_fmt("%s/tmp", root);
    int bad = 0;

    bad |= store(d, 1, 1000) != 0;
    bad |= chmod(tmp, 0500) != 0;
    bad |= store(d, 2, 1000) != DLC_EDENIED;
    bad |= !figures_of(d).read_only;
    bad |= count_read(disk_errors) != errors + 1;
    bad |= store(d, 2, 1000) != DLC_EDENIED;
    bad |= disk_fill_begin(d, id_of(2), 10, &f, NULL) != DLC_EDENIED;
    bad |= count_read(disk_errors) != errors + 1; /* not tried again */
    bad |= fetch(d, 1, 1000) != 0;
    disk_close(&d);
    chmod(tmp, 0700);
    mem_free(&tmp);
    return bad;
}

static void test_read_only(void **state)
{
    (void)state;
    assert_int_equal(chmod(root, 0777), 0);
    assert_int_equal(in_child(read_only_child), 0);
}

/* The file system turns read-only under us; needs the right to mount. */
static void test_read_only_mount(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct disk *d;

    (void)state;
    if (mount("tmpfs", root, "tmpfs", 0, "size=4m") < 0)
        skip();
    d = open_limited(2000);
    assert_int_equal(store(d, 1, 1000), 0);
    disk_close(&d);
    assert_int_equal(mount("tmpfs", root, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    assert_int_equal(disk_open(&(struct disk_config){.root = root}, &d, &err), DLC_EDENIED);
    assert_non_null(strstr(err.text, "Read-only file system"));
    assert_int_equal(mount("tmpfs", root, NULL, MS_REMOUNT, NULL), 0);
    d = open_limited(2000);
    /* The kernel refuses to remount while a file is open for writing; a read-only view does. */
    assert_int_equal(mount(root, root, NULL, MS_BIND, NULL), 0);
    assert_int_equal(mount(NULL, root, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL), 0);
    assert_int_equal(store(d, 2, 1000), DLC_EDENIED);
    assert_true(figures_of(d).read_only);
    assert_int_equal(fetch(d, 1, 1000), 0);
    disk_close(&d);
}

static int unmount_and_remove(void **state)
{
    while (umount2(root, MNT_DETACH) == 0)
        continue;
    return remove_root(state);
}

static int cannot_unlink_child(void)
{
    struct disk *d = open_limited(3000);
    struct disk_path path;
    int bad = 0;

    for (unsigned i = 0; i < 3; i++)
        bad |= store(d, i, 1000) != 0;
    for (unsigned i = 0; i < 3; i++) {
        disk_path_of_shard(root, shard_of(id_of(i)), &path);
        bad |= chmod(path.s, 0500) != 0;
    }
    bad |= store(d, 5, 1000) != DLC_ENOSPACE; /* it ends, though nothing can be evicted */
    bad |= !figures_of(d).read_only;
    for (unsigned i = 0; i < 3; i++)
        bad |= fetch(d, i, 1000) != 0;
    disk_drop(d, id_of(0));
    bad |= fetch(d, 0, 1000) != 0;
    disk_close(&d);
    return bad;
}

static void test_cannot_unlink(void **state)
{
    (void)state;
    assert_int_equal(chmod(root, 0777), 0);
    assert_int_equal(in_child(cannot_unlink_child), 0);
}

/* Bytes that are not what they were when they came are not stored; the checksum that goes with
 * right ones is the chunk's. */
static void test_store_sum(void **state)
{
    static const size_t sizes[] = {0, 1000, (2 << 20) + 5};
    uint64_t stores = count_read(disk_stores), sum;
    struct disk *d = open_limited(0);

    (void)state;
    for (unsigned i = 0; i < DLC_COUNT(sizes); i++) {
        struct dlc_err err = DLC_ERR_INIT;
        unsigned char *p = bytes_of(i, sizes[i]);

        sum = hash64(p, sizes[i]);
        assert_int_equal(disk_store_sum(d, id_of(i), p, sizes[i], sum ^ 1, &err), DLC_ECORRUPT);
        assert_non_null(strstr(err.text, "checksum"));
        assert_false(disk_has(d, id_of(i)));
        assert_int_equal(disk_store_sum(d, id_of(i), p, sizes[i], sum, &err), 0);
        memset(p, 0, sizes[i]);
        assert_int_equal(disk_read_sum(d, id_of(i), p, sizes[i], &sum, &err), 0);
        assert_true(sum == hash64(p, sizes[i]));
        assert_int_equal(fetch(d, i, sizes[i]), 0);
        mem_free(&p);
    }
    assert_int_equal(count_read(disk_stores) - stores, DLC_COUNT(sizes));
    assert_int_equal(count_files("tmp", ""), 0);
    disk_close(&d);
}

/* The same of what was filled in place. */
static void test_fill_sum(void **state)
{
    static const size_t sizes[] = {0, 1000, (2 << 20) + 5};
    struct disk *d = open_limited(0);

    (void)state;
    for (unsigned i = 0; i < 2 * DLC_COUNT(sizes); i++) {
        bool right = i % 2 == 0;
        size_t len = sizes[i / 2];
        unsigned char *p = bytes_of(i, len);
        uint64_t sum = hash64(p, len) ^ !right;
        struct disk_fill *f;

        assert_int_equal(disk_fill_begin(d, id_of(i), len, &f, NULL), 0);
        memcpy(disk_fill_data(f), p, len);
        assert_int_equal(disk_fill_commit_sum(d, &f, &sum, NULL), right ? 0 : DLC_ECORRUPT);
        assert_null(f);
        assert_int_equal(disk_has(d, id_of(i)), right);
        mem_free(&p);
    }
    assert_int_equal(count_files("tmp", ""), 0);
    assert_int_equal(figures_of(d).bytes, 1000 + (2 << 20) + 5);
    disk_close(&d);
}

/* The path of the only temporary file. */
static void find_tmp(struct disk_path *out)
{
    char *command = mem_fmt("ls %s/tmp/*.tmp", root);
    FILE *f = popen(command, "r");

    assert_non_null(fgets(out->s, sizeof(out->s), f));
    out->s[strcspn(out->s, "\n")] = '\0';
    pclose(f);
    mem_free(&command);
}

/* Somebody cuts the file that is being filled, as a device or file system that fails would: the
 * writer goes on, and the chunk is not taken for whole. */
static void test_fill_meets_failing_disk(void **state)
{
    enum { LEN = 1 << 20 };
    struct disk *d = open_limited(0);
    uint64_t errors = count_read(disk_errors);
    unsigned char *p = bytes_of(1, LEN);
    struct disk_path path;
    struct disk_fill *f;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(disk_fill_begin(d, id_of(1), LEN, &f, NULL), 0);
        memcpy(disk_fill_data(f), p, LEN / 2);
        assert_false(disk_fill_failed(f));
        find_tmp(&path);
        assert_int_equal(truncate(path.s, LEN / 4), 0);
        memcpy(disk_fill_data(f), p, LEN);
        assert_true(disk_fill_failed(f));
        if (i == 0)
            assert_int_equal(disk_fill_commit(d, &f, NULL), DLC_EIO);
        else
            disk_fill_abandon(d, &f);
        assert_false(disk_has(d, id_of(1)));
        assert_int_equal(count_files("tmp", ""), 0);
        assert_int_equal(figures_of(d).bytes, 0);
    }
    assert_int_equal(count_read(disk_errors) - errors, 1);
    assert_int_equal(fill(d, 1, LEN), 0); /* the next one is whole again */
    assert_int_equal(fetch(d, 1, LEN), 0);
    mem_free(&p);
    disk_close(&d);
}

/* A directory of chunks that cannot be read: nothing is written into it, because nobody knows what
 * is there. */
static void test_unknown_shard(void **state)
{
    struct disk_path path;
    struct disk_fill *f;
    struct disk *d;
    int fd;

    (void)state;
    d = open_limited(0);
    disk_close(&d);
    path_of(1, 1000, &path);
    *strrchr(path.s, '/') = '\0';
    fd = os_open(path.s, O_CREAT | O_WRONLY, 0600); /* not a directory */
    assert_true(fd >= 0);
    os_close(&fd);
    d = open_limited(0);
    assert_true(store(d, 1, 1000) < 0);
    assert_true(disk_fill_begin(d, id_of(1), 1000, &f, NULL) < 0);
    assert_null(f);
    assert_true(disk_read(d, id_of(1), &fd, 1, NULL) < 0);
    assert_int_equal(count_files("tmp", ""), 0);
    assert_int_equal(figures_of(d).bytes, 0);
    disk_close(&d);
}

/* Whoever brings a chunk that is there already makes it its group's. */
static void test_claim_of_another_group(void **state)
{
    struct disk *d = open_limited(0);
    uint32_t a = disk_group(d, 1, "a"), b = disk_group(d, 2, "b");
    struct disk_group_figures of_a, of_b;
    unsigned char *p = bytes_of(1, 1000);

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct chunk_id id = id_of(1);
        struct disk_fill *f;

        id.group = i == 0 ? a : b;
        assert_int_equal(disk_fill_begin(d, id, 1000, &f, NULL), 0);
        memcpy(disk_fill_data(f), p, 1000);
        assert_int_equal(disk_fill_commit(d, &f, NULL), 0);
    }
    disk_group_figures(d, a, &of_a);
    disk_group_figures(d, b, &of_b);
    assert_int_equal(of_a.chunks, 0);
    assert_int_equal(of_b.chunks, 1);
    assert_int_equal(figures_of(d).bytes, 1000);
    mem_free(&p);
    disk_close(&d);
}

/* A rename that fails is not tried again, unless it was for a directory that is not there yet. */
static void test_rename_fails(void **state)
{
    struct disk *d = open_limited(0);

    (void)state;
    assert_int_equal(store(d, 1, 1000), 0);
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(rename), .nth = 1});
    assert_int_equal(store(d, 2, 1000), DLC_EIO);
    assert_true(fault_disarm());
    assert_false(disk_has(d, id_of(2)));
    assert_int_equal(count_files("tmp", ""), 0);
    assert_int_equal(figures_of(d).bytes, 1000);
    disk_close(&d);
}

/* A file system that is fuller than it said: room is made and it is tried once more, not for ever. */
static void test_full_twice(void **state)
{
    enum { LEN = 1 << 20 };

    (void)state;
    for (int times = 1; times <= 2; times++) {
        struct disk *d = open_limited(0);

        for (unsigned i = 0; i < 6; i++)
            assert_int_equal(store(d, i, LEN), 0);
        fault_plan(&(struct fault_plan){.calls = FAULT_CALL(fallocate), .nth = 1, .times = times});
        assert_int_equal(store(d, 9, LEN), times == 1 ? 0 : DLC_ENOSPACE);
        assert_int_equal(fault_hits(), times);
        (void)fault_disarm();
        assert_int_equal(disk_has(d, id_of(9)), times == 1);
        assert_false(disk_has(d, id_of(0))); /* it made room */
        assert_int_equal(count_files("tmp", ""), 0);
        disk_drop_all(d);
        disk_close(&d);
    }
}

/* What fails gives its reservation back: ten failures do not fill a tier of six. */
static void test_full_leaves_nothing_reserved(void **state)
{
    enum { LEN = 1 << 20 };
    struct disk *d = open_limited(6 * LEN);

    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        fault_plan(&(struct fault_plan){.calls = FAULT_CALL(fallocate), .nth = 1, .times = 9});
        assert_int_equal(store(d, i, LEN), DLC_ENOSPACE);
        assert_true(fault_disarm());
    }
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(store(d, i, LEN), 0);
    assert_int_equal(figures_of(d).bytes, 6 * LEN);
    disk_close(&d);
}

static int fallocates_of_store(struct disk *d, unsigned i, size_t len)
{
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(fallocate), .nth = 1000000});
    assert_int_equal(store(d, i, len), 0);
    (void)fault_disarm();
    return fault_calls();
}

/* A small chunk is left to the file system's delayed allocation. */
static void test_small_is_not_allocated(void **state)
{
    struct disk *d = open_limited(0);

    (void)state;
    assert_int_equal(fallocates_of_store(d, 1, (256 << 10) - 1), 0);
    assert_int_equal(fallocates_of_store(d, 2, 256 << 10), 1);
    disk_close(&d);
}

/* More fills than there are guards of mappings, one after the other: each gives its own back. */
static void test_many_fills(void **state)
{
    struct disk *d = open_limited(0);
    struct disk_fill *f;

    (void)state;
    for (unsigned i = 0; i < 2200; i++) {
        assert_int_equal(disk_fill_begin(d, id_of(1), 10, &f, NULL), 0);
        if (i % 2 == 0)
            disk_fill_abandon(d, &f);
        else
            assert_int_equal(disk_fill_commit(d, &f, NULL), 0);
    }
    disk_close(&d);
}

/* A fill replaces a chunk of other bytes, also of the same length. */
static void test_fill_replaces(void **state)
{
    struct disk *d = open_limited(0);
    char got[1000], want[1000];

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        size_t len = i < 2 ? 1000 : 900;
        struct disk_fill *f;

        memset(want, (int)i, len);
        assert_int_equal(disk_fill_begin(d, id_of(1), len, &f, NULL), 0);
        memcpy(disk_fill_data(f), want, len);
        assert_int_equal(disk_fill_commit(d, &f, NULL), 0);
        assert_int_equal(disk_read(d, id_of(1), got, len, NULL), 0);
        assert_memory_equal(got, want, len);
        assert_int_equal(figures_of(d).bytes, len);
        assert_int_equal(count_files("chunks", ""), 1);
    }
    disk_close(&d);
}

static int syncs_of_store(struct disk *d, unsigned i)
{
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(fsync), .nth = 1000000});
    assert_int_equal(store(d, i, 1000), 0);
    (void)fault_disarm();
    return fault_calls();
}

/* With sync, the names of a new directory and of the file in it last, too. */
static void test_syncs(void **state)
{
    struct disk *d = open_config(&(struct disk_config){.root = root, .sync = true});

    (void)state;
    assert_int_equal(syncs_of_store(d, 1), 3); /* the file, chunks/, its new directory */
    for (unsigned i = 0; i < 3; i++) {
        disk_drop(d, id_of(1));
        assert_int_equal(syncs_of_store(d, 1), 2); /* the directory is there */
    }
    disk_close(&d);
}

/* A sync that fails fails the store. The name of a directory that was not synced is synced by the
 * next. */
static void test_sync_fails(void **state)
{
    (void)state;
    for (int nth = 1; nth <= 3; nth++) {
        struct disk *d = open_config(&(struct disk_config){.root = root, .sync = true});

        fault_plan(&(struct fault_plan){.calls = FAULT_CALL(fsync), .nth = nth});
        assert_int_equal(store(d, 1, 1000), DLC_EIO);
        assert_true(fault_disarm());
        assert_false(disk_has(d, id_of(1)));
        assert_int_equal(count_files("", ".tmp"), 0);
        assert_int_equal(syncs_of_store(d, 1), nth == 3 ? 2 : 3);
        disk_close(&d);
        os_rmtree(root);
        assert_int_equal(os_mkdirs(root, 0700), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        disk_test(test_fill),
        disk_test(test_store_sum),
        disk_test(test_fill_sum),
        disk_test(test_fill_meets_failing_disk),
        disk_test(test_unknown_shard),
        disk_test(test_claim_of_another_group),
        disk_test(test_rename_fails),
        disk_test(test_full_twice),
        disk_test(test_full_leaves_nothing_reserved),
        disk_test(test_small_is_not_allocated),
        disk_test(test_many_fills),
        disk_test(test_fill_replaces),
        disk_test(test_syncs),
        disk_test(test_sync_fails),
        disk_test(test_grow),
        disk_test(test_grow_too_large),
        disk_test(test_store_faults),
        disk_test(test_store_sync_faults),
        disk_test(test_fill_faults),
        disk_test(test_read_only),
        disk_test(test_cannot_unlink),
        cmocka_unit_test_setup_teardown(test_read_only_mount, make_root, unmount_and_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
