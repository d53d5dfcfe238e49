// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <sys/resource.h>

#include "base/secret_memory.h"
#include "proc_self.h"

/* The beginning of its line in /proc/self/smaps. */
static void address_of(const void *p, char out[static 32])
{
    snprintf(out, 32, "%lx-", (unsigned long)(uintptr_t)p);
}

static void test_locked_and_not_dumped(void **state)
{
    char *p = secret_map(100), *q = secret_map(5000), at[32];

    (void)state;
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(p[i], 0);
    memset(q, 'x', 5000);
    address_of(p < q ? p : q, at);
    assert_int_equal(proc_all_have_flag(at, "lo"), !UNIT_SANITIZED);
    assert_true(proc_all_have_flag(at, "dd"));
    secret_unmap((void **)&p, 100);
    secret_unmap((void **)&q, 5000);
    assert_null(p);
    secret_unmap((void **)&p, 100); /* nothing to do */
    assert_int_equal(proc_mapped(at), 0);
}

/* Of a user without rights and with a limit of 0: it is there all the same. In a child. */
static void use_without_limit(void)
{
    struct rlimit none = {0, 0};
    char *p;

    if (setrlimit(RLIMIT_MEMLOCK, &none) != 0 || (getuid() == 0 && setuid(65534) != 0))
        return;
    p = secret_map(100);
    p[99] = 'x';
    secret_unmap((void **)&p, 100);
    abort();
}

static void test_a_limit_of_nothing(void **state)
{
    (void)state;
    assert_true(unit_aborts(use_without_limit)); /* at its end */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_locked_and_not_dumped),
        cmocka_unit_test(test_a_limit_of_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
