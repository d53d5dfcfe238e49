// SPDX-License-Identifier: Apache-2.0
/* The sort against the C library's, on keys that are hard for it. */
#include "catalog/key_sort_i.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"

enum { N = 3000, KEY_MAX = 64 };

static unsigned char arena[N * (RECORD_HEAD + KEY_MAX + 1)];
static struct record_ref refs[N];
static char expected[N][KEY_MAX];

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Few letters, so that keys share prefixes, end inside others and repeat. */
static void random_key(struct rng *r, unsigned round, char *out)
{
    size_t len = 1 + rng_below(r, round % 2 == 0 ? 12 : KEY_MAX - 1);

    for (size_t i = 0; i < len; i++)
        out[i] = i < round * 3 ? 'p' : (char)(unsigned char)(rng_below(r, 2) == 0 ? 0xff : 'a');
    out[len] = '\0';
}

static void test_random(void **state)
{
    struct rng r = {1};

    (void)state;
    for (unsigned round = 0; round < 12; round++) {
        size_t at = 0, n = round == 0 ? 1 : N - rng_below(&r, 100);

        for (size_t i = 0; i < n; i++) {
            size_t len;

            random_key(&r, round, expected[i]);
            len = strlen(expected[i]);
            refs[i].off = at;
            arena[at] = (unsigned char)len;
            arena[at + 1] = arena[at + 2] = 0;
            memcpy(arena + at + RECORD_HEAD, expected[i], len);
            at += RECORD_HEAD + len;
        }
        qsort(expected, n, sizeof(expected[0]), by_text);
        catalog_sort(arena, refs, n);
        for (size_t i = 0; i < n; i++) {
            const unsigned char *p = arena + refs[i].off;

            assert_int_equal(RECORD_KEY_LEN(p), strlen(expected[i]));
            assert_memory_equal(RECORD_KEY(p), expected[i], RECORD_KEY_LEN(p));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
