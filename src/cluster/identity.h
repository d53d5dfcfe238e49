// SPDX-License-Identifier: Apache-2.0
/*
 * Who a node is, beyond its name: a number for this start of the process, and one for its
 * directory, kept in DIR/node.id. The manager gives a name to one process at a time; one that
 * starts again in the directory of the process before it need not wait until that is missed.
 *
 * (I1) Two processes never show the same directory at the same time: the file is locked (flock)
 * while one runs, which the kernel undoes when that ends, however it ends. Who does not get the
 * lock has no directory.
 */
#ifndef DLC_CLUSTER_IDENTITY_H
#define DLC_CLUSTER_IDENTITY_H

#define IDENTITY_LEN 32

struct identity {
    char instance[IDENTITY_LEN + 1];
    char directory[IDENTITY_LEN + 1]; /* "": none */
    int lock;
};

/* Cannot fail: a directory that cannot be written to is as good as none. */
void identity_open(struct identity *i, const char *dir);
void identity_close(struct identity *i);

#endif
