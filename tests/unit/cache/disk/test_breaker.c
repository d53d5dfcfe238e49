// SPDX-License-Identifier: Apache-2.0
/* The circuit breaker: when it opens, what it keeps from the disk, and when it closes. */
#include "util.h"

#include "cache/disk/disk_i.h"

static bool is(struct disk *d, const char *state)
{
    return strcmp(figures_of(d).breaker, state) == 0;
}

static void test_an_operation_that_is_overdue(void **state)
{
    struct disk *d = open_limited(0);
    uint64_t opens = count_read(disk_breaker_opens);
    struct disk_op op, large;

    (void)state;
    assert_int_equal(store(d, 1, 1000), 0);
    op = disk_op_begin(d, DISK_OP_READ, 1000);
    large = disk_op_begin(d, DISK_OP_READ, 1000000000); /* may take 100 s more */
    disk_tick(d);
    assert_true(is(d, "closed"));
    dlc_clock_advance(DLC_SEC(3));
    disk_tick(d);
    assert_true(is(d, "open") && disk_is_bypassed(d));
    assert_int_equal(count_read(disk_breaker_opens), opens + 1);
    assert_int_equal(disk_lookup(d, id_of(1)), DISK_ABSENT);
    assert_int_equal(fetch(d, 1, 1000), DLC_EMISS);
    assert_int_equal(store(d, 2, 1000), DLC_EDENIED);
    dlc_clock_advance(DLC_SEC(3));
    breaker_look(d); /* it still hangs: no probe */
    assert_true(is(d, "open"));
    disk_op_end(d, &op, true);
    disk_op_end(d, &large, true);
    breaker_look(d);
    assert_true(is(d, "closed"));
    assert_int_equal(fetch(d, 1, 1000), 0);
    assert_int_equal(count_files("tmp", ""), 0);
    disk_close(&d);
}

static void end_some(struct disk *d, enum disk_op_kind kind, unsigned n, bool well)
{
    for (unsigned i = 0; i < n; i++) {
        struct disk_op op = disk_op_begin(d, kind, 1000);

        disk_op_end(d, &op, well);
    }
}

/* Eight in a row, of reads or of writes: what goes well in between of the other kind does not help.
 */
static void test_failures_in_a_row(void **state)
{
    struct disk *d = open_limited(0);

    (void)state;
    end_some(d, DISK_OP_READ, 7, false);
    end_some(d, DISK_OP_READ, 1, true);
    end_some(d, DISK_OP_READ, 7, false);
    assert_true(is(d, "closed"));
    end_some(d, DISK_OP_WRITE, 9, true);
    end_some(d, DISK_OP_READ, 1, false);
    assert_true(is(d, "open"));
    assert_string_equal(figures_of(d).breaker_why, "reads and writes fail");
    disk_close(&d);
}

/* A probe that fails doubles the wait. */
static void test_a_probe_that_fails(void **state)
{
    struct disk *d = open_limited(0);
    char tmp[80], away[80];

    (void)state;
    snprintf(tmp, sizeof(tmp), "%s/tmp", root);
    snprintf(away, sizeof(away), "%s/away", root);
    end_some(d, DISK_OP_WRITE, 8, false);
    assert_int_equal(rename(tmp, away), 0);
    dlc_clock_advance(DLC_MS(1100));
    breaker_look(d);
    assert_true(is(d, "open"));
    assert_int_equal(rename(away, tmp), 0);
    dlc_clock_advance(DLC_MS(1100));
    breaker_look(d); /* two seconds this time */
    assert_true(is(d, "open"));
    dlc_clock_advance(DLC_MS(1100));
    breaker_look(d);
    assert_true(is(d, "closed"));
    assert_int_equal(store(d, 1, 1000), 0);
    disk_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        disk_test(test_an_operation_that_is_overdue),
        disk_test(test_failures_in_a_row),
        disk_test(test_a_probe_that_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
