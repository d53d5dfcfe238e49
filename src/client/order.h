// SPDX-License-Identifier: Apache-2.0
/* Setting an order and reading in it. */
#ifndef DLC_CLIENT_ORDER_H
#define DLC_CLIENT_ORDER_H

#include <stdint.h>

#include "client/reading.h"

int reading_no_such_position(const struct reading *r, uint64_t epoch,
                             uint64_t position); /* fails */

#endif
