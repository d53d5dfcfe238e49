// SPDX-License-Identifier: Apache-2.0
/*
 * Substitution, the daemon's half (docs/design/0008). A client with a relaxed order decides which
 * of its positions change places, so that it reads what is resident instead of what is not; we only
 * follow. It writes each swap into a ring in its session, then how far its order is *settled*: up
 * to there nothing is swapped any more, and only up to there is it fetched. `horizon` tells it how
 * far that should be: the window.
 *
 * (Z1) Nothing is believed: both positions must be to come, in one epoch of the session's order. A
 * client that writes anything else loses the right to swap until it tells an order again; from then
 * on it is followed as if it could not, and what it reads elsewhere it waits for.
 * (Z2) Every swap that was made before the client wrote its cursor is known when the cursor is
 * looked at: the cursor is loaded before the ring.
 */
#include "node/node_i.h"

#include <stdatomic.h>

#include "base/counters.h"
#include "base/log.h"

#define SOONER 16.0 /* what is resident is read so much sooner than the order says */

static struct shm_session_hdr *hdr_of(const struct session *s)
{
    return mem_session_map(s->mem);
}

void swapping_begin(struct session *s, bool may)
{
    struct follow *f = &s->follow;
    struct shm_session_hdr *h = hdr_of(s);

    f->swapping = may;
    f->settled = 0;
    /* relaxed: the client waits for our answer */
    f->swaps_head = atomic_load_explicit(&h->swaps_tail, memory_order_relaxed);
    atomic_store_explicit(&h->swaps_head, f->swaps_head, memory_order_relaxed);
    atomic_store_explicit(&h->settled, 0, memory_order_relaxed);
    atomic_store_explicit(&h->horizon, may ? f->window : 0, memory_order_relaxed);
}

static bool swap(struct session *s, uint64_t p, uint64_t q)
{
    struct told *t = s->follow.told;

    if (!told_swap(t, p, q))
        return false;
    count(swaps);
    prefetch_published(s->ds, cursor_at(&t->cursor, p));
    prefetch_published(s->ds, cursor_at(&t->cursor, q));
    return true;
}

static bool drain(struct session *s)
{
    struct follow *f = &s->follow;
    struct shm_session_hdr *h = hdr_of(s);
    /* acquire: pairs with the client's release after it wrote the swap */
    uint64_t tail = atomic_load_explicit(&h->swaps_tail, memory_order_acquire);

    if (tail - f->swaps_head > SHM_SWAPS)
        return false;
    while (f->swaps_head != tail) {
        const struct shm_swap *w = &h->swaps[f->swaps_head++ % SHM_SWAPS];

        /* relaxed: ordered by the acquire of swaps_tail */
        if (!swap(s, atomic_load_explicit(&w->p, memory_order_relaxed),
                  atomic_load_explicit(&w->q, memory_order_relaxed)))
            return false;
    }
    /* release: the client may write there again when it sees this */
    atomic_store_explicit(&h->swaps_head, f->swaps_head, memory_order_release);
    return true;
}

void swapping_look(struct session *s)
{
    struct follow *f = &s->follow;

    if (!f->swapping)
        return;
    /* acquire: what is settled was swapped before; drain() loads the ring after it */
    f->settled = atomic_load_explicit(&hdr_of(s)->settled, memory_order_acquire);
    f->swapping = drain(s);
    if (f->swapping)
        return;
    count(client_nonsense);
    log_warn("client %d swaps what its order does not have, or too much of it: it may not any more",
             (int)s->conn->pid);
}

/*
 * What such a client has not read in this epoch it reads soon when it is resident, wherever the
 * order has it; what it has read, soon after the next epoch begins. So that is what its samples are
 * kept by, and the order decides among those that are equal otherwise.
 */
double swapping_distance(const struct follow *f, uint64_t at)
{
    uint64_t near = DLC_MAX(f->ahead, f->pos + f->window), base = f->pos, end;

    if (!f->swapping || at < near)
        return (double)(at - f->pos);
    end = f->pos + cursor_left(&f->told->cursor, f->pos);
    if (at >= end)
        base = end;
    return (double)(base - f->pos) + (double)f->window + (double)(at - base) / SOONER;
}

void swapping_tell(struct session *s)
{
    struct follow *f = &s->follow;

    /* relaxed: a number that decides how far to look ahead; the client may see it late */
    atomic_store_explicit(&hdr_of(s)->horizon, f->swapping ? f->window : 0, memory_order_relaxed);
}
