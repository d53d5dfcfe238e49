// SPDX-License-Identifier: Apache-2.0
/*
 * The reader's half of the pin protocol of shm.h, used by the client library and the tests.
 *
 * The caller owns the pin block (in_use is set and blocks_high covers it, both seq_cst, before the
 * first pin) and claims entries of it from one thread only. Any thread of that process may clear an
 * entry.
 *
 * (PIN-READER-1) The pin is stored before the slot is loaded, both seq_cst: (SHM-1) of shm.h.
 * (PIN-READER-2) The slot's contents are checked against the size of the segment before use: a
 *                broken daemon must not make a reader leave its mapping.
 * (PIN-READER-3) Clearing is a release and finding an entry free is an acquire, so the reads made
 *                under a pin come before whatever the daemon does once it sees the entry empty or
 *                used again.
 *
 * The cost of a hit is one xchg and three loads, plus four plain stores for the log.
 */
#ifndef DLC_IPC_PIN_READER_H
#define DLC_IPC_PIN_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/shm.h"

/* An entry that is free, looked for from `hint` on. -1: the block is full. R owner thread. */
static inline int shm_free_entry(struct shm_pin_block *b, unsigned hint)
{
    unsigned k = hint % SHM_PINS;
    for (unsigned i = 0; i < SHM_PINS; i++) {
        if (atomic_load_explicit(&b->pins[k], memory_order_acquire) == 0)
            return (int)k;
        k = k + 1 == SHM_PINS ? 0 : k + 1;
    }
    return -1;
}

static inline void shm_unpin(struct shm_pin_block *b, unsigned entry)
{
    atomic_store_explicit(&b->pins[entry], 0, memory_order_release);
}

/* Does the slot's word and length name bytes inside the segment, in a form we can read? */
static inline bool shm_where_valid(uint64_t w, uint64_t len_word, uint64_t segment_size)
{
    uint64_t offset = shm_where_offset(w);
    uint64_t len = len_word & UINT32_MAX;
    uint64_t form = len_word >> 32 & 0xff;
    return offset >= SHM_HDR_SIZE && offset <= segment_size && len <= segment_size - offset &&
           form == 0;
}

/*
 * Look at a slot whose sample the caller has pinned (seq_cst) before. True: `len` bytes at `offset`
 * of the segment stay as they are until the pin is cleared. False: it is not resident.
 */
static inline bool shm_look(const struct shm_slot *slots, uint64_t sample, uint64_t segment_size,
                            uint64_t *offset, uint32_t *len)
{
    const struct shm_slot *s = &slots[sample];
    uint64_t w = atomic_load_explicit(&s->where, memory_order_seq_cst);
    while (shm_where_state(w) == SHM_READY) {
        /* Acquire, so that the second look at where is not made before this. (SHM-2) */
        uint64_t l = atomic_load_explicit(&s->len, memory_order_acquire);
        uint64_t again = atomic_load_explicit(&s->where, memory_order_seq_cst);
        if (again == w) {
            *offset = shm_where_offset(w);
            *len = (uint32_t)(l & UINT32_MAX);
            return shm_where_valid(w, l, segment_size);
        }
        w = again; /* evicted and filled again in between: a new generation each time */
    }
    return false;
}

/*
 * Pin the sample with a free entry and look at its slot. False: it is not resident, and the entry
 * is clear again.
 */
static inline bool shm_read(const struct shm_slot *slots, uint64_t n_slots, struct shm_pin_block *b,
                            unsigned entry, uint64_t sample, uint64_t segment_size,
                            uint64_t *offset, uint32_t *len)
{
    if (sample >= n_slots || entry >= SHM_PINS)
        return false;
    atomic_store_explicit(&b->pins[entry], sample + 1, memory_order_seq_cst);
    if (shm_look(slots, sample, segment_size, offset, len))
        return true;
    shm_unpin(b, entry);
    return false;
}

/* Count a hit and note the sample for the daemon's idea of recency. Owner thread only. */
static inline void shm_log(struct shm_pin_block *b, uint64_t sample, uint64_t len)
{
    uint64_t hits = atomic_load_explicit(&b->hits, memory_order_relaxed);
    uint64_t bytes = atomic_load_explicit(&b->bytes, memory_order_relaxed);
    uint64_t seq = atomic_load_explicit(&b->log_seq, memory_order_relaxed);
    atomic_store_explicit(&b->hits, hits + 1, memory_order_relaxed);
    atomic_store_explicit(&b->bytes, bytes + len, memory_order_relaxed);
    atomic_store_explicit(&b->log[seq % SHM_LOG], sample, memory_order_relaxed);
    atomic_store_explicit(&b->log_seq, seq + 1, memory_order_release);
}

#endif
