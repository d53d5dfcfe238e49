// SPDX-License-Identifier: Apache-2.0
/*
 * Secrets of a long-running process: they come by a file or the environment, not by the command
 * line, which every user of the machine can read; and they do not leave it in a core dump.
 */
#ifndef DLC_BASE_PROCESS_SECRETS_H
#define DLC_BASE_PROCESS_SECRETS_H

#include "base/config.h"
#include "base/err.h"

/* No core dumps, and no look at the memory of this process by others of the same user. First of
 * all, before there are secrets. */
void process_keep_secrets(void);

/* store-file and shared-file: their first line becomes store and shared. The files must not be
 * readable by others. DLC_EINVAL: both are set. */
int config_read_url_files(struct config *c, struct dlc_err *err);

#endif
