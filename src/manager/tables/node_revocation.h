// SPDX-License-Identifier: Apache-2.0
/*
 * Nodes whose access was revoked: the document "revoked_nodes" of the store, which every manager
 * reads once a second, and the leader before it uses it.
 *
 * A node's name has a generation: 0 until it is revoked for the first time, then one more each
 * time. What is issued to a node (certificate, credential) holds the generation of its name. So
 * revocation needs no list of serial numbers, and does not depend on clocks.
 *
 * (NODE-REVOCATION-1) What was issued in an earlier generation is refused, by managers at once (by
 *                     those that do not lead within a second), by nodes with their next view.
 * (NODE-REVOCATION-2) A name that is barred is not joined with the token that all nodes share:
 *                     whoever had the name may still have that token.
 * (NODE-REVOCATION-3) The view names a revocation until everything that it refuses has expired.
 */
#ifndef DLC_MANAGER_TABLES_NODE_REVOCATION_H
#define DLC_MANAGER_TABLES_NODE_REVOCATION_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"

struct tables;

struct node_revocations {
    json_t *nodes;    /* G: tables.mtx: NAME: {"generation", "barred", "tickets_ms", "until_ms"} */
    uint64_t version; /* G: tables.mtx: of the document; 0: there is none */
};

/* Read the document again. A store that does not answer leaves what there is. */
int revocations_read(struct tables *t, struct dlc_err *err);
/* Begin to lead: the same, whatever was read before, which may be of a store that was lost. */
int revocations_load(struct tables *t, struct dlc_err *err);
/* Is what was issued to this node in this generation refused? */
bool revocations_refuse(struct tables *t, const char *node, uint32_t generation);
bool revocations_bar(struct tables *t, const char *node);
/* The present generation, by the store. Gives *out. */
int revocations_generation(struct tables *t, const char *node, uint32_t *out, struct dlc_err *err);

/* How long what is issued to nodes is valid. */
struct issued_life {
    struct dlc_dur certificate, ticket;
};
/* Begin a new generation, and bar the name. */
int revocations_add(struct tables *t, const char *node, const struct issued_life *life,
                    struct dlc_err *err);
/* The token that all nodes share opens the name again. What was revoked stays so. */
int revocations_lift(struct tables *t, const char *node, struct dlc_err *err);

/* For the view: [[NAME, GENERATION, TICKETS_MS], ...] by name; tickets that expire by TICKETS_MS
 * are refused. Gives. */
json_t *revocations_view(struct tables *t);
void revocations_release(struct node_revocations *r); /* zeroed is allowed */

#endif
