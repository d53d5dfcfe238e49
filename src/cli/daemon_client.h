// SPDX-License-Identifier: Apache-2.0
/*
 * The command line's client of the daemon's socket protocol (docs/format/protocol.md): connect, say
 * hello, send a request, show progress, return the response or the daemon's error.
 */
#ifndef DLC_CLI_DAEMON_CLIENT_H
#define DLC_CLI_DAEMON_CLIENT_H

#include <stdbool.h>

#include <jansson.h>

#include "base/config.h"
#include "base/err.h"
#include "ipc/frame.h"

#define CTL_VERSION 1

struct ctl {
    int sock;
    int daemon_pid;
};

#define CTL_INIT                                                                                   \
    {                                                                                              \
        -1, 0                                                                                      \
    }

/*
 * Connect to the daemon of this configuration; with `start`, start one if none answers.
 * Gives: *c; return it with ctl_close(). DLC_ENODAEMON: nobody answers, or none could be started.
 */
int ctl_open(struct ctl *c, const struct config *config, bool start, struct dlc_err *err);
void ctl_close(struct ctl *c);

/* Progress of a long operation; `p` is the object inside "progress", borrowed for the call. */
typedef void ctl_progress_f(const json_t *p, void *priv);

/*
 * Ask, and wait for the answer. on_progress may be NULL: the daemon must then answer within a
 * minute; else it may take as long as it needs. Takes: request.   Gives: *answer, an object in
 * which "ok" is true, with the descriptors that came.
 */
int ctl_call(struct ctl *c, json_t *request, ctl_progress_f *on_progress, void *priv,
             struct msg *answer, struct dlc_err *err);

/*
 * The same with the token of this configuration, if there is one: for operations that a node of a
 * cluster allows by token. Takes: request.
 */
int ctl_call_as(struct ctl *c, const struct config *config, json_t *request, struct msg *answer,
                struct dlc_err *err);

/* Is this a URL at all? No daemon is started for one that is not. */
/*
 * Evict a dataset, or all of them (url: NULL), from a tier: "memory", "disk", "all". A dataset that
 * is not open at the daemon is opened first. Gives *answer.
 */
int ctl_evict(const struct config *config, const char *url, const char *tier,
              ctl_progress_f *on_progress, void *priv, struct msg *answer, struct dlc_err *err);

int ctl_check_url(const char *url, struct dlc_err *err);

/* The endpoint that this environment means for a URL: the daemon may have been started in another
 * one. NULL: none. Gives. */
char *ctl_endpoint(const struct config *config, const char *url);

/*
 * Open the dataset at url, as the library does; the connection is then its session.
 * Gives: *answer, with the five descriptors of docs/format/protocol.md.
 */
enum ctl_fd { CTL_FD_SEGMENT, CTL_FD_INDEX, CTL_FD_SESSION, CTL_FD_DOORBELL, CTL_FD_CATALOG };
int ctl_open_dataset(struct ctl *c, const struct config *config, const char *url, bool refresh,
                     ctl_progress_f *on_progress, void *priv, struct msg *answer,
                     struct dlc_err *err);

#endif
