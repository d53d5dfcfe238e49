// SPDX-License-Identifier: Apache-2.0
/*
 * Substitution, the client's half (docs/design/0008). In a relaxed order that is computed, the
 * client *settles* upcoming positions: if the sample at a position is not resident, and one that
 * comes later in this epoch is, the two change places. So jobs that share a dataset read the
 * samples that any of them had fetched, each sample still once per epoch.
 *
 *     read      settled: being fetched, or there       the daemon looks here with us, see horizon
 *     .......|p p p p p p p p p p p p p p p p p|? ? ? ? ? ? ? q ? ? ? ? ? ? ? ? ? ...|
 *           pos                             settled           `- resident: goes to `settled`
 *
 * A rolling scan over the slots finds q; it costs at most READY_MOST computed positions and
 * SLOTS_MOST loads for each settled position. The client sends each swap to the daemon, then its
 * position (src/daemon/substitution.c); while the ring is full, it settles nothing more.
 *
 * (CLIENT-SUBSTITUTION-1) A position below `settled` is never swapped; one that was read, or dealt,
 *                         is below it.
 * (CLIENT-SUBSTITUTION-2) Swaps change under the process-wide lock, together with the position, and
 *                         only while the attachment that they are sent to is the current one: a
 *                         thread that announces the order to another daemon finds all of them, in a
 *                         consistent state.
 */
#include "client/substitution.h"

#include "base/check.h"
#include "client/attachment.h"
#include "client/dataset.h"
#include "client/process.h"
#include "client/reading.h"
#include "ipc/shm.h"
#include "order/schedule.h"

#define READY_MOST  128u
#define SLOTS_MOST  4096u
#define SETTLE_MOST 4096u /* positions in one call */

static bool is_resident(const struct attachment *a, uint64_t sample)
{
    /* relaxed: a hint; who reads it pins it */
    return sample < a->n &&
           shm_where_state(atomic_load_explicit(&a->slots[sample].where, memory_order_relaxed)) ==
               SHM_READY;
}

/* Will the sample be there when p is read? It is now, or p is of the next epoch and this one has
 * still to read it. */
static bool will_be_there(const struct reading *r, const struct attachment *a, uint64_t p,
                          uint64_t sample)
{
    const struct cursor *c = &r->schedule->cursor;

    return is_resident(a, sample) || (p - r->pos >= cursor_left(c, r->pos) &&
                                      cursor_next_in_epoch(c, sample, r->pos) != CURSOR_NEVER);
}

/* The position, after `from` in its epoch, of a sample that is resident; CURSOR_NEVER: none found.
 */
static uint64_t find_resident(struct reading *r, const struct attachment *a, uint64_t from)
{
    const struct order_spec *s = &r->spec;
    unsigned ready = 0;

    for (uint64_t i = 0; i < DLC_MIN(s->n, (uint64_t)SLOTS_MOST) && ready < READY_MOST; i++) {
        uint64_t sample = s->first + r->look, at;

        r->look = r->look + 1 < s->n ? r->look + 1 : 0;
        if (!is_resident(a, sample))
            continue;
        ready++;
        at = cursor_next_in_epoch(&r->schedule->cursor, sample, from + 1);
        if (at != CURSOR_NEVER)
            return at;
    }
    return CURSOR_NEVER;
}

static bool ring_is_full(const struct attachment *a)
{
    /* acquire: what the daemon read of the ring it read before */
    uint64_t head = atomic_load_explicit(&a->session->swaps_head, memory_order_acquire);

    return a->swaps_tail - head >= SHM_SWAPS;
}

/* Settle what is read at p: false when a swap would have to wait. */
static bool settle_one(struct dlc_dataset *ds, struct attachment *a, uint64_t p, uint64_t sample)
{
    struct reading *r = &ds->reading;
    struct shm_swap *w;
    uint64_t q;
    bool done;

    if (will_be_there(r, a, p, sample) || cursor_left(&r->schedule->cursor, p) == 1)
        return true;
    if (ring_is_full(a))
        return false;
    q = find_resident(r, a, p);
    if (q == CURSOR_NEVER)
        return true;
    client_lock();
    /* (CLIENT-SUBSTITUTION-2) */
    done = atomic_load(&ds->cur) == a && schedule_swap(r->schedule, p, q);
    client_unlock();
    if (!done)
        return true;
    w = &a->session->swaps[a->swaps_tail % SHM_SWAPS];
    atomic_store_explicit(&w->p, p, memory_order_relaxed); /* told by the store of the tail */
    atomic_store_explicit(&w->q, q, memory_order_relaxed);
    /* release: pairs with the daemon's acquire, which then sees the swap */
    atomic_store_explicit(&a->session->swaps_tail, ++a->swaps_tail, memory_order_release);
    return true;
}

static void settle_to(struct dlc_dataset *ds, struct attachment *a, uint64_t end)
{
    struct reading *r = &ds->reading;

    end = DLC_MIN(end, r->settled + SETTLE_MOST);
    while (r->settled < end) {
        uint64_t sample = cursor_at(&r->schedule->cursor, r->settled);

        if (sample >= CURSOR_LATER || !settle_one(ds, a, r->settled, sample))
            break;
        r->settled++;
    }
}

static void settle_with(struct dlc_dataset *ds, struct attachment *a, uint64_t first, size_t n)
{
    struct reading *r = &ds->reading;
    /* relaxed: a number; the daemon says again how far when it looks */
    uint64_t horizon = atomic_load_explicit(&a->session->horizon, memory_order_relaxed);

    if (horizon == 0) /* it follows the order as it is: so do we */
        r->settled = DLC_MAX(r->settled, first + READING_WORDS * 64);
    else
        settle_to(ds, a, first + n + DLC_MIN(horizon, r->spec.n));
    r->settled = DLC_MAX(r->settled, first + n);
    /* release: what was swapped below it is told before */
    atomic_store_explicit(&a->session->settled, r->settled, memory_order_release);
}

void swap_settle(struct dlc_dataset *ds, size_t n)
{
    struct reading *r = &ds->reading;
    struct attachment *a;
    uint64_t first;

    if (!r->swaps)
        return;
    first = DLC_MAX(r->pos, r->dealt);
    r->settled = DLC_MAX(r->settled, first);
    a = dataset_current(ds);
    if (a != NULL)
        settle_with(ds, a, first, n);
    if (a != NULL)
        dataset_detach(ds, a);
    r->settled = DLC_MAX(r->settled, first + n);
}
