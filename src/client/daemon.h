// SPDX-License-Identifier: Apache-2.0
/* The daemon's address, and starting one when nobody answers there. */
#ifndef DLC_CLIENT_DAEMON_H
#define DLC_CLIENT_DAEMON_H

#include "base/clock.h"
#include "base/config.h"
#include "base/err.h"

/* For a caller that has nothing better to do: a daemon waits up to 30 s for one that is ending. */
#define DAEMON_PATIENCE DLC_SEC(40)

/* Both wait until the deadline at most, and give up when the caller does (base/cancel.h). */

/* A connected socket. DLC_ENODAEMON: nobody answers. DLC_EDENIED: somebody else's. DLC_ETIMEDOUT:
 * it takes no calls. */
int daemon_connect(const struct config *c, struct dlc_mono deadline, struct dlc_err *err);

/* Start a daemon for this socket unless somebody else just did. One that has not answered in time
 * goes on starting: it may be there for the next call. */
int daemon_spawn(const struct config *c, struct dlc_mono deadline, struct dlc_err *err);

#endif
