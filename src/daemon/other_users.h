// SPDX-License-Identifier: Apache-2.0
/*
 * What users of --allow-uid may open without a manager that vouches for it. The daemon reads with
 * its own rights and credentials, so it must not read for them what its user has not released:
 *
 * (USER-1) Files only below a directory of --allow-path, by a path without symbolic links.
 * (USER-2) No endpoint of their own with the daemon's credentials: only anonymously.
 *
 * Pure, but for the environment.
 */
#ifndef DLC_DAEMON_OTHER_USERS_H
#define DLC_DAEMON_OTHER_USERS_H

#include "base/err.h"

struct config;
struct open_request;

int other_user_may_open(const struct config *c, const struct open_request *w, struct dlc_err *err);

/* The directory of --allow-path in which the path lies. Gives. NULL: in none. */
char *allowed_path_of(const struct config *c, const char *path);

#endif
