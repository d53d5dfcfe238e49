// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/command_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/syscalls.h"
#include "bucket/credentials/lookup_i.h"

#define PROFILE_MAX 1024
#define HELPER_FD   3 /* in the helper: beside the standard three its only descriptor */

enum { FD_OUT, FD_CONN, FD_LOG, N_FDS };

union control {
    struct cmsghdr align;
    char space[CMSG_SPACE(N_FDS * sizeof(int))];
};

static int helper = -1; /* set before there are threads */

/* ---- the worker: one command ---- */

/* Its status; killed if the daemon gives up. */
static int wait_for_end(pid_t pid, int conn)
{
    int pidfd = os_pidfd(pid), status = -1;
    struct pollfd p[] = {{conn, POLLIN, 0}, {pidfd, POLLIN, 0}};

    while (os_poll(p, pidfd >= 0 ? 2 : 1, -1) < 0 && errno == EINTR)
        ;
    if (p[1].revents == 0)
        kill(-pid, SIGKILL);
    while (os_waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static _Noreturn void work(const char *profile, int fds[static N_FDS])
{
    struct profiles p = PROFILES_INIT;
    struct cloud_env env;
    const char *command;
    struct dlc_err err;
    pid_t pid;
    int status;

    signal(SIGCHLD, SIG_DFL);
    os_close(&(int){HELPER_FD});
    os_dup2(fds[FD_LOG], STDERR_FILENO);
    cloud_env_read(&env);
    command = profiles_load(&p, &env, &err) == 0 ? profiles_command(&p, profile) : NULL;
    if (command == NULL || command_spawn(command, fds[FD_OUT], &pid) < 0)
        _exit(1);
    os_close(&fds[FD_OUT]); /* whoever reads it sees its end when the command closes it */
    status = wait_for_end(pid, fds[FD_CONN]);
    _exit(os_write_all(fds[FD_CONN], &status, sizeof(status)) < 0);
}

/* ---- the helper ---- */

/* A request: its profile and descriptors. False: the daemon is gone. */
static bool receive(char profile[static PROFILE_MAX], int fds[static N_FDS])
{
    union control control;
    struct iovec io = {profile, PROFILE_MAX - 1};
    struct msghdr h = {.msg_iov = &io,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    ssize_t n = os_recvmsg(HELPER_FD, &h, 0);
    const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&h) : NULL;

    if (c == NULL || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(N_FDS * sizeof(int)))
        return false;
    profile[n] = '\0';
    memcpy(fds, CMSG_DATA(c), N_FDS * sizeof(int));
    return true;
}

static _Noreturn void help(int fd)
{
    int null = os_open("/dev/null", O_RDWR, 0);
    char profile[PROFILE_MAX];
    int fds[N_FDS];

    /* Ends with the daemon, not with its terminal; holds nothing open that the daemon was given. */
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0L, 0L, 0L);
    signal(SIGINT, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i <= STDERR_FILENO; i++)
        os_dup2(null, i);
    os_dup2(fd, HELPER_FD);
    close_range(HELPER_FD + 1, UINT_MAX, 0);
    while (receive(profile, fds)) {
        if (os_fork() == 0)
            work(profile, fds);
        for (unsigned i = 0; i < N_FDS; i++)
            os_close(&fds[i]);
    }
    _exit(0);
}

static bool has_command(const struct ini *i)
{
    for (size_t k = 0; k < i->n; k++) {
        if (strcasecmp(i->entries[k].name, "credential_process") == 0)
            return true;
    }
    return false;
}

static bool is_needed(void)
{
    struct profiles p = PROFILES_INIT;
    struct cloud_env env;
    struct dlc_err err;
    bool needed = false;

    cloud_env_read(&env);
    if (profiles_load(&p, &env, &err) == 0) { /* who uses a malformed file is told then */
        needed = has_command(&p.credentials) || has_command(&p.config);
        profiles_release(&p);
    }
    cloud_env_release(&env);
    return needed;
}

int command_helper_start(struct dlc_err *err)
{
    int fds[2];
    pid_t pid;

    dlc_check(helper < 0);
    if (!is_needed())
        return 0;
    if (os_socketpair(SOCK_SEQPACKET, fds) < 0)
        return dlc_err_sys(err, "cannot make a pair of sockets");
    pid = os_fork();
    if (pid == 0)
        help(fds[1]);
    os_close(&fds[1]);
    if (pid < 0) {
        os_close(&fds[0]);
        return dlc_err_sys(err, "cannot start the process that runs credential_process");
    }
    helper = fds[0];
    return 0;
}

bool command_helper_runs(void)
{
    return helper >= 0;
}

/* ---- the daemon ---- */

int command_helper_request(const char *profile, int out_fd, int *conn)
{
    int pair[2], fds[N_FDS] = {[FD_OUT] = out_fd, [FD_LOG] = STDERR_FILENO};
    union control control = {.space = {0}};
    struct iovec io = {(char *)(uintptr_t)profile, strlen(profile)};
    struct msghdr h = {.msg_iov = &io,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);
    ssize_t n;

    if (io.iov_len == 0 || io.iov_len >= PROFILE_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (os_socketpair(SOCK_STREAM, pair) < 0)
        return -1;
    fds[FD_CONN] = pair[1];
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(c), fds, sizeof(fds));
    n = os_sendmsg(helper, &h, 0);
    os_close(&pair[1]);
    if (n < 0) {
        os_close(&pair[0]);
        return -1;
    }
    *conn = pair[0];
    return 0;
}
