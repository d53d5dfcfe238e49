// SPDX-License-Identifier: Apache-2.0
/*
 * Sessions: the memory that clients write, and how the daemon reads it (except the ring).
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
    dlc_list_remove(&s->node);
    pin_scan_leave(s);
    channel_leave(s);
    segment_close(&s->seg);
    mem_free(&s->given);
    s->tag = 0;
    mem_free(&s);
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

bool session_holds(const struct mem_session *s, uint32_t k, uint32_t generation, uint64_t number)
{
    const struct shm_session_hdr *h = s->seg.map;

    /* acquire: pairs with the client's store after it unmapped */
    return s->given[k] == generation &&
           atomic_load_explicit(&h->drops_seen, memory_order_acquire) < number;
}

void *mem_session_map(const struct mem_session *s)
{
    return s->seg.map;
}

struct shm_pin_block *session_blocks(const struct mem_session *s, unsigned *n)
{
    struct shm_session_hdr *h = s->seg.map;
    /* Seq_cst, as in_use and the pins: a client raises it before it pins. (SHM-1) */
    uint32_t high = atomic_load_explicit(&h->blocks_high, memory_order_seq_cst);

    *n = DLC_MIN(high, SHM_BLOCKS);
    return (struct shm_pin_block *)((char *)s->seg.map + SHM_BLOCKS_OFF);
}

unsigned session_read_pins(const struct mem_session *s, struct shm_pin_block *b)
{
    unsigned n = 0;

    for (unsigned i = 0; i < SHM_PINS; i++) {
        /* Pairs with the reader's seq_cst store (SHM-1), and its release when it clears
         * (PIN-READER-3). */
        uint64_t pin = atomic_load_explicit(&b->pins[i], memory_order_seq_cst);

        n += pin != 0;
        if (pin != 0 && pin - 1 < s->x->n)
            pin_scan_seen(s->x, pin - 1);
    }
    return n;
}

unsigned session_read_log(struct mem_session *s, unsigned block)
{
    unsigned n;
    struct shm_pin_block *b = &session_blocks(s, &n)[block];
    uint64_t seq = atomic_load_explicit(&b->log_seq, memory_order_acquire); /* pairs shm_log() */

    n = (unsigned)DLC_MIN(seq - s->log_seen[block], SHM_LOG);
    s->log_seen[block] = seq;
    for (uint64_t i = seq - n; i != seq; i++) {
        uint64_t sample = atomic_load_explicit(&b->log[i % SHM_LOG], memory_order_relaxed);

        memory_touch(s->x->m, s->x, sample);
    }
    return n;
}

void session_add_block(const struct shm_pin_block *b, struct mem_session_stats *sum)
{
    sum->hits += atomic_load_explicit(&b->hits, memory_order_relaxed);
    sum->misses += atomic_load_explicit(&b->misses, memory_order_relaxed);
    sum->bypasses += atomic_load_explicit(&b->bypasses, memory_order_relaxed);
    sum->bytes += atomic_load_explicit(&b->bytes, memory_order_relaxed);
    sum->stall_ns += atomic_load_explicit(&b->stall_ns, memory_order_relaxed);
}

void mem_session_stats(const struct mem_session *s, struct mem_session_stats *out)
{
    unsigned n;

    session_blocks(s, &n);
    if (pin_scan_may_sum(&s->x->m->scan, n))
        mem_session_final_stats(s, out);
    else
        *out = s->stats;
}

void mem_session_final_stats(const struct mem_session *s, struct mem_session_stats *out)
{
    unsigned n;
    struct shm_pin_block *b = session_blocks(s, &n);

    *out = (struct mem_session_stats){0};
    for (struct shm_pin_block *end = b + n; b < end; b++) {
        session_add_block(b, out);
        if (atomic_load_explicit(&b->in_use, memory_order_relaxed) == 0)
            continue;
        for (unsigned i = 0; i < SHM_PINS; i++)
            out->pins += atomic_load_explicit(&b->pins[i], memory_order_relaxed) != 0;
    }
}
