// SPDX-License-Identifier: Apache-2.0
/* `dlcache node`: the daemon as a node of a cluster, with its server for peers. */
#include "base/str.h"
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

    server_ready(s, "serving at %s, data in %s, manager %s", s->config->socket, s->config->dir,
                 s->config->manager);
}

static void reload(void *arg)
{
    server_reload(arg);
}

static bool is_wildcard(const char *listen)
{
    return str_starts(listen, "0.0.0.0:") || str_starts(listen, "[::]:") ||
           str_starts(listen, "*:") || listen[0] == ':';
}

static int check(struct node_cluster *m, const struct config *c, struct dlc_err *err)
{
    m->name = c->name[0] != '\0' ? c->name : NULL;
    m->capacity = c->capacity != CONFIG_AUTO ? c->capacity : 0;
    m->gpus = (unsigned)c->gpus;
    m->manager = c->manager;
    m->listen = c->listen[0] != '\0' ? c->listen : NULL;
    m->advertise = c->advertise[0] != '\0' ? c->advertise : NULL;
    if (!node_has_control)
        return dlc_err_set(err, DLC_EINVAL, "this dlcache was built without the control plane");
    if (c->manager[0] == '\0')
        return dlc_err_set(err, DLC_EINVAL,
                           "a node needs the address of its manager: --manager http://HOST:PORT");
    if (m->listen == NULL)
        return dlc_err_set(err, DLC_EINVAL,
                           "a node needs an address at which other nodes reach it: --listen "
                           "HOST:PORT");
    if (m->advertise == NULL && is_wildcard(m->listen))
        return dlc_err_set(err, DLC_EINVAL,
                           "--listen %s is every address of this host: say by which one other "
                           "nodes reach it, --advertise http://HOST:PORT, or listen there",
                           m->listen);
    return 0;
}

static int serve(struct server *s, struct dlc_err *err)
{
    struct node_cluster m = {.inside = false};
    const struct node_start start = {.ready = announce,
                                     .reload = reload,
                                     .arg = s,
                                     .cluster = &m,
                                     .ops = &membership_ops,
                                     .gateway = &gateway_ops};
    const struct sandbox_plan plan = {
        .role = SANDBOX_NODE,
        .config = s->config,
        .before = command_helper_start,
        .as_user = server_open_log,
    };
    int rc = check(&m, s->config, err);

    process_keep_secrets();
    if (rc == 0)
        rc = config_read_url_files(s->config, err);
    if (rc == 0)
        rc = sandbox_enter(&plan, err);
    return rc == 0 ? node_main(s->config, &start, err) : rc;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    bool background = false;
    const struct args_option options[] = {
        SERVER_BACKGROUND(&background),
        {NULL, 0, NULL, NULL, NULL, NULL},
    };
    struct args a = ARGS_INIT;
    int status;

    if (args_parse(&a, cmd, options, argc, argv, &status))
        status = server_run(cmd, &a, background, serve);
    args_release(&a);
    return status;
}

const struct command cmd_node = {
    .name = "node",
    .synopsis = "--manager URL --listen HOST:PORT [--background] [--name NAME] [SETTINGS]",
    .summary = "Run a node of a cluster; or list, show, drain nodes.",
    .details =
        "As `dlcache serve`, but what is opened, and by whom, is the manager's to say "
        "(docs/cluster.md).\n"
        "Nodes share datasets: each object is read from the bucket by the node that owns it, and "
        "by the\n"
        "others from there. Programs on this machine show the token of their tenant "
        "(DLCACHE_TOKEN).\n"
        "\n"
        "--token-file is a copy of the manager's node.token. A manager that is away stops "
        "nothing: what\n"
        "it has said before counts until it is back.\n"
        "\n"
        "With a subcommand it asks the manager about nodes instead, as `dlcache dataset` does.",
    .examples = "  $ dlcache node --manager http://10.0.0.1:7070 --listen 10.0.0.2:7071 "
                "--token-file node.token\n"
                "  $ dlcache node --manager http://a:7070,http://b:7070 --listen 0.0.0.0:7071 \\\n"
                "        --advertise http://gpu7:7071 --name gpu7 --capacity 500GB --gpus 8\n"
                "  $ dlcache node ls\n",
    .run = run,
    .roles = ROLE_NODE,
    .subs = node_subs,
};
