// SPDX-License-Identifier: Apache-2.0
/*
 * The loader's order and its position in it; both are announced to the daemon.
 *
 * An explicit order has a list for each epoch. Two are kept: for the epoch that the consumer reads,
 * and for the next one, if it was given:
 *
 *     lists[0] of l->epoch  --the consumer passes its end-->  freed; lists[1] replaces it
 *
 * Threads plan into the next epoch as soon as its list is there.
 *
 * (LOADER-POSITION-1) Only the consumer changes lists, under the lock; it may read them without it.
 * (LOADER-POSITION-2) A list is freed when all of its batches were handed out, or when no thread
 *                     works: no thread plans from it then.
 */
#include "loader/loader_i.h"

#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "client/last_error.h"

/* Where to begin, and with what. */
struct start {
    uint64_t epoch, position;
    struct listed lists[2]; /* explicit: of this epoch and of the next one */
};

static bool is_listed(const struct dlc_loader *l)
{
    return l->spec.kind == ORDER_EXPLICIT;
}

static void free_list(struct listed *list)
{
    mem_free(&list->v);
    *list = (struct listed){0};
}

static void free_lists(struct listed lists[static 2])
{
    free_list(&lists[0]);
    free_list(&lists[1]);
}

/* ---- the order ---- */

/* Rows are dealt to ranks one by one: each reads all tables. Of a shuffle or a list of rows there
 * is no order of tables that could be told. */
static int init_rows(struct dlc_loader *l, const struct dlc_loader_spec *spec, struct dlc_err *err)
{
    int rc;

    if (spec->kind != DLC_TENSORS || spec->tensor.rows == 0)
        return 0;
    rc = rows_init(&l->rows, l->ds, &l->decode, l->spec.first, l->spec.n, err);
    if (rc < 0)
        return rc;
    l->order.rank = 0;
    l->order.world = 1;
    l->spec.first = 0;
    l->spec.n = l->rows.starts[l->rows.n];
    return 0;
}

static bool tells(const struct dlc_loader *l)
{
    return l->rows.n == 0 || l->spec.kind == ORDER_SEQUENTIAL;
}

/* A position of this rank as one of the order that the daemon follows. */
static uint64_t schedule_position(const struct dlc_loader *l, uint64_t position)
{
    if (l->rows.n == 0)
        return position;
    if (position >= l->length)
        return l->rows.n;
    return rows_find(&l->rows, order_at(&l->plan, position)).sample - l->rows.first;
}

static int check_epoch(const struct dlc_loader *l, uint64_t length, struct dlc_err *err)
{
    if (ring_has_batch(l, length, 0))
        return 0;
    return dlc_err_set(err, DLC_EINVAL,
                       "an epoch of %llu samples has no batch of %u: make the batch smaller or "
                       "keep the last one (drop_last)",
                       (unsigned long long)length, l->batch);
}

/* A copy of the caller's list. Gives: *out. */
static int copy_list(const struct dlc_loader *l, const uint64_t *list, uint64_t n,
                     struct listed *out, struct dlc_err *err)
{
    uint64_t all = l->rows.n > 0 ? l->spec.n : dlc_count(l->ds);
    int rc = check_epoch(l, n, err);

    *out = (struct listed){0};
    if (rc < 0)
        return rc;
    for (uint64_t k = 0; k < n; k++) {
        if (list[k] >= all)
            return dlc_err_set(err, DLC_EINVAL,
                               "the list says %llu at position %llu, and samples are numbered "
                               "from 0 to %llu",
                               (unsigned long long)list[k], (unsigned long long)k,
                               (unsigned long long)(all - 1));
    }
    if (n <= SIZE_MAX / sizeof(*list))
        out->v = mem_try_alloc(n * sizeof(*list));
    if (out->v == NULL)
        return dlc_err_set(err, DLC_ENOMEM, "no memory for a list of %llu samples",
                           (unsigned long long)n);
    memcpy(out->v, list, n * sizeof(*list));
    out->n = n;
    return 0;
}

static const struct listed *list_of(const struct dlc_loader *l, uint64_t epoch)
{
    uint64_t i = epoch - l->epoch;

    return i < DLC_COUNT(l->lists) && l->lists[i].v != NULL ? &l->lists[i] : NULL;
}

bool place_plan_locked(struct dlc_loader *l, uint64_t epoch)
{
    const struct listed *list;

    dlc_mtx_assert_held(&l->mtx);
    if (epoch >= l->epochs)
        return false;
    if (!is_listed(l)) {
        order_set_epoch(&l->plan, epoch);
        return true;
    }
    list = list_of(l, epoch);
    return list != NULL && order_init_explicit(&l->plan, list->v, list->n, epoch, NULL) == 0;
}

/* ---- beginning somewhere ---- */

static int tell_order(struct dlc_loader *l, const struct start *to, struct dlc_err *err)
{
    struct dlc_order o = l->order;
    uint64_t position;
    int rc;

    if (!tells(l))
        return 0;
    o.list = to->lists[0].v;
    o.list_len = to->lists[0].n;
    dlc_mtx_lock(&l->mtx);
    position = schedule_position(l, to->position);
    dlc_mtx_unlock(&l->mtx);
    rc = dlc_follow(l->ds, &o, to->epoch, position);
    if (rc == 0 && to->lists[1].v != NULL)
        rc = dlc_follow_more(l->ds, to->lists[1].v, to->lists[1].n);
    return rc < 0 ? dlc_err_set(err, rc, "%s", dlc_last_error()) : 0;
}

static int check_place(const struct dlc_loader *l, const struct start *to, struct dlc_err *err)
{
    uint64_t length = is_listed(l) ? to->lists[0].n : l->length;

    if (to->epoch < l->epochs && to->position <= length)
        return 0;
    return dlc_err_set(err, DLC_EINVAL,
                       "position %llu of epoch %llu: an epoch has %llu samples, and the order "
                       "ends after epoch %llu",
                       (unsigned long long)to->position, (unsigned long long)to->epoch,
                       (unsigned long long)length, (unsigned long long)(l->epochs - 1));
}

/* The loader stays where it is when this fails. Takes the lists when it succeeds. */
static int begin_at(struct dlc_loader *l, const struct start *to, struct dlc_err *err)
{
    int rc = check_place(l, to, err);

    if (rc == 0)
        rc = tell_order(l, to, err);
    if (rc < 0)
        return rc;
    dlc_mtx_lock(&l->mtx);
    crew_pause_locked(l);
    l->epoch = to->epoch;
    l->position = to->position;
    if (is_listed(l)) {
        memcpy(l->lists, to->lists, sizeof(l->lists));
        l->length = to->lists[0].n;
    }
    ring_restart_locked(l, to->epoch, to->position);
    crew_go_locked(l);
    dlc_mtx_unlock(&l->mtx);
    l->left = (struct dlc_mono){0};
    return 0;
}

static int begin_listed(struct dlc_loader *l, const uint64_t *list, uint64_t n, uint64_t epoch,
                        uint64_t position, struct dlc_err *err)
{
    struct start to = {.epoch = epoch, .position = position};
    struct listed before[2];
    int rc = copy_list(l, list, n, &to.lists[0], err);

    if (rc < 0)
        return rc;
    memcpy(before, l->lists, sizeof(before));
    rc = begin_at(l, &to, err);
    free_lists(rc < 0 ? to.lists : before);
    return rc;
}

static int init_listed(struct dlc_loader *l, const struct dlc_loader_spec *spec,
                       struct dlc_err *err)
{
    const struct dlc_order *o = &spec->order;

    if (l->spec.rank >= l->spec.world)
        return dlc_err_set(err, DLC_EINVAL, "rank %u of %u: ranks count from 0", l->spec.rank,
                           l->spec.world);
    order_init_explicit(&l->plan, NULL, 0, spec->epoch, NULL);
    l->epoch = spec->epoch;
    l->position = spec->position;
    if (o->list_len == 0)
        return 0; /* it comes with dlc_loader_follow() */
    return begin_listed(l, o->list, o->list_len, spec->epoch, spec->position, err);
}

int place_init(struct dlc_loader *l, const struct dlc_loader_spec *spec, struct dlc_err *err)
{
    const struct start to = {.epoch = spec->epoch, .position = spec->position};
    const struct dlc_order *o = &spec->order;
    uint64_t all = dlc_count(l->ds);
    int rc;

    l->order = *o;
    l->order.list = NULL; /* the caller's */
    l->order.list_len = 0;
    l->epochs = o->epochs != 0 ? o->epochs : UINT64_MAX;
    l->spec = (struct order_spec){.kind = (enum order_kind)o->kind,
                                  .n = o->count != 0 ? o->count : all - DLC_MIN(o->first, all),
                                  .first = o->first,
                                  .seed = o->seed,
                                  .rank = o->rank,
                                  .world = DLC_MAX(o->world, 1u),
                                  .drop_last = o->drop_last != 0};
    rc = init_rows(l, spec, err);
    if (rc == 0 && is_listed(l))
        return init_listed(l, spec, err);
    if (rc == 0)
        rc = order_init(&l->plan, &l->spec, spec->epoch, err);
    if (rc < 0)
        return rc;
    l->length = l->plan.length;
    rc = check_epoch(l, l->length, err);
    return rc < 0 ? rc : begin_at(l, &to, err);
}

void place_release(struct dlc_loader *l)
{
    free_lists(l->lists);
}

/* ---- going on ---- */

int place_check(const struct dlc_loader *l, struct dlc_err *err)
{
    if (!is_listed(l) || l->lists[0].v != NULL || l->epoch >= l->epochs)
        return 0;
    return dlc_err_set(err, DLC_EINVAL, "the list of epoch %llu has not been given: call %s",
                       (unsigned long long)l->epoch,
                       l->length == 0 ? "dlc_loader_follow()"
                                      : "dlc_loader_follow_more(), best before the epoch before it "
                                        "has ended");
}

bool place_at_end(struct dlc_loader *l)
{
    if (l->epoch >= l->epochs)
        return true;
    if (ring_has_batch(l, l->length, l->position))
        return false;
    dlc_mtx_lock(&l->mtx);
    l->epoch++;
    l->position = 0;
    if (is_listed(l)) {
        free_list(&l->lists[0]);
        l->lists[0] = l->lists[1];
        l->lists[1] = (struct listed){0};
        if (l->lists[0].v != NULL)
            l->length = l->lists[0].n;
    }
    dlc_mtx_unlock(&l->mtx);
    return true;
}

void place_tell(struct dlc_loader *l)
{
    struct dlc_progress p = {0};

    if (!tells(l))
        return;
    dlc_mtx_lock(&l->mtx);
    ring_progress_locked(l, &p);
    p.waited_ns = l->stats.starved_ns / l->started;
    if (l->rows.n > 0) {
        uint64_t end = schedule_position(l, DLC_MIN(p.position + p.ahead, l->length));

        p.position = schedule_position(l, p.position);
        p.ahead = end - DLC_MIN(p.position, end); /* what pads an epoch is at its beginning */
    }
    dlc_mtx_unlock(&l->mtx);
    dlc_advance(l->ds, &p); /* at worst the daemon fetches less far ahead */
}

/* ---- for the caller ---- */

static int no_lists(const struct dlc_loader *l, struct dlc_err *err)
{
    if (is_listed(l))
        return 0;
    return dlc_err_set(err, DLC_EINVAL, "this loader's order is computed: it takes no lists");
}

/* What follow_more() may give now: the list of which epoch, counted from this one? Or DLC_E*. */
static int next_missing(const struct dlc_loader *l, struct dlc_err *err)
{
    int i = l->lists[0].v != NULL;
    int rc = l->length == 0 ? place_check(l, err) : 0;

    if (rc < 0)
        return rc;
    if (l->lists[1].v != NULL)
        return dlc_err_set(err, DLC_EBUSY,
                           "the list of epoch %llu was given already: give the next one when epoch "
                           "%llu has ended",
                           (unsigned long long)(l->epoch + 1), (unsigned long long)l->epoch);
    if (l->epoch + (uint64_t)i >= l->epochs)
        return dlc_err_set(err, DLC_EINVAL, "a list more than the %llu epochs of the order",
                           (unsigned long long)l->epochs);
    return i;
}

static int follow_more(struct dlc_loader *l, const uint64_t *list, uint64_t n, struct dlc_err *err)
{
    struct listed more;
    int rc = no_lists(l, err), i = 0;

    if (rc == 0)
        rc = i = next_missing(l, err);
    if (rc >= 0)
        rc = copy_list(l, list, n, &more, err);
    if (rc < 0)
        return rc;
    place_tell(l); /* so that it knows which lists are used up */
    if (tells(l) && (rc = dlc_follow_more(l->ds, list, n)) < 0) {
        free_list(&more);
        return dlc_err_set(err, rc, "%s", dlc_last_error());
    }
    dlc_mtx_lock(&l->mtx);
    l->lists[i] = more;
    l->length = l->lists[0].n;
    dlc_cond_broadcast(&l->work);
    dlc_mtx_unlock(&l->mtx);
    return 0;
}

static int not_here(void)
{
    return client_failf(DLC_EINVAL, "the loader was opened before fork(): open one here");
}

int dlc_loader_follow(struct dlc_loader *l, const uint64_t *list, uint64_t n, uint64_t epoch,
                      uint64_t position)
{
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    if (loader_of(l)->pid != getpid())
        return not_here();
    rc = no_lists(l, &err);
    if (rc == 0)
        rc = begin_listed(l, list, n, epoch, position, &err);
    return rc < 0 ? client_fail(&err) : 0;
}

int dlc_loader_follow_more(struct dlc_loader *l, const uint64_t *list, uint64_t n)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (loader_of(l)->pid != getpid())
        return not_here();
    return follow_more(l, list, n, &err) < 0 ? client_fail(&err) : 0;
}

static int seek_listed(struct dlc_loader *l, uint64_t epoch, uint64_t position, struct dlc_err *err)
{
    struct start to = {.epoch = epoch, .position = position};
    struct listed passed = {0};
    uint64_t i = epoch - l->epoch;
    int rc;

    if (list_of(l, epoch) == NULL)
        return dlc_err_set(err, DLC_EINVAL,
                           "the list of epoch %llu is not here: give it with dlc_loader_follow()",
                           (unsigned long long)epoch);
    to.lists[0] = l->lists[i];
    if (i == 0)
        to.lists[1] = l->lists[1];
    else
        passed = l->lists[0];
    rc = begin_at(l, &to, err);
    if (rc == 0)
        free_list(&passed);
    return rc;
}

int dlc_loader_seek(struct dlc_loader *l, uint64_t epoch, uint64_t position)
{
    const struct start to = {.epoch = epoch, .position = position};
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    if (loader_of(l)->pid != getpid())
        return not_here();
    rc = is_listed(l) ? seek_listed(l, epoch, position, &err) : begin_at(l, &to, &err);
    return rc < 0 ? client_fail(&err) : 0;
}

void dlc_loader_tell(struct dlc_loader *l, uint64_t *epoch, uint64_t *position)
{
    loader_of(l);
    *epoch = l->epoch;
    *position = l->position;
}

uint64_t dlc_loader_length(const struct dlc_loader *l)
{
    return l->length / l->batch + (!l->drop_last && l->length % l->batch != 0);
}
