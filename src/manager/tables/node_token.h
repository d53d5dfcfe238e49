// SPDX-License-Identifier: Apache-2.0
/*
 * Tokens of single nodes: a document "token.HASH" each, whose id auth.h makes of the token's
 * SHA-256; the token itself is not stored.
 *
 *     join token      an admin makes it for one name; it lets one process join, for a while
 *     credential      given to that process when it joins; by it the node joins again after a
 *                     restart, and asks where the manager has no TLS. From half of its life on the
 *                     node is given another one with its heartbeats.
 *
 * (NODE-TOKEN-1) A join token is bound to the first process (`instance`) that uses it. That one may
 *                repeat its request, since the answer may have been lost; nobody else can.
 * (NODE-TOKEN-2) Both belong to a generation of the name: revoking the node ends them.
 * (NODE-TOKEN-3) A credential that no node renews ends. One from before they ended gets an end when
 *                its node is first given another.
 */
#ifndef DLC_MANAGER_TABLES_NODE_TOKEN_H
#define DLC_MANAGER_TABLES_NODE_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "manager/store/store.h"

struct tables;

struct node_token {
    char node[NAME_MAX_LEN + 1];
    bool joins;          /* a join token */
    bool due;            /* a credential: its node needs another one */
    struct dlc_dur life; /* of a credential; 0: it was made without an end */
};

/* Whose it is. DLC_EDENIED: nobody's, or it has expired or was revoked; or the store's error. */
int node_token_get(struct tables *t, const char *id, struct node_token *out);
int node_token_put_join(struct tables *t, const char *id, const char *node, struct dlc_dur life,
                        struct dlc_err *err);
int node_token_put_credential(struct tables *t, const char *id, const char *node,
                              struct dlc_dur life, struct dlc_err *err);
/* Another credential takes the place of this one: it ends after `life` at the latest, and is not due
 * for a minute. */
int node_token_replace(struct tables *t, const char *id, struct dlc_dur life, struct dlc_err *err);
/* Bind a join token to this process. DLC_EDENIED: another one has used it. */
int node_token_use(struct tables *t, const char *id, const char *instance, struct dlc_err *err);
/* Thread: forget those that count no longer. */
void node_tokens_purge(struct tables *t);

#endif
