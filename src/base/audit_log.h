// SPDX-License-Identifier: Apache-2.0
/*
 * Audit log: who did what, as JSON lines in a file of their own. A line says when, who (actor), from
 * where (address), in which request, did what (action) to what (object), and how that ended.
 *
 * (AUDIT-1) A line is written before the caller answers its client, by one write() with O_APPEND.
 * (AUDIT-2) One event is one line: quotes, control characters and bytes that are not UTF-8 are
 *           escaped or replaced, whoever chose them. No text is longer than AUDIT_TEXT_MAX bytes.
 * (AUDIT-3) A line that cannot be written (full disk) is lost and counted; the action goes on. The
 *           next line that is written follows a line "audit.lost" with the number.
 * (AUDIT-4) Refusals, which strangers can cause at will, take at most AUDIT_REFUSALS lines a second;
 *           the rest are counted in the same way.
 * (AUDIT-5) A file that was renamed or removed is opened again within a second, by its path. So
 *           logrotate needs neither a signal nor copytruncate.
 *
 * Never pass a token, a key or credentials.
 */
#ifndef DLC_BASE_AUDIT_LOG_H
#define DLC_BASE_AUDIT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define AUDIT_TEXT_MAX 256
#define AUDIT_REFUSALS 50

struct audit_log;

enum audit_outcome { AUDIT_OK, AUDIT_REFUSED, AUDIT_FAILED };

/* Texts may be NULL: the line does not have them. */
struct audit_event {
    const char *role; /* of the actor: "admin", "tenant", "node", "user", "unknown" */
    const char *name; /* of the tenant or node that acts */
    const char *by;   /* role of the caller that acts for it */
    bool local;       /* the actor is a process of this machine: uid and pid are valid */
    int64_t uid, pid;
    const char *address; /* HOST:PORT, or "unix" */
    const char *request; /* id of the request, which its reply has too */
    const char *action;  /* "tenant.create" */
    const char *object;  /* a name or an URL */
    const char *tenant;  /* whose the object is */
    enum audit_outcome outcome;
    int status;         /* of HTTP; 0: none */
    const char *reason; /* why it was refused or failed */
};

/* path "-": standard output. The file is made with mode 0600. */
int audit_log_open(const char *path, struct audit_log **out, struct dlc_err *err);
void audit_log_close(struct audit_log **ap);
/* X. a NULL: there is no audit log. */
void audit_log_write(struct audit_log *a, const struct audit_event *e);
/* X: lines that were not written so far. */
uint64_t audit_log_lost(struct audit_log *a);

/* The event as one line of JSON without its newline, at this Unix time. */
void audit_event_json(const struct audit_event *e, int64_t unix_ms, struct buf *out);

#endif
