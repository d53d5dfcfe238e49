// SPDX-License-Identifier: Apache-2.0
/*
 * Sessions hear of extents: each has a channel, a socket of packets, over which it gets the
 * descriptor of every extent that is made (struct shm_extent_note) before a sample in it is READY,
 * and a word when some were dropped. So readers seldom wait for a mapping, and a client that makes
 * no call gives memory back.
 *
 * (ANNOUNCE-1) A client that does not read keeps few descriptors in flight (the socket's buffer is
 *              small), delays nobody, and gets the rest when it reads again: by the next tick, or by
 *              asking (mem_session_extents()).
 * (ANNOUNCE-2) The daemon receives nothing there: a descriptor that a client sent would be closed by
 *              the loop, and that may wait.
 * A step tells STEP sessions, so that the work of a turn does not grow with them.
 */
#include <errno.h>
#include <string.h>

#include "base/syscalls.h"
#include "cache/memory/memory_i.h"

#define STEP        256             /* sessions told at once: below a millisecond */
#define SEND_BUFFER ((int)16 << 10) /* bytes: about 30 packets in flight */

static void channel_close(struct mem_session *s)
{
    os_close(&s->channel);
    os_close(&s->client_end);
}

int channel_open(struct mem_session *s)
{
    int ends[2], size = SEND_BUFFER;

    s->channel = s->client_end = -1;
    if (os_socketpair(SOCK_SEQPACKET, ends) < 0)
        return -1;
    s->channel = ends[0];
    s->client_end = ends[1];
    if (os_setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) == 0 &&
        os_shutdown(ends[0], SHUT_RD) == 0)
        return 0;
    channel_close(s);
    return -1;
}

/* False: not now, errno says why. fd -1: none. */
static bool send_note(const struct mem_session *s, struct shm_extent_note note, int fd)
{
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
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(fd))};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&h)), &fd, sizeof(fd));
    }
    return os_sendmsg(s->channel, &h, MSG_DONTWAIT) >= 0;
}

/* Every extent that it was not given yet. False: some are left for later. */
static bool tell_made(struct mem_session *s)
{
    const struct extents *e = &s->x->m->extents;

    for (uint32_t k = 0; k < e->n; k++) {
        uint32_t generation = e->all[k].generation;

        if (e->all[k].fd < 0 || s->given[k] == generation)
            continue;
        if (!send_note(s, (struct shm_extent_note){k, generation}, e->all[k].fd))
            return false;
        s->given[k] = generation;
    }
    s->told_made = e->generations;
    return true;
}

/* A client with packets to read looks at the number of drops after them. */
static bool tell_dropped(struct mem_session *s)
{
    static const struct shm_extent_note note = {SHM_EXTENTS_DROPPED, 0};

    if (!send_note(s, note, -1) && errno != EAGAIN)
        return false;
    s->told_drops = s->x->m->extents.drops;
    return true;
}

static void tell(struct mem_session *s)
{
    struct memory *m = s->x->m;
    bool behind = false;

    if (s->channel < 0)
        return;
    if (s->told_made != m->extents.generations)
        behind = !tell_made(s);
    if (s->told_drops != m->extents.drops)
        behind = !tell_dropped(s) || behind;
    if (behind && (errno == EPIPE || errno == ECONNRESET)) {
        behind = false; /* the client has closed its end: its session will follow */
        channel_close(s);
    }
    m->n_behind += (unsigned)behind - (unsigned)s->behind;
    s->behind = behind;
}

void channel_join(struct mem_session *s)
{
    const struct extents *e = &s->x->m->extents;

    s->told_made = e->generations; /* it asks for those that are there */
    s->told_drops = e->drops;
    dlc_list_push_tail(&s->x->m->sessions, &s->of_memory);
    s->x->m->n_sessions++;
}

void channel_leave(struct mem_session *s)
{
    struct memory *m = s->x->m;

    dlc_list_remove(&s->of_memory);
    m->n_sessions--;
    m->n_behind -= s->behind;
    s->behind = false;
    channel_close(s);
}

bool memory_announce_some(struct memory *m)
{
    m->untold = DLC_MIN(m->untold, m->n_sessions);
    for (unsigned i = 0; i < STEP && m->untold > 0; i++, m->untold--) {
        struct dlc_list *head = dlc_list_pop_head(&m->sessions);

        dlc_list_push_tail(&m->sessions, head); /* each in its turn */
        tell(dlc_container(head, struct mem_session, of_memory));
    }
    return m->untold > 0;
}

void memory_announce(struct memory *m)
{
    m->untold = m->n_sessions;
    memory_announce_some(m);
}

int mem_session_take_channel(struct mem_session *s)
{
    int fd = s->client_end;

    s->client_end = -1;
    return fd;
}

void mem_session_hang_up(struct mem_session *s)
{
    s->x->m->n_behind -= s->behind;
    s->behind = false;
    channel_close(s);
}
