// SPDX-License-Identifier: Apache-2.0
/*
 * The identity of a node beyond its name: a number for this run of the process, and one for its
 * directory, kept in DIR/node.id. The manager gives a name to one process at a time; a process that
 * starts again in the directory of its predecessor need not wait until that one is declared dead.
 *
 * (IDENTITY-1) Two processes never show the same directory at the same time: the running process
 *              holds a lock (flock) on the file, which the kernel releases however the process
 *              ends. A process that does not get the lock has no directory.
 */
#ifndef DLC_CLUSTER_IDENTITY_H
#define DLC_CLUSTER_IDENTITY_H

#define IDENTITY_LEN 32

struct identity {
    char instance[IDENTITY_LEN + 1];
    char directory[IDENTITY_LEN + 1]; /* "": none */
    int lock;
};

/* Cannot fail: a directory that is not writable counts as none. */
void identity_open(struct identity *i, const char *dir);
void identity_close(struct identity *i);

#endif
