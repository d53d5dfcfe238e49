// SPDX-License-Identifier: Apache-2.0
/*
 * Client of the manager's HTTP API (docs/design/0006-cluster.md), for all who ask it: the command
 * line, the operator and a node's agent. Blocking; one thread per handle.
 *
 * It knows who we are (a token, or a function that finds one), the headers that only the manager
 * understands, and lists in pages. Addresses, TLS, what is sent again and what an error status
 * means: json_client.h, which also asks other servers.
 */
#ifndef DLC_NET_MANAGER_CLIENT_H
#define DLC_NET_MANAGER_CLIENT_H

#include <stdbool.h>

#include <jansson.h>

#include "base/err.h"
#include "net/json_client.h"

struct manager_client;

struct manager_client_config {
    struct http_client_config http;
    /* Finds the token instead of http.token: called before the first request, and again after one
     * that the manager answered with 401. Gives *out. With it, what http points to is borrowed
     * until manager_client_close(). NULL: http.token is the token. */
    int (*find_token)(void *arg, char **out, struct dlc_err *err);
    /* With find_token: finds http.ca_pem, called when it is, and again after a request whose server
     * was not trusted. Gives *out, NULL: none. */
    int (*find_ca)(void *arg, char **out, struct dlc_err *err);
    void *arg;
};

/* Gives *out, NULL on failure. Nothing is sent yet. */
int manager_client_open(const struct manager_client_config *c, struct manager_client **out,
                        struct dlc_err *err);
void manager_client_close(struct manager_client **cp);

struct manager_request {
    const char *method, *path;
    const json_t *body;          /* NULL: none */
    const char *idempotency_key; /* NULL: none */
    const char *as_tenant;       /* with the rights of this tenant only; NULL: with our own */
};

/* Borrows r. Gives *out, NULL when the answer had no body; out may be NULL. Errors: http_json(). */
int manager_client_send(struct manager_client *c, const struct manager_request *r, json_t **out,
                        struct dlc_err *err);
/* The same with no more than these. */
int manager_client_call(struct manager_client *c, const char *method, const char *path,
                        const json_t *body, json_t **out, struct dlc_err *err);
/* All items of a list, page after page; each() borrows those of a page. */
int manager_client_pages(struct manager_client *c, const char *path,
                         void (*each)(const json_t *items, void *arg), void *arg,
                         struct dlc_err *err);
/* The same as one array. Gives *out, NULL on failure. */
int manager_client_list(struct manager_client *c, const char *path, json_t **out,
                        struct dlc_err *err);
/* Lines of a stream, until each() returns false or it ends. */
int manager_client_lines(struct manager_client *c, const char *path,
                         bool (*each)(const char *line, void *arg), void *arg, struct dlc_err *err);

/* Show this certificate from the next request on. Takes a reference. */
void manager_client_identity(struct manager_client *c, struct tls_identity *id);
/* The token is found again for the next request. */
void manager_client_forget_token(struct manager_client *c);
int manager_client_status(const struct manager_client *c); /* of the last answer; 0: none came */
const char *manager_client_address(const struct manager_client *c); /* as http_client_at() */

#endif
