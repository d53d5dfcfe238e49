// SPDX-License-Identifier: Apache-2.0
/*
 * Cursor: one rank's position in its order over all epochs, for the prefetcher (what comes next?)
 * and the evictor (when is this sample used again?).
 *
 * Absolute positions continue over the ends of epochs; 0 is the beginning of the first epoch:
 *
 *     epoch        4          5          6              first epoch 4, length 3
 *     position     0  1  2    0  1  2    0  1 ...       a state (4, 2) is resumed at absolute 2
 *     absolute     0  1  2    3  4  5    6  7 ...
 *
 * The current epoch and the next one are kept ready. Others are computed on demand, with the same
 * results, only slower; an explicit order has no others.
 *
 * (CURSOR-1) cursor_move() changes how fast results come, never the results, except that it drops
 *            the explicit lists of past epochs, and the substitutions of epochs that are not ready
 *            any more.
 *
 * Pure: no allocation, no locks, no clock. Owned by one thread at a time.
 */
#ifndef DLC_ORDER_CURSOR_H
#define DLC_ORDER_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "order/next_use_index.h"
#include "order/order.h"
#include "order/substitution.h"

#define CURSOR_NEVER UINT64_MAX       /* not in what is left of the last epoch */
#define CURSOR_LATER (UINT64_MAX - 1) /* after what can be seen from here */

struct cursor_epoch {
    uint64_t begin, end; /* absolute */
    struct order order;
    struct swaps *swaps; /* of a computed order, borrowed; NULL: none */
};

struct cursor {
    enum order_kind kind;
    uint64_t epoch;  /* number of the first epoch */
    uint64_t epochs; /* how many there are; absolute positions end before CURSOR_LATER */
    uint64_t length; /* positions of every epoch; EXPLICIT: 0, lists may differ in length */
    uint64_t given;  /* EXPLICIT: epochs whose lists have come */
    uint64_t known;  /* EXPLICIT: absolute end of those */
    uint64_t passed; /* EXPLICIT: positions of the epoch that was dropped last */
    unsigned n_ready;
    struct cursor_epoch ready[2]; /* consecutive */
};

/*
 * epochs: how many epochs there are from the given one on; 0: no end. An explicit order (only the
 * kind of its spec counts) begins without a list.
 * Returns: 0, or DLC_EINVAL as order_init().
 */
int cursor_init(struct cursor *c, const struct order_spec *spec, uint64_t epoch, uint64_t epochs,
                struct dlc_err *err);

/* Before the first list is given: it begins at absolute position a, not at 0. */
void cursor_begin(struct cursor *c, uint64_t a);

/*
 * The list of the next epoch of an explicit order.
 * Borrows: ix, until cursor_oldest() is past its epoch.
 * Returns: 0; DLC_EBUSY when two lists are there already; DLC_EINVAL after the last epoch.
 */
int cursor_give(struct cursor *c, const struct order_index *ix, struct dlc_err *err);

/* Would cursor_give() take a list now? Returns as it does. */
int cursor_may_give(const struct cursor *c, struct dlc_err *err);

/* The reader is at absolute position a, wherever that is: forward, back, or past the end. */
void cursor_move(struct cursor *c, uint64_t a);

/* Number of the first epoch that is kept ready: explicit lists before it are no longer used. */
uint64_t cursor_oldest(const struct cursor *c);

/* Positions from a to the end of its epoch; 0: it is in none that is known. */
uint64_t cursor_left(const struct cursor *c, uint64_t a);

/* Does an epoch begin at a? The one after the last that is known counts. */
bool cursor_is_start(const struct cursor *c, uint64_t a);

/* Sample at absolute position a. CURSOR_NEVER: after the end; CURSOR_LATER: an explicit list that
 * has not come yet, or has gone. */
uint64_t cursor_at(const struct cursor *c, uint64_t a);

/* The first absolute position >= from at which sample s is read, in the epoch of from or in the
 * one after; else CURSOR_LATER or, when no later one can have it, CURSOR_NEVER. */
uint64_t cursor_next_use(const struct cursor *c, uint64_t s, uint64_t from);

/* The same in the epoch of `from` alone; else CURSOR_NEVER. */
uint64_t cursor_next_in_epoch(const struct cursor *c, uint64_t s, uint64_t from);

/* The epoch that is kept ready and holds absolute position a; NULL: neither does. */
struct cursor_epoch *cursor_ready(struct cursor *c, uint64_t a);

/* From the state that users save to an absolute position; CURSOR_NEVER: not an epoch and position
 * of this cursor. The end of an epoch is allowed: it is the beginning of the next, also when the
 * explicit list of the one has gone or that of the other has not come yet. */
uint64_t cursor_absolute(const struct cursor *c, uint64_t epoch, uint64_t k);

/* And back; false: a is not in an epoch that is known. */
bool cursor_state(const struct cursor *c, uint64_t a, uint64_t *epoch, uint64_t *k);

#endif
