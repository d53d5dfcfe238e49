// SPDX-License-Identifier: Apache-2.0
/*
 * A client of JSON APIs, on libcurl: blocking, keep-alive, one request at a time per handle. For
 * the command line, the agent and the operator. Proxies of the environment are not used.
 *
 * Of several addresses the one that answered last is asked first. A request that may have reached a
 * server is sent to another one only if doing it twice does no harm: anything but POST, or all of
 * it when the caller says so.
 */
#ifndef DLC_NET_JSON_CLIENT_H
#define DLC_NET_JSON_CLIENT_H

#include <stdbool.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "net/tls_identity.h"

struct http_client;

struct http_client_config {
    const char *base; /* "http://host:port", "https://…", "unix:/path", several with commas: tried
                       * in turn when one does not answer or says it does not lead (503) */
    const char *token;      /* NULL: none */
    const char *ca;         /* PEM file; NULL: the system's */
    const char *ca_setting; /* how people name that file; borrowed for ever, NULL: "a PEM file" */
    const char *ca_pem;     /* PEM text, instead of it; NULL: none. Needs libcurl 7.77 */
    /* Its certificate is shown to servers. A reference is taken; NULL: none. */
    struct tls_identity *identity;
    /* The server is this node: it must show its certificate, of an authority of `identity`. base is
     * one https:// address. NULL: any server. */
    const char *node;
    struct dlc_dur timeout; /* 0: 30 s */
    bool repeatable;        /* a POST done twice does no harm either */
};

int http_client_open(const struct http_client_config *c, struct http_client **out,
                     struct dlc_err *err);
void http_client_close(struct http_client **cp);

/* One more header for the next request alone: "If-Match", "Idempotency-Key". */
void http_client_header(struct http_client *c, const char *name, const char *value);
/* Show another certificate from the next request on. Takes a reference. */
void http_client_identity(struct http_client *c, struct tls_identity *id);
/* The address that answered last, or will be asked first. */
const char *http_client_at(const struct http_client *c);

/*
 * body: borrowed, NULL for none. Gives *out (NULL when the answer had no body).
 * A status of 400 and more is an error with the problem's detail as text (401, 403 DLC_EDENIED, 404
 * DLC_ENOTFOUND, 409 and 412 DLC_EBUSY, 507 DLC_ENOSPACE, other 4xx DLC_EINVAL, 5xx DLC_EBUCKET;
 * DLC_EBUCKET and DLC_ETIMEDOUT also when nobody answers, with *status 0); *status (may be NULL) is
 * set in any case.
 */
int http_json(struct http_client *c, const char *method, const char *path, const json_t *body,
              json_t **out, int *status, struct dlc_err *err);
/* Every page of a list ("items", "next"), of 1000 each: each() borrows the items. */
int http_pages(struct http_client *c, const char *path,
               void (*each)(const json_t *items, void *arg), void *arg, int *status,
               struct dlc_err *err);
/* Lines of a stream, until each() returns false or it ends. */
int http_lines(struct http_client *c, const char *path, bool (*each)(const char *line, void *arg),
               void *arg, struct dlc_err *err);
/* Percent-encode a path segment or a query value. Gives. */
char *http_escape(const char *text);

#endif
