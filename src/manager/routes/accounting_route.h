// SPDX-License-Identifier: Apache-2.0
/* GET /v1/accounting, and how usage is shown. */
#ifndef DLC_MANAGER_ROUTES_ACCOUNTING_ROUTE_H
#define DLC_MANAGER_ROUTES_ACCOUNTING_ROUTE_H

#include <stdbool.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/usage.h"
#include "net/server.h"

void route_accounting(struct http_request *r, struct http_reply *reply, void *ctx);
/* {"samples", "hits", "misses", "read_bytes", "stalled_s", "stalled", "requests", "bytes", "money"}.
 * Gives. */
json_t *usage_shown(const struct usage *u);
/* What to do about the largest reason of waits, for a job that ran for so long (base/stall.h); false:
 * readers waited for less than 1 % of it. */
bool usage_advice(const struct usage *u, double ran_s, struct buf *out);

#endif
