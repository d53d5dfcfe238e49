// SPDX-License-Identifier: Apache-2.0
/*
 * Substitution, the daemon's half (docs/design/0008). A client with a relaxed order decides which
 * of its positions change places, so that it reads resident samples instead of missing ones; the
 * daemon only follows. The client writes each swap into a ring in its session, and then how far its
 * order is *settled*: positions before that do not change any more, and only those are fetched.
 * `horizon` tells the client how far it should settle: the window.
 *
 * (DAEMON-SUBSTITUTION-1) The client is not trusted: both positions of a swap must be still to
 *                         come, in one epoch of the session's order. A client that writes anything
 *                         else may not swap until it announces an order again; until then its
 *                         cursor is followed without swaps, and it waits for samples that it reads
 *                         elsewhere.
 * (DAEMON-SUBSTITUTION-2) Every swap that was made before the client wrote its cursor is known when
 *                         the daemon acts on that cursor: the cursor is loaded before the ring.
 * (DAEMON-SUBSTITUTION-3) Swaps are applied in sequence, each before the cursor passes it. The
 *                         client may swap in an epoch that is not ready here yet: it swaps first
 *                         and then writes its cursor, and may have read several short epochs since
 *                         the last look. Such a swap waits in the ring until the cursor has moved
 *                         to the beginning of its epoch, or near it. One look does that for the
 *                         swaps that were in the ring when it began: SHM_SWAPS times at most.
 */
#include "daemon/substitution.h"

#include <stdatomic.h>

#include "base/counters.h"
#include "base/log.h"
#include "daemon/job_weights.h"
#include "daemon/session.h"
#include "daemon/client_conn.h"
#include "daemon/dataset.h"
#include "order/cursor.h"
#include "order/schedule.h"

#define SOONER 16.0 /* what is resident is read so much sooner than the order says */

static struct shm_session_hdr *hdr_of(const struct session *s)
{
    return mem_session_map(s->mem);
}

void substitution_begin(struct session *s, bool may)
{
    struct reader_state *f = &s->reader;
    struct shm_session_hdr *h = hdr_of(s);

    f->swapping = may;
    f->settled = 0;
    /* relaxed: the client waits for our answer */
    f->swaps_head = f->swaps_tail = atomic_load_explicit(&h->swaps_tail, memory_order_relaxed);
    f->held = SUBSTITUTION_NONE;
    atomic_store_explicit(&h->swaps_head, f->swaps_head, memory_order_relaxed);
    atomic_store_explicit(&h->settled, 0, memory_order_relaxed);
    atomic_store_explicit(&h->horizon, may ? f->window : 0, memory_order_relaxed);
}

static bool swap(struct session *s, uint64_t p, uint64_t q)
{
    struct schedule *t = s->reader.schedule;

    if (!schedule_swap(t, p, q))
        return false;
    count(swaps);
    memory_use_is_sooner(s->ds->index, cursor_at(&t->cursor, p));
    memory_forget_use(s->ds->index, cursor_at(&t->cursor, q));
    return true;
}

static void refuse(struct session *s)
{
    s->reader.swapping = false;
    count(client_nonsense);
    log_warn("client %d swaps what its order does not have, or too much of it: it may not any more",
             (int)s->conn->pid);
}

/* Is p of an epoch that will only be kept ready when the cursor has come nearer? */
static bool is_far(const struct schedule *t, uint64_t p)
{
    const struct cursor *c = &t->cursor;

    return c->n_ready > 0 && p >= t->at && p >= c->ready[c->n_ready - 1].end &&
           cursor_left(c, p) > 0;
}

uint64_t substitution_drain(struct session *s)
{
    struct reader_state *f = &s->reader;
    struct shm_session_hdr *h = hdr_of(s);

    f->held = SUBSTITUTION_NONE;
    while (f->swapping && f->swaps_head != f->swaps_tail) {
        const struct shm_swap *w = &h->swaps[f->swaps_head % SHM_SWAPS];
        /* relaxed: ordered by the acquire of swaps_tail */
        uint64_t p = atomic_load_explicit(&w->p, memory_order_relaxed);
        uint64_t q = atomic_load_explicit(&w->q, memory_order_relaxed);

        if (is_far(f->schedule, p)) {
            f->held = p;
            break;
        }
        f->swaps_head++;
        if (!swap(s, p, q))
            refuse(s);
    }
    if (f->swapping) /* release: the client may write there again when it sees this */
        atomic_store_explicit(&h->swaps_head, f->swaps_head, memory_order_release);
    return f->held != SUBSTITUTION_NONE ? f->held - f->held % f->schedule->cursor.length
                                        : SUBSTITUTION_NONE;
}

uint64_t substitution_look(struct session *s)
{
    struct reader_state *f = &s->reader;
    struct shm_session_hdr *h = hdr_of(s);

    if (!f->swapping)
        return SUBSTITUTION_NONE;
    /* acquire: what is settled was swapped before; the ring is loaded after it */
    f->settled = atomic_load_explicit(&h->settled, memory_order_acquire);
    /* acquire: pairs with the client's release after it wrote the swap */
    f->swaps_tail = atomic_load_explicit(&h->swaps_tail, memory_order_acquire);
    if (f->swaps_tail - f->swaps_head > SHM_SWAPS)
        refuse(s);
    return substitution_drain(s);
}

/*
 * What such a client has not read in this epoch it reads soon when it is resident, wherever the
 * order has it; what it has read, soon after the next epoch begins. So that is what its samples are
 * kept by, and the order decides among those that are equal otherwise.
 */
double substitution_distance(const struct reader_state *f, uint64_t at)
{
    uint64_t near = DLC_MAX(f->ahead, f->pos + f->window), base = f->pos, end;

    if (!f->swapping || at < near)
        return (double)(at - f->pos);
    end = f->pos + cursor_left(&f->schedule->cursor, f->pos);
    if (at >= end)
        base = end;
    return (double)(base - f->pos) + (double)f->window + (double)(at - base) / SOONER;
}

void substitution_tell(struct session *s)
{
    struct reader_state *f = &s->reader;

    /* relaxed: a number that decides how far to look ahead; the client may see it late */
    atomic_store_explicit(&hdr_of(s)->horizon, f->swapping ? f->window : 0, memory_order_relaxed);
}
