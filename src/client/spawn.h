// SPDX-License-Identifier: Apache-2.0
/* The daemon's address, and starting one when nobody answers there. */
#ifndef DLC_CLIENT_SPAWN_H
#define DLC_CLIENT_SPAWN_H

#include "base/config.h"
#include "base/err.h"

/* A connected socket. DLC_ENODAEMON: nobody answers. DLC_EDENIED: somebody else's. */
int daemon_connect(const struct config *c, struct dlc_err *err);

/* Start a daemon for this socket unless somebody else just did. */
int daemon_spawn(const struct config *c, struct dlc_err *err);

#endif
