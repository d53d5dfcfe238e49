// SPDX-License-Identifier: Apache-2.0
/* Finds the daemon, and starts one if none answers. */
#include "client/daemon.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/err.h"
#include "base/fork_fds.h"
#include "base/mem.h"
#include "base/socket_dir.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "ipc/node_marker.h"

#define LOCK_PAUSE DLC_MS(10)  /* between looks at the lock of another starter */
#define IDLE_EXIT  DLC_SEC(60) /* unless the settings say how long */

extern char **environ;

/* ---- connect ---- */

/* Waits for room in the daemon's queue, in slices. */
static int connect_until(int fd, const struct sockaddr_un *addr, struct dlc_mono deadline)
{
    for (;;) {
        int64_t left = dlc_mono_sub(deadline, dlc_mono_now()).ns;
        const struct timeval slice = {.tv_usec =
                                          DLC_CLAMP(left, 1000000, INTERRUPT_EVERY.ns) / 1000};

        os_setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &slice, sizeof(slice));
        if (os_connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0)
            return 0;
        if ((errno != EINTR && errno != EAGAIN) || left <= 0 || interrupted())
            return -1;
    }
}

/* errno: EACCES. The kernel keeps us out, so the daemon cannot say who it is. */
static void no_way_in(const struct config *c, struct dlc_err *err)
{
    char *closed = socket_dir_closed(c->socket);
    struct stat st;

    if (closed != NULL)
        dlc_err_set(
            err, DLC_EDENIED,
            "may not connect to %s: %s is closed to user %d; the daemon opens it when it is "
            "started with --allow-uid %d",
            c->socket, closed, (int)geteuid(), (int)geteuid());
    else
        dlc_err_set(err, DLC_EDENIED,
                    "may not connect to %s: the daemon of user %d does not serve user %d; start it "
                    "with --allow-uid %d",
                    c->socket, os_stat(c->socket, &st) == 0 ? (int)st.st_uid : -1, (int)geteuid(),
                    (int)geteuid());
    mem_free(&closed);
}

int daemon_connect(const struct config *c, struct dlc_mono deadline, struct dlc_err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct ucred cred;
    socklen_t len = sizeof(cred);
    const struct timeval none = {0};
    int fd;

    if (strlen(c->socket) >= sizeof(addr.sun_path))
        return dlc_err_set(err, DLC_EINVAL, "socket path %s is longer than %zu bytes", c->socket,
                           sizeof(addr.sun_path) - 1);
    memcpy(addr.sun_path, c->socket, strlen(c->socket) + 1);
    fork_fds_lock(); /* a child with a copy would hide from the daemon that we have ended */
    fd = os_socket(AF_UNIX, SOCK_STREAM);
    fork_fds_add(fd);
    fork_fds_unlock();
    if (fd < 0)
        return dlc_err_sys(err, "cannot make a socket");
    if (connect_until(fd, &addr, deadline) < 0) {
        if (errno == EACCES || errno == EPERM)
            no_way_in(c, err);
        else if (interrupted())
            interrupt_err(err);
        else if (errno == EAGAIN || errno == EINTR)
            dlc_err_set(err, DLC_ETIMEDOUT, "the daemon at %s takes no calls: is it stopped?",
                        c->socket);
        else
            dlc_err_set(err, DLC_ENODAEMON, "no daemon answers at %s (%s)", c->socket,
                        strerror(errno));
        os_close(&fd);
        return err->code;
    }
    os_setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
    if (os_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ||
        (!config_trusts(c, cred.uid) && !socket_dir_vouches(c->socket, cred.uid))) {
        os_close(&fd);
        return dlc_err_set(
            err, DLC_EDENIED,
            "the daemon at %s runs as user %d, neither you (%d) nor root: trust it with "
            "DLCACHE_ALLOW_UID=%d, or choose another DLCACHE_SOCKET",
            c->socket, (int)cred.uid, (int)geteuid(), (int)cred.uid);
    }
    return fd;
}

/* ---- start ---- */

static bool runnable(const char *path)
{
    struct stat st;

    return os_stat(path, &st) == 0 && S_ISREG(st.st_mode) && os_access(path, X_OK) == 0;
}

/* Beside the file that holds this code: an installed library, the build tree, the program itself,
 * or the Python package, installed ("bin/") and in the build tree. */
static char *beside_us(void)
{
    static const char *const places[] = {"dlcache",           "../bin/dlcache",
                                         "../../bin/dlcache", "src/cli/dlcache",
                                         "bin/dlcache",       "../../src/cli/dlcache"};
    char *real = NULL, *found = NULL;
    Dl_info info;
    const char *dir;

    if (dladdr((const void *)(uintptr_t)daemon_spawn, &info) != 0 && info.dli_fname != NULL)
        real = os_realpath(info.dli_fname);
    if (real == NULL)
        return NULL;
    dir = dirname(real);
    for (size_t i = 0; i < DLC_COUNT(places) && found == NULL; i++) {
        found = mem_fmt("%s/%s", dir, places[i]);
        if (!runnable(found))
            mem_free(&found);
    }
    free(real); /* of libc */
    return found;
}

static char *in_path(void)
{
    const char *dirs = getenv("PATH");

    while (dirs != NULL && *dirs != '\0') {
        size_t n = strcspn(dirs, ":");
        char *p = mem_fmt("%.*s/dlcache", (int)n, dirs);

        if (n > 0 && runnable(p))
            return p;
        mem_free(&p);
        dirs += n + (dirs[n] == ':');
    }
    return NULL;
}

static char *find_program(void)
{
    const char *env = getenv("DLCACHE_PROGRAM");
    char *p;

    if (env != NULL && env[0] != '\0')
        return mem_str(env);
    p = beside_us();
    return p != NULL ? p : in_path();
}

/* Read what the starting program says until it lets go of the pipe. false: it did not in time. */
static bool collect(int fd, struct dlc_mono deadline, struct buf *said)
{
    char chunk[512];

    while (!dlc_mono_passed(deadline, dlc_mono_now()) && !interrupted()) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n;

        if (os_poll(&p, 1, (int)(INTERRUPT_EVERY.ns / 1000000)) <= 0)
            continue;
        n = os_read(fd, chunk, sizeof(chunk));
        if (n == 0 || (n < 0 && errno != EINTR))
            return true;
        if (n > 0 && said->len < 4096)
            buf_add(said, chunk, (size_t)n);
    }
    return false;
}

/* A child with a copy would keep it open: we would wait for its end, not for the daemon. */
static int private_pipe(int fds[static 2])
{
    int rc;

    fork_fds_lock();
    rc = os_pipe(fds);
    if (rc == 0) {
        fork_fds_add(fds[0]);
        fork_fds_add(fds[1]);
    }
    fork_fds_unlock();
    return rc;
}

/* A child with a copy would hold the lock for as long as it lives. */
static int private_lock(const char *path)
{
    int fd;

    fork_fds_lock();
    fd = os_open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    fork_fds_add(fd);
    fork_fds_unlock();
    return fd;
}

static int run_program(const char *program, const struct config *c, struct dlc_mono deadline,
                       struct dlc_err *err)
{
    struct dlc_dur idle = c->idle_exit.ns > 0 ? c->idle_exit : IDLE_EXIT;
    char *idle_ms = mem_fmt("%lldms", (long long)DLC_MAX(idle.ns / 1000000, 1));
    const char *const argv[] = {program, "serve", "--background", "--socket", c->socket,
                                "--dir", c->dir,  "--idle-exit",  idle_ms,    NULL};
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t attr;
    struct buf said = BUF_INIT;
    sigset_t none, usual;
    int fds[2], status = 0, rc = 0;
    pid_t pid;

    if (private_pipe(fds) < 0) {
        mem_free(&idle_ms);
        return dlc_err_sys(err, "cannot make a pipe to the daemon");
    }
    sigemptyset(&none);
    sigemptyset(&usual); /* a program that ignores these must not make the daemon ignore them */
    sigaddset(&usual, SIGCHLD);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGTERM);
    sigaddset(&usual, SIGINT);
    sigaddset(&usual, SIGHUP);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&fa, fds[1], 1);
    posix_spawn_file_actions_adddup2(&fa, fds[1], 2);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigdefault(&attr, &usual);
    posix_spawnattr_setsigmask(&attr, &none);
    errno = os_spawn(&pid, program, &fa, &attr, (char *const *)(uintptr_t)argv, environ);
    os_close(&fds[1]);
    if (errno != 0) {
        rc = dlc_err_set(err, DLC_ENODAEMON, "cannot start %s: %s", program, strerror(errno));
    } else {
        bool late = !collect(fds[0], deadline, &said);

        if (late && os_waitpid(pid, &status, WNOHANG) == 0)
            kill(pid, SIGKILL); /* not the daemon: what waits for it */
        while (os_waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        /* Where SIGCHLD is ignored there is no status; the next connect will tell. */
        if (late)
            rc = dlc_err_set(err, DLC_ENODAEMON, "the daemon at %s is still starting", c->socket);
        else if (status != 0)
            rc = dlc_err_set(err, DLC_ENODAEMON, "cannot start a daemon: %s",
                             said.len > 0 ? str_trim(said.data) : program);
    }
    posix_spawn_file_actions_destroy(&fa);
    posix_spawnattr_destroy(&attr);
    os_close(&fds[0]);
    buf_release(&said);
    mem_free(&idle_ms);
    return rc;
}

/* The lock of who starts a daemon: it may take its time. */
static int lock_until(int fd, const struct config *c, struct dlc_mono deadline, struct dlc_err *err)
{
    while (os_flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return dlc_err_sys(err, "cannot lock %s.start", c->socket);
        if (interrupted())
            return interrupt_err(err);
        if (dlc_mono_passed(deadline, dlc_mono_now()))
            return dlc_err_set(err, DLC_ENODAEMON,
                               "another program is starting a daemon at %s and has not finished",
                               c->socket);
        dlc_sleep(LOCK_PAUSE);
    }
    return 0;
}

int daemon_spawn(const struct config *c, struct dlc_mono deadline, struct dlc_err *err)
{
    char *lock = mem_fmt("%s.start", c->socket), *copy = mem_str(c->socket), *program = NULL;
    int fd = -1, probe, rc = node_marker_refuse(c->socket, DLC_ENODAEMON, err);

    if (rc < 0)
        goto out;
    if (os_mkdirs(dirname(copy), 0700) < 0 || (fd = private_lock(lock)) < 0) {
        rc = dlc_err_sys(err, "cannot make %s", lock);
        goto out;
    }
    if ((rc = lock_until(fd, c, deadline, err)) < 0)
        goto out;
    /* Somebody else may have started one while we waited for the lock. */
    probe = daemon_connect(c, deadline, err);
    rc = probe >= 0 ? 0 : probe;
    os_close(&probe);
    if (rc != DLC_ENODAEMON)
        goto out;
    program = find_program();
    if (program == NULL)
        rc = dlc_err_set(
            err, DLC_ENODAEMON,
            "no daemon answers at %s and the program `dlcache` was not found: put it in "
            "PATH, set DLCACHE_PROGRAM, or run `dlcache serve`",
            c->socket);
    else
        rc = run_program(program, c, deadline, err);
out:
    mem_free(&program);
    mem_free(&lock);
    mem_free(&copy);
    os_close(&fd);
    return rc;
}
