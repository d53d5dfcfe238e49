// SPDX-License-Identifier: Apache-2.0
/*
 * Checks the tickets that peers show (base/ticket.h): who signed them, and whether they still count.
 * What was verified is remembered in a table of fixed size, so a ticket costs one check of its
 * signature, not one for each sample.
 *
 * (TICKETS-1) Expiry is judged by the manager's clock, which each heartbeat's answer brings; between
 *             two of them the monotonic clock goes on. TICKET_SKEW is allowed for managers whose
 *             clocks differ, and for the way of the answer.
 * (TICKETS-2) While the manager is not heard its clock stops TICKET_SILENCE after its last answer:
 *             nobody can renew tickets then, and what it said before counts for manager-grace
 *             (REVOKE-2). After that no ticket counts.
 * (TICKETS-3) When the keys change, everything is verified again.
 * (TICKETS-4) Tickets that were not seen before are checked at most TICKET_CHECKS times a second:
 *             whoever reaches the port cannot keep the server busy with signatures.
 *
 * (TICKETS-5) What was issued to a node before it was revoked is refused: its tickets, and every
 *             request on a connection whose certificate is of an earlier generation, also one that
 *             was open before.
 *
 * Any thread, but for ticket_table_heard() and ticket_table_revoked(): the loop's.
 */
#ifndef DLC_CLUSTER_TICKET_TABLE_H
#define DLC_CLUSTER_TICKET_TABLE_H

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/ticket.h"

#define TICKET_SKEW    DLC_SEC(60)
#define TICKET_SILENCE DLC_SEC(60)
#define TICKET_CHECKS  250

struct ticket_table;

/* grace: manager-grace; 0: for ever. */
/* Has it heard of keys? Until then no ticket can be judged. */
bool ticket_table_ready(struct ticket_table *t);
struct ticket_table *ticket_table_new(struct dlc_dur grace);
void ticket_table_free(struct ticket_table **tp);
/* The "tickets" of a manager's answer: {"keys", "now_ms"}; NULL and nonsense change nothing. */
void ticket_table_heard(struct ticket_table *t, const json_t *tickets);
/* The "revoked" of a view: [[NAME, GENERATION, TICKETS_MS], ...]. NULL: none. */
void ticket_table_revoked(struct ticket_table *t, const json_t *revoked);
/* What a peer wants. NULL: not said. */
struct ticket_use {
    const char *dataset;
    const char *tenant;
    const char *node; /* as the certificate of its connection says */
};

/* DLC_EDENIED: the node was revoked after its certificate was issued. node NULL: it showed none. */
int ticket_table_check_node(struct ticket_table *t, const char *node, uint32_t generation,
                            struct dlc_err *err);
/*
 * What the ticket says, if it counts now and for this. DLC_EPROTO: it is not a ticket; DLC_EDENIED:
 * another key, another dataset, tenant or node, or it has expired; DLC_EBUSY: it cannot be judged
 * now.
 */
int ticket_table_check(struct ticket_table *t, const char *text, const struct ticket_use *use,
                       struct ticket *out, struct dlc_err *err);

#endif
