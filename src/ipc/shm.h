// SPDX-License-Identifier: Apache-2.0
/*
 * The layout of shared memory: the contract between the daemon and its clients, and as such a file
 * format (docs/format/shm.md). Little-endian, fixed widths, offsets instead of pointers,
 * append-only.
 *
 *   segment   [hdr 4096 | generation of extent 0 | ...]  clients: read only
 *   extents   [sample bytes ...]                         clients: read only
 *   index     [hdr 4096 | slot 0 | slot 1 | ...]         clients: read only
 *   session   [hdr 4096 | ring | cells | pin blocks]     clients: read and write
 *   uploads   [upload slot 0 | upload slot 1 | ...]      clients: read and write
 *
 * The extents lie side by side in one range of addresses, which offsets in slots refer to. Clients
 * reserve that range and map extents into it, ahead of use where they can; the daemon drops extents,
 * and makes others at their place: (SHM-5).
 *
 * Reading sample i (client):
 *     pin = i + 1 into a free entry of the thread's own pin block     (store, seq_cst)
 *     w = slot[i].where                                               (load, seq_cst)
 *     READY: read slot[i].len, check that where is still w; the bytes at offset(w) stay until
 *     the pin is cleared. Otherwise clear the pin: a miss.
 * Evicting sample i (daemon):
 *     slot[i].where = EMPTY, next generation                          (store, seq_cst)
 *     look at the pins of every session of this index                 (load, seq_cst)
 *     none holds i + 1: the memory is free. Otherwise it stays retired and is looked at again.
 *
 * (SHM-1) Either the reader's load sees EMPTY, or the evictor's look sees the pin: both sides store
 *         first and load then, in the one total order of seq_cst operations.
 * (SHM-2) len changes only while the slot is EMPTY, so a READY where that did not change between
 *         two loads goes with the len read between them.
 * (SHM-3) Only the thread that owns a block claims its pin entries; any thread of that process may
 *         clear them.
 * (SHM-4) The daemon trusts nothing in a session: indices are bounded, fields are copied once, and
 *         a client that lies harms only its own reads.
 * (SHM-5) A client touches an extent only if the generation that it has mapped is that of the
 *         table, which it loads after the slot was READY under its pin. The daemon changes a
 *         generation only while no sample there is READY or pinned, so it stays until the pin is
 *         cleared.
 */
#ifndef DLC_IPC_SHM_H
#define DLC_IPC_SHM_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SHM_SEGMENT_MAGIC 0x67655364u /* "dSeg" */
#define SHM_INDEX_MAGIC   0x78644964u /* "dIdx" */
#define SHM_SESSION_MAGIC 0x73655364u /* "dSes" */
#define SHM_VERSION       3u
#define SHM_HDR_SIZE      4096u
#define SHM_GRAIN         64u /* arena allocations are multiples of this */

/* ---- index ---- */

struct shm_slot {
    _Atomic uint64_t where; /* state:2, offset / SHM_GRAIN:38, generation:24 */
    _Atomic uint64_t len;   /* bytes:32, form:8 (0: as in the bucket), reserved:24 */
};
static_assert(sizeof(struct shm_slot) == 16, "slot is ABI");

enum shm_state { SHM_EMPTY = 0, SHM_READY = 1 };

static inline unsigned shm_where_state(uint64_t w)
{
    return (unsigned)(w & 3);
}

#define SHM_OFFSET_BITS 38u /* 16 TiB */
#define SHM_GEN_SHIFT   (2u + SHM_OFFSET_BITS)

static inline uint64_t shm_where_offset(uint64_t w)
{
    return (w >> 2 & ((1ull << SHM_OFFSET_BITS) - 1)) * SHM_GRAIN;
}

static inline uint32_t shm_where_generation(uint64_t w)
{
    return (uint32_t)(w >> SHM_GEN_SHIFT);
}

static inline uint64_t shm_where_make(unsigned state, uint64_t offset, uint32_t generation)
{
    return (uint64_t)state | (offset / SHM_GRAIN) << 2 | (uint64_t)generation << SHM_GEN_SHIFT;
}

struct shm_index_hdr {
    uint32_t magic, version;
    uint64_t n_slots;
    uint64_t slots_off; /* = SHM_HDR_SIZE */
    uint64_t snapshot;  /* of the catalog the numbers belong to */
    /* Of a decoded index, W daemon, R clients, relaxed: figures, and a hint whether to make more.
     */
    _Atomic uint64_t decoded, decoded_bytes; /* READY now */
    _Atomic uint64_t decoded_room;           /* bytes that more of them may take */
};

/* ---- segment ---- */

struct shm_segment_hdr {
    uint32_t magic, version;
    uint64_t size; /* of the range of addresses that the extents make up */
    uint32_t owner_pid;
    uint32_t reserved;
    uint64_t owner_start;     /* clock ticks since boot: pid alone is reused */
    _Atomic uint32_t closing; /* 1: the daemon is ending in good order. W daemon, R clients */
    uint32_t reserved1;
    /* CLOCK_MONOTONIC, ns, written five times a second by the daemon's loop: one that is old tells
     * that the daemon hangs, or is stopped. 0: it does not say. W daemon, R clients, relaxed */
    _Atomic uint64_t heartbeat;
    uint64_t reserved2[2];
    /* The thread whose end is the daemon's, a robust futex: the kernel sets SHM_OWNER_DIED when it
     * ends, however it ends. In a line of its own, which every hit loads. 0: it does not say. W
     * daemon and kernel, R clients, relaxed */
    _Atomic uint32_t owner;
    uint32_t reserved3[15];
    uint32_t extent_shift; /* an extent has 2^this bytes; the last one may have less */
    uint32_t n_extents;
    _Atomic uint64_t drops; /* extents dropped so far. W daemon, release, after the table */
};
#define SHM_OWNER_DIED 0x40000000u /* FUTEX_OWNER_DIED */
static_assert(offsetof(struct shm_segment_hdr, heartbeat) == 40 &&
                  offsetof(struct shm_segment_hdr, owner) == 64 &&
                  offsetof(struct shm_segment_hdr, extent_shift) == 128,
              "segment header is ABI");

/* The table: of each extent the generation of the memory that is there now. 0: none. W daemon, R
 * clients */
static inline _Atomic uint32_t *shm_generations(const struct shm_segment_hdr *h)
{
    return (_Atomic uint32_t *)((uintptr_t)h + SHM_HDR_SIZE);
}

/*
 * A packet on the channel of a session, a socket: extent `number` was made, and its descriptor comes
 * along. SHM_EXTENTS_DROPPED: look at the table and at `drops`, after all packets before it.
 */
struct shm_extent_note {
    uint32_t number, generation;
};
static_assert(sizeof(struct shm_extent_note) == 8, "note is ABI");
#define SHM_EXTENTS_DROPPED UINT32_MAX

/* ---- session ---- */

#define SHM_RING_LEN   1024u /* power of two, at least SHM_CELLS */
#define SHM_CELLS      256u
#define SHM_BLOCKS     1024u
#define SHM_PINS       56u
#define SHM_LOG        64u
#define SHM_CELL_BATCH 60u

enum shm_op {
    SHM_OP_FETCH = 1,    /* make `sample` resident and tell */
    SHM_OP_PREFETCH = 2, /* make `count` samples in batch[] resident; the cell is freed at once */
    SHM_OP_UPLOAD = 3,   /* the upload slot of this number holds `sample` decoded: `len` bytes */
};

enum shm_cell_state {
    SHM_CELL_FREE = 0,  /* the client's */
    SHM_CELL_ASKED = 1, /* the daemon's */
    SHM_CELL_DONE = 2,  /* the client's: rc (and text when negative) are set */
};

struct shm_cell {
    _Atomic uint32_t state; /* futex */
    uint32_t op;
    uint64_t sample;
    uint32_t count;
    int32_t rc;
    uint64_t len;
    union {
        uint64_t batch[SHM_CELL_BATCH];
        char text[SHM_CELL_BATCH * 8]; /* NUL-terminated */
    };
};
static_assert(sizeof(struct shm_cell) == 512, "cell is ABI");

struct shm_pin_block {       /* one thread's; eight lines of pins with their header, eight of log */
    _Atomic uint32_t in_use; /* 0: free, skipped by the evictor */
    uint32_t reserved0;
    _Atomic uint64_t hits; /* W owner, R daemon, relaxed: statistics */
    _Atomic uint64_t misses;
    _Atomic uint64_t bypasses;
    _Atomic uint64_t bytes;
    _Atomic uint64_t stall_ns;
    _Atomic uint64_t
        log_seq; /* samples logged so far; the latest is log[(log_seq - 1) % SHM_LOG] */
    uint64_t reserved1;
    _Atomic uint64_t pins[SHM_PINS]; /* sample + 1, or 0 */
    _Atomic uint64_t
        log[SHM_LOG]; /* sample numbers; W owner, R daemon, relaxed: only for recency */
};
static_assert(sizeof(struct shm_pin_block) == 1024, "pin block is ABI");

#define SHM_SWAPS 232u

/* Two positions of the client's order whose samples change places. */
struct shm_swap {
    _Atomic uint64_t p, q;
};
static_assert(sizeof(struct shm_swap) == 16, "swap is ABI");

struct shm_session_hdr {
    uint32_t magic, version;
    uint64_t ring_off, cells_off, blocks_off;
    uint8_t pad0[64 - 32];
    _Atomic uint32_t tail; /* W client (under its own lock), R daemon; free-running */
    uint8_t pad1[60];
    _Atomic uint32_t head;      /* W daemon, R client; free-running */
    _Atomic uint32_t need_wake; /* daemon: 1 before it sleeps; client: exchanges to 0 and rings */
    uint8_t pad2[56];
    _Atomic uint32_t blocks_high; /* W client: blocks [0, this) were ever in use */
    _Atomic uint32_t overtaken;   /* W client: samples after its cursor that it has read already */
    _Atomic uint64_t cursor;      /* W client: how far it is in its order, in samples */
    _Atomic uint64_t ahead;       /* W client: samples from there on that its workers have */
    _Atomic uint64_t waited_ns;   /* W client: time they waited since the order was announced */
    /* W client: it maps none of the extents that were among the first so many drops, and will not */
    _Atomic uint64_t drops_seen;
    uint8_t pad3[24];
    /* Substitution: swap k is swaps[k % SHM_SWAPS]; the client writes it, then swaps_tail, then
     * settled, then cursor, each with release; the daemon loads them in reverse, with acquire. */
    _Atomic uint64_t swaps_tail; /* W client: swaps ever made; free-running */
    _Atomic uint64_t settled;    /* W client: positions below this are swapped no more */
    uint8_t pad4[48];
    _Atomic uint64_t swaps_head; /* W daemon: swaps ever taken */
    _Atomic uint64_t horizon;    /* W daemon: so far ahead to settle; 0: it takes no swaps */
    uint8_t pad5[48];
    struct shm_swap swaps[SHM_SWAPS];
};
static_assert(sizeof(struct shm_session_hdr) == SHM_HDR_SIZE, "session header is ABI");
static_assert(offsetof(struct shm_session_hdr, swaps_tail) == 256, "session header is ABI");
static_assert(offsetof(struct shm_session_hdr, swaps_head) == 320, "session header is ABI");
static_assert(offsetof(struct shm_session_hdr, swaps) == 384, "session header is ABI");
static_assert(offsetof(struct shm_session_hdr, tail) == 64, "session header is ABI");
static_assert(offsetof(struct shm_session_hdr, head) == 128, "session header is ABI");

/* ---- uploads ---- */

#define SHM_UPLOAD_SLOTS 64u /* of a session of the decoded cache; cell k submits slot k */
#define SHM_UPLOAD_SIZE  ((uint64_t)16 << 20)
#define SHM_UPLOADS_SIZE (SHM_UPLOAD_SLOTS * SHM_UPLOAD_SIZE)

#define SHM_DECODED_MAGIC 0x6d724664u /* "dFrm" */

/* Header of a decoded sample, in an upload slot and in the segment. */
struct shm_decoded_hdr {
    uint32_t magic, version;
    uint64_t sample;
    uint64_t policy; /* how it was decoded; readers with another policy cannot use it */
    uint64_t len;    /* of what follows */
    uint64_t sum;    /* XXH3 of it */
    uint8_t reserved[64 - 40];
};
static_assert(sizeof(struct shm_decoded_hdr) == 64, "decoded header is ABI");

#define SHM_RING_OFF     ((uint64_t)SHM_HDR_SIZE)
#define SHM_CELLS_OFF    (SHM_RING_OFF + SHM_RING_LEN * sizeof(uint32_t))
#define SHM_BLOCKS_OFF   (SHM_CELLS_OFF + SHM_CELLS * sizeof(struct shm_cell))
#define SHM_SESSION_SIZE (SHM_BLOCKS_OFF + SHM_BLOCKS * sizeof(struct shm_pin_block))

#endif
