// SPDX-License-Identifier: Apache-2.0
/*
 * `dlcache serve`: the daemon, in the foreground or in the background. In the background a child
 * serves; its parent waits until the socket answers, so that the caller can connect at once, or
 * until the child has reported an error.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/process_secrets.h"
#include "bucket/credentials/command_helper.h"
#include "cli/commands.h"
#include "cluster/agent.h"
#include "cluster/membership.h"
#include "daemon/daemon.h"
#include "sandbox/sandbox.h"

#define LOG_MAX (1 << 20) /* an older log is begun again when it is larger than that */

struct serving {
    const struct config *config;
    int ready_fd; /* background: told when the socket answers */
    bool quiet;
    struct node_cluster cluster;
};

/* ---- foreground ---- */

static void announce(void *arg)
{
    const struct serving *s = arg;

    if (!s->quiet)
        fprintf(stderr, "serving at %s, data in %s; end with ^C or `dlcache stop`\n",
                s->config->socket, s->config->dir);
}

static int serve(const struct command *cmd, const struct config *config,
                 const struct node_start *start)
{
    const struct sandbox_plan plan = {SANDBOX_SERVE, config, NULL, command_helper_start};
    struct dlc_err err = DLC_ERR_INIT;

    log_level_parse(config->log_level, &log_threshold);
    if (sandbox_enter(&plan, &err) < 0 || node_main(config, start, &err) < 0)
        return cli_fail(cmd, &err);
    return CLI_OK;
}

/* ---- background ---- */

/* From now on what we say goes to DIR/daemon.log, or nowhere. */
static void turn_to_log(const struct config *config)
{
    char *path = mem_fmt("%s/daemon.log", config->dir);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    struct stat st;

    if (log >= 0 && fstat(log, &st) == 0 && st.st_size > LOG_MAX && ftruncate(log, 0) < 0)
        log_warn("cannot start a new %s", path);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(log >= 0 ? log : null, STDERR_FILENO);
    os_close(&null);
    os_close(&log);
    mem_free(&path);
}

static void tell_parent(void *arg)
{
    struct serving *s = arg;

    turn_to_log(s->config);
    if (os_write_all(s->ready_fd, "R", 1) < 0)
        log_warn("the program that started this daemon is gone");
    os_close(&s->ready_fd);
}

static int in_child(const struct command *cmd, struct serving *s)
{
    const struct node_start start = {tell_parent, s, node_has_control ? &s->cluster : NULL,
                                     &membership_ops};

    setsid();
    if (chdir("/") < 0)
        log_warn("cannot leave the directory: %s", strerror(errno));
    return serve(cmd, s->config, &start);
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

static int serve_behind(const struct command *cmd, struct serving *s)
{
    struct dlc_err err = DLC_ERR_INIT;
    int fds[2], status;
    pid_t child;

    /* What the starter left open is not ours: a pipe held here would never end for its reader. */
    close_range(STDERR_FILENO + 1, UINT_MAX, 0);
    if (pipe2(fds, O_CLOEXEC) < 0 || (child = fork()) < 0) {
        dlc_err_sys(&err, "cannot start a process");
        return cli_fail(cmd, &err);
    }
    if (child == 0) {
        os_close(&fds[0]);
        s->ready_fd = fds[1];
        return in_child(cmd, s);
    }
    os_close(&fds[1]);
    status = in_parent(child, fds[0], s->quiet);
    os_close(&fds[0]);
    return status;
}

/* What would have no effect: the API is at the socket alone unless it listens. */
static int check(const struct config *c, struct dlc_err *err)
{
    bool cert = c->tls_cert[0] != '\0', key = c->tls_key[0] != '\0';

    if (cert != key)
        return dlc_err_set(err, DLC_EINVAL, "--tls-cert and --tls-key need each other");
    if (cert && c->listen[0] == '\0')
        return dlc_err_set(err, DLC_EINVAL,
                           "--tls-cert has no effect without --listen HOST:PORT: add that, or "
                           "remove it");
    return 0;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    bool background = false;
    struct args a = ARGS_INIT;
    struct serving s = {.config = &a.config, .ready_fd = -1, .cluster = {.inside = true}};
    const struct args_option options[] = {
        {"background", 'b', NULL, "Return when the daemon answers, and print its process number.",
         &background, NULL},
        {NULL, 0, NULL, NULL, NULL, NULL},
    };
    const struct node_start start = {announce, &s, node_has_control ? &s.cluster : NULL,
                                     &membership_ops};
    struct dlc_err err = DLC_ERR_INIT;
    int status;

    if (args_parse(&a, cmd, options, argc, argv, &status)) {
        s.quiet = a.quiet;
        if (check(&a.config, &err) < 0 || config_read_url_files(&a.config, &err) < 0) {
            status = cli_fail(cmd, &err);
            args_release(&a);
            return status;
        }
        s.cluster.name = a.config.name[0] != '\0' ? a.config.name : NULL;
        s.cluster.api = a.config.listen[0] != '\0' ? a.config.listen : NULL;
        status = background ? serve_behind(cmd, &s) : serve(cmd, &a.config, &start);
    }
    args_release(&a);
    return status;
}

const struct command cmd_serve = {
    .name = "serve",
    .synopsis = "[--background] [--listen HOST:PORT] [SETTINGS]",
    .summary = "Run the daemon.",
    .details =
        "Serves datasets to all programs of this user on this machine, until it is told to stop, "
        "is\n"
        "interrupted, or was idle for --idle-exit. You need not run it by hand: programs that use\n"
        "libdlcache and the commands ls, cat, warm and bench start one when none answers, which "
        "ends\n"
        "after a minute without clients. Run it yourself to choose its settings and to keep it.\n"
        "\n"
        "Warnings go to standard error; in the background, to daemon.log in --dir.\n"
        "\n"
        "A control plane is inside (docs/cluster.md): its API answers at the socket with .api "
        "behind its\n"
        "name, to you alone, and with --listen to all who show a token.",
    .examples = "  $ dlcache serve --memory 16GB --dir /mnt/ssd/dlcache\n"
                "  $ dlcache serve --background --log-level info\n"
                "  $ DLCACHE_DISK=0 dlcache serve                  without a disk tier\n",
    .run = run,
    .roles = ROLE_SERVE,
};
