// SPDX-License-Identifier: Apache-2.0
/* owner.c when the kernel refuses something: no client is told of an owner that nobody watches, and
 * libc has its own list back. What happens when an owner dies: test_memory.c. */
#include "proc_self.h"

#include "base/fault.h"
#include "base/syscalls.h"
#include "cache/memory/memory_i.h"

#define MB ((uint64_t)1 << 20)

static struct robust_list_head *kernels_list(void)
{
    struct robust_list_head *list = NULL;
    size_t len;

    assert_int_equal(os_get_robust_list(&list, &len), 0);
    return list;
}

static uint32_t owner_of(const struct memory *m)
{
    return atomic_load(&extents_header(&m->extents)->owner);
}

static void test_refused(void **state)
{
    struct robust_list_head *libc = kernels_list();
    unsigned before, refused = 0;
    struct memory *m;
    bool fired = true;

    (void)state;
    assert_int_equal(memory_new(MB, MB, &m, NULL), 0);
    before = proc_mappings();
    for (int nth = 1; fired; nth++) {
        fault_arm(FAULT_SYSCALL, nth);
        memory_set_owner(m);
        fired = fault_disarm();
        assert_int_equal(m->owner_entry != NULL, owner_of(m) == (uint32_t)gettid());
        if (fired) { /* it goes without: clients look at the socket */
            refused++;
            assert_null(m->owner_entry);
            assert_int_equal(owner_of(m), 0);
            assert_ptr_equal(kernels_list(), libc);
        } else {
            assert_ptr_not_equal(kernels_list(), libc);
            memory_end_owner(m);
            assert_int_equal(owner_of(m), SHM_OWNER_DIED);
        }
        assert_int_equal(proc_mappings(), before);
    }
    assert_true(refused >= 4); /* two calls for the list, two mappings */
    assert_ptr_equal(kernels_list(), libc);
    memory_free(&m);
}

/* It owns another one already: that stays in the list. */
static void test_refused_beside_another(void **state)
{
    struct robust_list_head *libc = kernels_list();
    struct memory *m, *other;
    bool fired = true;

    (void)state;
    assert_int_equal(memory_new(MB, MB, &other, NULL), 0);
    assert_int_equal(memory_new(MB, MB, &m, NULL), 0);
    memory_set_owner(other);
    for (int nth = 1; fired; nth++) {
        fault_arm(FAULT_SYSCALL, nth);
        memory_set_owner(m);
        fired = fault_disarm();
        assert_ptr_not_equal(kernels_list(), libc);
        assert_int_equal(owner_of(other), gettid());
        memory_end_owner(m);
    }
    memory_end_owner(other);
    assert_ptr_equal(kernels_list(), libc);
    memory_free(&m);
    memory_free(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_beside_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
