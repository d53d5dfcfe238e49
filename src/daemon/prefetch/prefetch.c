// SPDX-License-Identifier: Apache-2.0
/*
 * The prefetcher follows each session that announced its order. The client writes its position (its
 * cursor) into shared memory; the node reads it every few milliseconds and keeps a window of
 * samples ahead of it resident or in flight.
 *
 *     window = consumption rate x fetch latency (99th percentile) x MARGIN + what is read at once
 *
 * The rate (daemon/prefetch/reader_rate.h) is that of a reader that never waits: time spent waiting
 * does not count. Both factors are measured all the time: faster training or a slower bucket widens
 * the window, the reverse narrows it. A leader, whose samples are read by worker processes, also
 * says how many samples those have in hand; the window begins after them, and none of them counts
 * as read. Positions continue across the ends of epochs, so the next epoch's first window is ready
 * before the last sample of this one is taken.
 *
 * The same knowledge decides which samples stay in memory: next_use.c.
 *
 * In a relaxed order positions may also change places (substitution.c); positions that are not
 * settled yet are not fetched. A late sample holds the cursor while others overtake it. Those count
 * as consumed, so the window stays as many samples ahead of the reader as in a strict order.
 *
 * (PREFETCH-1) ahead is in [pos, pos + window] after each poll; everything in [pos, ahead) was
 *              resident or asked for when ahead passed it.
 * (PREFETCH-2) A cursor may jump: then the window starts again at the new position.
 * (PREFETCH-3) A client's cursor is not trusted beyond being a number: positions that the order
 *              does not define are not fetched, memory bounds the window whatever the client says
 *              is in hand, and one poll never does more than POLL_MAX steps of work, and counts
 *              COUNT_MAX.
 */
#include "daemon/prefetch/prefetch.h"

#include <math.h>
#include <stdatomic.h>

#include "base/config.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/ownership.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/fetch/fetch.h"
#include "daemon/job_weights.h"
#include "daemon/prefetch/cache_bypass.h"
#include "daemon/prefetch/next_use.h"
#include "daemon/prefetch/read_outcomes.h"
#include "daemon/session.h"
#include "daemon/state.h"
#include "daemon/substitution.h"
#include "catalog/catalog.h"
#include "order/cursor.h"
#include "order/order.h"
#include "order/schedule.h"

#define MARGIN     1.3
#define WINDOW_MIN 8u
#define WINDOW_NEW 64u    /* before anything is measured */
#define POLL_MAX   8192u  /* positions looked at in one poll, of each kind */
#define COUNT_MAX  65536u /* positions counted in one poll */
#define POS_MAX    (UINT64_MAX / 2)
#define POLL_LEAST DLC_MS(1)
#define POLL_MOST  DLC_MS(20)
#define WAIT_MAX   DLC_SEC(3600) /* believed of one step */

/* ---- one session ---- */

/* One more, or one less, reads. */
static void count_reading(struct dataset *ds, int more)
{
    ds->prefetch.n_reading += (unsigned)more;
    ds->tenant_memory->n_reading += (unsigned)more;
}

static void set_idle(struct session *s, bool idle)
{
    struct reader_state *r = &s->reader;

    if (r->idle == idle)
        return;
    r->idle = idle;
    count_reading(s->ds, idle ? -1 : 1);
    r->ahead = r->pos; /* when it comes back, what was ahead may have gone */
    next_use_changed(s->ds);
}

/* What windows may take of a tenant's memory: half of it, but where nodes share datasets not what
 * this one must keep for all, as far as that fits. *kept: something is. */
static uint64_t room_for_windows(struct node *n, const struct tenant_memory *m, bool *kept)
{
    uint64_t owned = m->owned, ceiling = memory_usable(m->memory), half = ceiling / 2;

    *kept = owned > 0 && owned < ceiling;
    owned += ceiling / 64; /* holes between samples, and what is on its way out */
    if (owned >= ceiling)
        return half; /* it cannot be kept anyway */
    return DLC_CLAMP(ceiling - owned, ceiling / (n->disk != NULL ? 8 : 64), half);
}

static uint64_t mean_bytes(const struct dataset *ds)
{
    uint64_t n = catalog_count(ds->catalog);

    return n > 0 ? DLC_MAX(catalog_bytes(ds->catalog) / n, 1u) : 1;
}

/* Its window has changed, or whether it counts. */
static void count_ahead(struct session *s)
{
    struct tenant_memory *m = s->ds->tenant_memory;
    struct reader_state *r = &s->reader;
    uint64_t bytes = r->active ? (r->ahead - r->pos) * mean_bytes(s->ds) : 0;
    uint64_t reading = r->idle ? 0 : bytes;

    m->ahead += bytes - r->counted;
    m->ahead_reading += reading - r->counted_reading;
    r->counted = bytes;
    r->counted_reading = reading;
}

/* Bytes that the windows of others in that memory hold or have asked for. What an idle one holds
 * makes way for those who read, but not for other idle ones. */
static uint64_t ahead_of_others(const struct session *s)
{
    const struct tenant_memory *m = s->ds->tenant_memory;
    const struct reader_state *r = &s->reader;

    return r->idle ? m->ahead - r->counted : m->ahead_reading - r->counted_reading;
}

/* Samples that may be ahead at once: an equal part of the room. Somebody who came first, or woke
 * first, may have more than that for a while: then what it leaves, or what is kept for all nodes
 * would have to go. */
static uint64_t window_limit(const struct session *s)
{
    bool kept;
    uint64_t room = room_for_windows(s->ds->node, s->ds->tenant_memory, &kept);
    uint64_t part = room / DLC_MAX(s->ds->tenant_memory->n_reading, 1u);

    if (kept)
        part = DLC_MIN(part, room - DLC_MIN(room, ahead_of_others(s)));
    return DLC_MAX(DLC_MIN(part, bypass_part(s)) / mean_bytes(s->ds), 2u);
}

/* What the client, or else whoever runs the daemon, knows better than measurements. 0: nothing. */
static uint64_t window_asked(const struct session *s)
{
    return s->reader.asked != 0 ? s->reader.asked : s->ds->node->config->prefetch_window;
}

static void set_window(struct session *s)
{
    struct reader_state *r = &s->reader;
    uint64_t limit = window_limit(s), samples = catalog_count(s->ds->catalog);
    uint64_t asked = window_asked(s);
    uint64_t want = DLC_MAX(WINDOW_NEW, r->in_hand); /* as much again as was taken at once */
    double p99 = (double)hist_percentile(&s->ds->prefetch.latency, 0.99) / 1e6; /* microseconds */

    if (r->rate.per_s > 0 && p99 > 0)
        want = (uint64_t)(r->rate.per_s * p99 * MARGIN + r->rate.burst) + WINDOW_MIN;
    if (asked > 0)
        want = asked;
    want = DLC_MIN(want, samples) + r->in_hand;
    want = DLC_MIN(want, samples); /* then all of it is there */
    r->short_of_memory = want > limit;
    r->window = DLC_CLAMP(want + r->overtaken, asked > 0 ? 1 : WINDOW_MIN, limit);
}

void prefetch_waits(struct session *s, bool waits)
{
    struct reader_state *r = &s->reader;
    struct dlc_mono now = dlc_mono_now();
    bool before = r->waiting_since.ns != 0;

    if (before)
        rate_waited(&r->rate, dlc_mono_sub(now, r->waiting_since));
    s->ds->prefetch.n_waiting += (unsigned)waits - (unsigned)before;
    r->waiting_since = waits ? now : (struct dlc_mono){0};
}

/* Is somebody waiting for what the cursor stands at? Workers have sessions of their own. */
static bool is_waited_for(const struct session *s)
{
    return s->reader.in_hand > 0 ? s->ds->prefetch.n_waiting > 0 : s->n_waiters > 0;
}

/* waited_ns: by all workers together since the order was told, as the client says. */
static void measure_rate(struct session *s, uint64_t moved, uint64_t waited_ns, struct dlc_mono now)
{
    struct reader_state *r = &s->reader;
    uint64_t more = waited_ns > r->waited_ns ? waited_ns - r->waited_ns : 0;

    if (r->waiting_since.ns != 0)
        prefetch_waits(s, true); /* count the wait so far */
    rate_waited(&r->rate, (struct dlc_dur){(int64_t)DLC_MIN(more, (uint64_t)WAIT_MAX.ns)});
    r->waited_ns = waited_ns;
    rate_update(&r->rate, moved, is_waited_for(s), now);
}

/* The cursor has passed absolute position a. Gives the sample there. */
static uint64_t raise_passed(struct session *s, uint64_t a)
{
    uint64_t sample = cursor_at(&s->reader.schedule->cursor, a);

    events_raise(s->ds->node, sample_passed, s, a, sample);
    return sample;
}

/* The cursor went from r->pos to pos: what it read is needed again later. */
static void advance(struct session *s, uint64_t pos)
{
    struct reader_state *r = &s->reader;
    struct dataset *ds = s->ds;
    uint64_t from = r->pos, moved = pos - from;

    r->pos = pos;
    ds->clock.progress += (double)moved / DLC_MAX(ds->prefetch.n_reading, 1u);
    if (moved > POLL_MAX) {
        for (uint64_t a = pos - DLC_MIN(moved, COUNT_MAX); a < pos; a++)
            raise_passed(s, a);
        next_use_changed(ds);
        return;
    }
    for (uint64_t a = from; a < pos; a++) {
        uint64_t sample = raise_passed(s, a);

        if (!s->bypasses_cache || next_use_known(ds, sample) || !bypass_evict_read(ds, sample))
            memory_forget_use(ds->index, sample);
    }
}

static void restart_window(struct session *s, uint64_t pos)
{
    struct reader_state *r = &s->reader;

    set_idle(s, false);
    schedule_move(r->schedule, pos);
    r->pos = r->ahead = pos;
    r->overtaken = 0;
    r->last_read = loop_now(s->ds->node->loop);
    rate_restart(&r->rate);
    next_use_changed(s->ds);
}

static void fill_window(struct session *s)
{
    struct reader_state *r = &s->reader;
    uint64_t end = r->pos + r->window;
    unsigned steps = 0;

    r->ahead = DLC_MAX(r->ahead, r->pos);
    if (r->swapping)
        end = DLC_MIN(end, DLC_MIN(r->settled, r->held));
    while (r->ahead < end && steps++ < POLL_MAX) {
        uint64_t sample = cursor_at(&r->schedule->cursor, r->ahead);

        if (sample >= CURSOR_LATER)
            break; /* the end of the last epoch */
        r->ahead++;
        if (mem_index_ready(s->ds->index, sample)) {
            if (s->ds->cid != NULL) /* borrowed: from here on it counts as needed soon */
                memory_use_is_sooner(s->ds->index, sample);
        } else if (map_get(&s->ds->fetching, sample) == NULL) {
            fetch_ahead(s, sample);
        }
    }
}

/* A loop with long steps reads in bursts: its pauses are no idleness. */
static void update_idle(struct session *s, uint64_t read, struct dlc_mono now)
{
    struct reader_state *r = &s->reader;
    int64_t gap = dlc_mono_sub(now, r->last_read).ns;

    if (read > 0)
        r->pause.ns = DLC_MAX(gap, r->pause.ns - r->pause.ns / 1024);
    if (read > 0 || is_waited_for(s))
        r->last_read = now;
    set_idle(s,
             dlc_mono_sub(now, r->last_read).ns > DLC_MAX(PREFETCH_IDLE_AFTER.ns, 4 * r->pause.ns));
}

/* The client is at pos. The epochs it went through since we looked, as far as their swaps had to
 * wait for that, are gone through one by one. far: where the first of them begins. */
static void move_cursor(struct session *s, uint64_t pos, uint64_t far, bool jumps)
{
    struct reader_state *r = &s->reader;

    for (; far <= pos; far = substitution_drain(s)) {
        if (!jumps)
            advance(s, far);
        schedule_move(r->schedule, far);
    }
    if (jumps)
        restart_window(s, pos);
    else
        advance(s, pos);
    schedule_move(r->schedule, pos);
    substitution_drain(s);
}

static void poll_cursor(struct session *s)
{
    struct reader_state *r = &s->reader;
    struct shm_session_hdr *h = mem_session_map(s->mem);
    /* acquire (DAEMON-SUBSTITUTION-2): swaps that were made before it was written are seen below */
    uint64_t pos = atomic_load_explicit(&h->cursor, memory_order_acquire);
    /* relaxed: numbers that only grow; a late poll only delays */
    uint64_t overtaken = atomic_load_explicit(&h->overtaken, memory_order_relaxed);
    uint64_t in_hand = atomic_load_explicit(&h->ahead, memory_order_relaxed);
    uint64_t waited_ns = atomic_load_explicit(&h->waited_ns, memory_order_relaxed);
    uint64_t read_before = r->pos + r->overtaken, far;
    struct dlc_mono now = loop_now(s->ds->node->loop);

    pos = DLC_MIN(pos, POS_MAX);
    far = substitution_look(s);
    overtaken = DLC_MIN(overtaken, POLL_MAX);
    r->in_hand = DLC_MIN(in_hand, catalog_count(s->ds->catalog));
    if (pos < r->pos || pos > r->ahead + POLL_MAX) {
        move_cursor(s, pos, far, true);
    } else {
        /* the two numbers are not of one moment: read may seem to go back a little */
        uint64_t read = DLC_MAX(pos + overtaken, read_before) - read_before;

        update_idle(s, read, now);
        measure_rate(s, read, waited_ns, now);
        move_cursor(s, pos, far, false);
        r->overtaken = read_before + read - pos;
    }
    if (schedule_has_old(r->schedule))
        job_weights_send_soon(s->job_weights); /* an epoch has ended */
    schedule_drop(r->schedule);
    set_window(s);
    substitution_tell(s);
    fill_window(s);
    count_ahead(s);
}

/* ---- all of them ---- */

/* Often enough that the window does not run dry between two polls. */
static struct dlc_dur next_poll_after(const struct dataset *ds, struct dlc_dur least)
{
    dlc_list_each (l, &ds->sessions) {
        const struct reader_state *r = &dlc_container(l, struct session, link)->reader;

        if (r->active && r->rate.per_s > 0) {
            struct dlc_dur d = dlc_dur_of_seconds((double)r->window / r->rate.per_s / 16);

            least.ns = DLC_MIN(least.ns, DLC_MAX(d.ns, POLL_LEAST.ns));
        }
    }
    return least;
}

static void poll_dataset(struct dataset *ds)
{
    dlc_list_each_safe (l, &ds->sessions) {
        struct session *s = dlc_container(l, struct session, link);

        if (s->reader.active)
            poll_cursor(s);
    }
    next_use_heed_weights(ds);
    if (ds->tenant_memory->n_reading > ds->prefetch.n_reading)
        next_use_keep_time(ds);
}

static void poll_all(struct timer *t)
{
    struct node *n = dlc_container(t, struct node, prefetch_timer);
    struct dlc_dur next = POLL_MOST;
    bool any = !dlc_list_empty(&n->following);

    dlc_list_each_safe (d, &n->following) {
        struct dataset *ds = dlc_container(d, struct dataset, prefetch.link);

        dataset_ref(ds); /* a fetch that ends at once must not take the dataset away */
        poll_dataset(ds);
        next = next_poll_after(ds, next);
        dataset_put(&ds);
    }
    if (any && !n->stopping)
        loop_timer_set(n->loop, t, dlc_mono_add(loop_now(n->loop), next));
}

void prefetch_start(struct session *s, struct schedule *t, uint64_t pos, bool swapping)
{
    struct reader_state *r = &s->reader;
    struct node *n = s->ds->node;
    struct shm_session_hdr *h = mem_session_map(s->mem);

    prefetch_stop(s);
    r->schedule = t;
    r->active = true;
    r->idle = false;
    outcomes_begin(s);
    r->waited_ns = 0; /* rate and pause stay: it is the same reader */
    if (s->ds->prefetch.n_following++ == 0) {
        dlc_list_push_tail(&n->following, &s->ds->prefetch.link);
        ownership_count(s->ds);
        next_use_begin(s->ds);
    }
    count_reading(s->ds, 1);
    atomic_store_explicit(&h->cursor, pos, memory_order_relaxed);
    atomic_store_explicit(&h->overtaken, 0, memory_order_relaxed);
    atomic_store_explicit(&h->ahead, 0, memory_order_relaxed);
    atomic_store_explicit(&h->waited_ns, 0, memory_order_relaxed);
    restart_window(s, pos);
    count_ahead(s);
    job_weights_send_soon(s->job_weights);
    set_window(s);
    substitution_begin(s, swapping);
    n->prefetch_timer.fire = poll_all;
    loop_timer_set(n->loop, &n->prefetch_timer, loop_now(n->loop));
}

void prefetch_poll(struct session *s)
{
    struct dataset *ds = s->ds;

    if (!s->reader.active)
        return;
    dataset_ref(ds); /* as poll_all() */
    poll_cursor(s);
    dataset_put(&ds);
}

bool prefetch_reads_lists(const struct session *s)
{
    return s->reader.active && s->reader.schedule->cursor.kind == ORDER_EXPLICIT;
}

int prefetch_append_list(struct session *s, struct schedule_list **l, struct dlc_err *err)
{
    int rc;

    poll_cursor(s); /* the client may just have passed the end of a list */
    rc = schedule_give(s->reader.schedule, l, err);
    if (rc == 0) {
        job_weights_send_soon(s->job_weights); /* it was drawn by what is known now */
        next_use_changed(s->ds);
    }
    return rc;
}

void prefetch_stop(struct session *s)
{
    struct reader_state *r = &s->reader;

    if (!r->active)
        return;
    r->active = false;
    schedule_free(&r->schedule);
    if (--s->ds->prefetch.n_following == 0) {
        dlc_list_remove(&s->ds->prefetch.link);
        ownership_count(s->ds);
    }
    count_ahead(s);
    if (!r->idle)
        count_reading(s->ds, -1);
    next_use_changed(s->ds);
}
