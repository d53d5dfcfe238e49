// SPDX-License-Identifier: Apache-2.0
/*
 * az:// is Azure Blob Storage. Its requests differ from S3's in the listing, in how they prove who
 * we are, and in the checksums; the rest of the origin is that of s3_origin.c.
 *
 *     key      authorization: SharedKey, with x-ms-date
 *     SAS      in the query, after all else: it is in no message
 *     bearer   authorization: Bearer
 *
 * Up to RANGE_SUM_MAX bytes the service sends the CRC-64 of what it read, if the request has a
 * range; so these requests have one, also for whole objects. Beyond that, and for objects that were
 * damaged before they were stored, there is the MD5 that the uploader gave, if any.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/str.h"
#include "bucket/credentials/azure_i.h"
#include "bucket/origins/azure_i.h"
#include "bucket/origins/s3_i.h"

#define VERSION       "2023-11-03"
#define RANGE_SUM_MAX (4u << 20) /* the service's limit */

/* "Sat, 31 Jan 2026 12:00:00 GMT", whatever the locale. */
static void http_date(int64_t now, char *out, size_t size)
{
    static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t t = (time_t)now;
    struct tm tm;

    gmtime_r(&t, &tm);
    snprintf(out, size, "%s, %02d %s %d %02d:%02d:%02d GMT", days[tm.tm_wday], tm.tm_mday,
             months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

static int sign(struct s3_call *c, const struct credentials *cr, const char *method, bool sum,
                struct dlc_err *err)
{
    struct s3_lane *lane = c->lane;
    const struct attempt *a = c->attempt;
    const struct engine_request *r = c->request;
    char date[40], range[64] = "", match[ETAG_MAX + 2] = "", x_ms[160];
    struct azure_request q = {
        .method = method,
        .path = buf_str(&lane->path),
        .query = buf_str(&lane->query),
        .if_match = match,
        .range = range,
        .x_ms = x_ms,
    };

    http_date(dlc_wall_seconds(), date, sizeof(date));
    snprintf(x_ms, sizeof(x_ms), "x-ms-date:%s\n%sx-ms-version:" VERSION "\n", date,
             sum ? "x-ms-range-get-content-crc64:true\n" : "");
    if (r->ranged)
        snprintf(range, sizeof(range), "bytes=%llu-%llu", (unsigned long long)a->offset,
                 (unsigned long long)(a->offset + a->length - 1));
    if (a->op != ATTEMPT_LIST && a->etag != NULL && *a->etag != '\0')
        snprintf(match, sizeof(match), "\"%s\"", a->etag);
    buf_clear(&lane->lines);
    buf_addf(&lane->lines, "x-ms-date: %s\nauthorization: ", date);
    if (!azure_sign(&q, cr->access_key, cr->secret_key, &lane->lines))
        return dlc_err_set(err, DLC_EINVAL, "the key of the storage account %s is not base64",
                           cr->access_key);
    engine_header_lines(c->request, buf_str(&lane->lines), lane->lines.len);
    return 0;
}

/* A signature goes where its query says, and into nothing that is shown. */
static void add_sas(struct s3_call *c, const char *sas)
{
    buf_addc(&c->request->url, c->lane->query.len > 0 ? '&' : '?');
    buf_adds(&c->request->url, sas);
}

/* cr is NULL: anonymous. */
static int azure_apply(struct s3_call *c, const struct credentials *cr, const char *method,
                       const struct sigv4_header *extra, size_t n_extra, struct dlc_err *err)
{
    bool sum =
        c->request->ranged && c->attempt->length <= RANGE_SUM_MAX && !c->lane->s3->no_range_sums;

    (void)extra;
    (void)n_extra;
    engine_header(c->request, "x-ms-version: " VERSION);
    if (sum)
        engine_header(c->request, "x-ms-range-get-content-crc64: true");
    if (cr == NULL)
        return 0;
    if (cr->sas != NULL)
        add_sas(c, cr->sas);
    else if (cr->bearer != NULL)
        engine_header(c->request, "authorization: Bearer %s", cr->bearer);
    else
        return sign(c, cr, method, sum, err);
    return 0;
}

static void azure_write_list(const struct s3_place *p, const struct attempt *a, struct buf *path,
                             struct buf *query)
{
    s3_list_path(p, path);
    buf_adds(query, "comp=list");
    if (a->by_folder)
        buf_adds(query, "&delimiter=%2F");
    if (a->continuation != NULL) {
        buf_adds(query, "&marker=");
        str_uri_encode(a->continuation, strlen(a->continuation), false, query);
    }
    buf_adds(query, "&prefix=");
    str_uri_encode(a->prefix, strlen(a->prefix), false, query);
    buf_adds(query, "&restype=container");
}

/* Prices: hot tier, locally redundant, in East US; transfer to the Internet. */
static const struct s3_kind kind = {
    .ops = {.name = "az",
            .lane_open = s3_lane_open,
            .lane_close = s3_lane_close,
            .start = s3_start,
            .cancel = s3_cancel,
            .free = s3_free,
            .part_max = RANGE_SUM_MAX,
            .folders = true},
    .scheme = "az",
    .cloud = "",
    .price_get = 0.0004,
    .price_list = 0.005,
    .price_gb = 0.087,
    .range_sum_max = RANGE_SUM_MAX,
    .write_list = azure_write_list,
    .parse_list = azure_xml_list,
    .apply = azure_apply,
};

int origin_azure_new(const struct url *u, const struct bucket_config *c, unsigned lanes,
                     struct origin **out, struct dlc_err *err)
{
    struct bucket_config in_path = *c;
    struct credentials given = CREDENTIALS_INIT;
    struct credential_source *source = NULL;
    struct azure_account account;
    char *endpoint;
    int rc;

    if (c->keys != NULL)
        bucket_keys_read(c->keys, &given);
    rc = azure_account_find(u, c->endpoint, given.access_key, &account, err);
    credentials_release(&given);
    if (rc < 0)
        return rc;
    in_path.path_style = 1;
    endpoint = mem_str(account.endpoint);
    rc = azure_source_new(c, &account, &source, err);
    if (rc == 0)
        rc = s3_new(&kind, u, &in_path, endpoint, "auto", lanes, &source, out, err);
    mem_free(&endpoint);
    return rc;
}
