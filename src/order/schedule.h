// SPDX-License-Identifier: Apache-2.0
/*
 * Schedule: an order as a client announces it to the daemon, computed or listed, with all that its
 * cursor needs. Both sides keep one.
 *
 * For an explicit order it owns one or two lists: of the current epoch and of the next one.
 * schedule_move() passes the end of an epoch but keeps its list, so that another thread may still
 * read it; schedule_drop() frees it. The last list stays, even after it was read to its end.
 *
 * For a computed order it owns the substitutions of the current epoch and of the next one. They are
 * dropped as positions are passed; moving back drops all of them.
 */
#ifndef DLC_ORDER_SCHEDULE_H
#define DLC_ORDER_SCHEDULE_H

#include "order/cursor.h"

/*
 * How long a list may be: twice the dataset's samples, for samplers that draw with replacement, and
 * in any case SCHEDULE_LIST_FLOOR, for small datasets that are drawn from often; never more than
 * SCHEDULE_LIST_MAX (1.2 GB with its index).
 */
#define SCHEDULE_LIST_MAX   100000000u
#define SCHEDULE_LIST_FLOOR 8388608u
uint64_t schedule_list_max(uint64_t samples);
/* What a list over so many samples takes of memory, with its index. */
uint64_t schedule_list_bytes(uint64_t length, uint64_t samples);

struct schedule_list {
    uint64_t epoch, begin; /* begin: absolute */
    uint64_t *list;
    uint64_t length;
    struct order_index index;
};

struct schedule {
    struct cursor cursor;
    struct schedule_list *lists[2]; /* EXPLICIT: in order of their epochs, NULL behind the last */
    uint64_t length; /* positions of the epoch the cursor is in, or of the last known */
    uint64_t at;     /* where the reader is */
};

/* A computed order, from `epoch` on; epochs: how many are left, 0: no end. Gives; NULL: *err. */
struct schedule *schedule_new(const struct order_spec *spec, uint64_t epoch, uint64_t epochs,
                              struct dlc_err *err);
/* An explicit order whose first list begins at absolute position `begin`. Takes *l. Gives. */
struct schedule *schedule_new_list(struct schedule_list **l, uint64_t epoch, uint64_t epochs,
                                   uint64_t begin);
void schedule_free(struct schedule **tp);

/* A list over samples below n, with its index. Takes list, also when it fails. Gives; NULL: *err.
 */
struct schedule_list *schedule_list_new(uint64_t *list, uint64_t length, uint64_t n,
                                        struct dlc_err *err);
void schedule_list_free(struct schedule_list **lp);

/* The next epoch's list. Takes *l when it succeeds. Returns: as cursor_give(). */
int schedule_give(struct schedule *t, struct schedule_list **l, struct dlc_err *err);

/* The reader is at absolute position a. */
void schedule_move(struct schedule *t, uint64_t a);

/* Exchange what is read at absolute positions p < q of a computed order. false: nothing was done,
 * because they are not of one epoch that is kept ready, p was passed, or no more swaps fit. */
bool schedule_swap(struct schedule *t, uint64_t p, uint64_t q);
/* The swaps from where the reader is on; positions are absolute. Gives *pairs, or NULL for none. */
size_t schedule_swaps(const struct schedule *t, struct swap_pair **pairs);
/* Take those over into an order without swaps. Returns as swaps_load(). */
int schedule_set_swaps(struct schedule *t, const struct swap_pair *pairs, size_t n,
                       struct dlc_err *err);

/* Is there a list of an epoch that is over? Free it. */
bool schedule_has_old(const struct schedule *t);
void schedule_drop(struct schedule *t);

#endif
