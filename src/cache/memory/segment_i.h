// SPDX-License-Identifier: Apache-2.0
/*
 * A sparse memfd that the daemon maps writable, once, and hands to clients: all shared memory but
 * that of samples (extents_i.h).
 *
 * (SEGMENT-1) Its size never changes: growing, shrinking and further sealing are sealed off before
 * anybody gets a descriptor, so a client cannot make the daemon's loads fail with SIGBUS.
 * (SEGMENT-2) Nobody but the daemon writes memory that clients only read, its own user and root
 * included: once the daemon has mapped it, F_SEAL_FUTURE_WRITE refuses every write, writable
 * mapping and punched hole through any descriptor, also one that a client opened again by
 * /proc/self/fd. So the daemon gives such memory back only by closing it.
 */
#ifndef DLC_CACHE_MEMORY_SEGMENT_I_H
#define DLC_CACHE_MEMORY_SEGMENT_I_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct segment {
    int fd;
    void *map; /* size bytes, writable */
    uint64_t size;
};

#define SEGMENT_INIT                                                                               \
    {                                                                                              \
        -1, NULL, 0                                                                                \
    }

enum segment_access { SEGMENT_CLIENTS_READ /* (SEGMENT-2) */, SEGMENT_CLIENTS_WRITE };

/* name is what /proc/PID/maps shows. size is not 0. On failure *s is SEGMENT_INIT. */
int segment_open(struct segment *s, const char *name, uint64_t size, enum segment_access access,
                 struct dlc_err *err);
void segment_close(struct segment *s); /* leaves SEGMENT_INIT */
/* The same, on a thread of its own when it is large: freeing a gigabyte takes a tenth of a second. */
void segment_close_later(struct segment *s);

/* Call it once the memory is mapped writable: that mapping stays so. */
int segment_seal(int fd, enum segment_access access);

/* When this process started, in clock ticks since boot; 0 when /proc does not say. */
uint64_t segment_owner_start(void);

#endif
