// SPDX-License-Identifier: Apache-2.0
/*
 * Reading in a known order. The client announces the order to the daemon once; from then on a
 * number in shared memory tells the daemon the reader's position, and it fetches ahead
 * (src/daemon/prefetch/prefetch.c).
 *
 * Positions are absolute: they continue from epoch 0 across the ends of epochs. In a relaxed order
 * a ready sample inside the window may be taken before a late one: `taken` has a bit for each
 * position from `pos` on, so each is still read exactly once, and an epoch ends only when all of it
 * was read.
 */
#include "client/order.h"

#include <string.h>

#include "base/cancel.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "client/attachment.h"
#include "client/dataset.h"
#include "client/heartbeat.h"
#include "client/last_error.h"
#include "client/process.h"
#include "client/reading.h"
#include "client/substitution.h"
#include "order/schedule.h"

#define LOOK_EVERY DLC_MS(100) /* whether the daemon is still there */

/* ---- where we are ---- */

static uint32_t overtaken(const struct reading *r)
{
    uint32_t n = 0;

    for (unsigned w = 0; w < READING_WORDS; w++)
        n += (uint32_t)__builtin_popcountll(r->taken[w]);
    return n;
}

/* Write where we are to where the daemon looks. */
static void publish(struct dlc_dataset *ds)
{
    struct attachment *a = atomic_load_explicit(&ds->cur, memory_order_acquire); /* as dlc_get */
    const struct reading *r = &ds->reading;

    atomic_store_explicit(&ds->at, r->pos, memory_order_relaxed); /* as below */
    if (a == NULL)
        return;
    /* relaxed: numbers that decide how far to fetch; the daemon may see them late */
    if (r->relaxed)
        atomic_store_explicit(&a->session->overtaken, overtaken(r), memory_order_relaxed);
    atomic_store_explicit(&a->session->ahead, r->ahead, memory_order_relaxed);
    atomic_store_explicit(&a->session->waited_ns, r->waited_ns, memory_order_relaxed);
    /* release: the swaps before it are told (substitution.c) */
    atomic_store_explicit(&a->session->cursor, r->pos, memory_order_release);
}

/* ---- setting it ---- */

static int spec_of(struct dlc_dataset *ds, const struct dlc_order *o, struct order_spec *spec,
                   struct dlc_err *err)
{
    uint64_t all = dlc_count(ds); /* without targets */
    uint64_t count = o->count != 0 ? o->count : all - DLC_MIN(o->first, all);

    if (o->kind > DLC_EXPLICIT)
        return dlc_err_set(err, DLC_EINVAL,
                           "order of kind %u: 0 sequential, 1 shuffled, 2 explicit", o->kind);
    if (o->first > ds->n || count > ds->n - o->first)
        return dlc_err_set(err, DLC_EINVAL, "samples %llu to %llu: the dataset has %llu",
                           (unsigned long long)o->first, (unsigned long long)(o->first + count),
                           (unsigned long long)ds->n);
    *spec = (struct order_spec){.kind = (enum order_kind)o->kind,
                                .n = count,
                                .first = o->first,
                                .seed = o->seed,
                                .rank = o->rank,
                                .world = DLC_MAX(o->world, 1u),
                                .drop_last = o->drop_last != 0};
    return 0;
}

/* A copy of the caller's list, changed where a state says so. Gives; NULL: *err. */
static struct schedule_list *copy_list(struct dlc_dataset *ds, const uint64_t *list, uint64_t n,
                                       const struct dlc_swap *swaps, size_t n_swaps,
                                       struct dlc_err *err)
{
    uint64_t *copy = NULL;

    if (list == NULL || n == 0)
        dlc_err_set(err, DLC_EINVAL, "an explicit order without a list: list %llu samples",
                    (unsigned long long)DLC_MAX(n, 1u));
    else if (n > schedule_list_max(ds->n))
        dlc_err_set(err, DLC_EINVAL,
                    "an explicit order of %llu samples: at most %llu for a dataset of %llu; split "
                    "it into several epochs (dlc_follow_more())",
                    (unsigned long long)n, (unsigned long long)schedule_list_max(ds->n),
                    (unsigned long long)ds->n);
    else if ((copy = mem_try_alloc(n * sizeof(*copy))) == NULL)
        dlc_err_set(err, DLC_ENOMEM, "no memory for an order of %llu samples",
                    (unsigned long long)n);
    if (copy == NULL)
        return NULL;
    memcpy(copy, list, n * sizeof(*copy));
    for (size_t i = 0; i < n_swaps; i++)
        if (swaps[i].position < n)
            copy[swaps[i].position] = swaps[i].sample;
    return schedule_list_new(copy, n, ds->n, err);
}

/* Where an order begins. */
struct state {
    uint64_t epoch, position;
    const struct dlc_swap *swaps;
    size_t n_swaps;
};

/* The order as both sides keep it. NULL: *err. */
static struct schedule *make_told(struct dlc_dataset *ds, const struct dlc_order *o,
                                  const struct state *st, const struct reading *r,
                                  struct dlc_err *err)
{
    struct schedule_list *l;

    if (o->kind != DLC_EXPLICIT)
        return schedule_new(&r->spec, r->epoch, r->epochs, err);
    l = copy_list(ds, o->list, o->list_len, st->swaps, st->n_swaps, err);
    return l != NULL ? schedule_new_list(&l, r->epoch, r->epochs, 0) : NULL;
}

/* Another thread may be telling the one before to a daemon that it found again. Takes what r holds.
 */
static void replace(struct dlc_dataset *ds, const struct reading *r)
{
    struct reading before;

    dlc_mtx_lock(&ds->mtx);
    client_lock();
    before = ds->reading;
    ds->reading = *r;
    client_unlock();
    atomic_store_explicit(&ds->at, r->pos, memory_order_relaxed); /* read under mtx */
    dlc_mtx_unlock(&ds->mtx);
    reading_release(&before);
}

/* Another thread may be telling the lists to a daemon that it found again. */
static void drop_old(struct dlc_dataset *ds)
{
    dlc_mtx_lock(&ds->mtx);
    client_lock();
    schedule_drop(ds->reading.schedule);
    client_unlock();
    dlc_mtx_unlock(&ds->mtx);
}

static void move(struct dlc_dataset *ds)
{
    struct reading *r = &ds->reading;

    if (r->swaps) { /* (CLIENT-SUBSTITUTION-2) */
        client_lock();
        schedule_move(r->schedule, r->pos);
        atomic_store_explicit(&ds->at, r->pos, memory_order_relaxed); /* read under the lock */
        client_unlock();
        return;
    }
    schedule_move(r->schedule, r->pos);
    if (schedule_has_old(r->schedule))
        drop_old(ds);
}

/* A daemon that has gone is no failure: the next one is told. */
static int lose_if_gone(struct dlc_dataset *ds, struct attachment *a, int rc)
{
    if (rc != DLC_ENODAEMON && rc != DLC_ETIMEDOUT)
        return rc;
    dataset_lost(ds, a);
    return 0;
}

/* To the daemon of this attachment, if it is still there. Takes a. */
static int tell_to(struct dlc_dataset *ds, struct attachment *a, struct dlc_err *err)
{
    int rc = lose_if_gone(ds, a, reading_tell(ds, a, err));

    dataset_detach(ds, a);
    return rc;
}

/* Where a state says that the order is not what is read. Explicit orders were changed already. */
static int set_swaps(struct reading *r, const struct dlc_swap *swaps, size_t n, struct dlc_err *err)
{
    static_assert(sizeof(struct dlc_swap) == sizeof(struct swap_pair), "the same to callers");

    if (n == 0 || r->spec.kind == ORDER_EXPLICIT)
        return 0;
    if (!r->swaps)
        return dlc_err_set(err, DLC_EINVAL,
                           "an order with swaps is relaxed: set order.relaxed, as it was then");
    return schedule_set_swaps(r->schedule, (const struct swap_pair *)swaps, n, err);
}

static int make_reading(struct dlc_dataset *ds, const struct dlc_order *o, const struct state *st,
                        struct reading *r, struct dlc_err *err)
{
    int rc = 0;

    r->schedule = make_told(ds, o, st, r, err);
    if (r->schedule == NULL)
        return err->code;
    if (st->position > r->schedule->length)
        rc = dlc_err_set(err, DLC_EINVAL, "position %llu: an epoch has %llu",
                         (unsigned long long)st->position, (unsigned long long)r->schedule->length);
    r->swaps = r->relaxed && r->spec.kind != ORDER_EXPLICIT;
    r->pos = r->schedule_at = r->dealt = r->settled = st->position;
    schedule_move(r->schedule, r->pos);
    if (rc == 0)
        rc = set_swaps(r, st->swaps, st->n_swaps, err);
    if (rc < 0)
        reading_release(r);
    return rc;
}

static int set_order(struct dlc_dataset *ds, const struct dlc_order *o, const struct state *st,
                     struct dlc_err *err)
{
    uint64_t epoch = st->epoch;
    struct reading r = {
        .epoch = epoch, .window = DLC_MIN(o->window, INT64_MAX), .relaxed = o->relaxed != 0};
    struct attachment *a;
    int rc = spec_of(ds, o, &r.spec, err);

    if (rc < 0)
        return rc;
    if (o->epochs != 0 && epoch >= o->epochs)
        return dlc_err_set(err, DLC_EINVAL, "epoch %llu: the order has %llu, numbered from 0",
                           (unsigned long long)epoch, (unsigned long long)o->epochs);
    r.epochs = o->epochs != 0 ? o->epochs - epoch : 0;
    rc = make_reading(ds, o, st, &r, err);
    if (rc < 0)
        return rc;
    replace(ds, &r);
    a = dataset_attached(ds);
    if (a == NULL)
        return 0; /* told when there is a daemon again */
    rc = tell_to(ds, a, err);
    swap_settle(ds, 0);
    return rc;
}

int dlc_follow(struct dlc_dataset *ds, const struct dlc_order *order, uint64_t epoch,
               uint64_t position)
{
    return dlc_follow_swapped(ds, order, epoch, position, NULL, 0);
}

int dlc_follow_swapped(struct dlc_dataset *ds, const struct dlc_order *order, uint64_t epoch,
                       uint64_t position, const struct dlc_swap *swaps, size_t n)
{
    const struct state st = {epoch, position, swaps, n};
    struct dlc_err err = DLC_ERR_INIT;

    return set_order(ds, order, &st, &err) < 0 ? client_fail(&err) : 0;
}

static int none_set(void)
{
    return client_failf(DLC_EINVAL, "no order is set: call dlc_follow() first");
}

/* To the daemon first, so that nothing has changed when it refuses. Takes *l when it succeeds. No
 * other daemon can be found meanwhile, which would be told one list too few or too many. */
static int give_locked(struct dlc_dataset *ds, struct schedule_list **l, struct dlc_err *err)
{
    struct schedule *t = ds->reading.schedule;
    struct attachment *a;
    int rc;

    dlc_mtx_assert_held(&ds->mtx);
    rc = cursor_may_give(&t->cursor, err);
    if (rc < 0)
        return rc;
    a = dataset_current(ds);
    if (a != NULL) {
        rc = lose_if_gone(ds, a, reading_tell_more(ds, a, *l, err));
        dataset_detach(ds, a);
    }
    if (rc < 0)
        return rc;
    client_lock();
    rc = schedule_give(t, l, err);
    client_unlock();
    return rc;
}

int dlc_follow_more(struct dlc_dataset *ds, const uint64_t *list, uint64_t n)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct schedule_list *l;
    int rc;

    if (ds->reading.schedule == NULL)
        return none_set();
    if (ds->reading.spec.kind != ORDER_EXPLICIT)
        return client_failf(DLC_EINVAL, "a %s order needs no more lists: it is computed",
                            reading_kind(&ds->reading));
    l = copy_list(ds, list, n, NULL, 0, &err);
    if (l == NULL)
        return client_fail(&err);
    dlc_mtx_lock(&ds->mtx);
    rc = give_locked(ds, &l, &err);
    dlc_mtx_unlock(&ds->mtx);
    schedule_list_free(&l);
    return rc < 0 ? client_fail(&err) : 0;
}

/* ---- reading ---- */

int64_t dlc_epoch_length(struct dlc_dataset *ds)
{
    return ds->reading.schedule != NULL ? (int64_t)ds->reading.schedule->length : none_set();
}

/* Positions are read up to here without a gap: forget their bits. */
static void pass_taken(struct dlc_dataset *ds)
{
    struct reading *r = &ds->reading;

    while (reading_is_taken(r, 0)) {
        for (unsigned w = 0; w < READING_WORDS; w++) {
            uint64_t carry = w + 1 < READING_WORDS ? r->taken[w + 1] << 63 : 0;

            r->taken[w] = r->taken[w] >> 1 | carry;
        }
        r->pos++;
    }
    move(ds);
}

/* The first position whose sample is resident, else the first that is not taken. */
static int take_relaxed(struct dlc_dataset *ds, uint64_t *k, uint64_t *sample, struct dlc_view *out)
{
    struct reading *r = &ds->reading;
    uint64_t end = DLC_MIN((uint64_t)READING_WORDS * 64, cursor_left(&r->schedule->cursor, r->pos));
    uint64_t first = UINT64_MAX;

    if (r->swaps) /* (CLIENT-SUBSTITUTION-1) */
        end = DLC_MIN(end, DLC_MAX(r->settled, r->pos + 1) - r->pos);

    for (uint64_t i = 0; i < end; i++) {
        if (reading_is_taken(r, i))
            continue;
        *k = i;
        *sample = cursor_at(&r->schedule->cursor, r->pos + i);
        if (dlc_try_get(ds, *sample, out) == 0)
            return 0;
        first = first == UINT64_MAX ? i : first;
    }
    *k = first;
    *sample = cursor_at(&r->schedule->cursor, r->pos + first);
    return dlc_get(ds, *sample, out);
}

int dlc_next(struct dlc_dataset *ds, struct dlc_view *out, uint64_t *sample)
{
    struct reading *r = &ds->reading;
    uint64_t k = 0, s;
    int rc;

    *out = (struct dlc_view){0};
    if (r->schedule == NULL)
        return none_set();
    if (r->schedule_at != r->pos && cursor_is_start(&r->schedule->cursor, r->pos)) {
        r->schedule_at = r->pos;
        return 0;
    }
    if (r->dealt > r->pos)
        return client_failf(DLC_EINVAL, "samples were taken by dlc_take(): whoever reads them says "
                                        "so by dlc_advance(), not by dlc_next()");
    swap_settle(ds, 0);
    s = cursor_at(&r->schedule->cursor, r->pos);
    if (s >= CURSOR_LATER)
        return 0; /* after the last epoch or list; or fewer samples than ranks, and drop_last */
    rc = r->relaxed ? take_relaxed(ds, &k, &s, out) : dlc_get(ds, s, out);
    if (interrupted()) { /* not the sample's fault: do not pass it */
        dlc_put(ds, out);
        return client_failf(DLC_ECANCELED, "interrupted by the caller");
    }
    r->taken[k / 64] |= 1ull << (k % 64);
    pass_taken(ds);
    publish(ds);
    if (sample != NULL)
        *sample = s;
    return rc < 0 ? rc : 1;
}

/* A leader that reads nothing finds out here that its daemon has gone. */
static void look_after(struct dlc_dataset *ds)
{
    struct dlc_mono now = dlc_mono_now();
    struct attachment *a;

    if (now.ns < ds->reading.look_again.ns)
        return;
    ds->reading.look_again = dlc_mono_add(now, LOOK_EVERY);
    a = dataset_checked(ds);
    if (a != NULL)
        dataset_detach(ds, a);
}

int reading_no_such_position(const struct reading *r, uint64_t epoch, uint64_t position)
{
    const struct cursor *c = &r->schedule->cursor;

    if (c->kind == ORDER_EXPLICIT)
        return client_failf(DLC_EINVAL,
                            "position %llu of epoch %llu: lists are there for epochs %llu to %llu, "
                            "and the first of them has %llu samples",
                            (unsigned long long)position, (unsigned long long)epoch,
                            (unsigned long long)cursor_oldest(c),
                            (unsigned long long)(c->epoch + c->given - 1),
                            (unsigned long long)r->schedule->length);
    return client_failf(DLC_EINVAL,
                        "position %llu of epoch %llu: the order has %llu epochs from %llu on "
                        "and an epoch has %llu samples",
                        (unsigned long long)position, (unsigned long long)epoch,
                        (unsigned long long)c->epochs, (unsigned long long)r->epoch,
                        (unsigned long long)r->schedule->length);
}

/* Back, where nothing is settled: move() has forgotten the swaps, and so must the daemon, before it
 * is told others. */
static int go_back(struct dlc_dataset *ds, struct dlc_err *err)
{
    struct attachment *a = dataset_current(ds);

    return a != NULL ? tell_to(ds, a, err) : 0; /* else whoever comes next is told */
}

int dlc_advance(struct dlc_dataset *ds, const struct dlc_progress *p)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct reading *r = &ds->reading;
    bool back;
    uint64_t pos;
    int rc = 0;

    if (r->schedule == NULL)
        return none_set();
    pos = cursor_absolute(&r->schedule->cursor, p->epoch, p->position);
    if (pos == CURSOR_NEVER)
        return reading_no_such_position(r, p->epoch, p->position);
    memset(r->taken, 0, sizeof(r->taken));
    back = pos < r->pos;
    if (back)
        r->settled = r->dealt = pos;
    r->pos = r->schedule_at = pos;
    r->ahead = p->ahead;
    r->waited_ns = p->waited_ns;
    move(ds);
    if (back && r->swaps)
        rc = go_back(ds, &err);
    swap_settle(ds, 0);
    publish(ds);
    look_after(ds);
    return rc < 0 ? client_fail(&err) : 0;
}
