// SPDX-License-Identifier: Apache-2.0
/*
 * An order as a client tells it to the daemon, computed or listed, with all that its cursor needs.
 * Both sides keep one.
 *
 * Of an explicit order it owns one or two lists: that of the epoch being read and that of the one
 * after it. told_move() passes the end of an epoch but keeps its list, so that another thread may
 * still be reading it; told_drop() frees it. The last list stays, also when it was read to its end.
 *
 * Of a computed order it owns the swaps of the epoch being read and of the one after it. They go as
 * positions are passed; going back forgets all of them.
 */
#ifndef DLC_ORDER_SCHEDULE_H
#define DLC_ORDER_SCHEDULE_H

#include "order/cursor.h"

#define TOLD_LIST_MAX 100000000u /* samples in a list: 1.2 GB with its index */

struct told_list {
    uint64_t epoch, begin; /* begin: absolute */
    uint64_t *list;
    uint64_t length;
    struct order_index index;
};

struct told {
    struct cursor cursor;
    struct told_list *lists[2]; /* EXPLICIT: in order of their epochs, NULL behind the last */
    uint64_t length;            /* positions of the epoch the cursor is in, or of the last known */
    uint64_t at;                /* where the reader is */
};

/* A computed order, from `epoch` on; epochs: how many are left, 0: no end. Gives; NULL: *err. */
struct told *told_new(const struct order_spec *spec, uint64_t epoch, uint64_t epochs,
                      struct dlc_err *err);
/* An explicit order whose first list begins at absolute position `begin`. Takes *l. Gives. */
struct told *told_new_list(struct told_list **l, uint64_t epoch, uint64_t epochs, uint64_t begin);
void told_free(struct told **tp);

/* A list over samples below n, with its index. Takes list, also when it fails. Gives; NULL: *err.
 */
struct told_list *told_list_new(uint64_t *list, uint64_t length, uint64_t n, struct dlc_err *err);
void told_list_free(struct told_list **lp);

/* The next epoch's list. Takes *l when it succeeds. Returns: as cursor_give(). */
int told_give(struct told *t, struct told_list **l, struct dlc_err *err);

/* The reader is at absolute position a. */
void told_move(struct told *t, uint64_t a);

/* Exchange what is read at absolute positions p < q of a computed order. false: nothing was done,
 * because they are not of one epoch that is kept ready, p was passed, or no more swaps fit. */
bool told_swap(struct told *t, uint64_t p, uint64_t q);
/* The swaps from where the reader is on; positions are absolute. Gives *pairs, or NULL for none. */
size_t told_swaps(const struct told *t, struct swap_pair **pairs);
/* Take those over into an order without swaps. Returns as swaps_load(). */
int told_set_swaps(struct told *t, const struct swap_pair *pairs, size_t n, struct dlc_err *err);

/* Is there a list of an epoch that is over? Free it. */
bool told_has_old(const struct told *t);
void told_drop(struct told *t);

#endif
