// SPDX-License-Identifier: Apache-2.0
#include "order/told.h"

#include "base/mem.h"

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

struct told *told_new_list(uint64_t *list, uint64_t length, uint64_t n, uint64_t epoch,
                           struct dlc_err *err)
{
    const struct order_spec spec = {.kind = ORDER_EXPLICIT, .n = n, .world = 1};
    struct told *t = mem_new(struct told);

    t->list = list;
    t->length = length;
    if (order_index_init(&t->index, list, length, n, err) < 0 ||
        cursor_init(&t->cursor, &spec, epoch, 1, err) < 0 ||
        cursor_give(&t->cursor, &t->index, err) < 0)
        told_free(&t);
    return t;
}

void told_free(struct told **tp)
{
    struct told *t = *tp;

    *tp = NULL;
    if (t == NULL)
        return;
    order_index_release(&t->index);
    mem_free(&t->list);
    mem_free(&t);
}
