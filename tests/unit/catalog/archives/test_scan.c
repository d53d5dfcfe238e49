// SPDX-License-Identifier: Apache-2.0
#include "scanning.h"

static void test_scanner_of(void **state)
{
    static const struct {
        const char *key, *name;
    } cases[] = {
        {"a.tar", "tar"},       {"dir/a.TAR", "tar"},     {"a.tar.gz", "tar.gz"},
        {"a.tgz", "tar.gz"},    {"a.Tar.Bz2", "tar.bz2"}, {"a.tbz2", "tar.bz2"},
        {"a.tar.xz", "tar.xz"}, {"a.txz", "tar.xz"},      {"a.tar.zst", "tar.zst"},
        {"a.tzst", "tar.zst"},  {"a.zip", "zip"},         {"a.csv", "csv"},
        {"a.b.tsv", "tsv"},     {"a.npy", "npy"},         {"a.parquet", "parquet"},
        {"a.pq", "parquet"},    {"a.jpg", NULL},          {"a.nii.gz", NULL},
        {"tar", NULL},          {".tar", NULL},           {"", NULL},
        {"a.tar/b", NULL},      {"a.npz", NULL},          {"a.csv.gz", NULL},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        const struct scanner *s = scanner_of(cases[i].key);

        if (cases[i].name == NULL)
            assert_null(s);
        else
            assert_string_equal(s == NULL ? "none" : s->name, cases[i].name);
    }
}

static void test_the_table_is_sound(void **state)
{
    (void)state;
    for (const struct scanner *const *a = scanners; *a != NULL; a++) {
        assert_true((*a)->name != NULL && (*a)->run != NULL && (*a)->suffixes[0] != NULL);
        assert_false((*a)->derives && (*a)->tabular);
        for (const char *const *s = (*a)->suffixes; *s != NULL; s++) {
            char *key = mem_fmt("x%s", *s);

            assert_ptr_equal(scanner_of(key), *a); /* no other takes its suffix */
            mem_free(&key);
        }
    }
}

static void test_source_is_bounded(void **state)
{
    struct source s = source_of_memory("abcdef", 6, "six");
    struct dlc_err err = DLC_ERR_INIT;
    char b[8] = "";

    (void)state;
    assert_int_equal(source_read(&s, 2, b, 3, &err), 0);
    assert_string_equal(b, "cde");
    assert_int_equal(source_read(&s, 6, b, 0, &err), 0);
    assert_int_equal(source_read(&s, 6, b, 1, &err), DLC_ECORRUPT);
    assert_int_equal(source_read(&s, 7, b, 0, &err), DLC_ECORRUPT);
    assert_int_equal(source_read(&s, UINT64_MAX, b, 2, &err), DLC_ECORRUPT);
    assert_non_null(strstr(err.text, "six"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scanner_of),
        cmocka_unit_test(test_the_table_is_sound),
        cmocka_unit_test(test_source_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
