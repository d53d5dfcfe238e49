// SPDX-License-Identifier: Apache-2.0
/*
 * Landlock (landlock(7)): which files this process can still reach. A list of directories and
 * files, to read or to write; after landlock_enter() all others are refused with EACCES, whatever
 * their permissions. Descriptors that are open already stay as they are. No file can be executed.
 *
 * A rule holds for the file or directory that the path names now: a file that is replaced by
 * rename() later is another one, so what others replace is allowed by its directory.
 */
#ifndef DLC_SANDBOX_LANDLOCK_I_H
#define DLC_SANDBOX_LANDLOCK_I_H

#include <stdint.h>

enum landlock_access { LANDLOCK_READ, LANDLOCK_WRITE }; /* write: and read, make, rename, remove */

struct landlock {
    int ruleset;
    int abi;
    int error; /* errno of the first rule that could not be made; 0: none */
};

/*
 * Begin a list. 0, or -1 with errno: ENOSYS, EOPNOTSUPP where the kernel has no Landlock, or an
 * older one than we can use (LANDLOCK_ABI_MIN).
 */
int landlock_open(struct landlock *l);

/* Add a path. One that does not exist, or that we cannot reach, is left out. */
void landlock_allow(struct landlock *l, const char *path, enum landlock_access access);

/* Refuse all else, to this thread and those that it starts, for good. It needs no_new_privs. Closes
 * the list. 0 or -1 with errno. */
int landlock_enter(struct landlock *l);

#endif
