// SPDX-License-Identifier: Apache-2.0
/*
 * credential_process: a command of the user's that prints credentials as JSON. It runs in a process
 * group of its own with an empty standard input and our standard error, for at most a minute. In a
 * sandbox, which starts no programs, a helper runs it (command_helper.h).
 */
#include "bucket/credentials/lookup_i.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/syscalls.h"
#include "bucket/credentials/command_helper.h"
#include "bucket/credentials/parse_i.h"
#include "base/secret.h"

#define OUTPUT_MAX 65536
#define TIME_LIMIT DLC_SEC(60)

extern char **environ;

int command_spawn(const char *command, int out_fd, pid_t *pid)
{
    char sh[] = "sh", opt[] = "-c", *argv[] = {sh, opt, (char *)(uintptr_t)command, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, usual;
    int e;

    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGINT);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out_fd, STDOUT_FILENO);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &usual);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                        POSIX_SPAWN_SETPGROUP);
    e = os_spawn(pid, "/bin/sh", &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    errno = e;
    return e == 0 ? 0 : -1;
}

/* Wait until fd is readable (or closed by the other side): 0, DLC_ECANCELED or DLC_ETIMEDOUT. */
static int wait_for(int fd, int stop_fd, struct dlc_mono deadline)
{
    struct pollfd p[] = {{fd, POLLIN, 0}, {stop_fd, POLLIN, 0}};
    int64_t left;

    do {
        left = dlc_mono_sub(deadline, dlc_mono_now()).ns / 1000000;
        if (left <= 0)
            return DLC_ETIMEDOUT;
    } while (os_poll(p, 2, (int)left) <= 0);
    return p[1].revents != 0 ? DLC_ECANCELED : 0;
}

/* All that the command prints. */
static int read_output(int fd, int stop_fd, struct dlc_mono deadline, struct buf *out)
{
    int rc;

    buf_reserve(out, OUTPUT_MAX + 1);
    for (;;) {
        ssize_t n;

        rc = wait_for(fd, stop_fd, deadline);
        if (rc < 0)
            return rc;
        n = os_read(fd, out->data + out->len, OUTPUT_MAX + 1 - out->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? DLC_EIO : 0;
        out->len += (size_t)n;
        out->data[out->len] = '\0';
        if (out->len > OUTPUT_MAX)
            return DLC_EPROTO;
    }
}

/* Wait for the end of the command, by force if rc says that it failed already or it is late. */
static int reap(pid_t pid, int rc, int stop_fd, struct dlc_mono deadline, int *status)
{
    int pidfd = os_pidfd(pid);

    if (rc == 0 && pidfd >= 0)
        rc = wait_for(pidfd, stop_fd, deadline);
    os_close(&pidfd);
    if (rc < 0)
        kill(-pid, SIGKILL);
    while (os_waitpid(pid, status, 0) < 0) {
        if (errno != EINTR) { /* the program that we are a library of reaps all children */
            *status = 0;
            break;
        }
    }
    return rc;
}

/* The same of a command that the helper runs: it kills what it runs when the connection closes. */
static int reap_helped(int *conn, int rc, int stop_fd, struct dlc_mono deadline, int *status)
{
    if (rc == 0)
        rc = wait_for(*conn, stop_fd, deadline);
    if (rc == 0 && os_read(*conn, status, sizeof(*status)) != (ssize_t)sizeof(*status))
        rc = DLC_EIO;
    os_close(conn);
    return rc;
}

/* Either *pid or *conn says who runs it. */
static int start(const struct lookup *l, const char *command, int out_fd, pid_t *pid, int *conn,
                 struct dlc_err *err)
{
    int rc = command_helper_runs() ? command_helper_request(l->profile, out_fd, conn)
                                   : command_spawn(command, out_fd, pid);

    if (rc == 0)
        return 0;
    if (errno == EPERM)
        return dlc_err_set(err, DLC_EDENIED,
                           "the sandbox of this daemon runs no commands, since no profile named "
                           "one when the daemon started: restart it");
    return dlc_err_sys(err, "cannot run /bin/sh");
}

static int run(const struct lookup *l, const char *command, struct buf *out, int *status,
               struct dlc_err *err)
{
    struct dlc_mono deadline = dlc_mono_add(dlc_mono_now(), TIME_LIMIT);
    int fds[2], conn = -1, rc;
    pid_t pid = -1;

    if (os_pipe(fds) < 0)
        return dlc_err_sys(err, "cannot make a pipe");
    rc = start(l, command, fds[1], &pid, &conn, err);
    os_close(&fds[1]);
    if (rc == 0) {
        rc = read_output(fds[0], l->stop_fd, deadline, out);
        rc = conn >= 0 ? reap_helped(&conn, rc, l->stop_fd, deadline, status)
                       : reap(pid, rc, l->stop_fd, deadline, status);
        if (rc < 0)
            dlc_err_set(err, rc, "%s",
                        rc == DLC_ETIMEDOUT   ? "no answer in 60 s"
                        : rc == DLC_EPROTO    ? "it prints too much"
                        : rc == DLC_ECANCELED ? "given up"
                                              : "cannot read what it prints");
    }
    os_close(&fds[0]);
    return rc;
}

int process_credentials(struct lookup *l, const char *command, struct credentials *out,
                        struct dlc_err *err)
{
    struct buf text = BUF_INIT;
    int status = 0, rc;

    rc = run(l, command, &text, &status, err);
    if (rc == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        rc = dlc_err_set(err, DLC_EDENIED, "it ended with %s %d; try it by hand",
                         WIFEXITED(status) ? "status" : "signal",
                         WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    if (rc == 0)
        rc = answer_json(buf_str(&text), text.len, out, err);
    if (rc < 0)
        dlc_err_prefix(err, "credential_process of profile \"%s\"", l->profile);
    secret_buf_release(&text);
    return rc;
}
