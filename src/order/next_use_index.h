// SPDX-License-Identifier: Apache-2.0
/*
 * Next-use index of an explicit list: when is a sample used next? A list has no computable order,
 * so its positions are sorted by sample once, by counting: 4 bytes for each sample and each
 * position.
 *
 *     list       3 1 3 0        uses of sample s: positions[starts[s] .. starts[s + 1])
 *     starts     0 1 2 2 4
 *     positions  3 1 0 2
 *
 * X once it is built.
 */
#ifndef DLC_ORDER_NEXT_USE_INDEX_H
#define DLC_ORDER_NEXT_USE_INDEX_H

#include <stdint.h>

#include "base/err.h"

struct order_index {
    const uint64_t *list; /* borrowed */
    uint64_t length;
    uint64_t n;
    uint32_t *starts;    /* n + 1 */
    uint32_t *positions; /* length */
};

#define ORDER_INDEX_INIT                                                                           \
    {                                                                                              \
        NULL, 0, 0, NULL, NULL                                                                     \
    }

/*
 * Borrows: list, until order_index_release().
 * Returns: 0; DLC_EINVAL when a sample is not below n or the list is longer than 2^32 - 1;
 * DLC_ENOMEM. *ix is empty on failure.
 */
int order_index_init(struct order_index *ix, const uint64_t *list, uint64_t length, uint64_t n,
                     struct dlc_err *err);
void order_index_release(struct order_index *ix);

/* The first position >= from at which s is listed; UINT64_MAX: none. */
uint64_t order_index_next(const struct order_index *ix, uint64_t s, uint64_t from);

#endif
