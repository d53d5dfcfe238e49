// SPDX-License-Identifier: Apache-2.0
/* An order as a client tells it to the daemon, computed or listed, with all that its cursor needs.
 */
#ifndef DLC_ORDER_TOLD_H
#define DLC_ORDER_TOLD_H

#include "order/cursor.h"

struct told {
    struct cursor cursor;
    struct order_index index; /* of the list */
    uint64_t *list;           /* EXPLICIT: owned; else NULL */
    uint64_t length;          /* positions of one epoch */
};

/* A computed order, from `epoch` on; epochs: how many are left, 0: no end. Gives; NULL: *err. */
struct told *told_new(const struct order_spec *spec, uint64_t epoch, uint64_t epochs,
                      struct dlc_err *err);
/* An explicit order of one epoch over samples below n. Takes list, also when it fails. */
struct told *told_new_list(uint64_t *list, uint64_t length, uint64_t n, uint64_t epoch,
                           struct dlc_err *err);
void told_free(struct told **tp);

#endif
