// SPDX-License-Identifier: Apache-2.0
#include "cache/memory/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

#define MB   ((uint64_t)1 << 20)
#define GB   ((uint64_t)1 << 30)
#define NONE UINT64_MAX

/* ---- the rule ---- */

struct row {
    const char *what;
    struct host_memory m;
    struct mem_wish w;
    uint64_t want;
};

static const struct row rows[] = {
    /* total, available, cgroup max and used, pressure | configured, ceiling, used | ceiling then */
    {"start: all that is free but the reserve",
     {100 * GB, 60 * GB, NONE, 0, 0},
     {0, 0, 0},
     50 * GB},
    {"start: 80 % at most", {100 * GB, 100 * GB, NONE, 0, 0}, {0, 0, 0}, 80 * GB},
    {"start: as configured", {100 * GB, 90 * GB, NONE, 0, 0}, {3 * GB, 0, 0}, 3 * GB},
    {"start: configured is too much", {100 * GB, 20 * GB, NONE, 0, 0}, {64 * GB, 0, 0}, 10 * GB},
    {"start: little configured", {100 * GB, 90 * GB, NONE, 0, 0}, {4 * MB, 0, 0}, 4 * MB},
    {"start: nothing free", {100 * GB, GB, NONE, 0, 0}, {0, 0, 0}, 16 * MB},
    {"start: small container",
     {100 * GB, 90 * GB, 320 * MB, 20 * MB, 0},
     {0, 0, 0},
     320 * MB - 20 * MB - 64 * MB},
    {"start: container", {100 * GB, 90 * GB, 10 * GB, 5 * GB, 0}, {0, 0, 0}, 4 * GB},
    {"start: container, machine is fuller",
     {100 * GB, 12 * GB, 50 * GB, 5 * GB, 0},
     {0, 0, 0},
     2 * GB},
    {"at rest: our own use is not held against us",
     {100 * GB, 10 * GB, NONE, 0, 0},
     {40 * GB, 40 * GB, 40 * GB},
     40 * GB},
    {"others need memory: shrink at once",
     {100 * GB, 2 * GB, NONE, 0, 0},
     {0, 40 * GB, 40 * GB},
     32 * GB},
    {"container fills up: shrink at once",
     {100 * GB, 90 * GB, 10 * GB, 10 * GB, 0},
     {0, 8 * GB, 8 * GB},
     7 * GB},
    {"a little less: stay", {100 * GB, 9 * GB, NONE, 0, 0}, {0, 40 * GB, 40 * GB}, 40 * GB},
    {"a little more: stay", {100 * GB, 11 * GB, NONE, 0, 0}, {0, 40 * GB, 40 * GB}, 40 * GB},
    {"much more: grow by an eighth", {100 * GB, 60 * GB, NONE, 0, 0}, {0, 8 * GB, 8 * GB}, 9 * GB},
    {"small ones grow faster", {100 * GB, 60 * GB, NONE, 0, 0}, {0, 16 * MB, 0}, 80 * MB},
    {"grow no further than wanted",
     {100 * GB, 60 * GB, NONE, 0, 0},
     {8500 * MB, 8 * GB, 8 * GB},
     8500 * MB},
    {"slight pressure: do not grow", {100 * GB, 60 * GB, NONE, 0, 5}, {0, 8 * GB, 8 * GB}, 8 * GB},
    {"pressure: an eighth less", {100 * GB, 60 * GB, NONE, 0, 11}, {0, 8 * GB, 8 * GB}, 7 * GB},
    {"much pressure: a quarter less",
     {100 * GB, 60 * GB, NONE, 0, 41},
     {0, 8 * GB, 8 * GB},
     6 * GB},
    {"pressure, and the target is lower still",
     {100 * GB, 0, NONE, 0, 41},
     {0, 40 * GB, 40 * GB},
     30 * GB},
    {"pressure stops at the floor", {100 * GB, 60 * GB, NONE, 0, 90}, {0, 17 * MB, 0}, 16 * MB},
    {"configured was lowered", {100 * GB, 60 * GB, NONE, 0, 0}, {2 * GB, 8 * GB, 8 * GB}, 2 * GB},
    {"configured was lowered a little: no exception for that",
     {100 * GB, 60 * GB, NONE, 0, 0},
     {8000 * MB, 8 * GB, 8 * GB},
     8000 * MB},
    {"pressure is calm below 1", {100 * GB, 60 * GB, NONE, 0, 1}, {0, 8 * GB, 8 * GB}, 8 * GB},
    {"pressure is high above 10", {100 * GB, 60 * GB, NONE, 0, 10}, {0, 8 * GB, 8 * GB}, 8 * GB},
    {"pressure is dire above 40", {100 * GB, 60 * GB, NONE, 0, 40}, {0, 8 * GB, 8 * GB}, 7 * GB},
};

static void test_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < DLC_COUNT(rows); i++) {
        uint64_t got = mem_limit_now(&rows[i].m, &rows[i].w);

        if (got != rows[i].want)
            fail_msg("%s: got %llu MB, want %llu MB", rows[i].what, (unsigned long long)(got / MB),
                     (unsigned long long)(rows[i].want / MB));
    }
}

/* A machine where nothing else happens: the ceiling rises to the target and stays. */
static void test_comes_to_rest(void **state)
{
    struct mem_wish w = {0, 16 * MB, 0};
    uint64_t last = 0;

    (void)state;
    for (int i = 0; i < 200; i++) {
        w.used = w.ceiling;
        struct host_memory m = {64 * GB, 50 * GB - w.used, NONE, 0, 0};

        last = w.ceiling;
        w.ceiling = mem_limit_now(&m, &w);
        assert_true(w.ceiling >= last);
    }
    assert_int_equal(w.ceiling, last);
    assert_true(w.ceiling > 42 * GB && w.ceiling <= 44 * GB); /* 50 less a tenth of 64 */
}

static void test_max(void **state)
{
    struct host_memory m = {100 * GB, 50 * GB, NONE, 0, 0};

    (void)state;
    assert_int_equal(mem_limit_max(&m, 0), 80 * GB);
    assert_int_equal(mem_limit_max(&m, 7 * GB), 7 * GB);
    m.cgroup_max = 10 * GB;
    assert_int_equal(mem_limit_max(&m, 0), 8 * GB);
    m.cgroup_max = MB;
    assert_int_equal(mem_limit_max(&m, 0), 16 * MB);
}

/* Asked as often as one likes: what is short goes at once, all else waits for its second. */
static void test_between(void **state)
{
    struct host_memory m = {100 * GB, 60 * GB, 10 * GB, 9500 * MB, 90.0};
    struct mem_wish w = {0, 4 * GB, 4 * GB};
    uint64_t now = mem_limit_between(&m, &w);

    (void)state;
    assert_true(now < w.ceiling && now == 4 * GB + (10 * GB - 9500 * MB) - GB);
    m.cgroup_used = 4 * GB; /* room again, but still the pressure of 10 s */
    for (int i = 0; i < 20; i++)
        assert_int_equal(mem_limit_between(&m, &w), w.ceiling);
    assert_true(mem_limit_now(&m, &w) < w.ceiling);
    m.pressure = 0;
    assert_int_equal(mem_limit_between(&m, &w), w.ceiling);
    assert_true(mem_limit_now(&m, &w) > w.ceiling);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule),
        cmocka_unit_test(test_between),
        cmocka_unit_test(test_comes_to_rest),
        cmocka_unit_test(test_max),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
