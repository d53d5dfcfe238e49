// SPDX-License-Identifier: Apache-2.0
/* What a dataset says of its samples, from a catalog with splits, classes, columns and targets. */
#include "unit.h"

#include "catalog/catalog.h"
#include "client/dataset.h"
#include "dlcache.h"

static struct dlc_dataset ds;

static void add(struct catalog_builder *b, uint64_t object, uint32_t label, const char *first,
                const char *second)
{
    const struct catalog_text cells[] = {{first, strlen(first)}, {second, strlen(second)}};
    const struct catalog_new_sample s = {.object = object, .label = label, .cells = cells};

    assert_int_equal(catalog_builder_sample(b, &s, NULL), 0);
}

/* Split train: k0, k1; val: k2; then one that is hidden, with k3, the target of k0. */
static int setup(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    char key[8], path[256];

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(catalog_builder_add(b, key, 2, 100 + i, "e", NULL), 0);
    }
    catalog_builder_settle(b);
    assert_int_equal(catalog_builder_class(b, "cat", 3, NULL), 0);
    assert_int_equal(catalog_builder_class(b, "dog", 3, NULL), 0);
    assert_int_equal(catalog_builder_column(b, "author", NULL), 0);
    assert_int_equal(catalog_builder_column(b, "title", NULL), 0);
    assert_int_equal(catalog_builder_split(b, "train", false, NULL), 0);
    add(b, 0, 0, "ann", "one");
    add(b, 1, 1, "bob", "two");
    assert_int_equal(catalog_builder_split(b, "val", false, NULL), 0);
    add(b, 2, SAMPLE_NO_LABEL, "", "three");
    assert_int_equal(catalog_builder_split(b, "masks", true, NULL), 0);
    add(b, 3, SAMPLE_NO_LABEL, "", "");
    assert_int_equal(catalog_builder_target(b, 0, 3, NULL), 0);
    assert_int_equal(catalog_builder_finish(b, unit_path("c", path), "file:///x/", NULL), 0);
    catalog_builder_free(&b);
    ds = (struct dlc_dataset){.tag = DATASET_TAG, .shown = (char *)(uintptr_t) "file:///x/"};
    assert_int_equal(catalog_open(path, &ds.catalog, NULL), 0);
    ds.n = catalog_count(ds.catalog);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    catalog_close(&ds.catalog);
    return 0;
}

/* A text of `len` bytes is given to who has room for it and its NUL. */
#define assert_gives(want, call)                                                                   \
    do {                                                                                           \
        char buf[16];                                                                              \
        size_t cap = sizeof(buf);                                                                  \
        memset(buf, 'x', sizeof(buf));                                                             \
        assert_int_equal(call, strlen(want));                                                      \
        assert_string_equal(buf, want);                                                            \
        memset(buf, 'x', sizeof(buf));                                                             \
        cap = strlen(want);                                                                        \
        assert_int_equal(call, strlen(want));                                                      \
        assert_int_equal(buf[0], 'x');                                                             \
        cap = strlen(want) + 1;                                                                    \
        assert_int_equal(call, strlen(want));                                                      \
        assert_string_equal(buf, want);                                                            \
        assert_int_equal(buf[cap], 'x');                                                           \
    } while (0)

static void test_samples(void **state)
{
    uint64_t i = 99;

    (void)state;
    assert_int_equal(dlc_count(&ds), 3); /* without the hidden one */
    assert_int_equal(dlc_snapshot(&ds), catalog_snapshot(ds.catalog));
    assert_gives("k2", dlc_key(&ds, 2, buf, cap));
    assert_int_equal(dlc_key(&ds, 4, NULL, 0), DLC_EINVAL);
    assert_int_equal(dlc_size(&ds, 2), 102);
    assert_int_equal(dlc_size(&ds, 4), DLC_EINVAL);
    assert_int_equal(dlc_find(&ds, "k1", &i), 0);
    assert_int_equal(i, 1);
    assert_int_equal(dlc_find(&ds, "k9", &i), DLC_ENOTFOUND);
    assert_non_null(strstr(dlc_last_error(), "k9"));
    assert_int_equal(dlc_target(&ds, 0, &i), 0);
    assert_int_equal(i, 3);
    assert_true(dlc_target(&ds, 1, &i) < 0);
}

static void test_classes(void **state)
{
    (void)state;
    assert_int_equal(dlc_class_count(&ds), 2);
    assert_gives("cat", dlc_class_name(&ds, 0, buf, cap));
    assert_gives("dog", dlc_class_name(&ds, 1, buf, cap));
    assert_true(dlc_class_name(&ds, 2, NULL, 0) < 0);
    assert_int_equal(dlc_label(&ds, 0), 0);
    assert_int_equal(dlc_label(&ds, 1), 1);
    assert_int_equal(dlc_label(&ds, 2), DLC_ENOTFOUND);
    assert_true(dlc_label(&ds, 4) < 0);
}

static void test_splits(void **state)
{
    uint64_t first = 99, count = 99;

    (void)state;
    assert_int_equal(dlc_split_count(&ds), 2);
    assert_gives("train", dlc_split_name(&ds, 0, buf, cap));
    assert_gives("val", dlc_split_name(&ds, 1, buf, cap));
    assert_int_equal(dlc_split_name(&ds, 2, NULL, 0), DLC_EINVAL);
    assert_int_equal(dlc_split(&ds, "train", &first, &count), 0);
    assert_int_equal(first, 0);
    assert_int_equal(count, 2);
    assert_int_equal(dlc_split(&ds, "val", &first, &count), 0);
    assert_int_equal(first, 2);
    assert_int_equal(count, 1);
    assert_int_equal(dlc_split(&ds, "masks", &first, &count), DLC_ENOTFOUND); /* hidden */
    assert_int_equal(dlc_split(&ds, "test", &first, &count), DLC_ENOTFOUND);
    assert_non_null(strstr(dlc_last_error(), "test"));
}

static void test_columns(void **state)
{
    (void)state;
    assert_int_equal(dlc_column_count(&ds), 2);
    assert_gives("author", dlc_column_name(&ds, 0, buf, cap));
    assert_gives("title", dlc_column_name(&ds, 1, buf, cap));
    assert_int_equal(dlc_column_name(&ds, 2, NULL, 0), DLC_EINVAL);
    assert_gives("bob", dlc_column(&ds, 1, "author", buf, cap));
    assert_gives("two", dlc_column(&ds, 1, "title", buf, cap));
    assert_gives("", dlc_column(&ds, 2, "author", buf, cap));
    assert_true(dlc_column(&ds, 4, "author", NULL, 0) < 0);
    assert_int_equal(dlc_column(&ds, 1, "year", NULL, 0), DLC_ENOTFOUND);
}

/* Where the daemon says that a named dataset lies, else where it was opened. */
static void test_location(void **state)
{
    char url[] = "dataset:x", place[] = "s3://b/x/";

    (void)state;
    ds.url = url;
    assert_gives("dataset:x", dlc_location(&ds, buf, cap));
    ds.place = place;
    assert_gives("s3://b/x/", dlc_location(&ds, buf, cap));
    ds.url = ds.place = NULL;
}

/* A dataset of which nothing but its samples is known. */
static void test_plain(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_dataset plain = {.tag = DATASET_TAG, .shown = ds.shown};
    uint64_t first, count;
    char path[256];

    (void)state;
    assert_int_equal(catalog_builder_add(b, "k", 1, 5, "e", NULL), 0);
    assert_int_equal(catalog_builder_finish(b, unit_path("p", path), "file:///p/", NULL), 0);
    catalog_builder_free(&b);
    assert_int_equal(catalog_open(path, &plain.catalog, NULL), 0);
    assert_int_equal(dlc_count(&plain), 1);
    assert_int_equal(dlc_split_count(&plain), 0);
    assert_int_equal(dlc_split_name(&plain, 0, NULL, 0), DLC_EINVAL);
    assert_int_equal(dlc_split(&plain, "train", &first, &count), DLC_ENOTFOUND);
    assert_int_equal(dlc_class_count(&plain), 0);
    assert_int_equal(dlc_column_count(&plain), 0);
    catalog_close(&plain.catalog);
}

/* The last error is that of the last call that failed. */
static void test_success_keeps_last_error(void **state)
{
    char buf[16], kept[512];
    uint64_t i, count;

    (void)state;
    assert_int_equal(dlc_find(&ds, "no such key", &i), DLC_ENOTFOUND);
    snprintf(kept, sizeof(kept), "%s", dlc_last_error());
    assert_non_null(strstr(kept, "no such key"));
    assert_int_equal(dlc_find(&ds, "k1", &i), 0);
    assert_int_equal(dlc_key(&ds, 1, buf, sizeof(buf)), 2);
    assert_int_equal(dlc_size(&ds, 1), 101);
    assert_int_equal(dlc_target(&ds, 0, &i), 0);
    assert_int_equal(dlc_label(&ds, 1), 1);
    assert_int_equal(dlc_class_name(&ds, 0, buf, sizeof(buf)), 3);
    assert_int_equal(dlc_split(&ds, "val", &i, &count), 0);
    assert_int_equal(dlc_column(&ds, 0, "title", buf, sizeof(buf)), 3);
    assert_string_equal(dlc_last_error(), kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_location),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_success_keeps_last_error),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
