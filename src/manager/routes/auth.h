// SPDX-License-Identifier: Apache-2.0
/*
 * Tokens and roles: who a caller is, and the check before each handler.
 *
 * A token is "dlc_" and 32 random bytes in base64url; only its SHA-256 is stored. The tokens of
 * admins and nodes lie in DIR, readable for whoever may read the manager's directory: one or two in
 * each file, a line each. Both count; files that change are read again. A tenant's document lists the hashes of its tokens ("tokens": [{"hash", "until_ms"}], until_ms 0: for ever);
 * "token.HASH" of kind STORE_MANAGER names the tenant of a token. The document decides: an entry
 * that a crash has left grants nothing.
 *
 * A node may have a token of its own (tables/node_token.h), which speaks for this node alone. Such
 * tokens count in the check alone: at other places, such as the socket of a node, they are unknown.
 * A token of another form goes to the reviewer (node_reviewer.h), if there is one, where a node
 * joins and nowhere else.
 *
 * A token, if there is one, identifies the caller, also through the Unix socket; without one the
 * socket's users are admins.
 */
#ifndef DLC_MANAGER_ROUTES_AUTH_H
#define DLC_MANAGER_ROUTES_AUTH_H

#include <stdbool.h>

#include "base/err.h"
#include "base/file_stamp.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "manager/store/store.h"
#include "net/server.h"

struct api;

enum role {
    ROLE_ADMIN = 1 << 0,
    ROLE_TENANT = 1 << 1,
    ROLE_NODE = 1 << 2,
    ROLE_ANY = ROLE_ADMIN | ROLE_TENANT | ROLE_NODE,
    ROUTE_READS =
        1 << 8, /* of a route: writes nothing although it is not a GET; any manager answers */
    ROUTE_ANYWAY = 1 << 10, /* of a route: also where the store has lost its records */
    ROUTE_JOINS = 1 << 9,   /* of a route: a node may call it before it has a certificate */
};
/* A route with roles 0 needs no token. */

#define AUTH_FILE_TOKENS 2 /* a new one first, and the one before it while it is replaced */

struct file_tokens {
    unsigned char hash[AUTH_FILE_TOKENS][SHA256_LEN];
    size_t n;
};

struct auth_tokens {
    struct file_tokens admin, node;
};

struct auth {
    struct dlc_mtx mtx;        /* rank LCK_auth */
    struct auth_tokens tokens; /* G: mtx */
    char *dir;
    struct file_stamp admin_file, node_file; /* the thread's that reloads */
};

#define TOKEN_LEN    47 /* "dlc_" and 43 characters of base64url */
#define TOKEN_ID_LEN (6 + 2 * SHA256_LEN)

struct caller {
    enum role role;
    char tenant[NAME_MAX_LEN + 1];   /* of role ROLE_TENANT, else "" */
    bool for_tenant;                 /* an admin that acts as the tenant */
    char object[NAME_MAX_LEN + 1];   /* id of the dataset that the request is about; "": none yet */
    char node[NAME_MAX_LEN + 1];     /* of role ROLE_NODE: that it is the token of; "": of all */
    bool joins;                      /* the token lets that node join, and nothing else */
    char token_id[TOKEN_ID_LEN + 1]; /* of one node: its document; "": a reviewer vouches for it */
    bool credential_due;             /* the credential of that node ends soon */
    struct dlc_dur credential_life;  /* its whole life; 0: without an end */
};

/* The caller that the check has identified; valid in handlers, on their thread. */
const struct caller *caller_of(const struct http_request *r);
/* For the audit log: what a name means is known only after it was looked up. */
void caller_set_object(const struct http_request *r, const char *id);
const char *role_name(enum role role); /* "admin", "node" or "tenant" */
/* May the caller speak for this node (NULL: it names none), as far as its certificate says? False:
 * the reply says why not. */
bool caller_is_node(const struct http_request *r, const char *node, struct http_reply *reply);
/* The node that the caller is, by its certificate or token; NULL: neither says. */
const char *caller_node(const struct http_request *r);
/* Admins see everything, tenants their own. Nodes see nothing by this. */
bool caller_sees(const struct caller *who, const char *tenant);

void token_new(char out[static TOKEN_LEN + 1]);
void token_hash(const char *token, unsigned char out[static SHA256_LEN]);
/* "token.HASH": the document that names the owner of a token. */
void token_doc_id(const unsigned char hash[static SHA256_LEN], char out[static TOKEN_ID_LEN + 1]);
/* Who owns the token? DLC_EDENIED: unknown or expired. DLC_EBUCKET: the store is unreachable. */
int token_caller(struct api *api, const char *token, struct caller *out, struct dlc_err *err);
/* The same by the token's hash. */
int token_hash_caller(struct api *api, const unsigned char hash[static SHA256_LEN],
                      struct caller *out, struct dlc_err *err);
/* http_server_config.check */
bool auth_check(struct http_request *r, const struct http_route *route, struct http_reply *reply,
                void *ctx);
/* Reads the token files in dir; creates those that are missing. *a is zeroed, or was opened before.
 * Release it also after a failure. */
int auth_open(struct auth *a, const char *dir, struct dlc_err *err);
void auth_release(struct auth *a); /* zeroed is allowed */
/* Reads the files again if one of them changed. 1: it did, and its tokens count. On failure those
 * from before do. */
int auth_reload(struct auth *a, struct dlc_err *err);
void auth_tokens_get(struct auth *a, struct auth_tokens *out);

#endif
