// SPDX-License-Identifier: Apache-2.0
/*
 * The memory of samples: one range of addresses, made of extents. An extent is a memfd of a fixed
 * size at its place in the range, mapped writable by the daemon and then sealed: (SEGMENT-2) of segment_i.h.
 * Sealed memory cannot be punched, so memory is given back by dropping whole extents.
 *
 *     none --ensure--> LIVE --release--> DROPPED --every session has unmapped it--> none
 *                                        DROPPED --ensure: another memfd--> LIVE
 *
 * The header and the table of generations (shm.h) are a memfd of their own, which clients map for as
 * long as they are attached. A block of the arena may lie across extents: the range is contiguous
 * for the daemon and for clients.
 *
 * (EXTENT-1) A slot is READY only while the extents under it are LIVE, and their generations are
 *            in the table before it is: a reader whose pin counts and whose own mapping has the
 *            generation of the table reads the right memory.
 * (EXTENT-2) An extent is dropped only when no block in it is used, so no pin that counts lies in
 *            it.
 * (EXTENT-3) A dropped extent counts as populated until the kernel has freed it (freed_i.h): a
 *            client that keeps it, whatever it says, keeps memory that its tenant pays for. The
 *            ceiling is not raised over it. Where the kernel does not tell, it counts until every
 *            session that was given its descriptor has written a `drops_seen` at or above its
 *            number, or has ended; a client that lies there keeps memory that nobody counts, and the
 *            limits of the host notice (limits.c) and lower the ceiling.
 *
 * All functions belong to the node loop. A thread removes the mappings of large dropped extents:
 * freeing 256 MB takes 30 ms.
 */
#ifndef DLC_CACHE_MEMORY_EXTENTS_I_H
#define DLC_CACHE_MEMORY_EXTENTS_I_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/mutex.h"
#include "cache/memory/freed_i.h"
#include "cache/memory/segment_i.h"
#include "ipc/shm.h"

struct pool;

struct extent {
    int fd;              /* -1: not LIVE */
    uint32_t generation; /* of the last one that was mapped here. W loop; G: mtx */
};

struct extents {
    char *map; /* size bytes of addresses; accessible where extents are LIVE */
    uint64_t size, page;
    unsigned shift; /* log2 of the size of an extent; the last one may be smaller */
    uint32_t n;
    struct segment header; /* struct shm_segment_hdr, and the table */
    struct extent *all;
    uint32_t generations;    /* given out so far */
    uint64_t drops;          /* so far */
    struct dlc_list dropped; /* struct dropped, the oldest first: (EXTENT-3) */
    uint64_t dropped_bytes;  /* of them */
    struct freed freed;      /* which of them are kept by somebody */
    struct pool *freeing;    /* NULL: not needed yet */
    struct dlc_mtx mtx;      /* rank LCK_extents: what is mapped where */
};

/* size: whole pages. On failure *e holds nothing. */
int extents_open(struct extents *e, uint64_t size, struct dlc_err *err);
void extents_close(struct extents *e);

static inline struct shm_segment_hdr *extents_header(const struct extents *e)
{
    return e->header.map;
}

static inline uint64_t extents_granularity(const struct extents *e)
{
    return (uint64_t)1 << e->shift;
}

/* Have extents under [off, off + len). False: the kernel refuses memory, descriptors or mappings. */
bool extents_ensure(struct extents *e, uint64_t off, uint64_t len);

/* Nothing in [off, off + len) is used: drop at most one extent that lies in it wholly. Returns how
 * many bytes from off on need not be looked at again. */
uint64_t extents_release(struct extents *e, uint64_t off, uint64_t len);

/* Ask the kernel which of the dropped extents it has freed. */
void extents_look_freed(struct extents *e);
/* May a client still map extent k as it was until drop `number`? Asked where the kernel does not tell. */
typedef bool extents_held_f(void *arg, uint32_t k, uint32_t generation, uint64_t number);
/* Forget the dropped extents that nobody holds, as of the last look; fn NULL: all. */
void extents_forget_dropped(struct extents *e, extents_held_f *fn, void *arg);

/* Bytes that the kernel has given, with those of dropped extents: (EXTENT-3). A call per extent. */
uint64_t extents_populated(const struct extents *e);

#endif
