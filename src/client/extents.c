// SPDX-License-Identifier: Apache-2.0
#include "client/extents.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "client/attach.h"
#include "client/process.h"
#include "ipc/frame.h"

/* Mappings of this process that are made ahead of use: the kernel allows 65,530 of all kinds. */
#define AHEAD_MAX 16384u
static _Atomic uint32_t n_mapped; /* in all attachments. relaxed: a rough bound */

int extents_attach(struct attachment *a, struct dlc_err *err)
{
    const struct shm_segment_hdr *h = a->header;
    uint64_t covered = h->extent_shift < 64 ? (uint64_t)h->n_extents << h->extent_shift : 0;

    if (h->extent_shift < 12 || h->extent_shift > 48 || h->n_extents == 0 || covered < h->size ||
        h->n_extents > (a->header_size - SHM_HDR_SIZE) / sizeof(uint32_t))
        return dlc_err_set(err, DLC_EPROTO, "the daemon's extents do not make up its segment");
    a->segment_size = h->size;
    a->extent_shift = h->extent_shift;
    a->n_extents = h->n_extents;
    atomic_store(&a->drops_seen, atomic_load(&h->drops));
    atomic_store(&a->session->drops_seen, atomic_load(&a->drops_seen)); /* nothing is mapped yet */
    a->mapped = mem_zero(a->n_extents * sizeof(*a->mapped));
    a->segment = os_reserve(NULL, a->segment_size);
    if (a->segment == NULL)
        return dlc_err_sys(err,
                           "no address space for the daemon's memory of %llu bytes (is ulimit "
                           "-v too small?)",
                           (unsigned long long)a->segment_size);
    return 0;
}

static uint64_t extent_size(const struct attachment *a, uint32_t k)
{
    uint64_t begin = (uint64_t)k << a->extent_shift;

    return DLC_MIN((uint64_t)1 << a->extent_shift, a->segment_size - begin);
}

/* ---- mapping ---- */

static int map_one(struct attachment *a, uint32_t k, uint32_t generation, int fd,
                   struct dlc_err *err)
{
    char *at = a->segment + ((uint64_t)k << a->extent_shift);
    /* relaxed: changed under the lock */
    uint32_t before = atomic_load_explicit(&a->mapped[k], memory_order_relaxed);

    if (before == generation)
        return 0;
    if (os_map_at(at, fd, extent_size(a, k), false) == NULL)
        return dlc_err_sys(err, "cannot map the daemon's memory (are there too many mappings, "
                                "vm.max_map_count?)");
    atomic_store_explicit(&a->mapped[k], generation, memory_order_release); /* R hits */
    a->n_mapped += before == 0;
    atomic_fetch_add_explicit(&n_mapped, before == 0, memory_order_relaxed);
    return 0;
}

/* The answer may be older than what another thread has mapped since. */
static bool is_current(const struct attachment *a, uint32_t k, uint32_t generation)
{
    return generation != 0 &&
           atomic_load_explicit(&shm_generations(a->header)[k], memory_order_acquire) == generation;
}

static bool may_map_ahead(void)
{
    return atomic_load_explicit(&n_mapped, memory_order_relaxed) < AHEAD_MAX;
}

/* ---- the channel ---- */

/* One packet, and its descriptor or -1. False: there is none. */
static bool receive_note(struct attachment *a, struct shm_extent_note *note, int *fd)
{
    struct iovec iov = {note, sizeof(*note)};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr h = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    const struct cmsghdr *c;

    *fd = -1;
    if (os_recvmsg(a->channel, &h, MSG_DONTWAIT) != (ssize_t)sizeof(*note))
        return false;
    c = CMSG_FIRSTHDR(&h); /* NULL also when this process has no descriptor left */
    if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(c), sizeof(*fd));
    return true;
}

/* Take what came: (EXTENTS-3). What cannot be mapped now is asked for by who reads it. */
static void channel_read(struct attachment *a)
{
    struct shm_extent_note note;
    int fd;

    while (a->channel >= 0 && receive_note(a, &note, &fd)) {
        if (fd >= 0 && note.number < a->n_extents && may_map_ahead() &&
            is_current(a, note.number, note.generation))
            map_one(a, note.number, note.generation, fd, NULL);
        os_close(&fd);
    }
}

/* ---- asking ---- */

/* Extent i of the answer. DLC_EPROTO: it is not one of ours. */
static int read_answer(const struct attachment *a, const struct msg *m, unsigned i, uint32_t *k,
                       uint32_t *generation, struct dlc_err *err)
{
    const json_t *one = json_array_get(json_object_get(m->body, "extents"), i);
    json_int_t number = json_integer_value(json_array_get(one, 0));
    struct stat st;

    *k = (uint32_t)number;
    *generation = (uint32_t)json_integer_value(json_array_get(one, 1));
    if (one == NULL || number < 0 || number >= a->n_extents)
        return dlc_err_set(err, DLC_EPROTO, "the daemon has sent an extent without a number");
    if (os_fstat(m->fds[i], &st) < 0 || (uint64_t)st.st_size != extent_size(a, *k))
        return dlc_err_set(err, DLC_EPROTO, "the daemon has sent an extent of a wrong size");
    return 0;
}

/* *next: the number after the last one; n_extents when there are no others. */
static int map_answer(struct attachment *a, const struct msg *m, uint32_t *next,
                      struct dlc_err *err)
{
    uint32_t k = a->n_extents - 1, generation;
    int rc = 0;

    for (unsigned i = 0; i < m->n_fds && rc == 0; i++) {
        rc = read_answer(a, m, i, &k, &generation, err);
        if (rc < 0)
            break;
        client_lock(); /* nothing that may wait is called under it */
        if (is_current(a, k, generation))
            rc = map_one(a, k, generation, m->fds[i], err);
        client_unlock();
    }
    *next = m->n_fds < MSG_FDS ? a->n_extents : k + 1;
    return rc;
}

/* Map extents from number `from` on: as many as an answer carries. *next: where those after them
 * begin, n_extents at the end. */
static int ask_from(struct attachment *a, uint32_t from, struct dlc_mono deadline, uint32_t *next,
                    struct dlc_err *err)
{
    json_t *question = json_pack("{s:s, s:I}", "op", "extents", "from", (json_int_t)from);
    struct msg m = MSG_INIT;
    int rc = attach_call(a, question, -1, deadline, &m, err);

    json_decref(question);
    if (rc == 0)
        rc = map_answer(a, &m, next, err);
    if (rc == 0 && *next <= from)
        rc = dlc_err_set(err, DLC_EPROTO, "the daemon has sent extents that were not asked for");
    msg_release(&m);
    return rc;
}

int extents_map_ahead(struct attachment *a, struct dlc_mono deadline, struct dlc_err *err)
{
    uint32_t k = 0;
    int rc = 0;

    while (rc == 0 && k < a->n_extents && may_map_ahead())
        rc = ask_from(a, k, deadline, &k, err);
    return rc == DLC_ENODAEMON || rc == DLC_ETIMEDOUT || rc == DLC_ECANCELED ? rc : 0;
}

int extents_map(struct attachment *a, uint64_t sample, struct dlc_mono deadline,
                struct dlc_err *err)
{
    const struct shm_slot *s = &a->slots[sample];
    uint64_t where = atomic_load(&s->where), len = atomic_load(&s->len) & UINT32_MAX;
    uint64_t offset = shm_where_offset(where);
    uint32_t next;
    int rc = 0;

    /* Not pinned: they may not belong together. Then the next look finds other extents. */
    if (shm_where_state(where) != SHM_READY || offset >= a->segment_size)
        return 0;
    len = DLC_MIN(DLC_MAX(len, 1), a->segment_size - offset);
    client_lock();
    channel_read(a);
    client_unlock();
    for (uint64_t k = offset >> a->extent_shift;
         k <= (offset + len - 1) >> a->extent_shift && rc == 0; k++)
        if (!is_current(a, (uint32_t)k, atomic_load(&a->mapped[k])))
            rc = ask_from(a, (uint32_t)k, deadline, &next, err);
    return rc;
}

/* ---- unmapping ---- */

/* False: the kernel refuses. */
static bool unmap_one(struct attachment *a, uint32_t k)
{
    char *at = a->segment + ((uint64_t)k << a->extent_shift);

    if (os_reserve(at, extent_size(a, k)) == NULL)
        return false;
    atomic_store_explicit(&a->mapped[k], 0, memory_order_relaxed); /* no hit can be there */
    a->n_mapped--;
    atomic_fetch_sub_explicit(&n_mapped, 1, memory_order_relaxed);
    return true;
}

void extents_unmapped(struct attachment *a)
{
    atomic_fetch_sub_explicit(&n_mapped, a->n_mapped, memory_order_relaxed);
    a->n_mapped = 0;
}

void extents_follow(struct attachment *a)
{
    /* acquire: the table is at least as new. Before the channel is read: (EXTENTS-3) */
    uint64_t drops = atomic_load_explicit(&a->header->drops, memory_order_acquire);
    bool all = true;

    channel_read(a);
    if (drops == atomic_load_explicit(&a->drops_seen, memory_order_relaxed))
        return;
    for (uint32_t k = 0; k < a->n_extents; k++) {
        uint32_t mine = atomic_load_explicit(&a->mapped[k], memory_order_relaxed);

        if (mine != 0 && !is_current(a, k, mine))
            all = unmap_one(a, k) && all;
    }
    if (!all) /* the next packet, or call, tries again */
        return;
    atomic_store_explicit(&a->drops_seen, drops, memory_order_relaxed);
    atomic_store_explicit(&a->session->drops_seen, drops, memory_order_release); /* R daemon */
}

void extents_look(struct attachment *a)
{
    if (atomic_load_explicit(&a->header->drops, memory_order_relaxed) ==
        atomic_load_explicit(&a->drops_seen, memory_order_relaxed))
        return;
    client_lock();
    extents_follow(a);
    client_unlock();
}
