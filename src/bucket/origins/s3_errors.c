// SPDX-License-Identifier: Apache-2.0
/*
 * Interprets S3's error answers. The S3 error code decides where there is one, the HTTP status
 * otherwise (answers to HEAD have no body, and proxies know no S3). Each message has the form
 *
 *     cannot read s3://bucket/key: HTTP 403 AccessDenied (the server's words); what to do
 */
#include "bucket/origins/s3_i.h"

#include <curl/curl.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/str.h"
#include "bucket/checksum.h"

#define KEY_SHOWN 160 /* bytes of a key that a message shows */
#define SKEW_MAX  900 /* seconds that the clouds allow */

enum outcome_flags {
    RETRY = 1 << 0,
    SLOW = 1 << 1 | RETRY, /* the server asked to slow down */
    EXPIRED = 1 << 2,      /* new credentials may help */
    MOVED = 1 << 3,        /* the bucket is elsewhere */
    SKEWED = 1 << 4,       /* the clocks differ */
    CHANGED = 1 << 5,      /* name both versions */
    NEEDS = 1 << 6,        /* name the permission that is needed */
    MAY_BE_SKEWED = 1 << 7 /* so it is if the clocks differ by more than SKEW_MAX */
};

struct outcome {
    const char *code; /* S3's; NULL in the table by status */
    int rc;
    unsigned flags;
    const char *advice;
    int first, last; /* statuses, in the table by status */
};

static const char expired_advice[] = "the session has expired: renew the credentials";

static const struct outcome by_code[] = {
    {"NoSuchKey", DLC_ENOTFOUND, 0, "there is no such object"},
    {"NoSuchBucket", DLC_ENOTFOUND, 0,
     "there is no such bucket: check its name, the endpoint and the region"},
    {"AccessDenied", DLC_EDENIED, NEEDS, NULL},
    {"InvalidAccessKeyId", DLC_EDENIED, 0,
     "this endpoint does not know the access key: check the credentials and the endpoint"},
    {"XAdminUserNotFound", DLC_EDENIED, 0, /* versitygw's word for the same */
     "this endpoint does not know the access key: check the credentials and the endpoint"},
    {"SignatureDoesNotMatch", DLC_EDENIED, 0,
     "the secret key does not belong to the access key, or a proxy changed the request"},
    {"ExpiredToken", DLC_EDENIED, EXPIRED, expired_advice},
    {"TokenRefreshRequired", DLC_EDENIED, EXPIRED, expired_advice},
    {"InvalidToken", DLC_EDENIED, EXPIRED, "the session token is not valid: renew the credentials"},
    {"RequestTimeTooSkewed", DLC_EDENIED, SKEWED, NULL},
    {"RequestExpired", DLC_EDENIED, SKEWED, NULL},
    {"InvalidObjectState", DLC_EDENIED, 0, "the object is archived: restore it first"},
    {"AuthorizationHeaderMalformed", DLC_EDENIED, MOVED,
     "the request was signed for the wrong region: set --region"},
    {"PermanentRedirect", DLC_EBUCKET, MOVED, "the bucket is in another region: set --region"},
    {"TemporaryRedirect", DLC_EBUCKET, MOVED | RETRY,
     "the bucket is in another region: set --region"},
    {"PreconditionFailed", DLC_ECHANGED, CHANGED, NULL},
    {"InvalidRange", DLC_ECHANGED, CHANGED, NULL},
    /* Alibaba's and Cloudflare's */
    {"SecondLevelDomainForbidden", DLC_EDENIED, 0,
     "this endpoint wants the bucket's name in the host name: set --path-style=false"},
    {"SecurityTokenExpired", DLC_EDENIED, EXPIRED, expired_advice},
    {"InvalidSecurityToken", DLC_EDENIED, EXPIRED, expired_advice},
    {"InvalidRegionName", DLC_EDENIED, 0,
     "the request was signed for a region that is not there: set --region, to auto for R2"},
    /* Azure's */
    {"BlobNotFound", DLC_ENOTFOUND, 0, "there is no such object"},
    {"ContainerNotFound", DLC_ENOTFOUND, 0,
     "there is no such container: check its name and the storage account"},
    {"ResourceNotFound", DLC_ENOTFOUND, 0,
     "there is no such container or object, or it is not public: check its name, the storage "
     "account and the credentials"},
    {"AuthenticationFailed", DLC_EDENIED, EXPIRED | MAY_BE_SKEWED,
     "the key does not belong to the storage account, or the SAS or token is not valid (any more): "
     "check or renew the credentials"},
    {"InvalidAuthenticationInfo", DLC_EDENIED, EXPIRED | MAY_BE_SKEWED,
     "the token is not valid (any more), or not one for storage.azure.com: renew the credentials"},
    {"NoAuthenticationInformation", DLC_EDENIED, 0,
     "the container is not public: give credentials"},
    {"PublicAccessNotPermitted", DLC_EDENIED, 0,
     "the storage account allows no anonymous access: give credentials"},
    {"AuthorizationFailure", DLC_EDENIED, EXPIRED | MAY_BE_SKEWED,
     "the key does not belong to the storage account, the SAS does not allow it, or the account's "
     "firewall refuses this machine: check them"},
    {"AuthorizationPermissionMismatch", DLC_EDENIED, NEEDS, NULL},
    {"InsufficientAccountPermissions", DLC_EDENIED, NEEDS, NULL},
    {"AuthorizationSourceIPMismatch", DLC_EDENIED, 0, "the SAS is not for this machine's address"},
    {"AuthorizationProtocolMismatch", DLC_EDENIED, 0, "the SAS is for https only"},
    {"KeyBasedAuthenticationNotPermitted", DLC_EDENIED, 0,
     "the storage account allows no keys: use a workload or managed identity"},
    {"AccountIsDisabled", DLC_EDENIED, 0, "the storage account is disabled"},
    {"BlobArchived", DLC_EDENIED, 0, "the object is archived: rehydrate it first"},
    {"ConditionNotMet", DLC_ECHANGED, CHANGED, NULL},
    {"ContainerBeingDeleted", DLC_ENOTFOUND, 0, "the container is being deleted"},
    {"ServerBusy", DLC_EBUCKET, SLOW, "the bucket is overloaded"},
    {"OperationTimedOut", DLC_EBUCKET, RETRY, "the bucket failed"},
    {"SlowDown", DLC_EBUCKET, SLOW, "the bucket is overloaded"},
    {"ServiceUnavailable", DLC_EBUCKET, SLOW, "the bucket is overloaded"},
    {"TooManyRequests", DLC_EBUCKET, SLOW, "the bucket is overloaded"},
    {"RequestLimitExceeded", DLC_EBUCKET, SLOW, "the bucket is overloaded"},
    {"Throttling", DLC_EBUCKET, SLOW, "the bucket is overloaded"},
    {"RequestTimeout", DLC_EBUCKET, RETRY, "the bucket gave up waiting for the request"},
    {"InternalError", DLC_EBUCKET, RETRY, "the bucket failed"},
};

static const struct outcome by_status[] = {
    {NULL, DLC_EBUCKET, MOVED, "the bucket is elsewhere: check the endpoint and --region", 301,
     308},
    {NULL, DLC_EBUCKET, MOVED | EXPIRED,
     "the server gave no reason: check the endpoint, the region and the credentials", 400, 400},
    {NULL, DLC_EDENIED, EXPIRED, "the credentials were refused: check or renew them", 401, 401},
    {NULL, DLC_EDENIED, NEEDS, NULL, 403, 403},
    {NULL, DLC_ENOTFOUND, 0, "there is no such object or bucket", 404, 404},
    {NULL, DLC_EBUCKET, RETRY, "the bucket gave up waiting for the request", 408, 408},
    {NULL, DLC_ECHANGED, CHANGED, NULL, 412, 412},
    {NULL, DLC_ECHANGED, CHANGED, NULL, 416, 416},
    {NULL, DLC_EBUCKET, SLOW, "the bucket is overloaded", 429, 429},
    {NULL, DLC_EBUCKET, 0, "the server does not know this request: is it an S3 endpoint?", 501,
     501},
    {NULL, DLC_EBUCKET, SLOW, "the bucket is overloaded", 503, 503},
    {NULL, DLC_EBUCKET, RETRY, "the bucket failed", 500, 599},
    {NULL, DLC_EBUCKET, 0, "an answer that was not expected: is it an S3 endpoint?", 0, 999},
};

static const struct outcome *outcome_of(int status, const char *code)
{
    const struct outcome *o = by_status;

    for (size_t i = 0; i < DLC_COUNT(by_code); i++) {
        if (strcmp(by_code[i].code, code) == 0)
            return &by_code[i];
    }
    while (status < o->first || status > o->last)
        o++;
    return o;
}

void s3_what(const char *scheme, const char *bucket, const struct attempt *a, struct buf *out)
{
    const char *key = a->op == ATTEMPT_LIST ? a->prefix : a->key;
    size_t n = strlen(key);

    buf_addf(out, "cannot %s %s://%s/", a->op == ATTEMPT_LIST ? "list" : "read", scheme, bucket);
    if (n <= KEY_SHOWN) {
        str_printable(key, n, out);
    } else {
        str_printable(key, KEY_SHOWN / 2, out);
        buf_adds(out, "...");
        str_printable(key + n - KEY_SHOWN / 2, KEY_SHOWN / 2, out);
    }
}

static void advise_skew(const struct engine_request *r, int64_t now, struct buf *out)
{
    time_t server = curl_getdate(r->answer.date, NULL);

    if (server > 0)
        buf_addf(out, "; the local clock is %lld s %s the server's: set it",
                 (long long)(now > server ? now - server : server - now),
                 now > server ? "ahead of" : "behind");
    else
        buf_adds(out, "; the local clock differs too much from the server's: set it");
}

static bool clocks_differ(const struct engine_request *r, int64_t now)
{
    time_t server = curl_getdate(r->answer.date, NULL);

    return server > 0 && (now > server + SKEW_MAX || now < server - SKEW_MAX);
}

static const char *permission_of(const char *scheme, bool list)
{
    if (strcmp(scheme, "gs") == 0)
        return list ? "storage.objects.list" : "storage.objects.get";
    if (strcmp(scheme, "az") == 0)
        return list ? "to list (role Storage Blob Data Reader, or l in the SAS)"
                    : "to read (role Storage Blob Data Reader, or r in the SAS)";
    return list ? "s3:ListBucket" : "s3:GetObject";
}

static void advise(const struct outcome *o, const char *scheme, const struct engine_request *r,
                   int64_t now, const struct attempt *a, struct buf *out)
{
    bool list = a->op == ATTEMPT_LIST;
    bool skewed = o->flags & SKEWED || (o->flags & MAY_BE_SKEWED && clocks_differ(r, now));

    if (skewed)
        advise_skew(r, now, out);
    else if (o->flags & CHANGED)
        buf_addf(out, "; the object is no longer the one that was listed (ETag %s, now %s)",
                 a->etag != NULL && *a->etag != '\0' ? a->etag : "unknown",
                 *r->answer.etag != '\0' ? r->answer.etag : "another");
    else if (o->flags & NEEDS)
        buf_addf(out, "; the credentials need the permission %s (if the object or bucket exists)",
                 permission_of(scheme, list));
    else
        buf_addf(out, "; %s", o->advice);
}

static void settle(struct attempt *a, int rc, const struct buf *text)
{
    a->rc = dlc_err_set(&a->err, rc, "%s", buf_str(text));
}

enum s3_verdict s3_answer_failed(const char *scheme, const char *bucket,
                                 const struct engine_request *r, int64_t now, struct attempt *a,
                                 struct s3_error *error)
{
    const struct outcome *o;
    struct buf text = BUF_INIT;

    s3_xml_error(buf_str(&r->body), r->body.len, error);
    if (*error->code == '\0') /* as for HEAD, whose answer has no body */
        memcpy(error->code, r->answer.error, sizeof(error->code));
    o = outcome_of(r->answer.status, error->code);
    if (*error->region == '\0')
        memcpy(error->region, r->answer.region, sizeof(error->region));
    s3_what(scheme, bucket, a, &text);
    buf_addf(&text, ": HTTP %d", r->answer.status);
    if (*error->code != '\0')
        buf_addf(&text, " %s", error->code);
    if (*error->message != '\0')
        buf_addf(&text, " (%s)", error->message);
    advise(o, scheme, r, now, a, &text);
    settle(a, o->rc, &text);
    buf_release(&text);
    a->retryable = (o->flags & RETRY) != 0;
    a->throttled = (o->flags & SLOW) == SLOW;
    a->retry_after = DLC_SEC(DLC_MIN(r->answer.retry_after, 3600u));
    if (o->flags & MOVED && s3_region_ok(error->region))
        return S3_OTHER_REGION;
    return o->flags & EXPIRED ? S3_EXPIRED : S3_FAILED;
}

void s3_answer_broken(const char *scheme, const char *bucket, const struct engine_request *r,
                      struct attempt *a)
{
    struct buf text = BUF_INIT;

    s3_what(scheme, bucket, a, &text);
    buf_addf(&text, ": %s", r->why);
    settle(a, r->rc, &text);
    a->retryable = r->retryable;
    buf_release(&text);
}

void s3_answer_sum(const struct engine_request *r, struct object_checksum *out)
{
    static const struct {
        enum engine_sum header;
        enum checksum_kind kind;
        size_t len;
    } sums[] = {{SUM_CRC64NVME, CHECKSUM_CRC64NVME, 8},
                {SUM_CRC32C, CHECKSUM_CRC32C, 4},
                {SUM_CRC32, CHECKSUM_CRC32, 4}};
    struct buf bytes = BUF_INIT;

    *out = (struct object_checksum){0};
    for (size_t i = 0; i < DLC_COUNT(sums) && out->kind == CHECKSUM_NONE; i++) {
        const char *given = r->answer.sums[sums[i].header];

        buf_clear(&bytes);
        /* A '-' marks the checksum of the parts' checksums: it is not of the bytes. */
        if (*given == '\0' || strchr(given, '-') != NULL || !str_unbase64(given, &bytes) ||
            bytes.len != sums[i].len)
            continue;
        out->kind = sums[i].kind;
        for (size_t k = 0; k < bytes.len; k++)
            out->value = out->value << 8 | (unsigned char)buf_str(&bytes)[k];
    }
    buf_release(&bytes);
}

static size_t big_endian(uint64_t v, size_t n, unsigned char *out)
{
    for (size_t i = n; i > 0; i--, v >>= 8)
        out[i - 1] = (unsigned char)v;
    return n;
}

static size_t md5(const void *data, size_t len, unsigned char *out)
{
    unsigned n = 0;

    dlc_check(EVP_Digest(data, len, out, &n, EVP_md5(), NULL) == 1);
    return n;
}

static bool sum_matches(enum engine_sum kind, const char *given, const void *data, size_t len)
{
    unsigned char sum[SHA256_LEN];
    struct buf text = BUF_INIT;
    size_t n = SHA256_LEN;
    bool same;

    switch (kind) {
    case SUM_CRC64NVME: n = big_endian(checksum_crc64nvme(0, data, len), 8, sum); break;
    case SUM_CRC32C: n = big_endian(checksum_crc32c(0, data, len), 4, sum); break;
    case SUM_CRC32: n = big_endian(checksum_crc32(0, data, len), 4, sum); break;
    case SUM_MD5: n = md5(data, len, sum); break;
    default: sha256(data, len, sum); break;
    }
    str_base64(sum, n, &text);
    same = strcmp(buf_str(&text), given) == 0;
    buf_release(&text);
    return same;
}

/* Azure's checksum of exactly these bytes: CRC-64/NVME, little-endian. */
static bool body_crc_matches(const struct engine_request *r, const struct attempt *a)
{
    uint64_t crc = checksum_crc64nvme(0, a->dst, a->length);
    struct buf text = BUF_INIT;
    unsigned char sum[8];
    bool same;

    for (size_t i = 0; i < sizeof(sum); i++)
        sum[i] = (unsigned char)(crc >> (8 * i));
    str_base64(sum, sizeof(sum), &text);
    same = strcmp(buf_str(&text), r->answer.body_crc64) == 0;
    buf_release(&text);
    return same;
}

/* Which checksum of the answer its bytes do not have; NULL: they have all. */
static const char *wrong_sum(const struct engine_request *r, const struct attempt *a)
{
    static const char *const names[ENGINE_SUMS] = {"CRC64NVME", "CRC32C", "CRC32", "SHA256", "MD5"};
    int kind = 0;

    if (*r->answer.body_crc64 != '\0' && !body_crc_matches(r, a))
        return "CRC64";
    /* A '-' marks the checksum of the parts' checksums: it says nothing of the bytes. */
    while (kind < ENGINE_SUMS &&
           (*r->answer.sums[kind] == '\0' || strchr(r->answer.sums[kind], '-') != NULL))
        kind++;
    if (!a->whole || kind == ENGINE_SUMS ||
        sum_matches((enum engine_sum)kind, r->answer.sums[kind], a->dst, a->length))
        return NULL;
    return names[kind];
}

static int verify_sum(const char *scheme, const char *bucket, const struct engine_request *r,
                      struct attempt *a)
{
    const char *wrong = wrong_sum(r, a);
    struct buf text = BUF_INIT;

    if (wrong == NULL)
        return 0;
    s3_what(scheme, bucket, a, &text);
    buf_addf(&text, ": the bytes that came do not have the %s checksum of the object", wrong);
    settle(a, DLC_ECORRUPT, &text);
    a->retryable = true;
    buf_release(&text);
    return a->rc;
}

int s3_answer_verify(const char *scheme, const char *bucket, const struct engine_request *r,
                     struct attempt *a)
{
    struct buf text = BUF_INIT;

    if (a->etag == NULL || *a->etag == '\0' || *r->answer.etag == '\0' ||
        strcmp(a->etag, r->answer.etag) == 0)
        return a->length > 0 ? verify_sum(scheme, bucket, r, a) : 0;
    s3_what(scheme, bucket, a, &text);
    buf_addf(&text, ": the object is no longer the one that was listed (ETag %s, now %s)", a->etag,
             r->answer.etag);
    settle(a, DLC_ECHANGED, &text);
    buf_release(&text);
    return a->rc;
}
