// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/check.h"
#include "base/fault.h"
#include "base/mem.h"

static void test_small_things(void **state)
{
    unsigned char *z = mem_zero(100);
    char *s = mem_str("text"), *n = mem_strn("text", 2), *f = mem_fmt("%s-%03d", "a", 7);
    void *p = mem_alloc(0);

    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(z[i], 0);
    assert_non_null(p);
    p = mem_grow(p, 1000);
    memset(p, 1, 1000);
    assert_string_equal(s, "text");
    assert_string_equal(n, "te");
    assert_string_equal(f, "a-007");
    assert_null(mem_str(NULL));
    mem_free(&z);
    assert_null(z);
    mem_free(&z); /* NULL is allowed */
    mem_free(&s);
    mem_free(&n);
    mem_free(&f);
    mem_free(&p);
}

static void test_reserve_grows_an_array(void **state)
{
    int *a = NULL;
    size_t n = 0, cap = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        mem_reserve(a, n, cap);
        a[n++] = i;
        assert_true(cap >= n);
    }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(a[i], i);
    mem_free(&a);
}

static void test_large_things_fail_softly(void **state)
{
    char *p = mem_try_alloc(10), *grown;

    (void)state;
    assert_non_null(p);
    strcpy(p, "kept");
    fault_arm(FAULT_ALLOC, 1);
    assert_null(mem_try_grow(p, 20));
    assert_true(fault_disarm());
    assert_string_equal(p, "kept"); /* as realloc: the old block stays */
    grown = mem_try_grow(p, 20);
    assert_string_equal(grown, "kept");
    mem_free(&grown);
    fault_arm(FAULT_ALLOC, 2);
    p = mem_try_zero(8);
    assert_non_null(p);
    assert_null(mem_try_alloc(8));
    assert_true(fault_disarm());
    mem_free(&p);
}

static void ask_for_too_much(void)
{
    void *p = mem_alloc(PTRDIFF_MAX - 4096);

    mem_free(&p);
}

static void fail_a_check(void)
{
    dlc_check(1 + 1 == 3);
}

static void pass_a_check(void)
{
    dlc_check(1 + 1 == 2);
}

static void test_no_memory_and_failed_checks_abort(void **state)
{
    (void)state;
    assert_true(unit_aborts(fail_a_check));
    assert_false(unit_aborts(pass_a_check));
#if !defined(DLC_DEBUG) /* the sanitizers' allocators have their own opinion of such sizes */
    assert_true(unit_aborts(ask_for_too_much));
#else
    (void)ask_for_too_much;
#endif
}

static void test_macros(void **state)
{
    (void)state;
    assert_int_equal(DLC_TAG4('a', 'b', 'c', 'd'), 0x64636261);
    assert_int_equal(DLC_ALIGN_UP(0u, 8), 0);
    assert_int_equal(DLC_ALIGN_UP(1u, 8), 8);
    assert_int_equal(DLC_ALIGN_UP(8u, 8), 8);
    assert_true(DLC_ALIGN_UP((uint64_t)0x100000001, 4096) == 0x100001000);
    assert_int_equal(DLC_CLAMP(5, 1, 3), 3);
    assert_int_equal(DLC_CLAMP(-5, 1, 3), 1);
    assert_int_equal(DLC_CLAMP(2, 1, 3), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_things),
        cmocka_unit_test(test_reserve_grows_an_array),
        cmocka_unit_test(test_large_things_fail_softly),
        cmocka_unit_test(test_no_memory_and_failed_checks_abort),
        cmocka_unit_test(test_macros),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
