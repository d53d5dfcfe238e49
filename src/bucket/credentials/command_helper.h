// SPDX-License-Identifier: Apache-2.0
/*
 * A process that runs credential_process commands for a daemon whose sandbox starts no programs. It
 * is forked before the sandbox is entered, and ends with its daemon.
 *
 *     daemon --profile name, descriptors--> helper --fork--> worker --/bin/sh -c--> command
 *
 * (HELPER-1) The helper runs no command that it was sent: it gets the name of a profile, and reads
 *            the command from ~/.aws itself. Somebody who took over the daemon can have the user's
 *            own commands run, and no others.
 * (HELPER-2) A command ends when its request does: the worker kills its process group when the
 *            daemon closes the connection, also by dying.
 */
#ifndef DLC_BUCKET_CREDENTIALS_COMMAND_HELPER_H
#define DLC_BUCKET_CREDENTIALS_COMMAND_HELPER_H

#include <stdbool.h>

#include "base/err.h"

/*
 * Start it if a profile of ~/.aws names a credential_process now. Threads: the only one of this
 * process. 0 or DLC_E*. Without it commands are run by this process itself.
 */
int command_helper_start(struct dlc_err *err);

bool command_helper_runs(void);

/*
 * Have the command of a profile write its output to out_fd. Gives *conn: it becomes readable when
 * the command has ended, with its status (waitpid(), an int); close it to end the command earlier.
 * Threads: any. 0 or -1 with errno.
 */
int command_helper_request(const char *profile, int out_fd, int *conn);

#endif
