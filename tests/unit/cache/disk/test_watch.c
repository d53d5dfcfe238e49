// SPDX-License-Identifier: Apache-2.0
/* The watch thread: nobody uses the tier, and still its figures are fresh and a disk that answers
 * again is used again. Takes the seconds that the thread waits. */
#include "util.h"

#include <poll.h>

#include "cache/disk/disk_i.h"

/* Wait for what the watch thread does, for a minute at most. */
#define wait_for(cond)                                                                             \
    do {                                                                                           \
        struct dlc_mono began_ = dlc_mono_now();                                                   \
        while (!(cond)) {                                                                          \
            assert_true(dlc_mono_since(began_).ns < DLC_SEC(60).ns);                               \
            poll(NULL, 0, 10);                                                                     \
        }                                                                                          \
    } while (0)

/* Once a second, not more often. */
static void test_asks_for_free_space(void **state)
{
    struct dlc_mono began = dlc_mono_now();
    struct disk *d = open_limited(0);

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        atomic_store(&d->seen.fs_free, 123);
        wait_for(figures_of(d).fs_free != 123);
    }
    assert_true(dlc_mono_since(began).ns > DLC_MS(1900).ns);
    disk_close(&d);
}

static void test_closes_the_breaker(void **state)
{
    struct disk *d = open_limited(0);

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct disk_op op = disk_op_begin(d, DISK_OP_WRITE, 0);

        disk_op_end(d, &op, false);
    }
    assert_true(disk_is_bypassed(d));
    wait_for(!disk_is_bypassed(d));
    disk_close(&d);
}

/* An operation that hangs is found without an event loop, too. */
static void test_opens_the_breaker(void **state)
{
    struct disk *d = open_limited(0);
    struct disk_op op = disk_op_begin(d, DISK_OP_READ, 0);

    (void)state;
    dlc_clock_advance(DLC_SEC(3));
    wait_for(disk_is_bypassed(d));
    disk_op_end(d, &op, true);
    disk_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        disk_test(test_asks_for_free_space),
        disk_test(test_closes_the_breaker),
        disk_test(test_opens_the_breaker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
