// SPDX-License-Identifier: Apache-2.0
/* A client as the tests need it: maps the three kinds of memory from their descriptors alone. */
#ifndef DLC_TESTS_STORAGE_MEMORY_CLIENT_H
#define DLC_TESTS_STORAGE_MEMORY_CLIENT_H

#include "base/check.h"
#include "base/syscalls.h"
#include "cache/memory/memory.h"
#include "ipc/pin_reader.h"

struct client {
    const char *segment;
    uint64_t segment_size;
    const char *index;
    uint64_t index_size, n_slots;
    const struct shm_slot *slots;
    char *session;
};

static inline void client_open(struct client *c, const struct memory *m, const struct mem_index *x,
                               const struct mem_session *s)
{
    c->segment_size = memory_size(m);
    c->segment = os_map(memory_fd(m), 0, c->segment_size, false);
    c->index_size = mem_index_size(x);
    c->index = os_map(mem_index_fd(x), 0, c->index_size, false);
    c->session = os_map(mem_session_fd(s), 0, SHM_SESSION_SIZE, true);
    dlc_check(c->segment != NULL && c->index != NULL && c->session != NULL);
    const struct shm_index_hdr *h = (const void *)c->index;
    c->n_slots = h->n_slots;
    c->slots = (const void *)(c->index + h->slots_off);
}

static inline void client_close(struct client *c)
{
    os_unmap(c->segment, c->segment_size);
    os_unmap(c->index, c->index_size);
    os_unmap(c->session, SHM_SESSION_SIZE);
}

/* Block i, claimed. */
static inline struct shm_pin_block *client_block(struct client *c, unsigned i)
{
    struct shm_session_hdr *h = (void *)c->session;
    struct shm_pin_block *b = (struct shm_pin_block *)(c->session + SHM_BLOCKS_OFF) + i;

    if (atomic_load(&h->blocks_high) <= i)
        atomic_store(&h->blocks_high, i + 1);
    atomic_store(&b->in_use, 1);
    return b;
}

/* The sample's bytes, pinned in entry; NULL: a miss. */
static inline const void *client_read(struct client *c, struct shm_pin_block *b, unsigned entry,
                                      uint64_t sample, uint32_t *len)
{
    uint64_t off;

    if (!shm_read(c->slots, c->n_slots, b, entry, sample, c->segment_size, &off, len))
        return NULL;
    return c->segment + off;
}

#endif
