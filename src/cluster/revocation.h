// SPDX-License-Identifier: Apache-2.0
/*
 * Revocation: ends sessions that their token no longer permits.
 *
 * A session is opened once and lasts for days, while tokens are rotated and tenants, datasets and
 * grants deleted. So each heartbeat lists sessions as [DIGEST OF THE TOKEN, DATASET, TENANT], a few
 * at a time and each kind once, and the manager answers with those that it would not permit now.
 * They are ended; what they pin counts until the client lets go (CLIENT-CONN-4).
 *
 * (REVOKE-1) A session ends within two heartbeats after the manager took back what permitted it, if
 *            the node has at most REVOKE_ROWS kinds of them; with more, after as many as it takes to
 *            list them all.
 * (REVOKE-2) While the manager is not heard, what it said before counts for manager-grace. Then
 *            sessions of tokens end, and nothing is opened by token until it is heard.
 * (REVOKE-3) A store that was lost takes nothing back: sessions that were opened before are not
 *            listed to a manager whose store does not know this node.
 */
#ifndef DLC_CLUSTER_REVOCATION_H
#define DLC_CLUSTER_REVOCATION_H

#include <stdbool.h>

#include <jansson.h>

#define REVOKE_ROWS 64

struct node;

/* Rows for the next heartbeat, or NULL: none, or a manager that does not know them. Gives. */
json_t *revocation_rows(struct node *n);
/* The manager has answered a heartbeat. */
void revocation_heard(struct node *n, const json_t *answer);
/* The store did not know this node when it joined: tokens and datasets of before are not known
 * there either (REVOKE-3). */
void revocation_store_is_new(struct node *n);
void revocation_tick(struct node *n);
/* SHA-256 of a token by which some session here has the dataset open; NULL: none. Borrowed until
 * the loop's next event. */
const unsigned char *revocation_token_on(const struct node *n, const char *dataset);
/* Has the manager been silent for longer than manager-grace? */
bool revocation_grace_over(const struct node *n);

#endif
