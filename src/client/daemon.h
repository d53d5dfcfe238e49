// SPDX-License-Identifier: Apache-2.0
/* Finds the daemon at its address, and starts one if none answers. */
#ifndef DLC_CLIENT_DAEMON_H
#define DLC_CLIENT_DAEMON_H

#include "base/clock.h"
#include "base/config.h"
#include "base/err.h"

/* For a caller that can only wait: a new daemon waits up to 30 s for one that is ending. */
#define DAEMON_PATIENCE DLC_SEC(40)

/* Both wait until the deadline at most, and give up when the caller does (base/cancel.h). */

/* A connected socket. DLC_ENODAEMON: no daemon answers. DLC_EDENIED: another user's daemon.
 * DLC_ETIMEDOUT: it does not accept connections. */
int daemon_connect(const struct config *c, struct dlc_mono deadline, struct dlc_err *err);

/* Start a daemon for this socket unless another process just did. A daemon that has not answered in
 * time continues to start: the next call may find it. */
int daemon_spawn(const struct config *c, struct dlc_mono deadline, struct dlc_err *err);

#endif
