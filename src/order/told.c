// SPDX-License-Identifier: Apache-2.0
#include "order/told.h"

#include "base/check.h"
#include "base/mem.h"

void told_list_free(struct told_list **lp)
{
    struct told_list *l = *lp;

    *lp = NULL;
    if (l == NULL)
        return;
    order_index_release(&l->index);
    mem_free(&l->list);
    mem_free(&l);
}

struct told *told_new(const struct order_spec *spec, uint64_t epoch, uint64_t epochs,
                      struct dlc_err *err)
{
    struct told *t = mem_new(struct told);

    if (cursor_init(&t->cursor, spec, epoch, epochs, err) < 0)
        told_free(&t);
    else
        t->length = t->cursor.length;
    return t;
}

struct told *told_new_list(struct told_list **l, uint64_t epoch, uint64_t epochs, uint64_t begin)
{
    const struct order_spec spec = {.kind = ORDER_EXPLICIT};
    struct told *t = mem_new(struct told);
    int rc = cursor_init(&t->cursor, &spec, epoch, epochs, NULL);

    dlc_check(rc == 0); /* nothing of it is computed */
    cursor_begin(&t->cursor, begin);
    rc = told_give(t, l, NULL);
    dlc_check(rc == 0); /* the first one */
    return t;
}

void told_free(struct told **tp)
{
    struct told *t = *tp;

    *tp = NULL;
    if (t == NULL)
        return;
    for (unsigned i = 0; i < DLC_COUNT(t->lists); i++)
        told_list_free(&t->lists[i]);
    mem_free(&t);
}

struct told_list *told_list_new(uint64_t *list, uint64_t length, uint64_t n, struct dlc_err *err)
{
    struct told_list *l = mem_new(struct told_list);

    l->list = list;
    l->length = length;
    if (length == 0)
        dlc_err_set(err, DLC_EINVAL, "explicit order: an epoch without samples");
    if (length == 0 || order_index_init(&l->index, list, length, n, err) < 0)
        told_list_free(&l);
    return l;
}

int told_give(struct told *t, struct told_list **lp, struct dlc_err *err)
{
    struct told_list *l = *lp;
    uint64_t begin = t->cursor.known, epoch = t->cursor.epoch + t->cursor.given;
    int rc = cursor_give(&t->cursor, &l->index, err);

    if (rc < 0)
        return rc;
    *lp = NULL;
    l->begin = begin;
    l->epoch = epoch;
    told_drop(t);
    t->lists[t->lists[0] != NULL] = l;
    told_drop(t);
    if (t->cursor.n_ready == 1)
        t->length = l->length;
    return 0;
}

void told_move(struct told *t, uint64_t a)
{
    const struct cursor *c = &t->cursor;

    cursor_move(&t->cursor, a);
    if (c->kind == ORDER_EXPLICIT)
        t->length = c->n_ready > 0 ? c->ready[0].order.length : c->passed;
}

bool told_has_old(const struct told *t)
{
    return t->lists[1] != NULL && t->lists[0]->epoch < cursor_oldest(&t->cursor);
}

void told_drop(struct told *t)
{
    if (!told_has_old(t))
        return;
    told_list_free(&t->lists[0]);
    t->lists[0] = t->lists[1];
    t->lists[1] = NULL;
}
