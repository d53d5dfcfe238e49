// SPDX-License-Identifier: Apache-2.0
/* The filter of system calls, in force in a child: what it refuses, and what goes on working. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "base/check.h"
#include "base/syscalls.h"
#include "sandbox/seccomp_i.h"

enum { WORKED = 200, NO_FILTER = 201 };

/* What f returns or, if that is -1, the errno, of a child with the filter in force. WORKED: 0 or
 * more. */
static int filtered(long (*f)(void))
{
    pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0) {
        unsetenv("DLCACHE_TEST_SANDBOX");
        if (prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 || seccomp_install() < 0)
            _exit(NO_FILTER);
        errno = 0;
        _exit(f() >= 0 ? WORKED : errno);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_not_equal(WEXITSTATUS(status), NO_FILTER);
    return WEXITSTATUS(status);
}

/* ---- refused ---- */

static long call_execve(void)
{
    char name[] = "true", *argv[] = {name, NULL};

    return execve("/bin/true", argv, NULL);
}

static long call_execveat(void)
{
    char name[] = "true", *argv[] = {name, NULL};

    return syscall(SYS_execveat, AT_FDCWD, "/bin/true", argv, NULL, 0);
}

static long call_spawn(void)
{
    char name[] = "true", *argv[] = {name, NULL};

    errno = posix_spawn(&(pid_t){0}, "/bin/true", NULL, NULL, argv, NULL);
    return errno == 0 ? 0 : -1;
}

static long call_fork(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    return pid;
}

static long call_ptrace(void)
{
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static long call_mount(void)
{
    return mount("none", "/proc", "tmpfs", 0, NULL);
}

static long call_unshare(void)
{
    return unshare(CLONE_NEWUSER);
}

static long call_setuid(void)
{
    return (long)syscall(SYS_setuid, 0);
}

static long call_keyctl(void)
{
    return syscall(SYS_keyctl, 0, -1, 0); /* KEYCTL_GET_KEYRING_ID of the thread */
}

static long call_bpf(void)
{
    return syscall(SYS_bpf, 0, NULL, 0);
}

static long call_io_uring(void)
{
    return syscall(425, 1, NULL); /* io_uring_setup() */
}

static long call_perf(void)
{
    return syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0);
}

static long call_userfaultfd(void)
{
    return syscall(SYS_userfaultfd, 0);
}

static long call_handle(void)
{
    return syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, 0);
}

static long call_process_vm(void)
{
    return syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0);
}

static long call_kill_parent(void)
{
    return kill(getppid(), 0);
}

static long call_symlink(void)
{
    return symlinkat("/etc/shadow", AT_FDCWD, "/nowhere/link");
}

static long call_chroot(void)
{
    return chroot("/");
}

static long call_packet_socket(void)
{
    return socket(AF_PACKET, SOCK_RAW, 0);
}

static long call_vsock(void)
{
    return socket(AF_VSOCK, SOCK_STREAM, 0);
}

static long call_tty_input(void)
{
    return ioctl(STDIN_FILENO, TIOCSTI, "x");
}

static long call_dumpable(void)
{
    return prctl(PR_SET_DUMPABLE, 1L, 0L, 0L, 0L);
}

static long call_limit_of_parent(void)
{
    return prlimit(getppid(), RLIMIT_NOFILE, NULL, &(struct rlimit){0});
}

static long map_writable_code(void)
{
    void *p =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? -1 : 0;
}

static long make_code(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? 0 : mprotect(p, 4096, PROT_READ | PROT_EXEC);
}

static void test_refused(void **state)
{
    static long (*const calls[])(void) = {
        call_execve,   call_execveat,    call_spawn,  call_fork,         call_ptrace,
        call_mount,    call_unshare,     call_setuid, call_keyctl,       call_bpf,
        call_io_uring, call_perf,        call_handle, call_process_vm,   call_userfaultfd,
        call_symlink,  call_kill_parent, call_chroot, call_vsock,        call_packet_socket,
        call_dumpable, call_tty_input,   make_code,   map_writable_code, call_limit_of_parent,
    };

    (void)state;
    for (size_t i = 0; i < unit_count(calls); i++) {
        if (filtered(calls[i]) != EPERM)
            fail_msg("call %zu of the table is not refused: %d", i, filtered(calls[i]));
    }
}

/* ---- as if the kernel did not have it ---- */

static long call_clone3(void)
{
    return syscall(435, NULL, 0);
}

static long call_future(void)
{
    return syscall(1000);
}

static void test_absent(void **state)
{
    (void)state;
    assert_int_equal(filtered(call_clone3), ENOSYS);
    assert_int_equal(filtered(call_future), ENOSYS);
}

/* ---- allowed ---- */

static void *in_thread(void *arg)
{
    *(long *)arg = call_execve() < 0 && errno == EPERM ? 0 : -1;
    return NULL;
}

static long start_thread(void)
{
    long rc = -1;
    pthread_t t;

    if ((errno = pthread_create(&t, NULL, in_thread, &rc)) != 0 || pthread_join(t, NULL) != 0)
        return -1;
    return rc;
}

static long use_files(void)
{
    char path[256];
    int fd = os_open(unit_path("file", path), O_RDWR | O_CREAT, 0600), dir;

    if (fd < 0 || os_pwrite_all(fd, "x", 1, 0) < 0 || fsync(fd) < 0 || unlink(path) < 0)
        return -1;
    dir = os_open("/proc/self", O_RDONLY | O_DIRECTORY, 0);
    return dir < 0 ? -1 : os_open_beneath(dir, "stat", O_RDONLY);
}

static long use_sockets(void)
{
    struct addrinfo *found = NULL;
    int fds[2];

    if (getaddrinfo("localhost", "80", NULL, &found) != 0)
        return -1;
    freeaddrinfo(found);
    return socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0 ? -1 : os_write_all(fds[0], "x", 1);
}

static long use_memory(void)
{
    int fd = os_memfd("test");
    void *p;

    if (fd < 0 || os_ftruncate(fd, 4096) < 0 || (p = os_map(fd, 0, 4096, true)) == NULL)
        return -1;
    os_unmap(p, 4096);
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
}

static void test_allowed(void **state)
{
    (void)state;
    assert_int_equal(filtered(start_thread), WORKED);
    assert_int_equal(filtered(use_files), WORKED);
    assert_int_equal(filtered(use_sockets), WORKED);
    assert_int_equal(filtered(use_memory), WORKED);
}

/* Calls with 32-bit numbers come by another way than the list looks at. */
static void test_other_architecture(void **state)
{
#ifdef __x86_64__
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        long answer = 20; /* getpid() of i386; execve() of it is 11 */

        if (prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 || seccomp_install() < 0)
            _exit(NO_FILTER);
        __asm__ volatile("int $0x80" : "+a"(answer) : : "memory", "r8", "r9", "r10", "r11");
        _exit(WORKED);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
#endif
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_absent),
        cmocka_unit_test(test_allowed),
        cmocka_unit_test(test_other_architecture),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
