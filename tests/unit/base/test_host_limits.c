// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <limits.h>

#include "base/host_limits.h"
#include "base/mem.h"
#include "base/syscalls.h"

#define MB   ((uint64_t)1 << 20)
#define GB   ((uint64_t)1 << 30)
#define NONE UINT64_MAX

struct root {
    char dir[40];
};

static int setup(void **state)
{
    struct root *r = test_calloc(1, sizeof(*r));

    strcpy(r->dir, "/tmp/dlc-host-limits-XXXXXX");
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

static struct host_memory read_root(const struct root *r)
{
    struct host_memory m;

    host_memory_read_at(&m, r->dir);
    return m;
}

#define MEMINFO "MemTotal:       1048576 kB\nMemFree:  1 kB\nMemAvailable:    524288 kB\n"

static void test_no_groups(void **state)
{
    struct root *r = *state;

    add(r, "proc/meminfo", MEMINFO);
    struct host_memory m = read_root(r);
    assert_int_equal(m.total, GB);
    assert_int_equal(m.available, 512 * MB);
    assert_int_equal(m.cgroup_max, NONE);
    assert_int_equal(m.cgroup_used, 0);
    assert_true(m.pressure == 0);
}

static void test_nothing_there(void **state)
{
    struct host_memory m = read_root(*state);

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
    struct host_memory m = read_root(r);
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
    struct host_memory m = read_root(r);
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
    struct host_memory m = read_root(r);
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
    struct host_memory m = read_root(r);
    assert_true(m.total > 0);
    assert_int_equal(m.cgroup_max, NONE);
}

static void test_cpu_quota(void **state)
{
    struct root *r = *state;

    assert_int_equal(host_cores_of_quota(r->dir), UINT_MAX); /* nothing there */
    add(r, "proc/self/cgroup", "1:cpu:/old\n0::/pods/job\n");
    add(r, "sys/fs/cgroup/pods/job/cpu.max", "max 100000\n");
    assert_int_equal(host_cores_of_quota(r->dir), UINT_MAX);
    add(r, "sys/fs/cgroup/pods/cpu.max", "250000 100000\n"); /* of a group above */
    assert_int_equal(host_cores_of_quota(r->dir), 3);
    add(r, "sys/fs/cgroup/pods/job/cpu.max", "50000 100000\n");
    assert_int_equal(host_cores_of_quota(r->dir), 1);
    add(r, "sys/fs/cgroup/pods/job/cpu.max", "nonsense\n");
    assert_int_equal(host_cores_of_quota(r->dir), 3);
    add(r, "sys/fs/cgroup/pods/cpu.max", "18446744073709551615 1\n");
    assert_int_equal(host_cores_of_quota(r->dir), UINT_MAX);
}

/* No line of version 2: the root of the mount may still have a quota. */
static void test_cpu_quota_at_the_root(void **state)
{
    struct root *r = *state;

    add(r, "sys/fs/cgroup/cpu.max", "150000 100000\n");
    assert_int_equal(host_cores_of_quota(r->dir), 2);
}

static void test_this_machine(void **state)
{
    struct host_memory m;

    (void)state;
    host_memory_read(&m);
    assert_true(m.total > 0 && m.available <= m.total);
    assert_in_range(host_cores(), 1, 65536);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_no_groups),
        T(test_nothing_there),
        T(test_v2_tree),
        T(test_v2_foreign_path),
        T(test_v1),
        T(test_machine_pressure),
        T(test_garbage),
        T(test_cpu_quota),
        T(test_cpu_quota_at_the_root),
        T(test_this_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
