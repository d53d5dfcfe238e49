// SPDX-License-Identifier: Apache-2.0
/* What a restart finds, and what it passes over. */
#include "util.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        disk_test(test_restart),
        disk_test(test_close_early),
        disk_test(test_foreign_files),
        disk_test(test_two_of_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
