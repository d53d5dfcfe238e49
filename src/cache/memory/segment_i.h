// SPDX-License-Identifier: Apache-2.0
/*
 * A sparse memfd that the daemon maps writable, once, and hands to clients.
 *
 * (S1) Its size never changes: growing, shrinking and further sealing are sealed off before anybody
 * gets a descriptor, so a client cannot make the daemon's loads fail with SIGBUS.
 * (S2) A descriptor of a read-only segment was opened for reading, of a file with mode 0400: it can
 * neither be mapped writable nor opened again for writing by another user. (F_SEAL_FUTURE_WRITE
 * would say the same, but then the kernel refuses to punch holes, also to us.)
 */
#ifndef DLC_CACHE_MEMORY_SEGMENT_I_H
#define DLC_CACHE_MEMORY_SEGMENT_I_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct segment {
    int fd;        /* ours, writable */
    int client_fd; /* what clients get; the same as fd when they may write */
    void *map;     /* size bytes, writable */
    uint64_t size;
};

#define SEGMENT_INIT                                                                               \
    {                                                                                              \
        -1, -1, NULL, 0                                                                            \
    }

enum segment_access { SEGMENT_CLIENTS_READ, SEGMENT_CLIENTS_WRITE };

/* name is what /proc/PID/maps shows. size is not 0. On failure *s is SEGMENT_INIT. */
int segment_open(struct segment *s, const char *name, uint64_t size, enum segment_access access,
                 struct dlc_err *err);
void segment_close(struct segment *s); /* leaves SEGMENT_INIT */

/* When this process started, in clock ticks since boot; 0 when /proc does not say. */
uint64_t segment_owner_start(void);

#endif
