// SPDX-License-Identifier: Apache-2.0
/* `dlcache manager`: the manager alone (src/manager), at its own address, until it is stopped. */
#include <signal.h>
#include <string.h>
#include <sys/un.h>

#include "base/backoff.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process_secrets.h"
#include "cli/commands.h"
#include "cli/server.h"
#include "manager/manager.h"
#include "operator/kube/node_review.h"
#include "sandbox/sandbox.h"

#define LISTEN_DEFAULT "127.0.0.1:7070"
#define FIRST_WAIT     DLC_MS(500) /* for a store that does not answer */
#define MOST_WAIT      DLC_SEC(5)

static const char *or_null(const char *s)
{
    return s != NULL && s[0] != '\0' ? s : NULL;
}

/* Beside the tokens: who may read those may use it. NULL: the directory's name is too long for one.
 */
static char *socket_path(const char *dir)
{
    char *path = mem_fmt("%s/manager.sock", dir);

    if (strlen(path) < sizeof(((struct sockaddr_un *)0)->sun_path))
        return path;
    log_warn("%s is too long for a socket: there is none, use the address and admin.token", path);
    mem_free(&path);
    return NULL;
}

static void announce(struct server *s, const struct manager *c, const char *socket)
{
    const struct config *config = s->config;

    server_ready(s,
                 "manager at %s://%s%s%s\n"
                 "tokens: %s/admin.token (people), %s/node.token (nodes)",
                 config->tls_cert[0] != '\0' ? "https" : "http", manager_address(c),
                 socket != NULL ? " and unix:" : "", socket != NULL ? socket : "", config->dir,
                 config->dir);
}

static int review(void *arg, const char *token, char **node, struct dlc_err *err)
{
    return node_review_ask(arg, token, node, err);
}

/* Nodes may be pods, whose tokens Kubernetes knows. */
static int open_reviewer(const struct config *config, struct kube_config *kube,
                         struct node_reviewer *out, struct dlc_err *err)
{
    struct node_review *r = NULL;
    int rc = 0;

    if (config->node_account[0] == '\0')
        return 0;
    rc = kube_config_load(kube, NULL, NULL, err);
    if (rc == 0)
        rc = node_review_new(kube, config->node_account, &r, err);
    if (rc == 0)
        *out = (struct node_reviewer){review, r};
    return rc;
}

static void close_reviewer(struct node_reviewer *v, struct kube_config *kube)
{
    struct node_review *r = v->arg;

    node_review_free(&r);
    kube_config_release(kube);
}

/* A store that does not answer yet (Redis starts, its name is not known yet) is waited for, so that
 * the order in which they start does not matter. In the background the starter wants an answer.
 * *out stays NULL without an error: it was told to end. */
static int open_manager(struct server *s, const struct manager_config *c, const sigset_t *ends,
                        struct manager **out, struct dlc_err *err)
{
    int rc = manager_open(c, out, err);

    for (unsigned n = 1; rc == DLC_EBUCKET && s->ready_fd < 0; n++) {
        log_at(n == 1 ? LOG_WARN : LOG_DEBUG, "%s; the manager starts when its store answers",
               err->text);
        if (!server_pause(ends, backoff_after(n, FIRST_WAIT, MOST_WAIT)))
            return 0;
        *err = (struct dlc_err)DLC_ERR_INIT;
        rc = manager_open(c, out, err);
    }
    return rc;
}

static int manage(struct server *s, struct dlc_err *err)
{
    const struct config *config = s->config;
    char *socket = socket_path(config->dir);
    struct manager_config cc = {
        .dir = config->dir,
        .store = or_null(config->store),
        .listen = config->listen[0] != '\0' ? config->listen : LISTEN_DEFAULT,
        .unix_path = socket,
        .tls_cert = or_null(config->tls_cert),
        .tls_key = or_null(config->tls_key),
        .advertise = or_null(config->advertise),
        .tenant_networks = config->tenant_networks,
        .audit_log = or_null(config->audit_log),
        .node_ttl = config->node_ttl,
        .rebalance_interval = config->rebalance_interval,
        .ticket_life = config->ticket_life,
        .job_ttl = config->job_ttl,
        .keep_ended = config->keep_ended,
        .keep_accounting = config->keep_accounting,
        .lock_ttl = config->lock_ttl,
        .certificate_life = config->certificate_life,
        .no_shared_node_token = !config->shared_node_token,
    };
    const struct sandbox_plan plan = {
        .role = SANDBOX_MANAGER, .config = config, .as_user = server_open_log};
    struct kube_config kube = KUBE_CONFIG_INIT;
    struct manager *c = NULL;
    sigset_t ends;
    int rc;

    server_block_signals(&ends);
    rc = sandbox_enter(&plan, err);
    if (rc == 0)
        rc = open_reviewer(config, &kube, &cc.reviewer, err);
    if (rc == 0)
        rc = open_manager(s, &cc, &ends, &c, err);
    if (rc == 0 && c != NULL) {
        announce(s, c, socket);
        server_wait(s, &ends);
        manager_close(&c);
    }
    close_reviewer(&cc.reviewer, &kube);
    mem_free(&socket);
    return rc;
}

static int check(const struct config *config, struct dlc_err *err)
{
    if ((config->tls_cert[0] == '\0') != (config->tls_key[0] == '\0'))
        return dlc_err_set(err, DLC_EINVAL, "--tls-cert and --tls-key need each other");
    if (config->lock_ttl.ns < DLC_MS(500).ns || config->node_ttl.ns < DLC_MS(500).ns)
        return dlc_err_set(err, DLC_EINVAL, "--lock-ttl and --node-ttl must be 500ms or more");
    if (config->certificate_life.ns < DLC_SEC(2).ns)
        return dlc_err_set(err, DLC_EINVAL, "--certificate-life must be 2s or more");
    if (config->ticket_life.ns < DLC_SEC(1).ns)
        return dlc_err_set(err, DLC_EINVAL, "--ticket-life must be 1s or more");
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

    if (args_parse(&a, cmd, options, argc, argv, &status)) {
        process_keep_secrets();
        status = check(&a.config, &err) < 0 || config_read_url_files(&a.config, &err) < 0
                     ? cli_fail(cmd, &err)
                     : server_run(cmd, &a, background, manage);
    }
    args_release(&a);
    return status;
}

const struct command cmd_manager = {
    .name = "manager",
    .synopsis = "[--background] [--listen HOST:PORT] [--store URL] [SETTINGS]",
    .summary = "Run a control plane: tenants, datasets, jobs, nodes.",
    .details =
        "Answers the HTTP API of docs/manager.md until it is interrupted. At its first start it\n"
        "makes admin.token, node.token and manager.key in --dir: keep that directory. Give\n"
        "node.token to the nodes, admin.token to people who administer.\n"
        "\n"
        "Several managers on one Redis take over from each other; they need the same three files.\n"
        "Listens on " LISTEN_DEFAULT
        " unless told otherwise. Beyond this machine use --tls-cert and\n"
        "--tls-key, since tokens travel with each request.",
    .examples = "  $ dlcache manager\n"
                "  $ dlcache manager --listen 0.0.0.0:7070 --dir /var/lib/dlcache \\\n"
                "        --tls-cert cert.pem --tls-key key.pem\n"
                "  $ dlcache manager --store redis://10.0.0.5:6379 --listen 0.0.0.0:7070\n",
    .run = run,
    .roles = ROLE_MANAGER,
    .subs = manager_subs,
};
