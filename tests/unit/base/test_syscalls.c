// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/syscalls.h"

static char dir[256];

static const char *at(const char *name)
{
    static char path[2][512];
    static int turn;

    turn = !turn;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", dir, name);
    return path[turn];
}

static int setup(void **state)
{
    (void)state;
    unit_path("os", dir);
    return os_mkdirs(dir, 0700);
}

static int teardown(void **state)
{
    struct stat st;

    (void)state;
    os_rmtree(dir);
    return stat(dir, &st) == 0 ? -1 : 0;
}

static unsigned entries(void)
{
    char cmd[600];
    unsigned n = 0;
    FILE *p;

    snprintf(cmd, sizeof(cmd), "ls -A %s | wc -l", dir);
    p = popen(cmd, "r");
    assert_non_null(p);
    assert_int_equal(fscanf(p, "%u", &n), 1);
    pclose(p);
    return n;
}

static void test_open_sets_close_on_exec(void **state)
{
    int fd = os_open(dir, O_RDONLY | O_DIRECTORY, 0), sub;

    (void)state;
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    sub = os_open(at("file"), O_CREAT | O_RDWR, 0600);
    assert_true(sub >= 0);
    assert_true(fcntl(sub, F_GETFD) & FD_CLOEXEC);
    os_close(&sub);
    assert_int_equal(sub, -1);
    os_close(&sub); /* -1 is allowed */
    os_close(&fd);
    unlink(at("file"));
}

static void test_read_and_write_all(void **state)
{
    int fd = os_open(at("data"), O_CREAT | O_RDWR, 0600);
    char back[8] = {0};

    (void)state;
    assert_int_equal(os_write_all(fd, "0123", 4), 0);
    assert_int_equal(os_pwrite_all(fd, "AB", 2, 3), 0);
    assert_int_equal(os_pread_all(fd, back, 5, 0), 0);
    assert_memory_equal(back, "012AB", 5);
    errno = 0;
    assert_int_equal(os_pread_all(fd, back, 6, 0), -1); /* one byte too many */
    assert_int_equal(errno, EIO);
    assert_int_equal(os_pread_all(fd, back, 0, 99), 0);
    os_close(&fd);
    errno = 0;
    assert_int_equal(os_write_all(-1, "x", 1), -1);
    assert_int_equal(errno, EBADF);
    unlink(at("data"));
}

static void test_memfd_map(void **state)
{
    int fd = os_memfd("test");
    char *w;
    const char *r;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(os_ftruncate(fd, 1 << 20), 0);
    w = os_map(fd, 0, 1 << 20, true);
    r = os_map(fd, 0, 1 << 20, false);
    assert_non_null(w);
    assert_non_null(r);
    memset(w, 'x', 1 << 20);
    assert_int_equal(r[(1 << 20) - 1], 'x');
    os_unmap(w, 1 << 20);
    os_unmap(r, 1 << 20);
    os_unmap(NULL, 0);
    assert_null(os_map(-1, 0, 4096, false));
    os_close(&fd);
}

static void test_fallocate_reserves(void **state)
{
    int fd = os_open(at("reserved"), O_CREAT | O_RDWR, 0600);
    struct stat st;

    (void)state;
    assert_int_equal(os_fallocate(fd, 0), 0);
    assert_int_equal(os_fallocate(fd, 123456), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 123456);
    os_close(&fd);
    unlink(at("reserved"));
}

static void test_mkdirs(void **state)
{
    struct stat st;

    (void)state;
    assert_int_equal(os_mkdirs(at("a/b/c"), 0750), 0);
    assert_int_equal(stat(at("a/b/c"), &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(os_mkdirs(at("a/b/c"), 0750), 0);
    assert_int_equal(os_mkdirs(at("a//b/d/"), 0750), 0);
    assert_int_equal(os_mkdirs("/", 0755), 0);
    assert_int_equal(os_mkdirs("", 0755), -1);
    assert_int_equal(os_write_file(at("a/file"), "x", 1, 0600, NULL), 0);
    errno = 0;
    assert_int_equal(os_mkdirs(at("a/file"), 0755), -1);
    assert_int_equal(errno, ENOTDIR);
    assert_int_equal(os_mkdirs(at("a/file/b"), 0755), -1);
    os_rmtree(at("a"));
    assert_int_equal(stat(at("a"), &st), -1);
}

static void test_whole_files(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct buf b = BUF_INIT;
    static char big[100000];
    struct stat st;

    (void)state;
    memset(big, 'z', sizeof(big));
    assert_int_equal(os_write_file(at("whole"), big, sizeof(big), 0640, &err), 0);
    assert_int_equal(stat(at("whole"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(os_read_file(at("whole"), sizeof(big), &b, &err), 0);
    assert_int_equal(b.len, sizeof(big));
    assert_memory_equal(b.data, big, sizeof(big));
    buf_clear(&b);
    assert_int_equal(os_read_file(at("whole"), sizeof(big) - 1, &b, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "larger than 99999 bytes"));
    assert_int_equal(os_read_file(at("absent"), 10, &b, &err), DLC_ENOTFOUND);
    assert_non_null(strstr(err.text, "absent"));
    assert_int_equal(os_read_file(dir, 10, &b, &err),
                     DLC_EIO); /* a directory opens, but has no bytes */
    assert_int_equal(os_write_file(at("no/such/dir"), "x", 1, 0600, &err), DLC_ENOTFOUND);
    buf_release(&b);
    unlink(at("whole"));
    assert_int_equal(entries(), 0);
}

/* Every failing call leaves the old file or the new one, and no temporary file. */
static void test_write_file_faults(void **state)
{
    bool fired = true;

    (void)state;
    for (int nth = 1; fired; nth++) {
        struct dlc_err err = DLC_ERR_INIT;
        struct buf b = BUF_INIT;
        int rc;

        assert_true(nth < 20);
        assert_int_equal(os_write_file(at("f"), "old", 3, 0600, NULL), 0);
        fault_arm(FAULT_SYSCALL, nth);
        rc = os_write_file(at("f"), "newer", 5, 0600, &err);
        fired = fault_disarm();
        assert_true(fired == (rc < 0));
        assert_true((err.code < 0) == fired);
        assert_int_equal(os_read_file(at("f"), 10, &b, NULL), 0);
        if (strcmp(buf_str(&b), "newer") != 0) { /* else only the directory was not synced */
            assert_true(fired);
            assert_string_equal(buf_str(&b), "old");
        }
        assert_int_equal(entries(), 1);
        buf_release(&b);
    }
    unlink(at("f"));
}

static void test_read_file_faults(void **state)
{
    bool fired = true;

    (void)state;
    assert_int_equal(os_write_file(at("f"), "text", 4, 0600, NULL), 0);
    for (int nth = 1; fired; nth++) {
        struct dlc_err err = DLC_ERR_INIT;
        struct buf b = BUF_INIT;
        int rc;

        assert_true(nth < 20);
        fault_arm(FAULT_SYSCALL, nth);
        rc = os_read_file(at("f"), 10, &b, &err);
        fired = fault_disarm();
        assert_true(fired == (rc < 0));
        assert_true(!fired || strlen(err.text) > 0);
        buf_release(&b);
    }
    unlink(at("f"));
}

static void test_each_wrapper_can_fail(void **state)
{
    char byte = 0;
    int fd = os_memfd("test");

    (void)state;
#define FAILS(call)                                                                                \
    do {                                                                                           \
        fault_arm(FAULT_SYSCALL, 1);                                                               \
        errno = 0;                                                                                 \
        assert_true(call);                                                                         \
        assert_true(fault_disarm());                                                               \
        assert_true(errno != 0);                                                                   \
    } while (0)
    FAILS(os_open(dir, O_RDONLY, 0) < 0);
    FAILS(os_open_beneath(fd, ".", O_RDONLY) < 0);
    FAILS(os_open_without_links(fd, ".", O_RDONLY) < 0);
    FAILS(os_memfd("x") < 0);
    FAILS(os_rename(dir, dir) < 0);
    FAILS(os_fsync(fd) < 0);
    FAILS(os_ftruncate(fd, 1) < 0);
    FAILS(os_fallocate(fd, 1) < 0);
    FAILS(os_map(fd, 0, 4096, false) == NULL);
    FAILS(os_pread_all(fd, &byte, 1, 0) < 0);
    FAILS(os_pwrite_all(fd, &byte, 1, 0) < 0);
    FAILS(os_write_all(fd, &byte, 1) < 0);
    FAILS(os_mkdirs(dir, 0700) < 0);
#undef FAILS
    os_close(&fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_sets_close_on_exec),
        cmocka_unit_test(test_read_and_write_all),
        cmocka_unit_test(test_memfd_map),
        cmocka_unit_test(test_fallocate_reserves),
        cmocka_unit_test(test_mkdirs),
        cmocka_unit_test(test_whole_files),
        cmocka_unit_test(test_write_file_faults),
        cmocka_unit_test(test_read_file_faults),
        cmocka_unit_test(test_each_wrapper_can_fail),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
