// SPDX-License-Identifier: Apache-2.0
/*
 * Sessions: the memory that clients write. pin_scan.c reads it, except the ring.
 *
 * (SESSION-SHM-1) The daemon does not trust this memory: numbers are loaded once and bounded before
 *                 use, and the work per session is bounded by its size whatever it holds. A client
 *                 that lies can keep samples of its own dataset in memory or spoil their recency;
 *                 it cannot make the daemon read or write elsewhere.
 */
#include "base/mem.h"
#include "base/syscalls.h"
#include "cache/memory/memory_i.h"

int mem_session_new(struct mem_index *x, struct mem_session **out, struct dlc_err *err)
{
    struct segment seg;
    int rc = segment_open(&seg, "dlcache-session", SHM_SESSION_SIZE, SEGMENT_CLIENTS_WRITE, err);

    *out = NULL;
    if (rc < 0)
        return rc;
    struct mem_session *s = mem_new(struct mem_session);

    if (channel_open(s) < 0) {
        rc = dlc_err_sys(err, "shared memory of a session: cannot make its channel");
        segment_close(&seg);
        mem_free(&s);
        return rc;
    }
    struct shm_session_hdr *h = seg.map;

    *h = (struct shm_session_hdr){.magic = SHM_SESSION_MAGIC,
                                  .version = SHM_VERSION,
                                  .ring_off = SHM_RING_OFF,
                                  .cells_off = SHM_CELLS_OFF,
                                  .blocks_off = SHM_BLOCKS_OFF,
                                  .drops_seen = x->m->extents.drops, /* it maps nothing yet */
                                  .need_wake = 1}; /* nobody looks at the ring yet */
    s->tag = MEM_SESSION_TAG;
    s->x = x;
    s->seg = seg;
    s->given = mem_zero(x->m->extents.n * sizeof(*s->given));
    dlc_list_push_tail(&x->sessions, &s->node);
    user_join(s, MEM_OWNER);
    pin_scan_join(s);
    channel_join(s);
    *out = s;
    return 0;
}

void mem_session_free(struct mem_session **sp)
{
    struct mem_session *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    dlc_check(s->tag == MEM_SESSION_TAG);
    pin_scan_last_hits(s);
    dlc_list_remove(&s->node);
    pin_scan_leave(s);
    user_leave(s);
    channel_leave(s);
    segment_close(&s->seg);
    mem_free(&s->given);
    s->tag = 0;
    mem_free(&s);
}

void mem_session_set_user(struct mem_session *s, uint64_t user)
{
    pin_scan_leave(s);
    user_leave(s);
    user_join(s, user);
    pin_scan_join(s);
}

int mem_session_fd(const struct mem_session *s)
{
    return s->seg.fd;
}

unsigned mem_session_extents(struct mem_session *s, uint64_t from, struct mem_extent *out,
                             unsigned n)
{
    const struct extents *e = &s->x->m->extents;
    unsigned found = 0;

    for (uint64_t k = from; k < e->n && found < n; k++) {
        if (e->all[k].fd < 0)
            continue;
        out[found++] = (struct mem_extent){(uint32_t)k, e->all[k].generation, e->all[k].fd};
        s->given[k] = e->all[k].generation;
    }
    return found;
}

void *mem_session_map(const struct mem_session *s)
{
    return s->seg.map;
}
