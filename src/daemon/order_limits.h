// SPDX-License-Identifier: Apache-2.0
/*
 * How much memory the lists of explicit orders may take. They are the daemon's own, beside the
 * memory tier, and a list costs its sender nothing: it may be a hole.
 */
#ifndef DLC_DAEMON_ORDER_LIMITS_H
#define DLC_DAEMON_ORDER_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct dlc_err;

/* May a list over so many samples be so long? 0, or DLC_EINVAL. */
int order_length_check(uint64_t length, uint64_t samples, struct dlc_err *err);

/* May the user of c, and the tenant in a cluster, have a list of so many bytes more? `more`: beside
 * those of its session, not instead of them. 0, or DLC_ENOMEM. */
int order_budget_check(const struct conn *c, bool more, uint64_t bytes, struct dlc_err *err);

#endif
