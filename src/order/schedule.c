// SPDX-License-Identifier: Apache-2.0
#include "order/schedule.h"

#include "base/check.h"
#include "base/mem.h"

void schedule_list_free(struct schedule_list **lp)
{
    struct schedule_list *l = *lp;

    *lp = NULL;
    if (l == NULL)
        return;
    order_index_release(&l->index);
    mem_free(&l->list);
    mem_free(&l);
}

static void swaps_free(struct swaps **wp)
{
    struct swaps *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    swaps_release(w);
    mem_free(&w);
}

struct schedule *schedule_new(const struct order_spec *spec, uint64_t epoch, uint64_t epochs,
                              struct dlc_err *err)
{
    struct schedule *t = mem_new(struct schedule);

    if (cursor_init(&t->cursor, spec, epoch, epochs, err) < 0)
        schedule_free(&t);
    else
        t->length = t->cursor.length;
    return t;
}

struct schedule *schedule_new_list(struct schedule_list **l, uint64_t epoch, uint64_t epochs,
                                   uint64_t begin)
{
    const struct order_spec spec = {.kind = ORDER_EXPLICIT};
    struct schedule *t = mem_new(struct schedule);
    int rc = cursor_init(&t->cursor, &spec, epoch, epochs, NULL);

    dlc_check(rc == 0); /* nothing of it is computed */
    cursor_begin(&t->cursor, begin);
    rc = schedule_give(t, l, NULL);
    dlc_check(rc == 0); /* the first one */
    return t;
}

void schedule_free(struct schedule **tp)
{
    struct schedule *t = *tp;

    *tp = NULL;
    if (t == NULL)
        return;
    for (unsigned i = 0; i < DLC_COUNT(t->lists); i++)
        schedule_list_free(&t->lists[i]);
    for (unsigned j = 0; j < t->cursor.n_ready; j++)
        swaps_free(&t->cursor.ready[j].swaps);
    mem_free(&t);
}

uint64_t schedule_list_max(uint64_t samples)
{
    return DLC_CLAMP(samples, SCHEDULE_LIST_FLOOR / 2, SCHEDULE_LIST_MAX / 2) * 2;
}

uint64_t schedule_list_bytes(uint64_t length, uint64_t samples)
{
    return sizeof(struct schedule_list) + length * (sizeof(uint64_t) + sizeof(uint32_t)) +
           (samples + 1) * sizeof(uint32_t);
}

struct schedule_list *schedule_list_new(uint64_t *list, uint64_t length, uint64_t n,
                                        struct dlc_err *err)
{
    struct schedule_list *l = mem_new(struct schedule_list);

    l->list = list;
    l->length = length;
    if (length == 0)
        dlc_err_set(err, DLC_EINVAL, "explicit order: an epoch without samples");
    if (length == 0 || order_index_init(&l->index, list, length, n, err) < 0)
        schedule_list_free(&l);
    return l;
}

int schedule_give(struct schedule *t, struct schedule_list **lp, struct dlc_err *err)
{
    struct schedule_list *l = *lp;
    uint64_t begin = t->cursor.known, epoch = t->cursor.epoch + t->cursor.given;
    int rc = cursor_give(&t->cursor, &l->index, err);

    if (rc < 0)
        return rc;
    *lp = NULL;
    l->begin = begin;
    l->epoch = epoch;
    schedule_drop(t);
    t->lists[t->lists[0] != NULL] = l;
    schedule_drop(t);
    if (t->cursor.n_ready == 1)
        t->length = l->length;
    return 0;
}

/* Forget the swaps of what the reader passes on its way to a, and all of them when it goes back. */
static void pass_swaps(struct schedule *t, uint64_t a)
{
    for (unsigned j = 0; j < t->cursor.n_ready; j++) {
        struct cursor_epoch *e = &t->cursor.ready[j];
        uint64_t from = DLC_CLAMP(t->at, e->begin, e->end), to = DLC_CLAMP(a, e->begin, e->end);

        if (e->swaps == NULL)
            continue;
        if (a < t->at || a >= e->end)
            swaps_free(&e->swaps);
        else
            swaps_pass(e->swaps, from - e->begin, to - e->begin);
    }
}

void schedule_move(struct schedule *t, uint64_t a)
{
    const struct cursor *c = &t->cursor;

    if (c->kind != ORDER_EXPLICIT)
        pass_swaps(t, a);
    cursor_move(&t->cursor, a);
    if (c->kind == ORDER_EXPLICIT)
        t->length = c->n_ready > 0 ? c->ready[0].order.length : c->passed;
    t->at = a;
}

bool schedule_swap(struct schedule *t, uint64_t p, uint64_t q)
{
    struct cursor_epoch *e = cursor_ready(&t->cursor, p);

    if (t->cursor.kind == ORDER_EXPLICIT || e == NULL || p < t->at || q <= p || q >= e->end)
        return false;
    if (e->swaps == NULL)
        e->swaps = mem_new(struct swaps);
    return swaps_exchange(e->swaps, &e->order, p - e->begin, q - e->begin);
}

size_t schedule_swaps(const struct schedule *t, struct swap_pair **pairs)
{
    size_t n = 0;

    *pairs = NULL;
    for (unsigned j = 0; j < t->cursor.n_ready; j++) {
        const struct cursor_epoch *e = &t->cursor.ready[j];
        struct swap_pair *some;
        size_t m;

        if (e->swaps == NULL)
            continue;
        m = swaps_list(e->swaps, t->at > e->begin ? t->at - e->begin : 0, &some);
        if (m > 0)
            *pairs = mem_grow(*pairs, (n + m) * sizeof(**pairs));
        for (size_t i = 0; i < m; i++, n++)
            (*pairs)[n] = (struct swap_pair){e->begin + some[i].position, some[i].sample};
        mem_free(&some);
    }
    return n;
}

/* Those of one epoch, which are the first of all. Returns how many, or as swaps_load(). */
static int64_t load_epoch(const struct schedule *t, struct cursor_epoch *e,
                          const struct swap_pair *pairs, size_t n, struct dlc_err *err)
{
    struct swap_pair *own = NULL;
    size_t m = 0;
    int rc = 0;

    while (m < n && pairs[m].position >= e->begin && pairs[m].position < e->end)
        m++;
    if (m > 0) {
        own = mem_try_alloc(m * sizeof(*own));
        if (own == NULL)
            return dlc_err_set(err, DLC_ENOMEM, "no memory for %zu swaps", m);
        for (size_t i = 0; i < m; i++)
            own[i] = (struct swap_pair){pairs[i].position - e->begin, pairs[i].sample};
        e->swaps = mem_new(struct swaps);
        rc = swaps_load(e->swaps, &e->order, own, m, t->at > e->begin ? t->at - e->begin : 0, err);
        mem_free(&own);
    }
    return rc < 0 ? rc : (int64_t)m;
}

int schedule_set_swaps(struct schedule *t, const struct swap_pair *pairs, size_t n,
                       struct dlc_err *err)
{
    size_t done = 0;

    for (unsigned j = 0; j < t->cursor.n_ready && t->cursor.kind != ORDER_EXPLICIT; j++) {
        int64_t m = load_epoch(t, &t->cursor.ready[j], pairs + done, n - done, err);

        if (m < 0)
            return (int)m;
        done += (size_t)m;
    }
    return done == n ? 0
                     : dlc_err_set(err, DLC_EINVAL,
                                   "swaps of other epochs than the one being read and the next");
}

bool schedule_has_old(const struct schedule *t)
{
    return t->lists[1] != NULL && t->lists[0]->epoch < cursor_oldest(&t->cursor);
}

void schedule_drop(struct schedule *t)
{
    if (!schedule_has_old(t))
        return;
    schedule_list_free(&t->lists[0]);
    t->lists[0] = t->lists[1];
    t->lists[1] = NULL;
}
