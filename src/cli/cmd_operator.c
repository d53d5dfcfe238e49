// SPDX-License-Identifier: Apache-2.0
/* `dlcache operator`: the Kubernetes operator (src/operator), until it is stopped. */
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/server.h"
#include "operator/operator.h"
#include "sandbox/sandbox.h"

#define LISTEN_DEFAULT "127.0.0.1:8080"
#define NS_DEFAULT     "dlcache-system"

static const char *env_or(const char *name, const char *other)
{
    const char *v = getenv(name);

    return v != NULL && v[0] != '\0' ? v : other;
}

/* --namespace, $POD_NAMESPACE, that of the service account, else where the manifests put it. */
static const char *own_namespace(const struct config *config, const struct kube_config *kube)
{
    const char *in_pod = kube->token_file != NULL ? kube->namespace : NS_DEFAULT;

    return config->namespace[0] != '\0' ? config->namespace : env_or("POD_NAMESPACE", in_pod);
}

static const char *or_null(const char *s)
{
    return s[0] != '\0' ? s : NULL;
}

static int check(const struct config *config, struct dlc_err *err)
{
    if (config->manager[0] == '\0')
        return dlc_err_set(err, DLC_EINVAL,
                           "where is the manager? Give --manager URL or set DLCACHE_MANAGER");
    if (config->lease.ns % DLC_SEC(1).ns != 0)
        return dlc_err_set(err, DLC_EINVAL, "--lease: only whole seconds are allowed");
    return 0;
}

static int operate(struct server *s, struct dlc_err *err)
{
    const struct config *config = s->config;
    struct kube_config kube = KUBE_CONFIG_INIT;
    struct operator_config c = {
        .kube = &kube,
        .config = config,
        .webhook = or_null(config->webhook),
        .lease = config->lease,
        .workers = (unsigned)config->workers,
    };
    const struct sandbox_plan plan = {
        .role = SANDBOX_OPERATOR,
        .config = config,
        .webhook = c.webhook,
        .as_user = server_open_log,
    };
    struct dlc_operator *running = NULL;
    sigset_t ends;
    int rc = check(config, err);

    server_block_signals(&ends);
    if (rc == 0)
        rc = sandbox_enter(&plan, err);
    if (rc == 0)
        rc = kube_config_load(&kube, or_null(config->kubeconfig), or_null(config->context), err);
    if (rc == 0) {
        c.ns = own_namespace(config, &kube);
        c.name = env_or("POD_NAME", NULL);
        c.listen = config->listen[0] != '\0' ? config->listen : LISTEN_DEFAULT;
        rc = operator_start(&c, &running, err);
    }
    if (rc == 0) {
        server_ready(s,
                     "operator at http://%s\n"
                     "Kubernetes at %s, own namespace %s, manager %s",
                     operator_address(running), kube.server, c.ns, config->manager);
        server_wait(s, &ends);
        operator_stop(&running);
    }
    kube_config_release(&kube);
    return rc;
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
        status = server_run(cmd, &a, background, operate);
    args_release(&a);
    return status;
}

const struct command cmd_operator = {
    .name = "operator",
    .synopsis = "--manager URL [--kubeconfig FILE] [--webhook HOST:PORT] [SETTINGS]",
    .summary = "Run the operator of Kubernetes: DLTPods and CachedDatasets.",
    .details =
        "Follows DLTPods and CachedDatasets of a cluster and makes them so: data registered and\n"
        "warmed, pods placed where it lies, status told, everything taken away at the end. See\n"
        "docs/kubernetes.md; deploy/ has the manifests that run it.\n"
        "\n"
        "Kubernetes is found by --kubeconfig, $KUBECONFIG, the service account of the pod, or\n"
        "~/.kube/config. The manager's token is that of --token-file or DLCACHE_TOKEN, else\n"
        "admin.token in the Secret dlcache-manager, which is made when it is missing. A manager\n"
        "at https:// must have a certificate of --manager-ca, else of ca.crt in that Secret.\n"
        "\n"
        "Of several replicas one leads (Lease dlcache-operator). /healthz, /readyz and /metrics\n"
        "are at --listen, " LISTEN_DEFAULT " unless told otherwise.",
    .examples = "  $ dlcache operator --manager http://127.0.0.1:7070 --kubeconfig ~/.kube/config\n"
                "  $ dlcache operator --listen 0.0.0.0:8080 --webhook 0.0.0.0:8443\n",
    .run = run,
    .roles = ROLE_OPERATOR,
};
