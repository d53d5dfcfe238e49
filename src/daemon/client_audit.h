// SPDX-License-Identifier: Apache-2.0
/*
 * Audit of clients: operations of the daemon's socket that were refused, or that take something from
 * others (evict, stop). The actor is a process of this machine: its user, and its tenant if known.
 */
#ifndef DLC_DAEMON_CLIENT_AUDIT_H
#define DLC_DAEMON_CLIENT_AUDIT_H

#include "base/audit_log.h"

struct conn;
struct node;

/* L. `reason` may be NULL. A query in `object`, which may be NULL, is left out: it can hold a
 * signature. */
void client_audit(const struct conn *c, const char *action, const char *object,
                  enum audit_outcome outcome, const char *reason);
/* The same of a process that has no connection: it was not let in. */
void client_audit_stranger(struct node *n, int64_t uid, int64_t pid, const char *reason);

#endif
