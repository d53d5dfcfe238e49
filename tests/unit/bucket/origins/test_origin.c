// SPDX-License-Identifier: Apache-2.0
/* What origins share: filling, moving and clearing the answer to a LIST. */
#include "bucket/origins/origin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

static void fill(struct attempt *a, unsigned n)
{
    char key[32];

    for (unsigned i = 0; i < n; i++) {
        int len = snprintf(key, sizeof(key), "key-%u and more", i);

        attempt_add_object(a, key, (size_t)len - 9, i, i % 2 == 0 ? "etag" : NULL);
        if (i % 10 == 0)
            attempt_add_folder(a, key, 4);
    }
    a->next = mem_str("token");
}

static void check(const struct attempt *a, unsigned n)
{
    char key[32];

    assert_int_equal(a->n_objects, n);
    assert_int_equal(a->n_folders, (n + 9) / 10);
    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "key-%u", i);
        assert_string_equal(a->objects[i].key, key);
        assert_int_equal(a->objects[i].size, i);
        assert_string_equal(a->objects[i].etag, i % 2 == 0 ? "etag" : "");
    }
    assert_string_equal(a->folders[0], "key-");
    assert_string_equal(a->next, "token");
}

static void check_clear(const struct attempt *a)
{
    assert_int_equal(a->n_objects + a->n_folders, 0);
    assert_null(a->objects);
    assert_null(a->folders);
    assert_null(a->next);
    assert_null(a->text);
    assert_int_equal(a->rc, 0);
    assert_string_equal(a->err.text, "");
    assert_string_equal(a->etag_seen, "");
}

/* An ETag goes into a header line of later requests: it ends where a line could. */
static void test_etags_of_several_lines(void **state)
{
    static const char *const odd[] = {
        "a\nx-amz-acl: public", "a\rb", "a\tb", "\x7f", "a\"b", "a b"};
    struct attempt a = {.op = ATTEMPT_LIST};

    (void)state;
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        attempt_add_object(&a, "k", 1, 1, odd[i]);
        assert_string_equal(a.objects[i].etag, "");
    }
    attempt_clear(&a);
}

static void test_fill_and_clear(void **state)
{
    struct attempt a = {.op = ATTEMPT_LIST};

    (void)state;
    for (int round = 0; round < 3; round++) {
        fill(&a, 10000);
        check(&a, 10000);
        attempt_clear(&a);
        check_clear(&a);
    }
    assert_int_equal(a.op, ATTEMPT_LIST); /* the question stays */
}

/* Of a length that leaves no byte in what malloc() gives, so that it notices one too many. */
static void test_key_longer_than_a_block(void **state)
{
    enum { LEN = 99999 };
    struct attempt a = {.op = ATTEMPT_LIST};
    char *key = mem_alloc(LEN);

    (void)state;
    memset(key, 'k', LEN);
    attempt_add_object(&a, key, LEN, 1, "e");
    attempt_add_object(&a, "small", 5, 2, "e");
    assert_int_equal(strlen(a.objects[0].key), LEN);
    assert_string_equal(a.objects[1].key, "small");
    attempt_clear(&a);
    mem_free(&key);
}

static void test_move(void **state)
{
    struct attempt a = {.op = ATTEMPT_LIST}, b = {.op = ATTEMPT_LIST};

    (void)state;
    fill(&a, 100);
    strcpy(a.etag_seen, "seen");
    a.received = 7;
    a.throttled = true;
    a.rc = dlc_err_set(&a.err, DLC_EBUCKET, "why");
    attempt_move_answer(&b, &a);
    check_clear(&a);
    check(&b, 100);
    assert_string_equal(b.etag_seen, "seen");
    assert_int_equal(b.received, 7);
    assert_true(b.throttled);
    assert_int_equal(b.rc, DLC_EBUCKET);
    assert_string_equal(b.err.text, "why");
    attempt_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_etags_of_several_lines),
        cmocka_unit_test(test_fill_and_clear),
        cmocka_unit_test(test_key_longer_than_a_block),
        cmocka_unit_test(test_move),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
