// SPDX-License-Identifier: Apache-2.0
/* Who a node is: one directory, one process at a time; another instance with each start. */
#include "unit.h"

#include <sys/stat.h>

#include "base/syscalls.h"
#include "cluster/identity.h"

static void one_process_at_a_time(void **state)
{
    struct identity a, b, c;
    char dir[256];

    (void)state;
    unit_path("id/deep", dir);
    identity_open(&a, dir);
    identity_open(&b, dir); /* as another process would */
    assert_int_equal(strlen(a.instance), IDENTITY_LEN);
    assert_int_equal(strlen(a.directory), IDENTITY_LEN);
    assert_string_equal(b.directory, "");
    assert_string_not_equal(a.instance, b.instance);
    identity_close(&b);
    identity_close(&a);
    identity_open(&c, dir);
    assert_string_equal(c.directory, a.directory);
    assert_string_not_equal(c.instance, a.instance);
    identity_close(&c);
}

/* The lock is given back by whatever ends the process. */
static void a_process_that_is_killed(void **state)
{
    struct identity a;
    char dir[256];
    pid_t pid;
    int ready[2];
    char byte;

    (void)state;
    unit_path("killed", dir);
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        identity_open(&a, dir);
        if (write(ready[1], "x", 1) == 1)
            pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    identity_open(&a, dir);
    assert_string_equal(a.directory, "");
    identity_close(&a);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    identity_open(&a, dir);
    assert_int_equal(strlen(a.directory), IDENTITY_LEN);
    identity_close(&a);
    close(ready[0]);
    close(ready[1]);
}

static void nonsense_in_the_file(void **state)
{
    static const char *const texts[] = {"", "short", "0123456789abcdef0123456789abcdeg",
                                        "\xff\xff"};
    struct identity a, b;
    char dir[256], path[300];

    (void)state;
    unit_path("odd", dir);
    mkdir(dir, 0700);
    snprintf(path, sizeof(path), "%s/node.id", dir);
    for (size_t i = 0; i < unit_count(texts); i++) {
        assert_int_equal(os_write_file(path, texts[i], strlen(texts[i]), 0600, NULL), 0);
        identity_open(&a, dir);
        assert_int_equal(strlen(a.directory), IDENTITY_LEN);
        identity_close(&a);
        identity_open(&b, dir);
        assert_string_equal(b.directory, a.directory);
        identity_close(&b);
    }
}

static void a_directory_that_cannot_be(void **state)
{
    struct identity a;

    (void)state;
    identity_open(&a, "/dev/null/x");
    assert_string_equal(a.directory, "");
    assert_int_equal(strlen(a.instance), IDENTITY_LEN);
    identity_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_process_at_a_time),
        cmocka_unit_test(a_process_that_is_killed),
        cmocka_unit_test(nonsense_in_the_file),
        cmocka_unit_test(a_directory_that_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
