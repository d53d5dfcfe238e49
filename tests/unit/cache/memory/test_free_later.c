// SPDX-License-Identifier: Apache-2.0
/* Memory that daemon and clients write together: the event loop does not free what is large. */
#include "unit.h"

#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/fault.h"
#include "cache/memory/memory.h"
#include "proc_self.h"

#define MB ((uint64_t)1 << 20)

static pid_t loop;
static _Atomic unsigned here, elsewhere; /* unmapped, by this thread and by others */

static void count_unmaps(enum fault_call call, int fd)
{
    (void)fd;
    if (call == CALL_munmap)
        atomic_fetch_add(gettid() == loop ? &here : &elsewhere, 1);
}

static void free_one(uint64_t size)
{
    struct mem_common *c;
    char *bytes;

    assert_int_equal(mem_common_new("test-common", size, &c, NULL), 0);
    bytes = mem_common_map(c);
    for (uint64_t at = 0; at < size; at += 4096)
        bytes[at] = 1;
    atomic_store(&here, 0);
    atomic_store(&elsewhere, 0);
    fault_observe(count_unmaps);
    mem_common_free(&c);
    assert_null(c);
    while (proc_mapped("test-common") > 0)
        sched_yield();
    fault_observe(NULL);
}

static void test_freed_by_a_thread(void **state)
{
    (void)state;
    loop = gettid();
    free_one(32 * MB);
    assert_int_equal(atomic_load(&here), 0);
    assert_true(atomic_load(&elsewhere) > 0);
    free_one(4096); /* not worth a thread */
    assert_int_equal(atomic_load(&here), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_freed_by_a_thread)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
