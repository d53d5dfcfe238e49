// SPDX-License-Identifier: Apache-2.0
/* `dlcache serve`: the daemon, in the foreground or in the background. */
#include "base/process_secrets.h"
#include "bucket/credentials/command_helper.h"
#include "cli/commands.h"
#include "cli/server.h"
#include "cluster/agent.h"
#include "cluster/membership.h"
#include "daemon/daemon.h"
#include "gateway/gateway.h"
#include "sandbox/sandbox.h"

static void announce(void *arg)
{
    struct server *s = arg;

    server_ready(s, "serving at %s, data in %s", s->config->socket, s->config->dir);
}

static void reload(void *arg)
{
    server_reload(arg);
}

static int serve(struct server *s, struct dlc_err *err)
{
    const struct config *c = s->config;
    const struct node_cluster cluster = {
        .inside = true,
        .name = c->name[0] != '\0' ? c->name : NULL,
        .api = c->listen[0] != '\0' ? c->listen : NULL,
    };
    const struct node_start start = {
        .ready = announce,
        .reload = reload,
        .arg = s,
        .cluster = node_has_control ? &cluster : NULL,
        .ops = &membership_ops,
        .gateway = &gateway_ops,
    };
    const struct sandbox_plan plan = {
        .role = SANDBOX_SERVE,
        .config = c,
        .before = command_helper_start,
        .as_user = server_open_log,
    };
    int rc = sandbox_enter(&plan, err);

    return rc == 0 ? node_main(c, &start, err) : rc;
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
    const struct args_option options[] = {
        SERVER_BACKGROUND(&background),
        {NULL, 0, NULL, NULL, NULL, NULL},
    };
    struct args a = ARGS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int status;

    if (args_parse(&a, cmd, options, argc, argv, &status))
        status = check(&a.config, &err) < 0 || config_read_url_files(&a.config, &err) < 0
                     ? cli_fail(cmd, &err)
                     : server_run(cmd, &a, background, serve);
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
        "Warnings go to standard error or --log-file; in the background, to daemon.log in --dir.\n"
        "SIGHUP opens the log again and reads settings again (docs/configuration.md).\n"
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
