// SPDX-License-Identifier: Apache-2.0
/*
 * One small HTTP request whose answer is waited for: metadata services and STS. Blocks, so it is
 * for the thread that looks for credentials only; a descriptor that becomes readable cuts it short.
 */
#ifndef DLC_BUCKET_CREDENTIALS_HTTP_CALL_I_H
#define DLC_BUCKET_CREDENTIALS_HTTP_CALL_I_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#define WEB_BODY_MAX 65536

struct web_call {
    const char *method, *url;
    const char *headers;    /* "name: value\n" lines, or NULL */
    const char *body;       /* or NULL */
    struct dlc_dur timeout; /* of one try, connecting included */
    unsigned tries;         /* another one after no answer, 429 or 5xx */
    bool direct;            /* through no proxy: link-local addresses */
    const char *ca_file;    /* or NULL: the system's */
    int stop_fd;            /* readable: give up; -1: none */
};

struct web_answer {
    long status;
    struct buf body;
};

#define WEB_ANSWER_INIT                                                                            \
    {                                                                                              \
        0, BUF_INIT                                                                                \
    }

/*
 * 0: *out holds an answer, of whatever status. DLC_ETIMEDOUT or DLC_EBUCKET: no answer;
 * DLC_ECANCELED: stopped. Messages name scheme, host and path, never query, headers or body.
 * Redirects are not followed.
 */
int web_call(const struct web_call *c, struct web_answer *out, struct dlc_err *err);
void web_answer_release(struct web_answer *a); /* wipes */

/* The parts of an absolute http(s) URL. */
struct web_url {
    char *scheme, *host; /* lower case scheme; host without brackets */
    char *authority;     /* as the Host header has it: no port when it is the scheme's own */
    char *path;          /* at least "/" */
};
#define WEB_URL_INIT                                                                               \
    {                                                                                              \
        NULL, NULL, NULL, NULL                                                                     \
    }
int web_url_parse(struct web_url *u, const char *text, struct dlc_err *err);
void web_url_release(struct web_url *u);

/* Secrets may go there over plain http: this machine, and the container services of AWS. */
bool web_host_is_near(const char *host);

#endif
