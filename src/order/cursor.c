// SPDX-License-Identifier: Apache-2.0
#include "order/cursor.h"

#include <inttypes.h>

#include "base/check.h"

int cursor_init(struct cursor *c, const struct order_spec *spec, uint64_t epoch, uint64_t epochs,
                struct dlc_err *err)
{
    struct order o = {{0}};
    uint64_t most = UINT64_MAX;
    int rc = 0;

    if (spec->kind != ORDER_EXPLICIT)
        rc = order_init(&o, spec, epoch, err);
    if (rc < 0)
        return rc;
    if (o.length > 0)
        most = (CURSOR_LATER - 1) / o.length;
    most = DLC_MIN(most - 1, UINT64_MAX - epoch) + 1; /* their numbers do not begin again at 0 */
    *c = (struct cursor){.kind = spec->kind,
                         .epoch = epoch,
                         .epochs = epochs == 0 ? most : DLC_MIN(epochs, most),
                         .length = o.length};
    if (o.length > 0) {
        c->ready[0].order = c->ready[1].order = o;
        cursor_move(c, 0);
    }
    return 0;
}

void cursor_begin(struct cursor *c, uint64_t a)
{
    dlc_check(c->kind == ORDER_EXPLICIT && c->given == 0);
    c->known = a;
}

int cursor_may_give(const struct cursor *c, struct dlc_err *err)
{
    dlc_check(c->kind == ORDER_EXPLICIT);
    if (c->given == c->epochs)
        return dlc_err_set(err, DLC_EINVAL,
                           "explicit order: a list more than the %" PRIu64 " epochs declared",
                           c->epochs);
    if (c->n_ready == DLC_COUNT(c->ready))
        return dlc_err_set(err, DLC_EBUSY,
                           "explicit order: the lists of epochs %" PRIu64 " and %" PRIu64
                           " are not used up; hand the next one over when the first is",
                           c->ready[0].order.epoch, c->ready[1].order.epoch);
    return 0;
}

int cursor_give(struct cursor *c, const struct order_index *ix, struct dlc_err *err)
{
    struct cursor_epoch *e = &c->ready[c->n_ready];
    int rc = cursor_may_give(c, err);

    if (rc < 0)
        return rc;
    e->begin = c->known;
    e->end = c->known += ix->length;
    order_init_indexed(&e->order, ix, c->epoch + c->given++);
    c->n_ready++;
    return 0;
}

static bool holds(const struct cursor_epoch *e, uint64_t a)
{
    return a >= e->begin && a < e->end;
}

/* Make e the i-th epoch; its order is of the right rank already. */
static void set_epoch(const struct cursor *c, struct cursor_epoch *e, uint64_t i)
{
    e->begin = i * c->length;
    e->end = e->begin + c->length;
    e->swaps = NULL;
    order_set_epoch(&e->order, c->epoch + i);
}

static void drop_finished(struct cursor *c, uint64_t a)
{
    while (c->n_ready > 0 && a >= c->ready[0].end) {
        c->passed = c->ready[0].order.length;
        c->ready[0] = c->ready[1];
        c->n_ready--;
    }
}

void cursor_move(struct cursor *c, uint64_t a)
{
    uint64_t i;

    if (c->kind == ORDER_EXPLICIT) {
        drop_finished(c, a);
        return;
    }
    if (c->length == 0 || (c->n_ready > 0 && holds(&c->ready[0], a)))
        return;
    i = a / c->length;
    if (i >= c->epochs)
        return;
    if (c->n_ready == 2 && holds(&c->ready[1], a))
        c->ready[0] = c->ready[1];
    else
        set_epoch(c, &c->ready[0], i);
    c->n_ready = 1;
    if (i + 1 < c->epochs) {
        set_epoch(c, &c->ready[1], i + 1);
        c->n_ready = 2;
    }
}

uint64_t cursor_oldest(const struct cursor *c)
{
    return c->n_ready > 0 ? c->ready[0].order.epoch : c->epoch + c->given;
}

/* The epoch that holds a: one that is ready or, of a computed order, *other. NULL: none. */
static const struct cursor_epoch *find(const struct cursor *c, uint64_t a,
                                       struct cursor_epoch *other)
{
    for (unsigned j = 0; j < c->n_ready; j++)
        if (holds(&c->ready[j], a))
            return &c->ready[j];
    if (c->length == 0 || a / c->length >= c->epochs)
        return NULL;
    *other = c->ready[0];
    set_epoch(c, other, a / c->length);
    return other;
}

uint64_t cursor_left(const struct cursor *c, uint64_t a)
{
    struct cursor_epoch other;
    const struct cursor_epoch *e = find(c, a, &other);

    return e != NULL ? e->end - a : 0;
}

bool cursor_is_start(const struct cursor *c, uint64_t a)
{
    if (c->kind != ORDER_EXPLICIT)
        return c->length == 0 || a % c->length == 0;
    for (unsigned j = 0; j < c->n_ready; j++)
        if (c->ready[j].begin == a)
            return true;
    return a == c->known;
}

/* What there is after the last position that is known. */
static uint64_t beyond(const struct cursor *c)
{
    return c->kind == ORDER_EXPLICIT && c->given < c->epochs ? CURSOR_LATER : CURSOR_NEVER;
}

uint64_t cursor_at(const struct cursor *c, uint64_t a)
{
    struct cursor_epoch other;
    const struct cursor_epoch *e = find(c, a, &other);

    if (e != NULL)
        return e->swaps != NULL ? swaps_at(e->swaps, &e->order, a - e->begin)
                                : order_at(&e->order, a - e->begin);
    return c->kind == ORDER_EXPLICIT && a < c->known ? CURSOR_LATER : beyond(c);
}

static uint64_t next_in(const struct cursor_epoch *e, uint64_t s, uint64_t from)
{
    uint64_t first = from > e->begin ? from - e->begin : 0;
    uint64_t k = e->swaps != NULL ? swaps_next(e->swaps, &e->order, s, first)
                                  : order_next(&e->order, s, first);

    return k != ORDER_NONE ? e->begin + k : CURSOR_NEVER;
}

static uint64_t next_listed(const struct cursor *c, uint64_t s, uint64_t from)
{
    for (unsigned j = 0; j < c->n_ready; j++) {
        uint64_t a = next_in(&c->ready[j], s, from);

        if (a != CURSOR_NEVER)
            return a;
    }
    return beyond(c);
}

/* Can an epoch have s in it when another one has not? Those of a shuffle, but not of a sequence. */
static bool may_come(const struct order *o, uint64_t s)
{
    return o->spec.kind == ORDER_SHUFFLED && s >= o->spec.first && s - o->spec.first < o->spec.n;
}

uint64_t cursor_next_use(const struct cursor *c, uint64_t s, uint64_t from)
{
    struct cursor_epoch other;
    const struct cursor_epoch *e;
    uint64_t a;

    if (c->kind == ORDER_EXPLICIT)
        return next_listed(c, s, from);
    e = find(c, from, &other);
    if (e == NULL)
        return CURSOR_NEVER;
    a = next_in(e, s, from);
    if (a != CURSOR_NEVER)
        return a;
    e = find(c, e->end, &other);
    if (e == NULL)
        return CURSOR_NEVER;
    a = next_in(e, s, from);
    if (a != CURSOR_NEVER)
        return a;
    return e->end / c->length < c->epochs && may_come(&e->order, s) ? CURSOR_LATER : CURSOR_NEVER;
}

uint64_t cursor_next_in_epoch(const struct cursor *c, uint64_t s, uint64_t from)
{
    struct cursor_epoch other;
    const struct cursor_epoch *e = find(c, from, &other);

    return e != NULL ? next_in(e, s, from) : CURSOR_NEVER;
}

struct cursor_epoch *cursor_ready(struct cursor *c, uint64_t a)
{
    for (unsigned j = 0; j < c->n_ready; j++)
        if (holds(&c->ready[j], a))
            return &c->ready[j];
    return NULL;
}

uint64_t cursor_absolute(const struct cursor *c, uint64_t epoch, uint64_t k)
{
    uint64_t i = epoch - c->epoch;

    if (c->kind != ORDER_EXPLICIT)
        return epoch >= c->epoch && i < c->epochs && k <= c->length ? i * c->length + k
                                                                    : CURSOR_NEVER;
    for (unsigned j = 0; j < c->n_ready; j++)
        if (c->ready[j].order.epoch == epoch && k <= c->ready[j].order.length)
            return c->ready[j].begin + k;
    if (i == c->given && k == 0)
        return c->known;
    if (i < c->given && epoch + 1 == cursor_oldest(c) && k == c->passed)
        return c->n_ready > 0 ? c->ready[0].begin : c->known;
    return CURSOR_NEVER;
}

bool cursor_state(const struct cursor *c, uint64_t a, uint64_t *epoch, uint64_t *k)
{
    for (unsigned j = 0; j < c->n_ready; j++)
        if (holds(&c->ready[j], a)) {
            *epoch = c->ready[j].order.epoch;
            *k = a - c->ready[j].begin;
            return true;
        }
    if (c->length == 0 || a / c->length >= c->epochs)
        return false;
    *epoch = c->epoch + a / c->length;
    *k = a % c->length;
    return true;
}
