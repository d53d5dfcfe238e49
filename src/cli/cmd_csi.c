// SPDX-License-Identifier: Apache-2.0
/* `dlcache csi`: the CSI driver of a machine (src/operator/csi), until it is stopped. */
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/server.h"
#include "operator/csi/csi_driver.h"

/* Gives the directory of the node's socket. */
static char *socket_dir(const char *socket)
{
    const char *slash = strrchr(socket, '/');

    return slash == NULL ? mem_str(".") : mem_strn(socket, (size_t)(slash - socket));
}

static int drive(struct server *s, struct dlc_err *err)
{
    const struct config *config = s->config;
    char *sockets = socket_dir(config->socket);
    const char *kubelet = config->kubelet_socket;
    const struct csi_config c = {
        .socket = config->driver_socket,
        .kubelet_socket = kubelet[0] != '\0' ? kubelet : config->driver_socket,
        .registration = config->registration[0] != '\0' ? config->registration : NULL,
        .node_id = config->name,
        .dirs = {sockets, config->volume_dir}};
    struct csi_driver *d = NULL;
    sigset_t ends;
    int rc;

    server_block_signals(&ends);
    rc = config->name[0] == '\0'
             ? dlc_err_set(err, DLC_EINVAL,
                           "which machine is this? Give --name, as Kubernetes names it")
             : server_open_log(config, err);
    if (rc == 0)
        rc = csi_driver_start(&c, &d, err);
    if (rc == 0) {
        server_ready(s, CSI_DRIVER_NAME " at %s", config->driver_socket);
        server_wait(s, &ends);
        csi_driver_stop(&d);
    }
    mem_free(&sockets);
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
        status = server_run(cmd, &a, background, drive);
    args_release(&a);
    return status;
}

const struct command cmd_csi = {
    .name = "csi",
    .synopsis = "--name NAME [--registration DIR] [SETTINGS]",
    .summary = "Run the CSI driver: puts the node's socket into pods.",
    .details =
        "Volumes of the driver csi.dlcache.io hold the socket of the machine's node, so that pods\n"
        "need no hostPath and their namespaces can be restricted. The directory of --socket is "
        "what\n"
        "pods see; --name is the machine as Kubernetes names it. It runs as root beside\n"
        "`dlcache node`; deploy/ has the manifests. See docs/kubernetes.md.",
    .examples =
        "  $ dlcache csi --name machine-1 --registration /registration --kubelet-socket \\\n"
        "      /var/lib/kubelet/plugins/csi.dlcache.io/csi.sock\n",
    .roles = ROLE_CSI,
    .run = run,
};
