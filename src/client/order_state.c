// SPDX-License-Identifier: Apache-2.0
/*
 * Takes sample numbers from the order without reading the samples, for a process that deals them to
 * workers; and saves the state of an order, to resume there.
 *
 * A state is epoch, position, and the samples at later positions that differ from the order:
 * because of swaps (substitution.c), or because a relaxed reader took some samples before others.
 * Those that were read move to the front, and the position counts them:
 *
 *     order from `position` on   a b c d e f         saved: position + 2, (2, a), (3, c)
 *     taken so far                 *   *
 *     state                      b d a c e f
 */
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "client/dataset.h"
#include "client/last_error.h"
#include "client/order.h"
#include "client/reading.h"
#include "client/substitution.h"
#include "order/schedule.h"

static int none_set(void)
{
    return client_failf(DLC_EINVAL, "no order is set: call dlc_follow() first");
}

void dlc_tell(struct dlc_dataset *ds, uint64_t *epoch, uint64_t *position)
{
    const struct reading *r = &ds->reading;
    const struct cursor *c = r->schedule != NULL ? &r->schedule->cursor : NULL;

    *epoch = *position = 0;
    if (c == NULL || cursor_state(c, r->pos, epoch, position))
        return;
    /* The end of all that is known; an order of nothing stays where it began. */
    *epoch =
        c->kind == ORDER_EXPLICIT ? cursor_oldest(c) : r->epoch + (c->length > 0 ? c->epochs : 0);
}

/* ---- states ---- */

struct saving {
    struct dlc_swap *buf;
    size_t cap, n;
};

static void save(struct saving *s, uint64_t position, uint64_t sample)
{
    if (s->n < s->cap)
        s->buf[s->n] = (struct dlc_swap){position, sample};
    s->n++;
}

/* What is left of [pos, pos + end), which was taken in part. Returns how many were. */
static uint64_t save_overtaken(struct saving *s, const struct reading *r,
                               const struct cursor_epoch *e, uint64_t end)
{
    uint64_t base = r->pos - e->begin, taken = 0, to;

    for (uint64_t k = 0; k < end; k++)
        taken += reading_is_taken(r, k);
    to = base + taken;
    for (uint64_t k = 0; k < end; k++) {
        uint64_t sample = cursor_at(&r->schedule->cursor, r->pos + k);

        if (reading_is_taken(r, k))
            continue;
        if (order_at(&e->order, to) != sample)
            save(s, to, sample);
        to++;
    }
    return taken;
}

int64_t dlc_tell_swaps(struct dlc_dataset *ds, uint64_t *epoch, uint64_t *position,
                       struct dlc_swap *buf, size_t cap)
{
    struct reading *r = &ds->reading;
    struct saving s = {buf, cap, 0};
    struct swap_pair *pairs = NULL;
    const struct cursor_epoch *e;
    uint64_t end = 0;
    size_t n;

    dlc_tell(ds, epoch, position);
    if (r->schedule == NULL)
        return none_set();
    e = cursor_ready(&r->schedule->cursor, r->pos);
    if (e == NULL)
        return 0;
    for (uint64_t k = 0; k < DLC_MIN((uint64_t)READING_WORDS * 64, e->end - r->pos); k++)
        end = reading_is_taken(r, k) ? k + 1 : end;
    *position += save_overtaken(&s, r, e, end);
    n = schedule_swaps(r->schedule, &pairs);
    for (size_t i = 0; i < n; i++)
        if (pairs[i].position >= r->pos + end && pairs[i].position < e->end)
            save(&s, pairs[i].position - e->begin, pairs[i].sample);
    mem_free(&pairs);
    return (int64_t)s.n;
}

/* ---- taking ---- */

int64_t dlc_take(struct dlc_dataset *ds, uint64_t epoch, uint64_t position, uint64_t *samples,
                 size_t n)
{
    struct reading *r = &ds->reading;
    const struct cursor *c;
    uint64_t first, at, in, k;

    if (r->schedule == NULL)
        return none_set();
    c = &r->schedule->cursor;
    at = cursor_absolute(c, epoch, position);
    if (at == CURSOR_NEVER)
        return reading_no_such_position(r, epoch, position);
    if (at < r->pos)
        return client_failf(DLC_EINVAL,
                            "position %" PRIu64 " of epoch %" PRIu64
                            " was passed already: take what "
                            "comes after what dlc_advance() said",
                            position, epoch);
    if (!cursor_state(c, at, &in, &k) || in != epoch)
        return 0; /* its end */
    n = (size_t)DLC_MIN((uint64_t)n, cursor_left(c, at));
    first = DLC_MAX(r->pos, r->dealt);
    swap_settle(ds, at + n > first ? at + n - first : 0);
    r->dealt = DLC_MAX(first, at + n);
    for (k = 0; k < n; k++)
        samples[k] = cursor_at(c, at + k);
    return (int64_t)n;
}
