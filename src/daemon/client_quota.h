// SPDX-License-Identifier: Apache-2.0
/*
 * Quotas: the most that one user or one tenant may have at this daemon, so that nobody takes the
 * descriptors, threads and tables of all.
 *
 *     connections  of one user; see below                 max-connections
 *     sessions     of one tenant, or of another user      max-sessions
 *     datasets     in use by one tenant or another user   max-datasets
 *
 * "Another user" is one of allow-uid: the daemon's own user and root have no quota of sessions and
 * datasets without a tenant.
 *
 * At a node of a cluster programs of all tenants may be of one user, root of their containers. There
 * connections count that have no dataset open, which needs a token; sessions count for their tenant.
 * One connection more ends the oldest of them that waits for nothing: whoever connects and asks for
 * nothing keeps no program out.
 *
 * Each check returns 0, or DLC_EBUSY with what to do; it counts and logs.
 *
 * Not here: bytes of orders (order_limits.h), objects and bytes of catalogs (listing.c).
 */
#ifndef DLC_DAEMON_CLIENT_QUOTA_H
#define DLC_DAEMON_CLIENT_QUOTA_H

#include <sys/types.h>

struct conn;
struct dataset;
struct dlc_err;
struct node;
struct open_request;

int quota_connection(const struct node *n, uid_t uid, struct dlc_err *err);
int quota_session(const struct conn *c, const struct open_request *w, struct dlc_err *err);
/* ds: what is wanted; NULL: it is not open yet. */
int quota_dataset(const struct node *n, const struct open_request *w, const struct dataset *ds,
                  struct dlc_err *err);

#endif
