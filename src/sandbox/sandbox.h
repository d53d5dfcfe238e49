// SPDX-License-Identifier: Apache-2.0
/*
 * The sandbox of a server process (`serve`, `node`, `manager`, `operator`): what it gives up at its
 * start because it never needs it again. Somebody who takes over the process through one of its
 * parsers then finds no program to start and no privilege to use. docs/design/0017-sandbox.md.
 *
 *     user           --user: root becomes that user
 *     capabilities   none but those that the settings need
 *     no_new_privs   no program gets more than this process has
 *     landlock       files: writes to directories of the settings, reads as paths_i.h says
 *     seccomp        the system calls of syscalls.def and no others
 *
 * (SANDBOX-1) It is entered before the process has a second thread, so it holds for all of them.
 * (SANDBOX-2) With --sandbox require the process runs with every part in force, or not at all.
 * (SANDBOX-3) sandbox_parts() says what the kernel has accepted, never what was intended.
 */
#ifndef DLC_SANDBOX_SANDBOX_H
#define DLC_SANDBOX_SANDBOX_H

#include <stdbool.h>

#include "base/config.h"
#include "base/err.h"

enum sandbox_role { SANDBOX_SERVE, SANDBOX_NODE, SANDBOX_MANAGER, SANDBOX_OPERATOR };

struct sandbox_plan {
    enum sandbox_role role;
    const struct config *config; /* sandbox, user, dir, socket, listen */
    const char *webhook;         /* HOST:PORT of a second server; NULL: none */
    /* Called as the user of --user, before anything else is given up. NULL: nothing to do. */
    int (*before)(struct dlc_err *err);
    /* Called as that user, in every sandbox, also none: opens what it must be able to open again. */
    int (*as_user)(const struct config *c, struct dlc_err *err);
};

struct sandbox_part {
    const char *name;
    bool in_force;
    char text[128]; /* in what form, or why not */
};

/*
 * Enter it, for good. Threads: the only one of the process.
 * Returns: 0, or DLC_E* if --user is impossible, or with --sandbox require a part is.
 */
int sandbox_enter(const struct sandbox_plan *plan, struct dlc_err *err);

/* Do other users connect to the daemon's socket? */
bool sandbox_shares_socket(const struct sandbox_plan *plan);

/* What holds since sandbox_enter(), *n parts; 0 before. Borrowed for ever. */
const struct sandbox_part *sandbox_parts(unsigned *n);

#endif
