// SPDX-License-Identifier: Apache-2.0
/*
 * Tokens of single nodes: a document "token.HASH" each, whose id auth.h makes of the token's
 * SHA-256; the token itself is not stored.
 *
 *     join token      an admin makes it for one name; it lets one process join, for a while
 *     credential      given to that process when it joins; by it the node joins again after a
 *                     restart, and asks where the manager has no TLS. It does not expire.
 *
 * (NODE-TOKEN-1) A join token is bound to the first process (`instance`) that uses it. That one may
 *                repeat its request, since the answer may have been lost; nobody else can.
 * (NODE-TOKEN-2) Both belong to a generation of the name: revoking the node ends them.
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
    bool joins; /* a join token */
};

/* Whose it is. DLC_EDENIED: nobody's, or it has expired or was revoked; or the store's error. */
int node_token_get(struct tables *t, const char *id, struct node_token *out);
/* Store one. life 0: a credential. */
int node_token_put(struct tables *t, const char *id, const char *node, struct dlc_dur life,
                   struct dlc_err *err);
/* Bind a join token to this process. DLC_EDENIED: another one has used it. */
int node_token_use(struct tables *t, const char *id, const char *instance, struct dlc_err *err);
/* Thread: forget those that count no longer. */
void node_tokens_purge(struct tables *t);

#endif
