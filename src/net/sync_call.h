// SPDX-License-Identifier: Apache-2.0
/*
 * One HTTP request that is waited for, on libcurl: what the client of JSON APIs (json_client.h), the
 * operator's client of Kubernetes and the requests for credentials have in common. Many requests at
 * once: async_client.h.
 *
 * A handle keeps its connection between calls, one call at a time. HTTP/1.1 only: nothing is gained
 * by frames when there is one request. Redirects are not followed.
 *
 * Not here: what a status means, what is tried again, and what a failure is called: each caller
 * knows better what its user should do.
 */
#ifndef DLC_NET_SYNC_CALL_H
#define DLC_NET_SYNC_CALL_H

#include <stdbool.h>
#include <stddef.h>

#include <curl/curl.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

struct sync_handle;

/* stop_fd: readable means that calls end; -1: none. */
int sync_handle_new(int stop_fd, struct sync_handle **out, struct dlc_err *err);
void sync_handle_free(struct sync_handle **hp);
/* Any thread: the call under way ends, and all after it. */
void sync_handle_interrupt(struct sync_handle *h);
bool sync_handle_is_interrupted(const struct sync_handle *h);

/* PEM as a file or as text; text goes first. NULL: the system's, or none. */
struct sync_tls {
    const char *ca_file, *ca_pem; /* whom to trust */
    const char *cert_file, *cert_pem, *key_file, *key_pem;
    bool only_this_ca;
    bool insecure; /* do not verify the server */
};

struct sync_call {
    /* The request. Everything is borrowed for the call. */
    const char *method, *url;
    struct curl_slist *headers; /* curl_headers.h */
    const char *text;           /* body to send; NULL: none */
    const char *agent;          /* NULL: "dlcache" */
    struct dlc_dur timeout;     /* of the whole; of a stream, of its connection alone */
    struct dlc_dur connect_max; /* 0: 5 s */
    size_t most;                /* bytes of the answer, or of one line of a stream */
    bool proxies;               /* those of the environment are used */
    const char *unix_path;      /* a socket to connect to; NULL: none */
    struct curl_slist *connect_to;
    struct sync_tls tls;
    /* A stream: each line of an answer that is not an error. False: enough. NULL: no stream. */
    bool (*each)(const char *line, size_t len, void *arg);
    void *arg;
    struct dlc_dur silence; /* the longest between two pieces; 0: any */

    /* The answer. */
    int status;                 /* 0: none came */
    struct buf body;            /* of a stream: what came after the last end of a line */
    struct dlc_dur retry_after; /* of 429 and 5xx, 5 minutes at most */
    bool given;                 /* lines were handed over */
    bool stopped;               /* each() had enough */
    bool too_long, interrupted; /* why it failed, where libcurl does not know */
    const char *why;            /* libcurl's words; valid until the next call */

    struct sync_handle *handle; /* private */
    struct dlc_mono heard;
};

/* True: an answer came to its end, or to that of the caller's patience with a stream. False: *code,
 * too_long and interrupted say why not. */
bool sync_call(struct sync_handle *h, struct sync_call *c, CURLcode *code);
void sync_call_release(struct sync_call *c); /* wipes the body, where secrets may be */

#endif
