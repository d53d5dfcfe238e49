// SPDX-License-Identifier: Apache-2.0
/*
 * A wait for the owner of a sample, as the last source before the bucket: the owner is restarted,
 * and has the sample on its disk (docs/design/0006-cluster.md). When it is back, the walk over the
 * sources begins again, and the owner is asked.
 *
 * (WAIT-OWNER-1) All waits for one absence of an owner end at one time: they count from when it went,
 *                not from when the sample was asked for. An owner that does not come back costs
 *                readers that time once.
 * (WAIT-OWNER-2) A read for a peer does not wait here: the peer waits itself.
 * (WAIT-OWNER-3) A sample whose owner is well, and cuts the connection whenever it is asked for it, is
 *                read from the bucket after a few times.
 */
#include "daemon/fetch/source.h"

#include "base/counters.h"
#include "cluster/peer/peer_client.h"
#include "daemon/dataset.h"
#include "daemon/ownership.h"
#include "daemon/state.h"

#define PREFETCH_WAIT DLC_SEC(20) /* after a goodbye, if no reader waits */
#define READER_WAIT   DLC_SEC(5)  /* after a goodbye, if one waits */
#define LEFT_WAIT     DLC_MS(2500) /* nobody listens: a crash, or a goodbye that the view will tell */
#define LOOK_EVERY    DLC_MS(50)
#define WAITS_MOST    8

struct wait_state {
    struct timer timer;
};

static struct wait_state *wait_state(struct fetch_attempt *a)
{
    return (struct wait_state *)a->state;
}

static struct dlc_dur patience(const struct fetch *f, const struct owner_absence *o)
{
    if (!o->said_goodbye)
        return LEFT_WAIT;
    return dlc_list_empty(&f->waiters) ? PREFETCH_WAIT : READER_WAIT;
}

/* No owner that goes again and again keeps a fetch for longer than one that goes once. (WAIT-OWNER-3) */
bool fetch_awaits_owner(const struct fetch *f)
{
    struct owner_absence o;

    return !f->for_peer && !f->bypass && f->size > 0 && !f->ds->node->stopping &&
           f->owner_waits <= WAITS_MOST && dataset_owner_is_absent(f->ds, f->sample, &o) &&
           dlc_mono_since(o.since).ns < patience(f, &o).ns &&
           dlc_mono_since(f->started).ns < PREFETCH_WAIT.ns;
}

/* Also when the owner has come back while another peer was asked for a copy in its place: then the walk
 * begins again. */
static bool can_wait(struct fetch *f)
{
    return f->ds->ticket.text != NULL &&
           (fetch_awaits_owner(f) || (f->owner_passed && f->owner_waits < WAITS_MOST));
}

static void look_again(struct fetch_attempt *a)
{
    struct loop *l = a->ds->node->loop;

    loop_timer_set(l, &wait_state(a)->timer, dlc_mono_add(loop_now(l), LOOK_EVERY));
}

static void on_look(struct timer *t)
{
    struct wait_state *s = dlc_container(t, struct wait_state, timer);
    struct fetch_attempt *a = dlc_container((void *)s, struct fetch_attempt, state);
    struct owner_absence o;

    if (fetch_awaits_owner(a->f)) {
        if (dataset_owner_is_absent(a->ds, a->f->sample, &o) && !o.said_goodbye)
            peers_look(a->ds->node->peers, o.owner.name, o.owner.address); /* nobody else asks it */
        look_again(a);
        return;
    }
    a->f->walk_again = !dataset_owner_is_absent(a->ds, a->f->sample, &o);
    a->rc = dlc_err_set(&a->err, DLC_EMISS, "the owner of the sample was away");
    fetch_attempt_ended(a);
}

static bool wait_start(struct fetch_attempt *a)
{
    count(owner_waits);
    a->f->owner_waits++;
    a->f->owner_passed = false;
    wait_state(a)->timer.fire = on_look;
    look_again(a);
    return true;
}

const struct fetch_source fetch_wait_for_owner = {
    .name = "wait for the owner",
    .tier = TIER_PEER,
    .remote = true,
    .waits_for_owner = true,
    .state_size = sizeof(struct wait_state),
    .can_serve = can_wait,
    .start = wait_start,
};
