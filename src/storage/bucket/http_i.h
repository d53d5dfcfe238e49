// SPDX-License-Identifier: Apache-2.0
/*
 * HTTP for origins: one engine per lane, libcurl's multi interface on the lane's loop. A request is
 * taken from the engine's pool, filled, sent, answered, and put back; its strings and its libcurl
 * handle are reused, so that a request in steady state allocates nothing of ours.
 *
 *     IDLE --http_get--> FILLING --http_send--> FLYING --answer--> ANSWERED --http_put--> IDLE
 *                                               FLYING --http_put (cancel)--> IDLE
 *
 * (H1) done() is called exactly once for each http_send(), never from inside it, and not at all
 *      after http_put(). It may send and put any request, also its own.
 * (H2) Bytes go to dst only from an answer that is the one asked for: status 200 or 206, the right
 *      first byte, the right length. dst is not touched after done() or http_put().
 *
 * All functions are L: for the lane's thread, once it runs. Not here: what a status means (the
 * origins), retries and time limits of whole attempts (bucket.c).
 */
#ifndef DLC_STORAGE_BUCKET_HTTP_I_H
#define DLC_STORAGE_BUCKET_HTTP_I_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/loop.h"
#include "storage/bucket/origin.h"

#define HTTP_UNKNOWN     UINT64_MAX
#define HTTP_HEADERS_MAX 16
#define HTTP_ERROR_BODY  65536 /* most of an error document that is kept */

struct http;

/* Whole-object checksums as answers carry them, cheapest to verify first. */
enum http_sum { SUM_CRC64NVME, SUM_CRC32C, SUM_CRC32, SUM_SHA256, HTTP_SUMS };

struct http_answer {
    int status;               /* 0: none came */
    uint64_t length;          /* Content-Length, or HTTP_UNKNOWN */
    uint64_t first, total;    /* Content-Range, or HTTP_UNKNOWN */
    uint64_t retry_after;     /* seconds; 0: not said */
    bool weak;                /* the ETag names an equivalent, not these bytes: no If-Match */
    char date[40];            /* the server's clock as it writes it; "": not said */
    char etag[ETAG_MAX];      /* without quotes and W/; "": none */
    char region[32];          /* x-amz-bucket-region; "": none */
    char type[32];            /* Content-Type without parameters; "": none */
    char sums[HTTP_SUMS][48]; /* base64 as sent; "": none */
};

struct http_request {
    /* The question: filled by the owner after http_get(). */
    struct buf url; /* absolute, encoded */
    bool head;
    bool follow;             /* redirects, also to other hosts: not for requests with credentials */
    void *dst;               /* where the body goes; NULL: into body */
    uint64_t offset;         /* with dst and ranged */
    uint64_t dst_len;        /* with dst: exact */
    bool ranged;             /* [offset, offset + dst_len) was asked for by a Range header */
    size_t body_max;         /* without dst: more is an error */
    struct attempt *attempt; /* its first_byte and received are kept current; may be NULL */
    void (*done)(struct http_request *r);
    void *owner;

    /* The answer. rc is 0 when one came to its end, whatever its status. */
    int rc;
    bool retryable; /* with rc < 0: the same request may succeed */
    char why[300];  /* with rc < 0: what happened, without the name of the object */
    struct http_answer answer;
    struct buf body; /* of statuses outside 2xx (the first HTTP_ERROR_BODY bytes), or without dst */

    /* private */
    uint32_t tag;
    struct http *http;
    CURL *easy;
    struct buf text; /* header lines, each with its NUL */
    size_t lines[HTTP_HEADERS_MAX];
    size_t n_lines;
    struct curl_slist nodes[HTTP_HEADERS_MAX];
    uint64_t got; /* bytes written to dst */
    bool flying, was_head, was_follow, unexpected;
    char curl_error[CURL_ERROR_SIZE];
    struct dlc_list link;
};

void http_answer_clear(struct http_answer *a);

/* One line of an answer's head, as it came. A status line starts the answer anew. */
void http_answer_line(struct http_answer *a, const char *line, size_t len);

bool http_success(int status);
bool http_expected(const struct http_request *r); /* is this the answer that was asked for? (H2) */
/* The transfer has ended so: set rc, retryable and why. */
void http_judge(struct http_request *r, CURLcode code);

/* `connections`: how many to keep open. */
int http_new(struct loop *loop, unsigned connections, struct dlc_dur connect_timeout,
             struct http **out, struct dlc_err *err);
void http_free(struct http **hp); /* no request is out; not from inside done() */

struct http_request *http_get(struct http *h); /* gives a blank one */
void http_put(struct http_request **rp);       /* takes it; cancels it if it is under way */

/* Add a header line. The value is one line of text. */
void http_header(struct http_request *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Add several, separated by '\n'. */
void http_header_lines(struct http_request *r, const char *lines, size_t len);

void http_send(struct http_request *r);

#endif
