// SPDX-License-Identifier: Apache-2.0
/*
 * An HTTP server for the API and for peers, on libmicrohttpd: a table of routes, JSON in and out,
 * errors as application/problem+json. One thread per connection, so that handlers may block; at
 * most `connections` of them: more are turned away.
 *
 * The server parses, limits and refuses; handlers see only well-formed requests of a known route:
 * 404 unknown path, 405 (with Allow), 411/413 body missing or over `max_body`, 415 not JSON, 400
 * not a JSON object or bad percent-encoding, path parameters decoded and without '/' or NUL. A POST
 * or PUT says how long its body is, be it 0 (body is then NULL). HEAD is answered as GET is.
 *
 * Strangers cost little: `check` refuses them before a byte of their body is kept. All bodies in
 * flight together are at most `max_bodies` (503 beyond), each is parsed only if it has at most
 * `max_values` JSON values, and a client must take its answer in bounded time.
 *
 * The first route that fits a path counts. While the server closes, new requests get 503.
 */
#ifndef DLC_NET_SERVER_H
#define DLC_NET_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "net/tls_identity.h"

struct http_server;
struct target;

#define HTTP_PARAMS  4
#define HTTP_HEADERS 4

struct http_request {
    const char *method, *path;
    const char *params[HTTP_PARAMS]; /* of the pattern's {…}, in order */
    const char *token;               /* Authorization: Bearer …; NULL: none */
    const char *as_tenant;           /* Dlcache-As-Tenant: …; NULL: none */
    const char *node;                /* as the client's certificate says; NULL: it has none */
    uint32_t node_generation;        /* of that certificate (x509_generation()) */
    bool asked_certificate;          /* the client could have shown one */
    bool local;                      /* through a Unix socket, by a user we trust */
    const char *id;                  /* 16 hexadecimal digits; the reply has it as X-Request-Id */
    const char *address;             /* of the caller: HOST:PORT, or "unix" */
    int64_t uid, pid;                /* of the caller through a Unix socket; -1: not known */
    const json_t *body;              /* NULL: none */
    const struct target *target;     /* the server's, and what follows */
    void *priv;
};
const char *http_query(const struct http_request *r, const char *name);  /* NULL: not there */
const char *http_header(const struct http_request *r, const char *name); /* NULL: not there */

struct http_reply {
    int status;                          /* 0: 200 */
    json_t *body;                        /* taken; NULL: none or data */
    const char *type;                    /* of the body; NULL: application/json */
    char *location, *etag, *retry_after; /* taken; NULL: not sent */
    struct {
        const char *name; /* a constant */
        char *value;
    } headers[HTTP_HEADERS]; /* filled by http_reply_header() */
    /* Bytes instead of JSON: sent without a copy. done(arg), when given, is called exactly once,
     * when the reply is over, whatever its kind. A Range header is honoured (206, 416). */
    const void *data;
    size_t data_len;
    void (*done)(void *arg);
    void *arg;
    /* A file instead: data_len bytes from file_offset on. Only the asynchronous server sends it. */
    bool file;
    int file_fd; /* taken */
    uint64_t file_offset;
    /* A worker has read n bytes at that offset of the file; NULL: nobody asks. False: they are not
     * what they should be, and the connection ends before its answer does. file_over(): nothing
     * refers to file_arg any more; where a read hangs that may be long after done(). */
    bool (*file_check)(void *file_arg, uint64_t at, const void *data, size_t n);
    void (*file_over)(void *file_arg);
    void *file_arg;
    /* A stream instead (events): next() blocks until there is more, at most a second, and
     * gives bytes to append to the answer, 0 for nothing yet, or -1 for the end. It is not called
     * again once the client has gone or the server closes. */
    long (*next)(void *arg, char *buf, size_t cap);
};

/* Fill the reply, or say what was wrong with http_problem(). */
typedef void http_handler_f(struct http_request *r, struct http_reply *reply, void *ctx);

struct http_route {
    const char *method;
    const char *pattern; /* "/v1/datasets/{name}" */
    uint32_t roles;      /* for the caller of `check` below */
    http_handler_f *handler;
};

/* An error as RFC 9457 has it: {"type", "title", "status", "detail", ...}. detail: what, where,
 * what to do. */
void http_problem(struct http_reply *reply, int status, const char *title, const char *detail, ...)
    __attribute__((format(printf, 4, 5)));
void http_problem_err(struct http_reply *reply,
                      const struct dlc_err *err); /* status from its code */

/* One more header. The value is one line. */
void http_reply_header(struct http_reply *reply, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

struct http_server_config {
    const char *address;            /* "HOST:PORT", "[::1]:PORT", port 0: any; NULL: none */
    const char *unix_path;          /* NULL: none; made with mode 0600, replaced when dead */
    const char *tls_cert, *tls_key; /* PEM files; NULL: plain */
    bool tls_text;                  /* they are the PEM texts themselves, not files */
    /* With TLS: ask clients for a certificate, of these authorities (PEM text, borrowed while it
     * opens), and have it judged: identify() gets the certificate, whose key the client has, and
     * sets the name of the node, or leaves it "". NULL: clients are not asked. */
    const char *authorities;
    void (*identify)(const void *der, size_t len, char node[static TLS_NAME_MAX], void *ctx);
    /* Listen on the TCP socket of this server, instead of at `address`: for another certificate.
     * From then on that one takes nobody new, and answers who is connected until it is closed. So
     * nobody is turned away. NULL: none. */
    struct http_server *heir_of;
    unsigned connections;            /* 0: 512 */
    size_t max_body;                 /* 0: 1 MiB */
    size_t max_bodies;               /* of all requests at once; 0: eight times max_body */
    size_t max_values;               /* JSON values in one body; 0: 100,000 */
    struct dlc_dur idle;             /* 0: 60 s */
    const struct http_route *routes; /* ends with a NULL method */
    void *ctx;
    /* Called when the head of a request has come, before its body (r->body is NULL): false when it
     * has filled the reply (401, 403). */
    bool (*check)(struct http_request *r, const struct http_route *route, struct http_reply *reply,
                  void *ctx);
    /* Called with the reply of each request that `check` has seen, before it is sent. NULL: none. */
    void (*answered)(struct http_request *r, const struct http_route *route,
                     const struct http_reply *reply, void *ctx);
};

int http_server_open(const struct http_server_config *c, struct http_server **out,
                     struct dlc_err *err);
void http_server_close(struct http_server **sp); /* waits for handlers; ends streams */
/* "127.0.0.1:40123"; NULL: no TCP */
const char *http_server_address(const struct http_server *s);

#endif
