// SPDX-License-Identifier: Apache-2.0
/* What the daemon has of an extent goes when it is dropped: descriptor and mapping, of that one only.
 */
#include "proc_self.h"

#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>

#include "base/fault.h"
#include "base/syscalls.h"
#include "cache/memory/extents_i.h"

#define MB    ((uint64_t)1 << 20)
#define SMALL (8 * MB)    /* extents of 64 KB */
#define LARGE (8192 * MB) /* extents of 32 MB: unmapped by a thread, in several steps */
#define NAME  "dlcache-extent"

/* The middle one of three is dropped, and comes again. */
static void drop_middle(uint64_t size)
{
    unsigned before = proc_descriptors(), opened;
    struct extents e;
    uint64_t one;

    assert_int_equal(extents_open(&e, size, NULL), 0);
    one = extents_granularity(&e);
    opened = proc_descriptors();
    assert_true(extents_ensure(&e, 0, 3 * one));
    memset(e.map, 'a', 3 * one);
    assert_int_equal(proc_mapped(NAME), 3);
    assert_int_equal(proc_descriptors(), opened + 3);
    assert_int_equal(extents_populated(&e), 3 * one);

    assert_int_equal(extents_release(&e, one, one), one);
    while (proc_descriptors() != opened + 2) /* after the mapping, by the thread */
        sched_yield();
    assert_int_equal(proc_mapped(NAME), 2);
    assert_int_equal(e.map[one - 1], 'a');
    assert_int_equal(e.map[2 * one], 'a');
    assert_int_equal(extents_populated(&e), 3 * one); /* a client may map it: (EXTENT-3) */
    extents_forget_dropped(&e, NULL, NULL);
    assert_int_equal(extents_populated(&e), 2 * one);

    assert_true(extents_ensure(&e, one, one));
    assert_int_equal(e.map[one], 0);
    assert_int_equal(proc_mapped(NAME), 3);
    extents_close(&e);
    assert_int_equal(proc_mapped(NAME) + proc_mapped("dlcache-segment"), 0);
    assert_int_equal(proc_descriptors(), before);
}

static void test_small(void **state)
{
    (void)state;
    drop_middle(SMALL);
}

static void test_large(void **state)
{
    (void)state;
    drop_middle(LARGE);
}

/* The last one is shorter than the others when the size is not a multiple. */
static void test_last_is_short(void **state)
{
    struct extents e;
    uint64_t one;

    (void)state;
    assert_int_equal(extents_open(&e, SMALL + os_page_size(), NULL), 0);
    one = extents_granularity(&e);
    assert_int_equal(e.n, (e.size + one - 1) / one);
    assert_true(extents_ensure(&e, e.size - 1, 1));
    e.map[e.size - 1] = 'z';
    assert_int_equal(extents_release(&e, 0, e.size), e.size);
    assert_int_equal(proc_mapped(NAME), 0);
    assert_int_equal(e.drops, 1);
    extents_close(&e);
}

static void test_samples_stay_out_of_core_files(void **state)
{
    struct extents e;

    (void)state;
    assert_int_equal(extents_open(&e, SMALL, NULL), 0);
    assert_true(extents_ensure(&e, 0, 1));
    assert_true(proc_all_have_flag(NAME, "dd"));
    extents_close(&e);
}

/* A call that fails leaves neither descriptor nor mapping. */
static void test_make_fails(void **state)
{
    static const uint64_t calls[] = {FAULT_CALL(memfd), FAULT_CALL(ftruncate), FAULT_CALL(mmap_at),
                                     FAULT_CALL(fcntl)};
    unsigned before;
    struct extents e;

    (void)state;
    assert_int_equal(extents_open(&e, SMALL, NULL), 0);
    before = proc_descriptors();
    for (size_t i = 0; i < unit_count(calls); i++) {
        fault_plan(&(struct fault_plan){.calls = calls[i], .nth = 1});
        assert_false(extents_ensure(&e, 0, 1));
        assert_true(fault_disarm());
        assert_int_equal(proc_mapped(NAME), 0);
        assert_int_equal(proc_descriptors(), before);
        assert_int_equal(atomic_load(shm_generations(e.header.map)), 0); /* none to map */
    }
    assert_true(extents_ensure(&e, 0, 1));
    extents_close(&e);
}

/* Standard input was closed: 0 is a descriptor like any other. */
static void test_descriptor_0(void **state)
{
    int input = dup(STDIN_FILENO);
    struct extents e;

    (void)state;
    assert_int_equal(extents_open(&e, SMALL, NULL), 0);
    close(STDIN_FILENO);
    assert_true(extents_ensure(&e, 0, 1));
    assert_int_equal(e.all[0].fd, STDIN_FILENO);
    assert_true(extents_ensure(&e, 0, 1)); /* it is there */
    assert_int_equal(e.all[0].fd, STDIN_FILENO);
    assert_int_equal(extents_populated(&e), 0);
    e.map[0] = 'a';
    assert_int_equal(extents_populated(&e), os_page_size());
    assert_int_equal(extents_release(&e, 0, e.size), extents_granularity(&e));
    assert_int_equal(e.drops, 1);
    extents_close(&e);
    assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
    close(input);
}

static void test_open_fails(void **state)
{
    unsigned before = proc_descriptors();
    struct dlc_err err = DLC_ERR_INIT;
    bool fired = true;

    (void)state;
    for (int nth = 1; fired; nth++) {
        struct extents e;
        int rc;

        fault_arm(FAULT_SYSCALL, nth);
        rc = extents_open(&e, SMALL, &err);
        fired = fault_disarm();
        if (rc == 0)
            extents_close(&e);
        assert_int_equal(proc_mapped("dlcache-segment"), 0);
        assert_int_equal(proc_descriptors(), before);
    }
}

/* Nothing is left of an extent that nobody maps any more. */
static void test_no_leak(void **state)
{
    size_t before = 0;
    struct extents e;

    (void)state;
    assert_int_equal(extents_open(&e, SMALL, NULL), 0);
    for (unsigned i = 0; i < 101; i++) {
        assert_true(extents_ensure(&e, 0, 1));
        assert_int_equal(extents_release(&e, 0, e.size), extents_granularity(&e));
        extents_forget_dropped(&e, NULL, NULL);
        if (i == 0)
            before = mallinfo2().uordblks;
    }
    assert_true(mallinfo2().uordblks < before + 3200);
    extents_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),         cmocka_unit_test(test_large),
        cmocka_unit_test(test_last_is_short), cmocka_unit_test(test_samples_stay_out_of_core_files),
        cmocka_unit_test(test_make_fails),    cmocka_unit_test(test_open_fails),
        cmocka_unit_test(test_descriptor_0),  cmocka_unit_test(test_no_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
