// SPDX-License-Identifier: Apache-2.0
/*
 * Many HTTP requests at once on one loop: libcurl's multi interface. A request is taken from the
 * engine's pool, filled, sent, answered, and put back; its strings and its libcurl handle are
 * reused, so that a request in steady state allocates nothing of ours.
 *
 *     IDLE --engine_get--> FILLING --engine_send--> FLYING --answer--> ANSWERED --engine_put--> IDLE
 *                                                   FLYING --engine_put (cancel)--> IDLE
 *
 * (ASYNC-CLIENT-1) done() is called exactly once for each engine_send(), never from inside it, and
 *                  not at all after engine_put(). It may send and put any request, also its own.
 * (ASYNC-CLIENT-2) Bytes go to dst only from an answer that is the one asked for: status 200 or
 *                  206, the right first byte, the right length. dst is not touched after done() or
 *                  engine_put().
 *
 * All functions are L: for the loop's thread, once it runs. Not here: what a status means, retries
 * and time limits of whole attempts (bucket, cluster); one request that is waited
 * for (json_client.h).
 */
#ifndef DLC_NET_ASYNC_CLIENT_H
#define DLC_NET_ASYNC_CLIENT_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/address_rules.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/err.h"
#include "base/event_loop.h"
#include "net/tls_identity.h"

#define ENGINE_ETAG_MAX    128
#define ENGINE_UNKNOWN     UINT64_MAX
#define ENGINE_HEADERS_MAX 16
#define ENGINE_ERROR_BODY  65536 /* most of an error document that is kept */

struct engine;

/* Whole-object checksums as answers carry them, cheapest to verify first. */
enum engine_sum { SUM_CRC64NVME, SUM_CRC32C, SUM_CRC32, SUM_SHA256, SUM_MD5, ENGINE_SUMS };

struct engine_answer {
    int status;                 /* 0: none came */
    uint64_t length;            /* Content-Length, or ENGINE_UNKNOWN */
    uint64_t first, total;      /* Content-Range, or ENGINE_UNKNOWN */
    uint64_t retry_after;       /* seconds; 0: not said */
    bool weak;                  /* the ETag names an equivalent, not these bytes: no If-Match */
    char date[40];              /* the server's clock as it writes it; "": not said */
    char etag[ENGINE_ETAG_MAX]; /* without quotes and W/; "": none */
    char region[32];            /* x-amz-bucket-region; "": none */
    char type[32];              /* Content-Type without parameters; "": none */
    char sums[ENGINE_SUMS][48]; /* base64 as sent; "": none */
    char body_crc64[16];        /* x-ms-content-crc64, of these bytes: base64 as sent; "": none */
    char error[64];             /* x-ms-error-code; "": none */
    char from[16];              /* Dlcache-From: the tier of a peer that had it; "": not said */
    bool has_checksum;
    uint64_t checksum; /* Dlcache-Checksum: XXH3 of a peer's sample, as 16 hexadecimal digits */
};

struct engine_request {
    /* The question: filled by the owner after engine_get(). */
    struct buf url; /* absolute, encoded */
    bool head;
    bool inward;      /* it goes to a metadata service for our own sake: no proxy, no rules */
    bool follow;      /* redirects, also to other hosts: not for requests with credentials */
    void *dst;        /* where the body goes; NULL: into body */
    uint64_t offset;  /* with dst and ranged */
    uint64_t dst_len; /* with dst: exact */
    bool ranged;      /* [offset, offset + dst_len) was asked for by a Range header */
    size_t body_max;  /* without dst: more is an error */
    struct dlc_mono *first_byte; /* kept current: when the answer began; may be NULL */
    uint64_t *received;          /* kept current: bytes of body so far; may be NULL */
    struct dlc_mono *heard;      /* kept current: when anything came last; may be NULL */
    void (*done)(struct engine_request *r);
    void *owner;

    /* The answer. rc is 0 when one came to its end, whatever its status. */
    int rc;
    bool retryable; /* with rc < 0: the same request may succeed */
    bool nobody;    /* with rc < 0: the host answers, and no process listens there */
    bool cut; /* with rc < 0: the other end has closed the connection before its answer ended */
    char why[300]; /* with rc < 0: what happened, without the name of the object */
    struct engine_answer answer;
    struct buf
        body; /* of statuses outside 2xx (the first ENGINE_ERROR_BODY bytes), or without dst */

    /* private */
    uint32_t tag;
    struct engine *http;
    CURL *easy;
    struct tls_identity *identity;     /* that the handle was given; NULL: none */
    struct buf connect_to;             /* "": as the URL says */
    struct curl_slist connect_to_node; /* of it */
    bool to_node;                      /* it goes to a node, by name */
    struct buf text;                   /* header lines, each with its NUL */
    size_t lines[ENGINE_HEADERS_MAX];
    size_t n_lines;
    struct curl_slist nodes[ENGINE_HEADERS_MAX];
    uint64_t got; /* bytes written to dst */
    bool flying, was_head, was_follow, was_inward, unexpected;
    struct sockaddr_storage refused; /* the address that the rules refused last; family 0: none */
    char curl_error[CURL_ERROR_SIZE];
    struct dlc_list link;
};

void engine_answer_clear(struct engine_answer *a);

/* One line of an answer's head, as it came. A status line starts the answer again. */
void engine_answer_line(struct engine_answer *a, const char *line, size_t len);

bool engine_success(int status);
bool engine_expected(
    const struct engine_request *r); /* is this the answer that was asked for? (ASYNC-CLIENT-2) */
/* The transfer has ended so: set rc, retryable and why. */
void engine_judge(struct engine_request *r, CURLcode code);

struct engine_config {
    unsigned connections; /* how many to keep open */
    struct dlc_dur connect_timeout;
    const char *ca; /* PEM file, borrowed; NULL: AWS_CA_BUNDLE, SSL_CERT_FILE, the system's */
    bool direct;    /* through no proxy, whatever the environment says */
    /* For URLs that somebody else has chosen: where connections may lead, whatever a name resolves
     * to and wherever a redirect points. No proxy of the environment is used then, since a proxy
     * would resolve names itself. Borrowed until engine_free(); NULL: anywhere. */
    const struct address_rules *rules;
    /* With rules: all requests go through this proxy, which judges addresses instead. Borrowed
     * until engine_free(); NULL: none. */
    const char *proxy;
};
int engine_new(struct loop *loop, const struct engine_config *c, struct engine **out,
               struct dlc_err *err);
void engine_free(struct engine **hp); /* no request is out; not from inside done() */

/* For requests to nodes from now on: our certificate, and whom to trust. Takes a reference. Those
 * under way, and their connections, keep what they began with. */
void engine_identity(struct engine *h, struct tls_identity *id);

struct engine_request *engine_get(struct engine *h); /* gives a blank one */
void engine_put(struct engine_request **rp);         /* takes it; cancels it if it is under way */

/* Begin the URL, which is empty: "http://HOST:PORT" or "https://HOST:PORT". node: the server must
 * show the certificate of this node, and the address be https://; engine_identity() was called.
 * NULL: as for any URL. False: the address is wrong. */
bool engine_address(struct engine_request *r, const char *address, const char *node);

/* Add a header line, of any length. It ends where the text has a line end. */
void engine_header(struct engine_request *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Add several, separated by '\n'. */
void engine_header_lines(struct engine_request *r, const char *lines, size_t len);

void engine_send(struct engine_request *r);

#endif
