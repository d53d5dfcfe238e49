// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <limits.h>

#include "base/syscalls.h"
#include "base/cpu_limit.h"

static void put(const char *root, const char *dir, const char *name, const char *text)
{
    struct dlc_err err = DLC_ERR_INIT;
    char path[600];

    snprintf(path, sizeof(path), "%s/%s", root, dir);
    assert_int_equal(os_mkdirs(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/%s/%s", root, dir, name);
    assert_int_equal(os_write_file(path, text, strlen(text), 0600, &err), 0);
}

static void test_quota(void **state)
{
    char root[256];

    (void)state;
    unit_path("root", root);
    assert_int_equal(cores_of_quota(root), UINT_MAX); /* nothing there */
    put(root, "proc/self", "cgroup", "1:cpu:/old\n0::/pods/job\n");
    put(root, "sys/fs/cgroup/pods/job", "cpu.max", "max 100000\n");
    assert_int_equal(cores_of_quota(root), UINT_MAX);
    put(root, "sys/fs/cgroup/pods", "cpu.max", "250000 100000\n"); /* of a group above */
    assert_int_equal(cores_of_quota(root), 3);
    put(root, "sys/fs/cgroup/pods/job", "cpu.max", "50000 100000\n");
    assert_int_equal(cores_of_quota(root), 1);
    put(root, "sys/fs/cgroup/pods/job", "cpu.max", "nonsense\n");
    assert_int_equal(cores_of_quota(root), 3);
}

static void test_this_machine(void **state)
{
    (void)state;
    assert_in_range(cores_allowed(), 1, 65536);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quota),
        cmocka_unit_test(test_this_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
