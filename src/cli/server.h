// SPDX-License-Identifier: Apache-2.0
/*
 * What `serve`, `node`, `manager`, `operator` and `csi` have in common: the log, the background, readiness,
 * and SIGHUP.
 *
 *     static int work(struct server *s, struct dlc_err *err) { ... server_ready(s, "..."); ... }
 *     status = server_run(cmd, &args, background, work);
 *
 * (SERVER-1) SIGHUP never ends the process: it is blocked from the start, and reloads once the
 *            server is ready.
 * (SERVER-2) In the background the starter returns when the server is ready, or with its error.
 */
#ifndef DLC_CLI_SERVER_H
#define DLC_CLI_SERVER_H

#include <signal.h>

#include "base/clock.h"
#include "cli/args.h"

struct server {
    const struct command *cmd;
    struct config *config; /* changed by server_reload() alone, on the thread of its caller */
    bool quiet;
    int ready_fd;  /* in the background: the starter reads there; else -1 */
    int notify_fd; /* of systemd; -1: none */
};

/* --background, for the options of a server. */
#define SERVER_BACKGROUND(on)                                                                      \
    {                                                                                              \
        "background", 'b', NULL, "Return when it answers, and print its process number.", (on),    \
            NULL                                                                                   \
    }

/* Run `work` here or in the background. Returns the exit status, errors printed and logged. */
int server_run(const struct command *cmd, struct args *a, bool background,
               int (*work)(struct server *s, struct dlc_err *err));

/* For sandbox_plan.as_user: opens --log-file. */
int server_open_log(const struct config *c, struct dlc_err *err);

/* It answers: say so to people, to the starter and to systemd. */
void server_ready(struct server *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Open the log again; read the settings again, and take those that may change (config_reload()). */
void server_reload(struct server *s);

/* For a server that ends with SIGTERM or SIGINT: blocks them, for server_wait(), and ignores
 * SIGPIPE. Before any thread is made, so that all of them have it and only the caller gets them. */
void server_block_signals(sigset_t *set);
/* Until one of them comes; SIGHUP reloads. */
void server_wait(struct server *s, const sigset_t *set);
/* As long as `d`, before the server is ready. False: it was told to end. */
bool server_pause(const sigset_t *set, struct dlc_dur d);

#endif
