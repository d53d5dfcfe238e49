// SPDX-License-Identifier: Apache-2.0
#include "cache/memory/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"

#define MB   ((uint64_t)1 << 20)
#define GB   ((uint64_t)1 << 30)
#define NONE UINT64_MAX

/* ---- the rule ---- */

struct row {
    const char *what;
    struct mem_machine m;
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
        struct mem_machine m = {64 * GB, 50 * GB - w.used, NONE, 0, 0};

        last = w.ceiling;
        w.ceiling = mem_limit_now(&m, &w);
        assert_true(w.ceiling >= last);
    }
    assert_int_equal(w.ceiling, last);
    assert_true(w.ceiling > 42 * GB && w.ceiling <= 44 * GB); /* 50 less a tenth of 64 */
}

static void test_max(void **state)
{
    struct mem_machine m = {100 * GB, 50 * GB, NONE, 0, 0};

    (void)state;
    assert_int_equal(mem_limit_max(&m, 0), 80 * GB);
    assert_int_equal(mem_limit_max(&m, 7 * GB), 7 * GB);
    m.cgroup_max = 10 * GB;
    assert_int_equal(mem_limit_max(&m, 0), 8 * GB);
    m.cgroup_max = MB;
    assert_int_equal(mem_limit_max(&m, 0), 16 * MB);
}

/* ---- the machine ---- */

struct root {
    char dir[32];
};

static int setup(void **state)
{
    struct root *r = test_calloc(1, sizeof(*r));

    strcpy(r->dir, "/tmp/dlc-limits-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    struct root *r = *state;

    os_rmtree(r->dir);
    test_free(r);
    return 0;
}

static void add(struct root *r, const char *path, const char *text)
{
    char *file = mem_fmt("%s/%s", r->dir, path), *dir = mem_str(file);

    *strrchr(dir, '/') = '\0';
    assert_int_equal(os_mkdirs(dir, 0700), 0);
    assert_int_equal(os_write_file(file, text, strlen(text), 0600, NULL), 0);
    mem_free(&file);
    mem_free(&dir);
}

static struct mem_machine read_root(const struct root *r)
{
    struct mem_machine m;

    mem_machine_read_at(&m, r->dir);
    return m;
}

#define MEMINFO "MemTotal:       1048576 kB\nMemFree:  1 kB\nMemAvailable:    524288 kB\n"

static void test_no_groups(void **state)
{
    struct root *r = *state;

    add(r, "proc/meminfo", MEMINFO);
    struct mem_machine m = read_root(r);
    assert_int_equal(m.total, GB);
    assert_int_equal(m.available, 512 * MB);
    assert_int_equal(m.cgroup_max, NONE);
    assert_int_equal(m.cgroup_used, 0);
    assert_true(m.pressure == 0);
}

static void test_nothing_there(void **state)
{
    struct mem_machine m = read_root(*state);

    assert_true(m.total > 0 && m.available > 0 && m.available < m.total);
}

/* The smallest limit is a parent's, the least room is in another group. */
static void test_v2_tree(void **state)
{
    struct root *r = *state;

    add(r, "proc/meminfo", MEMINFO);
    add(r, "proc/self/cgroup", "0::/pods/one/box\n");
    add(r, "sys/fs/cgroup/pods/one/box/memory.max", "max\n");
    add(r, "sys/fs/cgroup/pods/one/box/memory.high", "700000000\n");
    add(r, "sys/fs/cgroup/pods/one/box/memory.current", "300000000\n");
    add(r, "sys/fs/cgroup/pods/one/box/memory.stat", "anon 5\nfile 7\ninactive_file 100000000\n");
    add(r, "sys/fs/cgroup/pods/one/box/memory.pressure", "some avg10=12.50 avg60=0.00\n");
    add(r, "sys/fs/cgroup/pods/one/memory.max", "600000000\n");
    add(r, "sys/fs/cgroup/pods/one/memory.current", "250000000\n");
    add(r, "sys/fs/cgroup/pods/memory.max", "900000000\n");
    add(r, "sys/fs/cgroup/pods/memory.current", "850000000\n");
    struct mem_machine m = read_root(r);
    assert_int_equal(m.cgroup_max, 600000000);
    assert_int_equal(m.cgroup_max - m.cgroup_used, 50000000);
    assert_true(m.pressure == 12.5);
}

/* In a container the group's path is the host's; the mount's root is the group. */
static void test_v2_foreign_path(void **state)
{
    struct root *r = *state;

    add(r, "proc/self/cgroup", "0::/../host/path\n");
    add(r, "sys/fs/cgroup/memory.max", "400000000\n");
    add(r, "sys/fs/cgroup/memory.current", "500000000\n"); /* over it, for a moment */
    struct mem_machine m = read_root(r);
    assert_int_equal(m.cgroup_max, 400000000);
    assert_int_equal(m.cgroup_used, 400000000);
}

static void test_v1(void **state)
{
    struct root *r = *state;

    add(r, "proc/self/cgroup", "9:name=systemd:/\n4:memory:/a/b\n0::/\n");
    add(r, "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    add(r, "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "500000000\n");
    add(r, "sys/fs/cgroup/memory/a/memory.usage_in_bytes", "200000000\n");
    add(r, "sys/fs/cgroup/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 50000000\n");
    struct mem_machine m = read_root(r);
    assert_int_equal(m.cgroup_max, 500000000);
    assert_int_equal(m.cgroup_used, 150000000);
}

/* The machine's pressure counts when the machine is short of memory. */
static void test_machine_pressure(void **state)
{
    struct root *r = *state;

    add(r, "proc/pressure/memory", "some avg10=33.00 avg60=0\nfull avg10=1.00 avg60=0\n");
    add(r, "proc/meminfo", MEMINFO);
    assert_true(read_root(r).pressure == 0);
    add(r, "proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 200000 kB\n");
    assert_true(read_root(r).pressure == 33);
}

static void test_garbage(void **state)
{
    struct root *r = *state;

    add(r, "proc/meminfo", "MemTotal\nMemAvailable");
    add(r, "proc/self/cgroup", "::\n0:\nnonsense\n4:memory\n:::::");
    add(r, "proc/pressure/memory", "some avg10=x");
    struct mem_machine m = read_root(r);
    assert_true(m.total > 0);
    assert_int_equal(m.cgroup_max, NONE);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule), cmocka_unit_test(test_comes_to_rest),
        cmocka_unit_test(test_max),  T(test_no_groups),
        T(test_nothing_there),       T(test_v2_tree),
        T(test_v2_foreign_path),     T(test_v1),
        T(test_machine_pressure),    T(test_garbage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
