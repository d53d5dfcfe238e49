// SPDX-License-Identifier: Apache-2.0
/* What a restart finds, and what it passes over. */
#include "util.h"

#include "base/fault.h"

static void write_at(const char *format, ...)
{
    char path[PATH_MAX];
    va_list ap;

    va_start(ap, format);
    vsnprintf(path, sizeof(path), format, ap);
    va_end(ap);
    assert_int_equal(os_write_file(path, "hello", 5, 0600, NULL), 0);
}

static void test_restart(void **state)
{
    struct disk *d = open_limited(0);
    uint64_t stores;

    (void)state;
    for (unsigned i = 0; i < 500; i++)
        store(d, i, 100 + i);
    disk_close(&d);
    /* Without waiting for the scan: found on first use. */
    assert_int_equal(disk_open(&(struct disk_config){.root = root}, &d, NULL), 0);
    for (unsigned i = 500; i-- > 0;)
        assert_int_equal(fetch(d, i, 100 + i), 0);
    assert_false(disk_has(d, id_of(500)));
    disk_close(&d);
    d = open_limited(0);
    stores = count_read(disk_stores);
    assert_int_equal(figures_of(d).chunks, 500);
    assert_int_equal(figures_of(d).bytes, 500 * 100 + 499 * 500 / 2);
    assert_int_equal(store(d, 7, 107), 0);
    assert_int_equal(count_read(disk_stores), stores); /* it was there */
    assert_int_equal(disk_drop_all(d), 500 * 100 + 499 * 500 / 2);
    disk_close(&d);
}

/* Closing at once, in the middle of the scan. */
static void test_close_early(void **state)
{
    struct disk *d = open_limited(0);

    (void)state;
    for (unsigned i = 0; i < 300; i++)
        store(d, i, 10);
    disk_close(&d);
    for (unsigned round = 0; round < 50; round++) {
        assert_int_equal(disk_open(&(struct disk_config){.root = root, .limit = 100000}, &d, NULL),
                         0);
        disk_close(&d);
    }
    assert_int_equal(count_files("chunks", ""), 300);
}

static void test_foreign_files(void **state)
{
    struct disk *d = open_limited(0);
    struct chunk_name n = {{(uint64_t)0xab << 56, 1}, 5, 7};
    struct disk_path path;
    char *link_path;

    (void)state;
    store(d, 1, 1000);
    disk_close(&d);
    disk_path_of_shard(root, 0xab, &path);
    os_mkdirs(path.s, 0700);
    write_at("%s/chunks/README", root);
    write_at("%s/chunks/ab/notes.txt", root);
    write_at("%s/chunks/ab/%016x%016x-5-%016x", root, 1, 1, 1); /* in the wrong shard */
    write_at("%s/tmp/mine", root);
    write_at("%s/tmp/left.over.tmp", root);
    disk_path_of_chunk(root, &n, &path);
    assert_int_equal(mkdir(path.s, 0700), 0); /* the name of a chunk, but no file */
    n.id.lo = 2;
    disk_path_of_chunk(root, &n, &path);
    link_path = mem_fmt("%s/chunks/README", root);
    assert_int_equal(symlink(link_path, path.s), 0);
    d = open_limited(0);
    assert_int_equal(figures_of(d).chunks, 1);
    assert_int_equal(fetch(d, 1, 1000), 0);
    assert_int_equal(disk_drop_all(d), 1000);
    disk_close(&d);
    assert_int_equal(count_files("chunks", ""), 3);
    assert_int_equal(count_files("tmp", ""), 1); /* the dead writer's is gone */
    mem_free(&link_path);
}

/* Two files of one id: one stays. */
static void test_two_of_one(void **state)
{
    struct disk *d = open_limited(0);
    struct chunk_name n = {id_of(1), 5, hash64("hello", 5)};
    struct disk_path path;

    (void)state;
    store(d, 1, 1000);
    disk_close(&d);
    disk_path_of_chunk(root, &n, &path);
    write_at("%s", path.s);
    d = open_limited(0);
    assert_int_equal(figures_of(d).chunks, 1);
    assert_int_equal(count_files("chunks", ""), 1);
    disk_close(&d);
}

/* Chunk i, all in one directory: more than are read or sorted at a time. */
static struct chunk_id in_one_shard(unsigned i)
{
    return (struct chunk_id){.hi = (uint64_t)0x42 << 56 | i, .lo = i};
}

static void test_many_in_one_shard(void **state)
{
    enum { N = 700, STAYS = 300 }; /* 437 has no factor in common with N */
    struct disk *d = open_limited(0);
    uint64_t bytes = 0;

    (void)state;
    for (unsigned i = 0; i < N; i++) {
        struct timespec ts[2] = {{.tv_sec = 1000000000 + i * 437 % N}};
        struct chunk_name n = {in_one_shard(i), 4, hash64(&i, 4)};
        struct disk_path path;

        assert_int_equal(disk_store(d, n.id, &i, 4, NULL), 0);
        disk_path_of_chunk(root, &n, &path);
        ts[1] = ts[0];
        assert_int_equal(utimensat(AT_FDCWD, path.s, ts, 0), 0);
        bytes += 4;
    }
    disk_close(&d);
    d = open_limited(0);
    assert_int_equal(figures_of(d).chunks, N);
    assert_int_equal(figures_of(d).bytes, bytes);
    disk_set_limit(d, STAYS * 4); /* those that were used last */
    assert_int_equal(figures_of(d).chunks, STAYS);
    for (unsigned i = 0; i < N; i++) {
        unsigned got = N, used = i * 437 % N;

        assert_int_equal(disk_read(d, in_one_shard(i), &got, 4, NULL),
                         used >= N - STAYS ? 0 : DLC_EMISS);
        assert_int_equal(got, used >= N - STAYS ? i : N);
    }
    disk_close(&d);
}

/* What was used since the restart is not sorted by the time of its file. */
static void test_used_while_scanning(void **state)
{
    struct disk *d = open_limited(0);
    struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    struct disk_path path;

    (void)state;
    for (unsigned i = 0; i < 10; i++)
        store(d, i, 100);
    disk_close(&d);
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(stat), .nth = 1, .mode = FAULT_HANG});
    assert_int_equal(disk_open(&(struct disk_config){.root = root}, &d, NULL), 0);
    while (fault_hanging() == 0) /* the scan asks for the time of the first file */
        sched_yield();
    assert_true(figures_of(d).scanning);
    assert_int_equal(fetch(d, 3, 100), 0);
    path_of(3, 100, &path);
    assert_int_equal(utimensat(AT_FDCWD, path.s, old, 0), 0);
    assert_true(fault_disarm());
    while (figures_of(d).scanning)
        sched_yield();
    disk_set_limit(d, 500);
    assert_true(disk_has(d, id_of(3)));
    assert_int_equal(figures_of(d).chunks, 5);
    disk_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        disk_test(test_restart),           disk_test(test_close_early),
        disk_test(test_foreign_files),     disk_test(test_two_of_one),
        disk_test(test_many_in_one_shard), disk_test(test_used_while_scanning),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
