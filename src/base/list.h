// SPDX-License-Identifier: Apache-2.0
/* Intrusive doubly linked list with a head that is a node. */
#ifndef DLC_BASE_LIST_H
#define DLC_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/check.h"

struct dlc_list {
    struct dlc_list *prev, *next;
};

static inline void dlc_list_init(struct dlc_list *l)
{
    l->prev = l->next = l;
}

static inline bool dlc_list_empty(const struct dlc_list *l)
{
    return l->next == l;
}

static inline void dlc_list_push_tail(struct dlc_list *l, struct dlc_list *n)
{
    n->prev = l->prev;
    n->next = l;
    l->prev->next = n;
    l->prev = n;
}

static inline void dlc_list_push_head(struct dlc_list *l, struct dlc_list *n)
{
    dlc_list_push_tail(l->next, n);
}

/* Removing leaves the node an empty list, so removing it twice is harmless. */
static inline void dlc_list_remove(struct dlc_list *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    dlc_list_init(n);
}

static inline struct dlc_list *dlc_list_pop_head(struct dlc_list *l)
{
    struct dlc_list *n = l->next;

    if (n == l)
        return NULL;
    dlc_list_remove(n);
    return n;
}

#define dlc_list_each(n, l) for (struct dlc_list *n = (l)->next; n != (l); n = n->next)
#define dlc_list_each_safe(n, l)                                                                   \
    for (struct dlc_list *n = (l)->next, *n##_next = n->next; n != (l);                            \
         n = n##_next, n##_next = n->next)

#endif
