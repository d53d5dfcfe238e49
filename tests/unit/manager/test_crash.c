// SPDX-License-Identifier: Apache-2.0
/*
 * A manager that is killed at each write, sync and rename of its start: the next one starts in the same
 * directory, with the token and keys that were finished, and removes what was not.
 */
// timeout: 120
#include "unit.h"

#include <fcntl.h>

#include "base/check.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "crash_points.h"
#include "manager/manager.h"

/* Between which a file is half done; all others are hundreds. */
#define CALLS (FAULT_CALL(write) | FAULT_CALL(fsync) | FAULT_CALL(rename))

static char dir[256], unix_path[256];

static struct manager *start(void)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct manager *c = NULL;

    if (manager_open(&(struct manager_config){.dir = dir, .unix_path = unix_path}, &c, &err) < 0)
        fail_msg("%s", err.text);
    return c;
}

static void works(void)
{
    struct manager *c = start();

    manager_close(&c);
}

static unsigned count_tmp(void)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    unsigned n = 0;

    while (d != NULL && (e = readdir(d)) != NULL)
        n += str_ends(e->d_name, ".tmp");
    if (d != NULL)
        closedir(d);
    return n;
}

static void test_killed_at_each_call(void **state)
{
    unsigned left = 0;
    bool killed = true;

    (void)state;
    unit_path("m", dir);
    unit_path("s", unix_path);
    for (int nth = 1; killed; nth++) {
        struct manager *c;

        os_rmtree(dir);
        killed = killed_at(CALLS, nth, works);
        left += count_tmp();
        c = start();
        manager_close(&c); /* first: a manager that runs writes files of its own */
        assert_int_equal(count_tmp(), 0);
    }
    assert_true(left > 3); /* or this test sees nothing */
}

/* Only what it wrote: a file of somebody's own stays. */
static void test_others_stay(void **state)
{
    static const char *const names[] = {"notes.tmp", ".12.tmp", "12.tmp", "a.b.tmp",
                                        "a.12.tmpx", ".tmp",    "a12.tmp"};
    struct manager *c;
    char path[512];

    (void)state;
    unit_path("m2", dir);
    unit_path("s2", unix_path);
    assert_int_equal(os_mkdirs(dir, 0700), 0);
    for (unsigned i = 0; i < DLC_COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        close(open(path, O_CREAT | O_WRONLY, 0600));
    }
    snprintf(path, sizeof(path), "%s/admin.token.7.tmp", dir);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    c = start();
    manager_close(&c);
    assert_int_equal(count_tmp(), DLC_COUNT(names) - 1);
    assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_at_each_call),
        cmocka_unit_test(test_others_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
