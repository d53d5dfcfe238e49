// SPDX-License-Identifier: Apache-2.0
/*
 * Every descriptor that the daemon hands out, attacked by a client of the daemon's own user: what is
 * for reading cannot be written in any way, what is for writing keeps its size, and a file of the
 * disk tier may be changed, but no reader takes the bytes. So a tenant can neither change what another
 * one reads, nor kill the daemon by truncating what it maps. All of it as root, where the tests run
 * as root, and as another user.
 */
#include "daemon.h"

#include <grp.h>
#include <sys/wait.h>

#include "base/check.h"

#include "seal_attack.h"

#define NOBODY 65534

#define N    8u
#define SIZE 100000u

static void test_no_descriptor_is_writable(void **state)
{
    static const unsigned for_reading[] = {0, 1, 4}; /* header, index, catalog */
    struct daemon d;
    char url[512];
    struct dlc_dataset *other;
    struct msg m = MSG_INIT;
    unsigned done = 0, extents;
    int sock;

    (void)state;
    daemon_init(&d, "d", "1MB", false);
    daemon_start(&d);
    other = open_at(&d, dataset("v", N, SIZE, "", url), 5000);
    for (unsigned i = 0; i < N; i++)
        read_one(other, i);
    sock = dial_greeted(&d);
    tell(sock, json_pack("{s:s, s:s}", "op", "open", "url", url), &m);
    assert_true(json_is_true(json_object_get(m.body, "ok")));
    for (unsigned i = 0; i < DLC_COUNT(for_reading); i++)
        done += seal_attack(m.fds[for_reading[i]]);
    msg_release(&m);
    tell(sock, json_pack("{s:s, s:i}", "op", "extents", "from", 0), &m);
    extents = m.n_fds;
    for (unsigned i = 0; i < extents; i++)
        done += seal_attack(m.fds[i]);
    msg_release(&m);
    assert_true(extents > 0);
    assert_int_equal(done, 0);
    for (unsigned i = 0; i < N; i++)
        read_one(other, i); /* compares every byte */
    os_close(&sock);
    dlc_close(&other);
    daemon_end(&d);
}

/* May its size be changed? */
static unsigned size_attack(int fd)
{
    char path[40];
    unsigned done = 0;
    struct stat st;
    int again;

    assert_int_equal(fstat(fd, &st), 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    again = open(path, O_RDWR | O_CLOEXEC);
    for (int k = 0; k < 2; k++) {
        int through = k == 0 ? fd : again;

        done += ftruncate(through, st.st_size - 4096) == 0;
        done += ftruncate(through, st.st_size + 4096) == 0;
        done += fallocate(through, 0, st.st_size, 4096) == 0;
        done += fcntl(through, F_ADD_SEALS, F_SEAL_WRITE) == 0;
    }
    close(again);
    return done;
}

/* The session's memory and the upload slots of a decoded cache. */
static void test_what_clients_write_keeps_its_size(void **state)
{
    struct daemon d;
    char url[512];
    struct msg m = MSG_INIT;
    int sock;

    (void)state;
    daemon_init(&d, "w", "1MB", false);
    daemon_start(&d);
    dataset("v", N, SIZE, "", url);
    sock = dial_greeted(&d);
    tell(sock, json_pack("{s:s, s:s, s:s}", "op", "open", "url", url, "decoded", "x"), &m);
    assert_true(json_is_true(json_object_get(m.body, "ok")));
    assert_int_equal(m.n_fds, 7);
    assert_int_equal(size_attack(m.fds[2]), 0);
    assert_int_equal(size_attack(m.fds[6]), 0);
    assert_int_equal(seal_attack(m.fds[0]) + seal_attack(m.fds[1]), 0);
    msg_release(&m);
    os_close(&sock);
    daemon_end(&d);
}

static void change_file(int fd, unsigned how)
{
    char path[40];
    int rw;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    assert_int_equal(fchmod(fd, 0600), 0);
    rw = open(path, O_RDWR | O_CLOEXEC);
    assert_true(rw >= 0); /* as the attacker may: it is the owner */
    if (how == 0)
        assert_int_equal(pwrite(rw, "POISON", 6, 1000), 6);
    else if (how == 1)
        assert_int_equal(ftruncate(rw, 0), 0);
    else
        assert_int_equal(fallocate(rw, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096), 0);
    close(rw);
}

/* Samples that do not fit into memory are read from files of the disk tier. */
static void test_changed_files_reach_no_reader(void **state)
{
    struct daemon d;
    char url[512];
    struct dlc_dataset *other;
    struct msg m = MSG_INIT;
    int sock;

    (void)state;
    daemon_init(&d, "f", "1MB", true);
    daemon_start(&d);
    other = open_at(&d, dataset("large", 3, 900000, "", url), 5000);
    sock = dial_greeted(&d);
    tell(sock, json_pack("{s:s, s:s}", "op", "open", "url", url), &m);
    msg_release(&m);
    for (unsigned how = 0; how < 3; how++) {
        read_one(other, how);
        tell(sock, json_pack("{s:s, s:i, s:b}", "op", "map", "sample", (int)how, "compares", 1),
             &m);
        assert_true(json_is_true(json_object_get(m.body, "ok")));
        assert_int_equal(m.n_fds, 1);
        change_file(m.fds[0], how);
        msg_release(&m);
        read_one(other, how); /* compares every byte */
    }
    os_close(&sock);
    dlc_close(&other);
    daemon_end(&d);
}

static int run(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_descriptor_is_writable),
        cmocka_unit_test(test_what_clients_write_keeps_its_size),
        cmocka_unit_test(test_changed_files_reach_no_reader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* In a process of another user, with a directory of its own. */
static int run_as_nobody(const char *above)
{
    char dir[256];
    int status = 1;
    pid_t pid;

    snprintf(dir, sizeof(dir), "%s/nobody", above);
    if (chmod(above, 0711) < 0 || mkdir(dir, 0700) < 0 || chown(dir, NOBODY, NOBODY) < 0)
        return 1;
    pid = fork();
    if (pid == 0) {
        setenv("TEST_DIR", dir, 1);
        setenv("HOME", dir, 1);
        if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
            setresuid(NOBODY, NOBODY, NOBODY) < 0)
            exit(1);
        exit(run());
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}

int main(void)
{
    const char *dir = getenv("TEST_DIR");
    int failed = geteuid() == 0 && dir != NULL ? run_as_nobody(dir) : 0;

    return run() + failed;
}
