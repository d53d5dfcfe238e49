// SPDX-License-Identifier: Apache-2.0
/* An attachment whose daemon is the test: a header with a table of generations, a session, and the
 * daemon's ends of the connection and of the channel. Extent k has generation 10 + k. */
#ifndef DLC_TESTS_EXTENTS_WORLD_H
#define DLC_TESTS_EXTENTS_WORLD_H

#include "proc_self.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "base/syscalls.h"
#include "client/attach.h"
#include "client/extents.h"
#include "ipc/frame.h"

#define WORLD_EXTENT "test-extent" /* the name of their memory */

struct world {
    char *header; /* and the table of generations */
    struct shm_slot slots[3];
    struct attachment a;
    struct shm_session_hdr session;
    int end, channel_end;
    struct dlc_err err;
};

static inline struct shm_segment_hdr *header_of(struct world *w)
{
    return (struct shm_segment_hdr *)(void *)w->header;
}

/* n extents of 1 << shift bytes, the last one of `last` bytes. Nothing is attached yet. The table has
 * an entry too many, which is not to be read. */
static inline struct world *world_new(uint32_t n, unsigned shift, uint64_t last)
{
    struct world *w = test_calloc(1, sizeof(*w));
    struct shm_segment_hdr *h;
    int fds[2];

    w->a.header_size = SHM_HDR_SIZE + n * sizeof(uint32_t);
    w->header = mem_zero(w->a.header_size + sizeof(uint32_t));
    h = header_of(w);
    h->size = ((uint64_t)(n - 1) << shift) + last;
    h->extent_shift = shift;
    h->n_extents = n;
    for (uint32_t k = 0; k <= n; k++)
        atomic_store(&shm_generations(h)[k], 10 + k);
    w->a.header = h;
    w->a.session = &w->session;
    w->a.slots = w->slots;
    w->a.n = unit_count(w->slots);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    w->a.sock = fds[0];
    w->end = fds[1];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    w->a.channel = fds[0];
    w->channel_end = fds[1];
    dlc_mtx_init(&w->a.rpc, LCK_rpc);
    return w;
}

static inline void world_free(struct world *w)
{
    if (w->a.segment != NULL)
        os_unmap(w->a.segment, w->a.segment_size);
    extents_unmapped(&w->a);
    mem_free(&w->a.mapped);
    dlc_mtx_release(&w->a.rpc);
    os_close(&w->a.sock);
    os_close(&w->a.channel);
    os_close(&w->end);
    os_close(&w->channel_end);
    mem_free(&w->header);
    test_free(w);
}

static inline void world_place(struct world *w, unsigned slot, uint64_t offset, uint32_t len)
{
    atomic_store(&w->slots[slot].where, shm_where_make(SHM_READY, offset, 1));
    atomic_store(&w->slots[slot].len, len);
}

/* The memory of an extent. */
static inline int world_extent(uint64_t size)
{
    int fd = os_memfd(WORLD_EXTENT);

    assert_int_equal(os_ftruncate(fd, size), 0);
    return fd;
}

/* Answer the next question: `n` extents from number `from` on, each of `size` bytes. */
static inline void world_answer(struct world *w, json_int_t from, unsigned n, uint32_t generation,
                                uint64_t size)
{
    json_t *body = json_pack("{s:b, s:[]}", "ok", 1, "extents");
    int fds[MSG_FDS];

    for (unsigned i = 0; i < n; i++) {
        json_array_append_new(json_object_get(body, "extents"),
                              json_pack("[I, I]", from + i, (json_int_t)generation + i));
        fds[i] = world_extent(size);
    }
    assert_int_equal(msg_send(w->end, body, fds, n, NULL), 0);
    json_decref(body);
    for (unsigned i = 0; i < n; i++)
        os_close(&fds[i]);
}

static inline void world_refuse(struct world *w, int code)
{
    json_t *body = json_pack("{s:b, s:i}", "ok", 0, "code", code);

    assert_int_equal(msg_send(w->end, body, NULL, 0, NULL), 0);
    json_decref(body);
}

/* From which number on the client has asked; -1: it has not asked. */
static inline json_int_t world_question(struct world *w)
{
    struct pollfd p = {.fd = w->end, .events = POLLIN};
    struct msg m = MSG_INIT;
    json_int_t from;

    if (poll(&p, 1, 0) != 1 || msg_recv(w->end, &m, DLC_SEC(5), NULL) < 0)
        return -1;
    assert_int_equal(m.n_fds, 0);
    from = json_integer_value(json_object_get(m.body, "from"));
    msg_release(&m);
    return from;
}

/* The daemon has made extent k; fd -1: its memory is lost on the way. */
static inline void world_note(struct world *w, uint32_t k, uint32_t generation, int fd)
{
    struct shm_extent_note note = {k, generation};
    struct iovec iov = {&note, sizeof(note)};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};

    if (fd >= 0) {
        h.msg_control = &control;
        h.msg_controllen = sizeof(control);
        *CMSG_FIRSTHDR(&h) = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&h)), &fd, sizeof(fd));
    }
    assert_int_equal(sendmsg(w->channel_end, &h, MSG_DONTWAIT), sizeof(note));
}

/* Is a packet left in the channel? */
static inline bool world_channel_waits(struct world *w)
{
    struct pollfd p = {.fd = w->a.channel, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static inline int world_map(struct world *w, uint64_t sample)
{
    w->err = (struct dlc_err)DLC_ERR_INIT;
    return extents_map(&w->a, sample, dlc_mono_add(dlc_mono_now(), DLC_SEC(5)), &w->err);
}

#endif
