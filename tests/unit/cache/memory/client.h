// SPDX-License-Identifier: Apache-2.0
/*
 * A client as the tests need it: maps the three kinds of memory from their descriptors alone, and
 * extents when it meets a sample in them: (SHM-5) of shm.h.
 */
#ifndef DLC_TESTS_STORAGE_MEMORY_CLIENT_H
#define DLC_TESTS_STORAGE_MEMORY_CLIENT_H

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/syscalls.h"
#include "cache/memory/memory.h"
#include "ipc/pin_reader.h"

#define CLIENT_EXTENTS 512

struct client {
    const struct shm_segment_hdr *header;
    uint64_t header_size;
    char *segment; /* the range */
    uint64_t segment_size;
    const char *index;
    uint64_t index_size, n_slots;
    const struct shm_slot *slots;
    char *session;
    bool all_mapped; /* the range is the daemon's own */
    uint32_t mapped[CLIENT_EXTENTS];
    int channel;              /* with packets that hold extents */
    struct mem_session *from; /* of this process, which gives extents; or: */
    const _Atomic int *fds;   /* those of the process `pid`, for each extent */
    int pid;
};

static inline void client_open(struct client *c, const struct memory *m, const struct mem_index *x,
                               struct mem_session *s)
{
    *c = (struct client){.from = s,
                         .channel = mem_session_take_channel(s),
                         .header_size = memory_header_size(m),
                         .segment_size = memory_size(m),
                         .index_size = mem_index_size(x)};
    c->header = os_map(memory_fd(m), 0, c->header_size, false);
    c->segment = os_reserve(NULL, c->segment_size);
    c->index = os_map(mem_index_fd(x), 0, c->index_size, false);
    c->session = os_map(mem_session_fd(s), 0, SHM_SESSION_SIZE, true);
    dlc_check(c->header != NULL && c->segment != NULL && c->index != NULL && c->session != NULL);
    dlc_check(c->header->n_extents <= CLIENT_EXTENTS);
    const struct shm_index_hdr *h = (const void *)c->index;
    c->n_slots = h->n_slots;
    c->slots = (const void *)(c->index + h->slots_off);
}

static inline void client_close(struct client *c)
{
    os_unmap(c->header, c->header_size);
    os_unmap(c->segment, c->segment_size);
    os_unmap(c->index, c->index_size);
    os_unmap(c->session, SHM_SESSION_SIZE);
    os_close(&c->channel);
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

static inline char *client_place(const struct client *c, uint64_t k, uint64_t *size)
{
    uint64_t one = (uint64_t)1 << c->header->extent_shift;

    *size = DLC_MIN(one, c->segment_size - k * one);
    return c->segment + k * one;
}

/* A descriptor of the extent as it is now; -1: it is going. */
static inline int client_fd_of(const struct client *c, uint64_t k)
{
    char path[64];
    struct mem_extent e;

    if (c->from != NULL)
        return mem_session_extents(c->from, k, &e, 1) == 1 && e.number == k ? os_dup(e.fd) : -1;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", c->pid, atomic_load(&c->fds[k]));
    return os_open(path, O_RDONLY, 0);
}

/* Is the extent mapped, or can it be? The caller has pinned something that is READY there. */
static inline bool client_map(struct client *c, uint64_t k)
{
    uint32_t now = atomic_load(&shm_generations(c->header)[k]);
    uint64_t size;
    char *place = client_place(c, k, &size);
    int fd;

    if (now != 0 && c->mapped[k] == now)
        return true;
    fd = client_fd_of(c, k);
    /* It stayed: then it was its descriptor all the time. */
    if (fd >= 0 && now != 0 && atomic_load(&shm_generations(c->header)[k]) == now &&
        os_map_at(place, fd, size, false) != NULL)
        c->mapped[k] = now;
    os_close(&fd);
    return now != 0 && c->mapped[k] == now;
}

/* Throw away the extents that came. */
static inline void client_drain(struct client *c)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct shm_extent_note note;
    struct iovec iov = {&note, sizeof(note)};
    int fd;

    for (;;) {
        struct msghdr h = {.msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof(control)};

        if (c->channel < 0 || os_recvmsg(c->channel, &h, MSG_DONTWAIT) <= 0)
            return;
        if (CMSG_FIRSTHDR(&h) != NULL) {
            memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(fd));
            os_close(&fd);
        }
    }
}

/* As the library does when it hears of drops. */
static inline void client_unmap_dropped(struct client *c)
{
    struct shm_session_hdr *h = (void *)c->session;
    uint64_t drops = atomic_load(&c->header->drops), size;
    char *place;

    client_drain(c);

    for (uint32_t k = 0; k < c->header->n_extents; k++) {
        if (c->mapped[k] == 0 || c->mapped[k] == atomic_load(&shm_generations(c->header)[k]))
            continue;
        place = client_place(c, k, &size);
        dlc_check(os_reserve(place, size) != NULL);
        c->mapped[k] = 0;
    }
    atomic_store(&h->drops_seen, drops);
}

/* The sample's bytes, pinned in entry; NULL: a miss. */
static inline const void *client_read(struct client *c, struct shm_pin_block *b, unsigned entry,
                                      uint64_t sample, uint32_t *len)
{
    uint64_t off;

    if (!shm_read(c->slots, c->n_slots, b, entry, sample, c->segment_size, &off, len))
        return NULL;
    for (uint64_t k = off >> c->header->extent_shift;
         !c->all_mapped && k <= (off + *len - (*len > 0)) >> c->header->extent_shift; k++) {
        if (!client_map(c, k)) {
            shm_unpin(b, entry);
            return NULL;
        }
    }
    return c->segment + off;
}

#endif
