// SPDX-License-Identifier: Apache-2.0
/* Listing over a fake origin that holds a set of keys and pages like a cloud does. */
#include "unit.h"

#include "bucket/bucket.h"

#include "base/check.h"
#include "base/counters.h"
#include "base/mem.h"
#include "base/str.h"
#include "fake_origin.h"

/* Keys in order, made from a number, so that a million take no memory. */
struct store {
    uint64_t n;
    void (*key)(uint64_t i, char out[static 64]);
    size_t page;       /* entries per page */
    unsigned fail_nth; /* this attempt fails for good */
    unsigned flaky;    /* every so many attempts fail retryably; 0: none */
    bool repeats;      /* always the same continuation */
    bool folders_free; /* the origin's LIST costs nothing */
    const char *root;  /* the prefix of the URL; NULL: none */
    const char *bad_folder;
    _Atomic unsigned flat, by_folder;
};

/* The first key that is not before the prefix. */
static uint64_t seek(const struct store *s, const char *prefix)
{
    uint64_t lo = 0, hi = s->n;
    char key[64];

    while (lo < hi) {
        uint64_t mid = (lo + hi) / 2;

        s->key(mid, key);
        if (strcmp(key, prefix) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void fill_page(struct store *s, struct attempt *a)
{
    uint64_t i = a->continuation == NULL ? seek(s, a->prefix) : strtoull(a->continuation, NULL, 10);
    size_t len = strlen(a->prefix), entries = 0;
    char key[64], last[64] = "";

    for (; i < s->n && entries < s->page; i++) {
        const char *slash;

        s->key(i, key);
        if (!str_starts(key, a->prefix)) {
            i = s->n;
            break;
        }
        slash = a->by_folder ? strchr(key + len, '/') : NULL;
        if (slash == NULL) {
            attempt_add_object(a, key, strlen(key), i, "e");
            entries++;
            continue;
        }
        key[slash - key + 1] = '\0';
        if (strcmp(key, last) != 0) {
            attempt_add_folder(a, key, strlen(key));
            strcpy(last, key);
            entries++;
        }
        while (i + 1 < s->n) { /* the rest of the folder */
            char next[64];

            s->key(i + 1, next);
            if (!str_starts(next, last))
                break;
            i++;
        }
    }
    if (i < s->n)
        a->next = mem_fmt("%llu", (unsigned long long)i);
    if (s->repeats) {
        mem_free(&a->next);
        a->next = mem_str("0");
    }
    if (s->bad_folder != NULL)
        attempt_add_folder(a, s->bad_folder, strlen(s->bad_folder));
}

static void script_list(struct fake *f, struct fake_call *c)
{
    struct store *s = f->priv;

    if (c->a->by_folder)
        s->by_folder++;
    else
        s->flat++;
    c->delay.ns = 100000;
    if (c->nth == s->fail_nth || (s->flaky != 0 && c->nth % s->flaky == 0)) {
        c->fate = FAKE_FAIL;
        c->retryable = c->nth != s->fail_nth;
        c->rc = c->retryable ? DLC_EBUCKET : DLC_EDENIED;
    } else {
        fill_page(s, c->a);
    }
}

/* What a listing gave: each key once, in any order. */
struct seen {
    struct store *store;
    unsigned char *bits; /* one byte per key */
    uint64_t n, twice, wrong;
    uint64_t stop_after; /* pages; 0: never */
    uint64_t pages;
    _Atomic int inside; /* page() calls under way */
};

static bool on_page(struct bucket_list *l, const struct bucket_object *objects, size_t n)
{
    struct seen *seen = l->priv;
    char key[64];

    assert_int_equal(++seen->inside, 1);
    assert_true(n > 0);
    seen->pages++;
    for (size_t i = 0; i < n; i++) {
        uint64_t id = objects[i].size;

        seen->store->key(id, key);
        seen->wrong += strcmp(key, objects[i].key) != 0 || strcmp(objects[i].etag, "e") != 0;
        seen->twice += seen->bits[id]++;
        seen->n++;
    }
    seen->inside--;
    assert_int_equal(l->n_objects, seen->n); /* as far as it came */
    assert_true(l->n_pages >= seen->pages);
    return seen->stop_after == 0 || --seen->stop_after > 0;
}

static int list_all(struct store *s, struct seen *seen, const char *prefix, bool folders,
                    struct dlc_err *err)
{
    const struct bucket_config config = BUCKET_CONFIG_INIT;
    struct fake *f = fake_new(2, script_list);
    struct bucket *b = NULL;
    int rc;

    f->priv = s;
    f->ops.folders = folders;
    f->ops.folders_free = s->folders_free;
    assert_int_equal(
        bucket_open_origin(&f->o, s->root == NULL ? "" : s->root, &config, f->o.lanes, &b, NULL),
        0);
    *seen = (struct seen){.store = s, .stop_after = seen->stop_after};
    seen->bits = mem_zero(s->n);
    rc = bucket_list_wait(b, prefix, on_page, seen, err);
    assert_int_equal(f->flying, 0);
    assert_true(f->flying_max <= 32);
    bucket_close(&b);
    assert_int_equal(seen->twice, 0); /* (BUCKET-LIST-1) */
    assert_int_equal(seen->wrong, 0);
    mem_free(&seen->bits);
    return rc;
}

static void key_tree(uint64_t i, char out[static 64])
{
    snprintf(out, 64, "train/class%02d/part%d/%05d", (int)(i / 1000), (int)(i / 100 % 10),
             (int)(i % 100));
}

static void key_flat(uint64_t i, char out[static 64])
{
    snprintf(out, 64, "data/%07d", (int)i);
}

static void key_folders(uint64_t i, char out[static 64])
{
    snprintf(out, 64, "f%07d/one", (int)i);
}

/* 1500 objects, then folders with one object each. */
static void key_mixed(uint64_t i, char out[static 64])
{
    if (i < 1500)
        snprintf(out, 64, "a%07d", (int)i);
    else
        snprintf(out, 64, "f%07d/one", (int)i);
}

/* Objects also after the folders. */
static void key_around(uint64_t i, char out[static 64])
{
    if (i < 9990)
        key_mixed(i, out);
    else
        snprintf(out, 64, "z%07d", (int)i);
}

/* Three levels of 80 folders each: more in all than are worth a request each. */
static void key_wide(uint64_t i, char out[static 64])
{
    snprintf(out, 64, "%03d/%03d/%03d/x", (int)(i / 6400), (int)(i / 80 % 80), (int)(i % 80));
}

static void test_tree(void **state)
{
    struct store s = {.n = 20000, .key = key_tree, .page = 1000};
    struct dlc_err err = DLC_ERR_INIT;
    struct seen seen = {.n = 0};

    (void)state;
    assert_int_equal(list_all(&s, &seen, NULL, true, &err), 0);
    assert_int_equal(seen.n, 20000);
    assert_int_equal(s.flat, 0);
    assert_int_equal(s.by_folder, 1 + 1 + 20 + 200); /* root, train, classes, parts */
}

static void test_prefix(void **state)
{
    struct store s = {.n = 20000, .key = key_tree, .page = 1000};
    struct dlc_err err = DLC_ERR_INIT;
    struct seen seen = {.n = 0};

    (void)state;
    assert_int_equal(list_all(&s, &seen, "train/class03/", true, &err), 0);
    assert_int_equal(seen.n, 1000);
    assert_int_equal(list_all(&s, &seen, "train/class0", true, &err), 0);
    assert_int_equal(seen.n, 10000);
    assert_int_equal(list_all(&s, &seen, "nothing/here/", true, &err), 0);
    assert_int_equal(seen.n, 0);
}

/* No prefix named: that of the URL. */
static void test_root(void **state)
{
    struct store s = {.n = 20000, .key = key_tree, .page = 1000, .root = "train/class03/"};
    struct seen seen = {.n = 0};

    (void)state;
    assert_int_equal(list_all(&s, &seen, NULL, true, NULL), 0);
    assert_int_equal(seen.n, 1000);
    assert_int_equal(list_all(&s, &seen, "train/class04/part7/", true, NULL), 0);
    assert_int_equal(seen.n, 100);
}

static void test_origin_without_folders(void **state)
{
    struct store s = {.n = 20000, .key = key_tree, .page = 1000};
    struct dlc_err err = DLC_ERR_INIT;
    struct seen seen = {.n = 0};

    (void)state;
    assert_int_equal(list_all(&s, &seen, NULL, false, &err), 0);
    assert_int_equal(seen.n, 20000);
    assert_int_equal(s.by_folder, 0);
    assert_int_equal(s.flat, 20);
}

static void test_million_keys_in_one_folder(void **state)
{
    struct store s = {.n = 1000000, .key = key_flat, .page = 10000};
    struct dlc_err err = DLC_ERR_INIT;
    struct seen seen = {.n = 0};

    (void)state;
    assert_int_equal(list_all(&s, &seen, NULL, true, &err), 0);
    assert_int_equal(seen.n, 1000000);
    assert_in_range(s.flat + s.by_folder, 100, 103);
}

static void test_many_folders_turn_flat(void **state)
{
    struct store s = {.n = 200000, .key = key_folders, .page = 1000};
    struct dlc_err err = DLC_ERR_INIT;
    struct seen seen = {.n = 0};

    (void)state;
    assert_int_equal(list_all(&s, &seen, NULL, true, &err), 0);
    assert_int_equal(seen.n, 200000);
    assert_in_range(s.by_folder, 1, 3);
    assert_in_range(s.flat, 200, 201);
}

/* 1024 folders of one level are worth a request each, one more is not. */
static void test_folders_of_one_level(void **state)
{
    struct seen seen = {.n = 0};

    (void)state;
    for (size_t page = 100; page <= 10000; page *= 100) {
        struct store few = {.n = 1024, .key = key_folders, .page = page};
        struct store many = {.n = 1025, .key = key_folders, .page = page};

        assert_int_equal(list_all(&few, &seen, NULL, true, NULL), 0);
        assert_int_equal(seen.n, 1024);
        assert_int_equal(few.by_folder, 1024 + (page < 1024 ? 11 : 1));
        assert_int_equal(few.flat, 0);
        assert_int_equal(list_all(&many, &seen, NULL, true, NULL), 0);
        assert_int_equal(seen.n, 1025);
        assert_int_equal(many.by_folder, page < 1024 ? 11 : 1);
        assert_int_equal(many.flat, page < 1024 ? 11 : 1);
    }
}

static unsigned deep; /* folders in each folder of the first level */

static void key_two_levels(uint64_t i, char out[static 64])
{
    snprintf(out, 64, "%04d/%04d/x", (int)(i / deep), (int)(i % deep));
}

/* Three folders of 768 each are listed by folder; of forty, the fifth or so is one too many. */
static void test_folders_in_all(void **state)
{
    struct seen seen = {.n = 0};
    struct store s;

    (void)state;
    deep = 768;
    s = (struct store){.n = 3 * 768, .key = key_two_levels, .page = 1000};
    assert_int_equal(list_all(&s, &seen, NULL, true, NULL), 0);
    assert_int_equal(seen.n, 3 * 768);
    assert_int_equal(s.flat, 0);
    assert_int_equal(s.by_folder, 1 + 3 + 3 * 768);
    s = (struct store){.n = 40 * 768, .key = key_two_levels, .page = 1000};
    assert_int_equal(list_all(&s, &seen, NULL, true, NULL), 0);
    assert_int_equal(seen.n, 40 * 768);
    assert_true(s.flat >= 35);
    assert_in_range(s.flat + s.by_folder, 1000, 4096);
}

/* 1023 folders in each of four; what is left over is in the last. */
static void key_four(uint64_t i, char out[static 64])
{
    uint64_t folder = DLC_MIN(i / 1023, 3);

    snprintf(out, 64, "%d/%04d/x", (int)folder, (int)(i - folder * 1023));
}

/* 4096 folders are worth a request each. With one more, those of the level that is listed last are
 * not. */
static void test_most_folders_in_all(void **state)
{
    struct store few = {.n = 4 * 1023, .key = key_four, .page = 2000};
    struct store many = {.n = 4 * 1023 + 1, .key = key_four, .page = 2000};
    struct seen seen = {.n = 0};

    (void)state;
    assert_int_equal(list_all(&few, &seen, NULL, true, NULL), 0);
    assert_int_equal(seen.n, few.n);
    assert_int_equal(few.by_folder + few.flat, 1 + 4 + 4 * 1023);
    assert_int_equal(list_all(&many, &seen, NULL, true, NULL), 0);
    assert_int_equal(seen.n, many.n);
    assert_in_range(many.by_folder + many.flat, 1 + 4 + 3 * 1023 + 1, 1 + 4 + 3 * 1023 + 2);
}

/* A directory's LIST costs nothing: all are listed by folder. */
static void test_origin_whose_folders_are_free(void **state)
{
    struct store s = {.n = 9000, .key = key_folders, .page = 1000, .folders_free = true};
    struct seen seen = {.n = 0};

    (void)state;
    assert_int_equal(list_all(&s, &seen, NULL, true, NULL), 0);
    assert_int_equal(seen.n, 9000);
    assert_int_equal(s.flat, 0);
    assert_int_equal(s.by_folder, 9 + 9000);
}

/* Pages of objects were given out before the many folders showed up. */
static void test_turns_flat_late(void **state)
{
    struct store s = {.n = 10000, .key = key_mixed, .page = 1000};
    struct dlc_err err = DLC_ERR_INIT;
    struct seen seen = {.n = 0};

    (void)state;
    assert_int_equal(list_all(&s, &seen, NULL, true, &err), 0);
    assert_int_equal(seen.n, 10000);
    assert_in_range(s.by_folder, 2, 4);
    assert_in_range(s.flat, 10, 11);
    s.key = key_around;
    assert_int_equal(list_all(&s, &seen, NULL, true, &err), 0);
    assert_int_equal(seen.n, 10000);
}

static void test_folders_are_bounded_in_all(void **state)
{
    struct store s = {.n = 512000, .key = key_wide, .page = 1000};
    struct dlc_err err = DLC_ERR_INIT;
    struct seen seen = {.n = 0};

    (void)state;
    assert_int_equal(list_all(&s, &seen, NULL, true, &err), 0);
    assert_int_equal(seen.n, 512000);
    assert_true(s.by_folder + s.flat < 4096 + 512); /* not 512,000 */
}

static void test_empty(void **state)
{
    struct store s = {.n = 0, .key = key_flat, .page = 1000};
    struct dlc_err err = DLC_ERR_INIT;
    struct seen seen = {.n = 0};

    (void)state;
    assert_int_equal(list_all(&s, &seen, NULL, true, &err), 0);
    assert_int_equal(seen.n, 0);
}

static void test_stop_early(void **state)
{
    struct store s = {.n = 20000, .key = key_tree, .page = 50};
    struct dlc_err err = DLC_ERR_INIT;
    struct seen seen = {.stop_after = 3};

    (void)state;
    assert_int_equal(list_all(&s, &seen, NULL, true, &err), 0);
    assert_int_equal(seen.n, 150);
}

static void test_page_fails(void **state)
{
    struct store s = {.n = 20000, .key = key_tree, .page = 50, .fail_nth = 40};
    struct dlc_err err = DLC_ERR_INIT;
    struct seen seen = {.n = 0};

    (void)state;
    assert_int_equal(list_all(&s, &seen, NULL, true, &err), DLC_EDENIED);
    assert_string_equal(err.text, "the fake fails attempt 40");
}

static void test_flaky_pages(void **state)
{
    struct store s = {.n = 5000, .key = key_tree, .page = 100, .flaky = 10};
    struct dlc_err err = DLC_ERR_INIT;
    struct seen seen = {.n = 0};

    (void)state;
    assert_int_equal(list_all(&s, &seen, NULL, true, &err), 0);
    assert_int_equal(seen.n, 5000);
    assert_int_equal(err.code, 0);
    assert_string_equal(err.text, "");
}

static void test_nonsense(void **state)
{
    struct store repeats = {.n = 100, .key = key_folders, .page = 10, .repeats = true};
    struct store above = {.n = 10, .key = key_tree, .page = 10, .bad_folder = "train/"};
    struct store aside = {.n = 10, .key = key_tree, .page = 10, .bad_folder = "elsewhere/"};
    struct store itself = {.n = 10, .key = key_flat, .page = 10, .bad_folder = "data/"};
    struct dlc_err err = DLC_ERR_INIT;
    struct seen seen = {.n = 0};

    (void)state;
    repeats.n = 0; /* objects would be given twice */
    assert_int_equal(list_all(&repeats, &seen, NULL, true, &err), DLC_EBUCKET);
    assert_non_null(strstr(err.text, "same page"));
    assert_int_equal(list_all(&above, &seen, "train/", true, &err), DLC_EBUCKET);
    assert_non_null(strstr(err.text, "not below"));
    assert_int_equal(list_all(&aside, &seen, "train/", true, &err), DLC_EBUCKET);
    assert_int_equal(aside.by_folder, 1); /* at once, though it is not the first of the page */
    assert_int_equal(list_all(&itself, &seen, "data/", true, &err), DLC_EBUCKET);
    assert_non_null(strstr(err.text, "not below"));
}

/* Listings that end, are stopped, fail, or turn flat. */
static void list_some(void)
{
    struct store tree = {.n = 400, .key = key_tree, .page = 30};
    struct store fails = {.n = 400, .key = key_tree, .page = 30, .fail_nth = 5};
    struct store mixed = {.n = 3000, .key = key_mixed, .page = 1000};
    struct seen seen = {.n = 0};

    assert_int_equal(list_all(&tree, &seen, NULL, true, NULL), 0);
    seen.stop_after = 2;
    assert_int_equal(list_all(&tree, &seen, NULL, true, NULL), 0);
    seen.stop_after = 0;
    assert_int_equal(list_all(&fails, &seen, NULL, true, NULL), DLC_EDENIED);
    assert_int_equal(list_all(&mixed, &seen, NULL, true, NULL), 0);
}

static void test_no_leak(void **state)
{
    enum { ROUNDS = 60 };
    size_t before;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        list_some();
    before = unit_heap();
    for (unsigned i = 0; i < ROUNDS; i++)
        list_some();
    assert_true(unit_heap() < before + ROUNDS * 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_root),
        cmocka_unit_test(test_folders_of_one_level),
        cmocka_unit_test(test_folders_in_all),
        cmocka_unit_test(test_most_folders_in_all),
        cmocka_unit_test(test_origin_whose_folders_are_free),
        cmocka_unit_test(test_origin_without_folders),
        cmocka_unit_test(test_million_keys_in_one_folder),
        cmocka_unit_test(test_many_folders_turn_flat),
        cmocka_unit_test(test_turns_flat_late),
        cmocka_unit_test(test_folders_are_bounded_in_all),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_stop_early),
        cmocka_unit_test(test_page_fails),
        cmocka_unit_test(test_flaky_pages),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_no_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
