// SPDX-License-Identifier: Apache-2.0
/*
 * Answers to HTTP requests, without any input or output: the head, and whether an answer is the one
 * that was asked for.
 *
 * From the head it takes the few headers that origins use. This runs for every line of every
 * answer, so the length or the first characters of a line must suffice to skip it.
 */
#include "net/async_client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/str.h"

/* A view of text that is not ended by a NUL. */
struct span {
    const char *p;
    size_t n;
};

static void copy(char *out, size_t size, struct span v)
{
    if (v.n >= size)
        v.n = 0; /* too long to be what we know: as if it were absent */
    memcpy(out, v.p, v.n);
    out[v.n] = '\0';
}

static uint64_t number(struct span *v)
{
    uint64_t n = 0;
    size_t i = 0;

    for (; i < v->n && v->p[i] >= '0' && v->p[i] <= '9'; i++) {
        if (n > (UINT64_MAX - 9) / 10)
            return ENGINE_UNKNOWN;
        n = n * 10 + (uint64_t)(v->p[i] - '0');
    }
    if (i == 0)
        return ENGINE_UNKNOWN;
    v->p += i;
    v->n -= i;
    return n;
}

static bool skip(struct span *v, const char *s)
{
    size_t n = strlen(s);

    if (v->n < n || strncasecmp(v->p, s, n) != 0)
        return false;
    v->p += n;
    v->n -= n;
    return true;
}

static void take_etag(struct engine_answer *a, struct span v)
{
    a->weak = skip(&v, "W/");
    if (v.n >= 2 && v.p[0] == '"' && v.p[v.n - 1] == '"') {
        v.p++;
        v.n -= 2;
    }
    copy(a->etag, sizeof(a->etag), v);
}

/* "bytes 0-99/1000", "bytes 0-99/" followed by an asterisk, or for status 416 that and the size. */
static void take_range(struct engine_answer *a, struct span v)
{
    if (!skip(&v, "bytes "))
        return;
    if (!skip(&v, "*")) {
        a->first = number(&v);
        if (!skip(&v, "-") || number(&v) == ENGINE_UNKNOWN)
            a->first = ENGINE_UNKNOWN;
    }
    if (skip(&v, "/"))
        a->total = number(&v);
}

static void take_sum(struct engine_answer *a, struct span name, struct span v)
{
    static const char *const names[] = {"crc64nvme", "crc32c", "crc32", "sha256"};

    for (size_t i = 0; i < DLC_COUNT(names); i++) {
        if (name.n == strlen(names[i]) && strncasecmp(name.p, names[i], name.n) == 0)
            copy(a->sums[i], sizeof(a->sums[i]), v);
    }
}

/* "crc32c=n03x6A==,md5=Ojk9c3dhfxgoKVVHYwFbHQ==" */
static void take_goog_hash(struct engine_answer *a, struct span v)
{
    while (v.n > 0) {
        const char *comma = memchr(v.p, ',', v.n);
        struct span one = {v.p, comma != NULL ? (size_t)(comma - v.p) : v.n};

        v.p += one.n;
        v.n -= one.n;
        skip(&v, ",");
        skip(&v, " ");
        if (skip(&one, "crc32c="))
            copy(a->sums[SUM_CRC32C], sizeof(a->sums[0]), one);
    }
}

/* What follows x-ms-. An MD5 of a whole blob is also sent with a part of it. */
static void take_azure(struct engine_answer *a, struct span name, struct span v)
{
    static const char md5[] = "blob-content-md5", crc[] = "content-crc64", error[] = "error-code";

    if (name.n == strlen(md5) && strncasecmp(name.p, md5, name.n) == 0)
        copy(a->sums[SUM_MD5], sizeof(a->sums[0]), v);
    else if (name.n == strlen(crc) && strncasecmp(name.p, crc, name.n) == 0)
        copy(a->body_crc64, sizeof(a->body_crc64), v);
    else if (name.n == strlen(error) && strncasecmp(name.p, error, name.n) == 0)
        copy(a->error, sizeof(a->error), v);
}

static void take_type(struct engine_answer *a, struct span v)
{
    const char *semicolon = memchr(v.p, ';', v.n);

    if (semicolon != NULL)
        v.n = (size_t)(semicolon - v.p);
    copy(a->type, sizeof(a->type), v);
}

/* Of exactly 16 digits, or as if it were absent. */
static void take_checksum(struct engine_answer *a, struct span v)
{
    char digits[17];

    copy(digits, sizeof(digits), v);
    a->has_checksum = strlen(digits) == 16 && str_parse_hex64(digits, &a->checksum);
}

static bool is(struct span name, const char *s)
{
    return strncasecmp(name.p, s, name.n) == 0;
}

static void take(struct engine_answer *a, struct span name, struct span v)
{
    struct span rest = name;

    switch (name.n) {
    case 4:
        if (is(name, "etag"))
            take_etag(a, v);
        else if (is(name, "date"))
            copy(a->date, sizeof(a->date), v);
        break;
    case 11:
        if (is(name, "retry-after")) {
            a->retry_after = number(&v); /* the form with a date is not worth its code */
            if (a->retry_after == ENGINE_UNKNOWN)
                a->retry_after = 0;
        } else if (is(name, "x-goog-hash")) {
            take_goog_hash(a, v);
        }
        break;
    case 12:
        if (is(name, "content-type"))
            take_type(a, v);
        else if (is(name, "dlcache-from"))
            copy(a->from, sizeof(a->from), v);
        break;
    case 13:
        if (is(name, "content-range"))
            take_range(a, v);
        break;
    case 14:
        if (is(name, "content-length"))
            a->length = number(&v);
        break;
    case 16:
        if (is(name, "dlcache-checksum"))
            take_checksum(a, v);
        break;
    case 19:
        if (is(name, "x-amz-bucket-region"))
            copy(a->region, sizeof(a->region), v);
        break;
    default: break;
    }
    if (name.n > 15 && skip(&rest, "x-amz-checksum-"))
        take_sum(a, rest, v);
    else if (name.n > 5 && skip(&rest, "x-ms-"))
        take_azure(a, rest, v);
}

void engine_answer_clear(struct engine_answer *a)
{
    a->status = 0;
    a->length = a->first = a->total = ENGINE_UNKNOWN;
    a->retry_after = 0;
    a->weak = a->has_checksum = false;
    a->checksum = 0;
    a->date[0] = a->etag[0] = a->region[0] = a->type[0] = a->from[0] = '\0';
    a->body_crc64[0] = a->error[0] = '\0';
    for (int i = 0; i < ENGINE_SUMS; i++)
        a->sums[i][0] = '\0';
}

/* "HTTP/1.1 200 OK" */
static void start(struct engine_answer *a, struct span v)
{
    uint64_t status = ENGINE_UNKNOWN;

    while (v.n > 0 && v.p[0] != ' ') {
        v.p++;
        v.n--;
    }
    if (skip(&v, " "))
        status = number(&v);
    engine_answer_clear(a);
    a->status = status >= 100 && status < 1000 ? (int)status : 0;
}

void engine_answer_line(struct engine_answer *a, const char *line, size_t len)
{
    const char *colon;
    struct span v = {line, len};

    while (v.n > 0 && (v.p[v.n - 1] == '\r' || v.p[v.n - 1] == '\n' || v.p[v.n - 1] == ' '))
        v.n--;
    if (v.n > 5 && memcmp(v.p, "HTTP/", 5) == 0) {
        start(a, v);
        return;
    }
    colon = memchr(v.p, ':', v.n);
    if (colon == NULL)
        return;
    v.n -= (size_t)(colon + 1 - v.p);
    v.p = colon + 1;
    while (v.n > 0 && (*v.p == ' ' || *v.p == '\t')) {
        v.p++;
        v.n--;
    }
    take(a, (struct span){line, (size_t)(colon - line)}, v);
}

/* -------- judging -------- */

bool engine_success(int status)
{
    return status >= 200 && status < 300;
}

bool engine_expected(const struct engine_request *r)
{
    const struct engine_answer *a = &r->answer;

    if (r->ranged ? a->status != 206 || a->first != r->offset : a->status == 206)
        return false;
    return a->length == ENGINE_UNKNOWN || a->length == r->dst_len;
}

static void fail(struct engine_request *r, int rc, bool retryable, const char *what)
{
    r->rc = rc;
    r->retryable = retryable;
    snprintf(r->why, sizeof(r->why), r->curl_error[0] != '\0' ? "%s (%.120s)" : "%s", what,
             r->curl_error);
}

__attribute__((format(printf, 3, 4))) static void refuse(struct engine_request *r, int rc,
                                                         const char *fmt, ...)
{
    va_list ap;

    r->rc = rc;
    r->retryable = false;
    va_start(ap, fmt);
    vsnprintf(r->why, sizeof(r->why), fmt, ap);
    va_end(ap);
}

/* An answer that is not the one asked for: say which of its figures is wrong. */
static void fail_unexpected(struct engine_request *r)
{
    const struct engine_answer *a = &r->answer;

    if (r->dst == NULL)
        refuse(r, DLC_EPROTO, "the answer is longer than %zu bytes", r->body_max);
    else if (r->ranged && a->status != 206)
        refuse(r, DLC_EBUCKET, "the server ignored the Range header: it cannot serve parts");
    else if (r->ranged && a->first != r->offset)
        refuse(r, DLC_EPROTO, "the server sent another range than from byte %llu on",
               (unsigned long long)r->offset);
    else
        refuse(r, DLC_ECHANGED, "the object's length is not %llu bytes any more",
               (unsigned long long)r->dst_len);
}

static int os_errno(const struct engine_request *r)
{
    long why = 0;

    return r->easy != NULL && curl_easy_getinfo(r->easy, CURLINFO_OS_ERRNO, &why) == CURLE_OK
               ? (int)why
               : 0;
}

static void fail_curl(struct engine_request *r, CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        fail(r, DLC_EBUCKET, true, "the host name cannot be resolved; check endpoint and network");
        break;
    case CURLE_COULDNT_CONNECT:
        r->nobody = os_errno(r) == ECONNREFUSED;
        fail(r, DLC_EBUCKET, true, "no connection; check endpoint and network");
        break;
    case CURLE_OPERATION_TIMEDOUT: fail(r, DLC_ETIMEDOUT, true, "no connection in time"); break;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        fail(r, DLC_EDENIED, false,
             "the server's TLS certificate is not trusted; name the right authorities in "
             "AWS_CA_BUNDLE or SSL_CERT_FILE");
        break;
    case CURLE_SSL_CONNECT_ERROR:
        r->cut = os_errno(r) == ECONNRESET;
        fail(r, DLC_EBUCKET, true, "TLS handshake failed");
        break;
    case CURLE_UNSUPPORTED_PROTOCOL:
        fail(r, DLC_EBUCKET, true, "the answer is no HTTP; check the endpoint");
        break;
    case CURLE_URL_MALFORMAT: fail(r, DLC_EINVAL, false, "malformed URL"); break;
    case CURLE_PARTIAL_FILE:
        r->cut = true;
        fail(r, DLC_ECORRUPT, true, "the body was cut short");
        break;
    case CURLE_OUT_OF_MEMORY: fail(r, DLC_ENOMEM, true, "out of memory"); break;
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
        r->cut = true;
        fail(r, r->got > 0 ? DLC_ECORRUPT : DLC_EBUCKET, true, "the connection broke");
        break;
    default: fail(r, DLC_EBUCKET, true, curl_easy_strerror(code)); break;
    }
}

static void refuse_address(struct engine_request *r)
{
    const struct sockaddr *a = (const struct sockaddr *)&r->refused;
    char text[64];

    address_text(a, text);
    refuse(r, DLC_EDENIED,
           "it leads to %s, %s: datasets of tenants are read at public addresses only; an operator "
           "of this node allows others with --tenant-networks",
           text, address_kind_text(address_kind_of(a)));
}

void engine_judge(struct engine_request *r, CURLcode code)
{
    bool wants_data = r->dst != NULL && !r->head && engine_success(r->answer.status);

    r->rc = 0;
    r->nobody = r->cut = false;
    if (r->unexpected || (code == CURLE_OK && wants_data && !engine_expected(r)))
        fail_unexpected(r);
    else if (code != CURLE_OK && r->refused.ss_family != AF_UNSPEC)
        refuse_address(r);
    else if (code != CURLE_OK)
        fail_curl(r, code);
    else if (wants_data && r->got < r->dst_len) {
        r->cut = true;
        fail(r, DLC_ECORRUPT, true, "the body was cut short");
    }
}
