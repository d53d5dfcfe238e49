// SPDX-License-Identifier: Apache-2.0
/* Building a catalog and reading it back. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/rng.h"
#include "catalog/catalog.h"
#include "catalog/format_i.h"

static char dir[] = "/tmp/dlcache-test-XXXXXX";
static char path[64];

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/catalog", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    os_rmtree(dir);
    return 0;
}

static void add(struct catalog_builder *b, const char *key, uint64_t size, const char *etag)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (catalog_builder_add(b, key, strlen(key), size, etag, &err) < 0)
        fail_msg("%s", err.text);
}

static struct catalog *finish(struct catalog_builder **b)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog *c;

    if (catalog_builder_finish(*b, path, "s3://bucket/prefix", &err) < 0)
        fail_msg("%s", err.text);
    catalog_builder_free(b);
    if (catalog_open(path, &c, &err) < 0)
        fail_msg("%s", err.text);
    return c;
}

static void expect(const struct catalog *c, uint64_t i, const char *key, uint64_t size,
                   const char *etag)
{
    struct catalog_entry e;
    uint64_t at = UINT64_MAX;

    assert_int_equal(catalog_get(c, i, &e, NULL), 0);
    assert_string_equal(e.key, key);
    assert_string_equal(e.etag, etag);
    assert_int_equal(e.size, size);
    assert_int_equal(catalog_find(c, key, &at), 0);
    assert_int_equal(at, i);
}

static void test_empty(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog_entry e;
    struct catalog *c;
    uint64_t i;

    (void)state;
    c = finish(&b);
    assert_int_equal(catalog_count(c), 0);
    assert_int_equal(catalog_bytes(c), 0);
    assert_int_equal(catalog_get(c, 0, &e, &err), DLC_EINVAL);
    assert_string_equal(err.text, "no sample 0: the dataset has 0");
    assert_int_equal(catalog_find(c, "a", &i), DLC_ENOTFOUND);
    catalog_close(&c);
}

static void test_etags_and_sizes(void **state)
{
    static const struct {
        const char *key, *etag;
        uint64_t size;
    } cases[] = {
        {"a", "", 0},
        {"b", "d41d8cd98f00b204e9800998ecf8427e", 1},
        {"c", "d41d8cd98f00b204e9800998ecf8427e-17", 127},
        {"d", "d41d8cd98f00b204e9800998ecf8427e-017", 128}, /* not as we would print it */
        {"e", "d41d8cd98f00b204e9800998ecf8427e-", 16384},
        {"f", "d41d8cd98f00b204e9800998ecf8427e-18446744073709551615", UINT32_MAX},
        {"g", "d41d8cd98f00b204e9800998ecf8427e-18446744073709551616", 1},
        {"h", "D41D8CD98F00B204E9800998ECF8427E", 2}, /* case is kept */
        {"i", "d41d8cd98f00b204e9800998ecf8427", 3},
        {"j", "d41d8cd98f00b204e9800998ecf8427ef", 4},
        {"k", "17a2b-3c4d", (uint64_t)6 << 30},
        {"l", "d41d8cd98f00b204e9800998ecf8427e-+1", UINT64_MAX / 4},
    };
    struct catalog_builder *b = catalog_builder_new();
    uint64_t bytes = 0;
    struct catalog *c;

    (void)state;
    for (unsigned i = 0; i < DLC_COUNT(cases); i++) {
        add(b, cases[i].key, cases[i].size, cases[i].etag);
        bytes += cases[i].size;
    }
    c = finish(&b);
    for (unsigned i = 0; i < DLC_COUNT(cases); i++)
        expect(c, i, cases[i].key, cases[i].size, cases[i].etag);
    assert_int_equal(catalog_bytes(c), bytes);
    catalog_close(&c);
}

/* ETags go into header lines. One with a line end is neither written nor read. */
static void test_etags_of_several_lines(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    unsigned char tail[CATALOG_TAIL_MAX];
    struct catalog_cursor at;
    char etag[CATALOG_ETAG_MAX];
    uint64_t size;

    (void)state;
    assert_int_equal(catalog_builder_add(b, "k", 1, 1, "a\nb", NULL), DLC_EINVAL);
    at = (struct catalog_cursor){tail, tail + catalog_put_tail(tail, 1, "a b")};
    assert_true(catalog_get_tail(&at, &size, etag));
    at = (struct catalog_cursor){tail, tail + catalog_put_tail(tail, 1, "a\nb")};
    assert_false(catalog_get_tail(&at, &size, etag));
    catalog_builder_free(&b);
}

static void test_head(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    struct catalog *c, *again;
    struct stat st;

    (void)state;
    add(b, "a", 5, NULL);
    assert_int_equal(catalog_builder_count(b), 1);
    c = finish(&b);
    assert_string_equal(catalog_url(c), "s3://bucket/prefix");
    assert_int_equal(fstat(catalog_fd(c), &st), 0);
    assert_int_equal(st.st_size, catalog_file_size(c));
    /* By descriptor, which stays the caller's. */
    assert_int_equal(catalog_open_fd(catalog_fd(c), &again, NULL), 0);
    assert_int_not_equal(catalog_fd(again), catalog_fd(c));
    assert_int_equal(catalog_snapshot(again), catalog_snapshot(c));
    catalog_close(&c);
    expect(again, 0, "a", 5, "");
    catalog_close(&again);
    catalog_close(&again);
}

static void make_key(uint64_t i, char *out, size_t n)
{
    snprintf(out, n, "train/n%08u/n%08u_%u.JPEG", (unsigned)(i % 10) * 7919,
             (unsigned)(i % 10) * 7919, (unsigned)i);
}

/* Many entries, whatever the order they come in; the same entries make the same snapshot. */
static void test_many(void **state)
{
    enum { N = 5000 };
    uint64_t snapshots[2];
    char key[80];

    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        struct catalog_builder *b = catalog_builder_new();
        struct catalog_entry e, prev = {.key = ""};
        struct catalog *c;
        uint64_t at;

        for (uint64_t i = 0; i < N; i++) {
            uint64_t k = round == 0 ? i : (i * 2741 + 13) % N; /* another order */

            make_key(k, key, sizeof(key));
            add(b, key, k, "0123456789abcdef0123456789abcdef");
        }
        c = finish(&b);
        assert_int_equal(catalog_count(c), N);
        for (uint64_t i = 0; i < N; i++) {
            assert_int_equal(catalog_get(c, i, &e, NULL), 0);
            assert_true(strcmp(prev.key, e.key) < 0);
            make_key(e.size, key, sizeof(key));
            assert_string_equal(e.key, key);
            assert_int_equal(catalog_find(c, key, &at), 0);
            assert_int_equal(at, i);
            strcat(key, "x"); /* lies between two keys */
            assert_int_equal(catalog_find(c, key, &at), DLC_ENOTFOUND);
            prev = e;
        }
        assert_int_equal(catalog_find(c, "", &at), DLC_ENOTFOUND);
        assert_int_equal(catalog_find(c, "zzz", &at), DLC_ENOTFOUND);
        snapshots[round] = catalog_snapshot(c);
        assert_true(catalog_file_size(c) / N < 48);
        catalog_close(&c);
    }
    assert_int_equal(snapshots[0], snapshots[1]);
}

/* Each block size that ends in a different place. */
static void test_block_ends(void **state)
{
    (void)state;
    for (unsigned n = 30; n < 100; n++) {
        struct catalog_builder *b = catalog_builder_new();
        struct catalog *c;
        char key[16];

        for (unsigned i = 0; i < n; i++) {
            snprintf(key, sizeof(key), "k%03u", i);
            add(b, key, i, "x");
        }
        c = finish(&b);
        assert_int_equal(catalog_count(c), n);
        for (unsigned i = 0; i < n; i++) {
            snprintf(key, sizeof(key), "k%03u", i);
            expect(c, i, key, i, "x");
        }
        catalog_close(&c);
    }
}

static void test_duplicates(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    struct catalog *c;

    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        add(b, "same", i, "x");
        add(b, "other", i, "y");
    }
    add(b, "same", 7, "last");
    c = finish(&b);
    assert_int_equal(catalog_count(c), 2);
    expect(c, 0, "other", 99, "y");
    expect(c, 1, "same", 7, "last");
    assert_int_equal(catalog_bytes(c), 106);
    catalog_close(&c);
}

static void test_odd_keys(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    char longest[CATALOG_KEY_MAX + 2];
    struct catalog *c;
    char one[3] = "";

    (void)state;
    memset(longest, 'q', sizeof(longest));
    for (unsigned byte = 1; byte < 256; byte++) {
        one[0] = (char)byte;
        one[1] = byte % 2 == 0 ? '/' : '\0';
        add(b, one, byte, "x");
    }
    assert_int_equal(catalog_builder_add(b, longest, CATALOG_KEY_MAX + 1, 1, "", NULL), DLC_EINVAL);
    assert_int_equal(catalog_builder_add(b, "", 0, 1, "", NULL), DLC_EINVAL);
    assert_int_equal(catalog_builder_add(b, "a\0b", 3, 1, "", NULL), DLC_EINVAL);
    longest[CATALOG_ETAG_MAX] = '\0';
    assert_int_equal(catalog_builder_add(b, "a", 1, 1, longest, NULL), DLC_EINVAL);
    longest[CATALOG_ETAG_MAX] = 'q';
    longest[CATALOG_KEY_MAX] = '\0';
    add(b, longest, 1, longest + CATALOG_KEY_MAX - (CATALOG_ETAG_MAX - 1));
    longest[CATALOG_KEY_MAX - 1] = '\0';
    add(b, longest, 2, "x");
    c = finish(&b);
    assert_int_equal(catalog_count(c), 257);
    for (unsigned byte = 1; byte < 'q'; byte++) {
        one[0] = (char)byte;
        one[1] = byte % 2 == 0 ? '/' : '\0';
        expect(c, byte - 1, one, byte, "x");
    }
    expect(c, 'q', longest, 2, "x");
    longest[CATALOG_KEY_MAX - 1] = 'q';
    expect(c, 'q' + 1, longest, 1, longest + CATALOG_KEY_MAX - (CATALOG_ETAG_MAX - 1));
    catalog_close(&c);
}

static bool tmp_left(void)
{
    char *command = mem_fmt("ls %s | grep -q tmp", dir);
    bool left = system(command) == 0;

    mem_free(&command);
    return left;
}

/* Whatever fails: an error or a whole catalog, the old one until then, and nothing left behind. */
static void test_build_faults(void **state)
{
    bool fired = true;

    (void)state;
    for (int nth = 1; fired; nth++) {
        struct catalog_builder *b = catalog_builder_new();
        struct catalog *c;
        int rc = 0;

        unlink(path);
        fault_arm(FAULT_ALLOC | FAULT_SYSCALL, nth);
        for (unsigned i = 0; i < 3000 && rc == 0; i++) {
            char key[16];

            snprintf(key, sizeof(key), "k%u", i);
            rc = catalog_builder_add(b, key, strlen(key), i, "", NULL);
        }
        if (rc == 0)
            rc = catalog_builder_finish(b, path, "u", NULL);
        fired = fault_disarm();
        assert_int_equal(rc < 0, fired);
        assert_int_equal(catalog_open(path, &c, NULL), fired ? DLC_ENOTFOUND : 0);
        assert_false(tmp_left());
        catalog_close(&c);
        catalog_builder_free(&b);
    }
}

static void test_open_faults(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    struct catalog *c;
    bool fired = true;

    (void)state;
    add(b, "a", 1, "x");
    c = finish(&b);
    catalog_close(&c);
    for (int nth = 1; fired; nth++) {
        int rc;

        fault_arm(FAULT_ALLOC | FAULT_SYSCALL, nth);
        rc = catalog_open(path, &c, NULL);
        fired = fault_disarm();
        assert_int_equal(rc < 0, fired);
        assert_int_equal(c == NULL, fired);
        catalog_close(&c);
    }
}

static void test_bad_paths(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog *c;

    (void)state;
    assert_int_equal(catalog_open("/nonexistent/catalog", &c, &err), DLC_ENOTFOUND);
    assert_non_null(strstr(err.text, "/nonexistent/catalog"));
    assert_int_equal(catalog_open(dir, &c, &err), DLC_ECORRUPT);
    assert_int_equal(catalog_open_fd(-1, &c, &err), DLC_EIO);
    assert_int_equal(catalog_builder_finish(b, "/nonexistent/catalog", "u", &err), DLC_ENOTFOUND);
    assert_non_null(strstr(err.text, "/nonexistent/catalog"));
    catalog_builder_free(&b);
    catalog_builder_free(&b);
}

/* A listing that does not end fails by number or by memory, and says which setting that is. */
static void test_limits(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    const struct piece piece = {.kind = PIECE_OBJECT, .length = 1};
    char key[64];
    unsigned i = 0;

    (void)state;
    catalog_builder_limit(b, 3, 0);
    add(b, "a", 1, "");
    add(b, "b", 1, "");
    add(b, "c", 1, "");
    assert_false(catalog_builder_is_full(b));
    assert_int_equal(catalog_builder_add(b, "d", 1, 1, "", &err), DLC_ENOSPACE);
    assert_non_null(strstr(err.text, "--max-objects"));
    assert_true(catalog_builder_is_full(b));
    catalog_builder_free(&b);

    b = catalog_builder_new();
    catalog_builder_limit(b, 0, 100000);
    while (snprintf(key, sizeof(key), "%040u", i) > 0 &&
           catalog_builder_add(b, key, strlen(key), 1, "", &err) == 0)
        i++;
    assert_true(i > 100000 / 100 && i < 100000 / 40);
    assert_int_equal(err.code, DLC_ENOSPACE);
    assert_non_null(strstr(err.text, "--max-catalog"));
    catalog_builder_free(&b);

    b = catalog_builder_new();
    add(b, "one", 1000000, "");
    catalog_builder_settle(b);
    catalog_builder_limit(b, 1, 100000);
    for (i = 0, err = (struct dlc_err)DLC_ERR_INIT; err.code == 0; i++) {
        const struct catalog_new_sample s = {
            .name = key, .name_len = 40, .n_pieces = 1, .pieces = &piece, .label = SAMPLE_NO_LABEL};

        snprintf(key, sizeof(key), "%040u", i);
        catalog_builder_sample(b, &s, &err);
    }
    assert_int_equal(err.code, DLC_ENOSPACE);
    catalog_builder_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_etags_and_sizes),
        cmocka_unit_test(test_etags_of_several_lines),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_block_ends),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_odd_keys),
        cmocka_unit_test(test_build_faults),
        cmocka_unit_test(test_open_faults),
        cmocka_unit_test(test_bad_paths),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
