// SPDX-License-Identifier: Apache-2.0
/* The directory of a socket: its mode whatever the umask, whose directories are opened to others, and
 * which directory keeps them out. */
#include "unit.h"

#include <sys/stat.h>

#include "base/mem.h"
#include "base/socket_dir.h"

static mode_t mode_of(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

static void make(const char *name, bool shared, mode_t expect)
{
    char path[256], *socket;

    unit_path(name, path);
    socket = mem_fmt("%s/s", path);
    assert_int_equal(socket_dir_make(socket, shared), 0);
    assert_int_equal(mode_of(path), expect);
    mem_free(&socket);
}

static void test_modes(void **state)
{
    char path[256];

    (void)state;
    umask(077);
    make("shared", true, 0755);
    umask(0);
    make("private", false, 0700);
    make("private", true, 0700); /* somebody chose that name and that mode */
    make("dlcache", false, 0700);
    make("dlcache", true, 0755); /* ours: a private daemon was here before */
    make("dlcache", false, 0755);
    make("dlcache-7", false, 0700);
    make("dlcache-7", true, 0755);
    make("dlcachex", false, 0700);
    make("dlcachex", true, 0700);
    assert_int_equal(symlink("private", unit_path("dlcache-8", path)), 0);
    make("dlcache-8", true, 0700); /* what a link leads to is not ours by name */
    assert_int_equal(socket_dir_make("/proc/nothing/here/s", true), -1);
    umask(022);
}

static void test_who_is_kept_out(void **state)
{
    char path[256], *socket, *closed;

    (void)state;
    assert_int_equal(chmod(unit_path("", path), 0755), 0);
    socket = mem_fmt("%sopen/in/s", path);
    assert_int_equal(socket_dir_make(socket, true), 0);
    closed = socket_dir_closed(socket);
    assert_null(closed);
    assert_int_equal(chmod(unit_path("open", path), 0700), 0);
    closed = socket_dir_closed(socket);
    assert_string_equal(closed, path);
    mem_free(&closed);
    mem_free(&socket);
}

static void test_only_the_place_of_the_machine_vouches(void **state)
{
    char path[256];

    (void)state;
    make("dlcache", true, 0755);
    assert_false(socket_dir_vouches(unit_path("dlcache/s", path), geteuid()));
    assert_false(socket_dir_vouches(MACHINE_SOCKET, 64321));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_who_is_kept_out),
        cmocka_unit_test(test_only_the_place_of_the_machine_vouches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
