// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/syscalls.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"

#define END_TIMEOUT_MS 30000

/* A descriptor that becomes readable when the process at the other end is gone; -1: not to be had.
 */
static int peer_pidfd(int sock)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.pid <= 0)
        return -1;
    return (int)syscall(SYS_pidfd_open, cred.pid, 0);
}

/* Until the daemon has let go of its directory: a new one may be started then. */
static int wait_for_end(int sock, int pidfd, struct dlc_err *err)
{
    struct pollfd p = {.fd = pidfd >= 0 ? pidfd : sock, .events = POLLIN};
    int n;

    do
        n = poll(&p, 1, END_TIMEOUT_MS);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return dlc_err_set(err, DLC_ETIMEDOUT,
                           "the daemon is still ending after %d s; see its log, or kill it",
                           END_TIMEOUT_MS / 1000);
    return 0;
}

static int stop(const struct config *config, int *pid, struct dlc_err *err)
{
    struct ctl c = CTL_INIT;
    struct msg answer = MSG_INIT;
    int pidfd = -1, rc = ctl_open(&c, config, false, err);

    if (rc == 0) {
        *pid = c.daemon_pid;
        pidfd = peer_pidfd(c.sock);
        rc = ctl_call_as(&c, config, json_pack("{s:s}", "op", "stop"), &answer, err);
    }
    if (rc == 0)
        rc = wait_for_end(c.sock, pidfd, err);
    else if (rc == DLC_ENODAEMON)
        dlc_err_set(err, rc, "no daemon answers at %s: nothing to stop", config->socket);
    msg_release(&answer);
    os_close(&pidfd);
    ctl_close(&c);
    return rc;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct args a = ARGS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int status, pid = 0;

    if (args_parse(&a, cmd, NULL, argc, argv, &status)) {
        if (stop(&a.config, &pid, &err) < 0)
            status = cli_fail(cmd, &err);
        else {
            if (!a.quiet)
                printf("the daemon (process %d) has ended\n", pid);
            status = end_output(cmd);
        }
    }
    args_release(&a);
    return status;
}

const struct command cmd_stop = {
    .name = "stop",
    .synopsis = "[OPTIONS]",
    .summary = "End the daemon in good order.",
    .details = "Asks the daemon to end and waits until it has. Programs that read from it go on, "
               "straight\n"
               "from the bucket; what they hold stays valid. The disk tier keeps its contents.\n"
               "A node of a cluster is ended only by its own user or root with a token of nodes or "
               "admins.",
    .examples = "  $ dlcache stop\n"
                "  $ dlcache stop --socket /run/dlcache/socket\n"
                "  $ dlcache stop --socket /run/dlcache/socket --token-file node.token\n",
    .run = run,
};
