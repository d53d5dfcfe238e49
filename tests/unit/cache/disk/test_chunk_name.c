// SPDX-License-Identifier: Apache-2.0
/* Names of chunk files, and ids. */
#include "util.h"

#include "base/check.h"

#define PLACE(n) ((struct name_hash){0, n})

static void test_ids(void **state)
{
    struct chunk_id a = chunk_id_of(PLACE(1), "key", "etag");
    const struct chunk_id others[] = {
        chunk_id_of(PLACE(2), "key", "etag"), chunk_id_of(PLACE(1), "keye", "tag"),
        chunk_id_of(PLACE(1), "ke", "yetag"), chunk_id_of(PLACE(1), "etag", "key"),
        chunk_id_of(PLACE(1), "key", ""),     chunk_id_of(PLACE(1), "", "etag"),
    };
    struct chunk_id again = chunk_id_of(PLACE(1), "key", "etag");

    (void)state;
    assert_memory_equal(&a, &again, sizeof(a));
    for (unsigned i = 0; i < DLC_COUNT(others); i++)
        assert_memory_not_equal(&a, &others[i], sizeof(a));
    assert_true(chunk_id_of((struct name_hash){1, 1}, "key", "etag").lo != a.lo);
    /* Ids are in file names: they may never change. SHA-256, so that no tenant can make a key whose
     * id is that of another tenant's chunk. */
    assert_int_equal(a.hi, 0x6d7a17bba890542u);
    assert_int_equal(a.lo, 0xc99da559e02defd7u);
}

static void test_names(void **state)
{
    static const char *const bad[] = {
        "",
        ".",
        "..",
        "lock",
        "00000000000000ab00000000000000cd-10",
        "00000000000000ab00000000000000cd-10-00000000000000f",
        "00000000000000ab00000000000000cd-10-00000000000000ff0",
        "00000000000000ab00000000000000cd-010-00000000000000ff",
        "00000000000000AB00000000000000cd-10-00000000000000ff",
        "0x000000000000ab00000000000000cd-10-00000000000000ff",
        " 0000000000000ab00000000000000cd-10-00000000000000ff",
        "00000000000000ab00000000000000cd--1-00000000000000ff",
        "00000000000000ab00000000000000cd-10-00000000000000ff.tmp",
        "00000000000000ab00000000000000cd-10-00000000000000ff~",
        "00000000000000ab00000000000000cd-10000000000000000-00000000000000ff",
    };
    struct chunk_name n = {{0xab, 0xcd}, 16, 0xff}, got;
    struct disk_path path;
    char name[NAME_MAX_LEN];

    (void)state;
    chunk_name_format(&n, name);
    assert_string_equal(name, "00000000000000ab00000000000000cd-10-00000000000000ff");
    assert_true(chunk_name_parse(name, &got));
    assert_memory_equal(&n, &got, sizeof(n));
    for (unsigned i = 0; i < DLC_COUNT(bad); i++)
        assert_false(chunk_name_parse(bad[i], &got));
    n = (struct chunk_name){{UINT64_MAX, UINT64_MAX}, UINT64_MAX, UINT64_MAX};
    chunk_name_format(&n, name);
    assert_true(chunk_name_parse(name, &got));
    assert_memory_equal(&n, &got, sizeof(n));
    disk_path_of_chunk("/r", &(struct chunk_name){{(uint64_t)0xab << 56, 1}, 0, 2}, &path);
    assert_string_equal(path.s, "/r/chunks/ab/ab000000000000000000000000000001-0-0000000000000002");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ids), cmocka_unit_test(test_names)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
