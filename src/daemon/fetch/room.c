// SPDX-License-Identifier: Apache-2.0
/*
 * (ROOM-1) A fetch waits for WAIT at most; then its readers go to the bucket. After that nobody waits
 *          for PAUSE, so that a client that pins without end costs the readers of its memory little.
 * (ROOM-2) Fetches that readers wait for come before prefetches, each in the order of their coming.
 */
#include "daemon/fetch/room.h"

#include "daemon/dataset.h"
#include "daemon/fetch/source.h"
#include "daemon/state.h"

#define WAIT  DLC_MS(250)
#define PAUSE DLC_SEC(1)
#define TRIES 64 /* in one turn of the loop */

bool room_is_awaited(const struct tenant_memory *t)
{
    return !dlc_list_empty(&t->room.demand) || !dlc_list_empty(&t->room.prefetch);
}

bool room_wait(struct fetch *f, bool (*again)(struct fetch *f))
{
    struct node *n = f->ds->node;
    struct tenant_memory *t = f->ds->tenant_memory;
    struct dlc_mono now = loop_now(n->loop);
    bool first = f->room_until.ns == 0;

    if (first)
        f->room_until = dlc_mono_add(now, WAIT);
    if (now.ns < t->room.pause.ns || n->stopping)
        return false;
    if (dlc_mono_passed(f->room_until, now)) {
        t->room.pause = dlc_mono_add(now, PAUSE);
        return false;
    }
    if (first)
        dlc_list_push_tail(f->on_demand ? &t->room.demand : &t->room.prefetch, &f->of_room);
    else
        dlc_list_push_head(f->on_demand ? &t->room.demand : &t->room.prefetch, &f->of_room);
    f->again = again;
    n->pending++;
    loop_timer_set(n->loop, &n->freeing, now);
    return true;
}

void room_hurry(struct fetch *f)
{
    if (f->on_demand || dlc_list_empty(&f->of_room))
        return;
    f->on_demand = true;
    dlc_list_remove(&f->of_room);
    dlc_list_push_tail(&f->ds->tenant_memory->room.demand, &f->of_room);
}

/* False: the first of them still waits. */
static bool try_first(struct node *n, struct dlc_list *waiting)
{
    struct fetch *f = dlc_container(dlc_list_pop_head(waiting), struct fetch, of_room);

    n->pending--;
    return f->again(f);
}

static void try_some(struct node *n, struct tenant_memory *t)
{
    for (unsigned i = 0; i < TRIES && !dlc_list_empty(&t->room.demand); i++)
        if (!try_first(n, &t->room.demand))
            return;
    for (unsigned i = 0; i < TRIES && !dlc_list_empty(&t->room.prefetch); i++)
        if (!try_first(n, &t->room.prefetch))
            return;
}

bool room_try(struct node *n)
{
    bool more = false;

    dlc_list_each (l, &n->memories.all) {
        struct tenant_memory *t = dlc_container(l, struct tenant_memory, link);

        try_some(n, t);
        more |= room_is_awaited(t);
    }
    return more;
}
