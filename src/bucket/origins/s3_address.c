// SPDX-License-Identifier: Apache-2.0
/*
 * Endpoint, region and bucket name -> host and path. The path given out is the one that is signed
 * and the one that is sent, byte for byte.
 *
 * The bucket's name goes into the host name (virtual-host style) only where that works: not for
 * names with dots under https, whose certificates do not match, and not for names that are not host
 * labels.
 */
#include "bucket/origins/s3_i.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "bucket/s3_dialect_i.h"

bool s3_region_ok(const char *region)
{
    size_t n = strlen(region);

    if (n == 0 || n > 30)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)region[i]) && region[i] != '-' && region[i] != '_')
            return false;
    }
    return true;
}

static bool fits_host_name(const char *bucket, bool https)
{
    size_t n = strlen(bucket);

    if (n < 3 || n > 63)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = bucket[i];

        if (!islower((unsigned char)c) && !isdigit((unsigned char)c) && c != '-' &&
            (c != '.' || https))
            return false;
    }
    return true;
}

struct endpoint {
    bool https;
    char *host; /* with the port unless it is the scheme's own */
    char *path; /* "" or "/prefix" */
};

static bool host_ok(const char *host)
{
    return *host != '\0' && *host != ':' && strpbrk(host, " @?#\\\"<>") == NULL;
}

static int endpoint_parse(const char *url, struct endpoint *out, struct dlc_err *err)
{
    const char *rest, *slash;
    size_t n;

    out->https = str_starts(url, "https://");
    if (!out->https && !str_starts(url, "http://"))
        goto bad;
    rest = strstr(url, "//") + 2;
    slash = strchr(rest, '/');
    n = slash != NULL ? (size_t)(slash - rest) : strlen(rest);
    out->host = mem_strn(rest, n);
    out->path = mem_str(slash != NULL ? slash : "");
    for (n = strlen(out->path); n > 0 && out->path[n - 1] == '/'; n--)
        out->path[n - 1] = '\0';
    if (str_ends(out->host, out->https ? ":443" : ":80"))
        *strrchr(out->host, ':') = '\0';
    if (host_ok(out->host) && strpbrk(out->path, " ?#") == NULL)
        return 0;
bad:
    return dlc_err_set(err, DLC_EINVAL,
                       "endpoint \"%.200s\" is not http://host[:port] or https://host[:port]", url);
}

/* `cloud` with the region in place of its %, if it has one. China's regions have their own domain.
 */
static char *cloud_url(const char *cloud, const char *region)
{
    const char *mark = strchr(cloud, '%');

    if (mark == NULL)
        return mem_str(cloud);
    return mem_fmt("%.*s%s%s%s", (int)(mark - cloud), cloud, region, mark + 1,
                   str_starts(region, "cn-") ? ".cn" : "");
}

int s3_place_new(const struct s3_place_config *c, struct s3_place **out, struct dlc_err *err)
{
    char *cloud = cloud_url(c->cloud, c->region);
    struct endpoint e = {false, NULL, NULL};
    struct s3_place *p = NULL;
    bool in_path = c->path_style == 1 || (c->path_style < 0 && c->endpoint != NULL &&
                                          !s3_dialect_wants_host(c->endpoint));
    int rc;

    if (!s3_region_ok(c->region)) {
        rc = dlc_err_set(err, DLC_EINVAL, "\"%.60s\" is not the name of a region", c->region);
        goto out;
    }
    rc = endpoint_parse(c->endpoint != NULL ? c->endpoint : cloud, &e, err);
    if (rc < 0)
        goto out;
    in_path = in_path || !fits_host_name(c->bucket, e.https);
    p = mem_new(struct s3_place);
    p->region = mem_str(c->region);
    p->host = in_path ? mem_str(e.host) : mem_fmt("%s.%s", c->bucket, e.host);
    p->base = mem_fmt("%s://%s", e.https ? "https" : "http", p->host);
    p->path = in_path ? mem_fmt("%s/%s", e.path, c->bucket) : mem_str(e.path);
    *out = p;
out:
    mem_free(&cloud);
    mem_free(&e.host);
    mem_free(&e.path);
    return rc;
}

void s3_place_free(struct s3_place **pp)
{
    struct s3_place *p = *pp, *older;

    *pp = NULL;
    for (; p != NULL; p = older) {
        older = p->older;
        mem_free(&p->region);
        mem_free(&p->base);
        mem_free(&p->host);
        mem_free(&p->path);
        mem_free(&p);
    }
}

void s3_object_path(const struct s3_place *p, const char *key, struct buf *out)
{
    buf_adds(out, p->path);
    buf_addc(out, '/');
    str_uri_encode(key, strlen(key), true, out);
}

void s3_list_path(const struct s3_place *p, struct buf *out)
{
    buf_adds(out, p->path);
    if (p->path[0] == '\0')
        buf_addc(out, '/');
}

void s3_list_query(const struct attempt *a, struct buf *out)
{
    if (a->continuation != NULL) {
        buf_adds(out, "continuation-token=");
        str_uri_encode(a->continuation, strlen(a->continuation), false, out);
        buf_addc(out, '&');
    }
    if (a->by_folder)
        buf_adds(out, "delimiter=%2F&");
    buf_adds(out, "encoding-type=url&list-type=2&prefix=");
    str_uri_encode(a->prefix, strlen(a->prefix), false, out);
}
