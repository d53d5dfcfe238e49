// SPDX-License-Identifier: Apache-2.0
#include "cli/server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"

#define LOG_MAX (1 << 20) /* a log in --dir that is larger is begun again at the start */

/* ---- log ---- */

/* Text to people, or a line of JSON where somebody collects those. */
static bool is_json(const struct config *c)
{
    return strcmp(c->log_format, "json") == 0;
}

static void set_log(const struct server *s)
{
    log_set_level(s->config->log_level);
    log_set_json(is_json(s->config), s->cmd->name);
}

int server_open_log(const struct config *c, struct dlc_err *err)
{
    return c->log_file[0] != '\0' ? log_open(c->log_file, err) : 0;
}

/* In the background: DIR/daemon.log unless --log-file names another. */
static int default_log(struct server *s, struct dlc_err *err)
{
    struct config *c = s->config;
    struct stat st;

    if (c->log_file[0] != '\0')
        return 0;
    if ((s->cmd->roles & (ROLE_OPERATOR | ROLE_CSI)) != 0)
        return dlc_err_set(err, DLC_EINVAL, "--background needs --log-file FILE");
    mem_free(&c->log_file);
    c->log_file =
        mem_fmt("%s/%s.log", c->dir, strcmp(s->cmd->name, "serve") == 0 ? "daemon" : s->cmd->name);
    if (os_mkdirs(c->dir, 0700) < 0)
        return dlc_err_sys(err, "cannot make %s (choose another place with --dir)", c->dir);
    if (os_stat(c->log_file, &st) == 0 && st.st_size > LOG_MAX)
        os_unlink(c->log_file);
    return 0;
}

/* ---- systemd ---- */

/* sd_notify(3): a datagram to the socket of $NOTIFY_SOCKET. "@" begins an abstract name. */
static int open_notify(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    size_t len = path != NULL ? strlen(path) : 0;
    int fd;

    if (len < 2 || len >= sizeof(addr.sun_path) || (path[0] != '/' && path[0] != '@'))
        return -1;
    memcpy(addr.sun_path, path, len + 1);
    if (path[0] == '@')
        addr.sun_path[0] = '\0';
    fd = os_socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK);
    if (fd >= 0 && os_connect(fd, (const struct sockaddr *)&addr,
                              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
        os_close(&fd);
    return fd;
}

static void notify(const struct server *s, const char *text)
{
    if (s->notify_fd >= 0 && os_write(s->notify_fd, text, strlen(text)) < 0)
        log_debug("systemd is not told: %s", strerror(errno));
}

/* ---- ready ---- */

/* From now on what we say goes to the log alone. */
static void tell_starter(struct server *s)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    os_dup2(null, STDIN_FILENO);
    os_dup2(null, STDOUT_FILENO);
    os_close(&null);
    log_take_stderr();
    if (os_write_all(s->ready_fd, "R", 1) < 0)
        log_warn("the program that started this one is gone");
    os_close(&s->ready_fd);
}

void server_ready(struct server *s, const char *fmt, ...)
{
    char text[4096];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (is_json(s->config))
        log_info("%s", text);
    else if (!s->quiet && s->ready_fd < 0)
        fprintf(stderr, "%s; end with ^C%s\n", text,
                (s->cmd->roles & (ROLE_SERVE | ROLE_NODE)) != 0 ? " or `dlcache stop`" : "");
    if (s->ready_fd >= 0)
        tell_starter(s);
    notify(s, "READY=1");
}

/* ---- signals ---- */

static void block_hangup(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void server_block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

void server_wait(struct server *s, const sigset_t *set)
{
    int number = 0;

    while (sigwait(set, &number) != 0 || number == SIGHUP) {
        if (number == SIGHUP)
            server_reload(s);
    }
    notify(s, "STOPPING=1");
}

bool server_pause(const sigset_t *set, struct dlc_dur d)
{
    const struct timespec t = {.tv_sec = d.ns / 1000000000, .tv_nsec = d.ns % 1000000000};
    int number = sigtimedwait(set, NULL, &t);

    return number != SIGTERM && number != SIGINT;
}

void server_reload(struct server *s)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (log_reopen(&err) < 0)
        log_error("SIGHUP: %s", err.text);
    if (config_reload(s->config, s->cmd->roles, s->cmd->name, &err) < 0)
        log_error("SIGHUP: nothing is changed: %s", err.text);
    set_log(s);
    log_info("SIGHUP: settings were read again");
}

/* ---- running ---- */

static int run_here(struct server *s, int (*work)(struct server *s, struct dlc_err *err))
{
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    s->notify_fd = open_notify();
    rc = work(s, &err);
    os_close(&s->notify_fd);
    if (rc == 0)
        return CLI_OK;
    if (log_path() != NULL)
        log_error("%s", err.text);
    return cli_fail(s->cmd, &err);
}

/* The child is ready, or it has printed its error and ended. */
static int in_parent(pid_t child, int ready_fd, bool quiet)
{
    int status = 0;
    ssize_t n;
    char c;

    do
        n = read(ready_fd, &c, 1);
    while (n < 0 && errno == EINTR);
    if (n == 1) {
        if (!quiet)
            printf("%d\n", (int)child);
        return CLI_OK;
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : CLI_FAILED;
}

static int run_behind(struct server *s, int (*work)(struct server *s, struct dlc_err *err))
{
    struct dlc_err err = DLC_ERR_INIT;
    int fds[2], status;
    pid_t child;

    if (default_log(s, &err) < 0)
        return cli_fail(s->cmd, &err);
    /* What the starter left open is not ours: a pipe held here would never end for its reader. */
    close_range(STDERR_FILENO + 1, UINT_MAX, 0);
    if (pipe2(fds, O_CLOEXEC) < 0 || (child = fork()) < 0) {
        dlc_err_sys(&err, "cannot start a process");
        return cli_fail(s->cmd, &err);
    }
    if (child == 0) {
        os_close(&fds[0]);
        s->ready_fd = fds[1];
        setsid();
        if (chdir("/") < 0)
            log_warn("cannot leave the directory: %s", strerror(errno));
        return run_here(s, work);
    }
    os_close(&fds[1]);
    status = in_parent(child, fds[0], s->quiet);
    os_close(&fds[0]);
    return status;
}

int server_run(const struct command *cmd, struct args *a, bool background,
               int (*work)(struct server *s, struct dlc_err *err))
{
    struct server s = {
        .cmd = cmd, .config = &a->config, .quiet = a->quiet, .ready_fd = -1, .notify_fd = -1};

    set_log(&s);
    block_hangup();
    return background ? run_behind(&s, work) : run_here(&s, work);
}
