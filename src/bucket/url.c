// SPDX-License-Identifier: Apache-2.0
/*
 * Parsing of dataset URLs (url.h). Each scheme has its own function for what follows "://"; the
 * shape options are the same for all, under another name for http(s).
 *
 * (URL-1) On failure *u is as after url_release().
 * (URL-2) Parsing the canonical text again gives the same text.
 * (URL-3) No message shows the query of an http(s) URL or a user name in it: both may be secrets.
 */
#include "bucket/url.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "bucket/azure_account.h"
#include "bucket/origins/http_i.h"

#define URL_MAX  8192
#define KEY_MAX  1024 /* s3, gs and az: their longest key */
#define NAME_LEN 63   /* of a dataset, as the manager's API allows it */

#define HTTP_OPTION "dlcache-"

static const struct {
    const char *name;
    enum url_scheme scheme;
} schemes[] = {
    {"s3", URL_S3},     {"gs", URL_GS},         {"http", URL_HTTP}, {"https", URL_HTTPS},
    {"file", URL_FILE}, {"dlcache", URL_NAMED}, {"az", URL_AZ},
};

#define SCHEMES_TEXT                                                                               \
    "s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, http(s)://host/path, "         \
    "file:///path or dlcache://name"
#define LAYOUTS_TEXT "folders, flat, manifest, pairs, archive or table"
#define OPTIONS_TEXT                                                                               \
    "layout=" LAYOUTS_TEXT ", split=train, partition=64MB, group=yes or no; samples=PREFIX, "      \
    "targets=PREFIX, manifest=KEY, also of one split: samples-train=PREFIX; "                      \
    "latency=30ms, jitter=10ms, bandwidth=200MB (per second), errors=0.01 (0 to 1), seed=7"

bool url_is_cloud(enum url_scheme scheme)
{
    return scheme == URL_S3 || scheme == URL_GS || scheme == URL_AZ;
}

void url_release(struct url *u)
{
    mem_free(&u->bucket);
    mem_free(&u->prefix);
    mem_free(&u->text);
    mem_free(&u->shown);
    mem_free(&u->layout.layout);
    url_parts_release(&u->layout.parts);
    mem_free(&u->layout.split);
    memset(u, 0, sizeof(*u));
}

/* ---- options ---- */

static int bad_value(const char *name, const char *value, const char *want, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_EINVAL, "URL option %s has the value '%.60s'; write %s", name,
                       value, want);
}

static int shape_set(struct shape *s, const char *name, const char *value, struct dlc_err *err)
{
    s->active = true;
    if (strcmp(name, "latency") == 0)
        return str_parse_dur(value, &s->latency)
                   ? 0
                   : bad_value(name, value, "a time such as 30ms or 1s", err);
    if (strcmp(name, "jitter") == 0)
        return str_parse_dur(value, &s->jitter)
                   ? 0
                   : bad_value(name, value, "a time such as 10ms", err);
    if (strcmp(name, "bandwidth") == 0)
        return str_parse_size(value, &s->bandwidth) && s->bandwidth > 0
                   ? 0
                   : bad_value(name, value, "bytes per second such as 200MB", err);
    if (strcmp(name, "errors") == 0)
        return str_parse_double(value, &s->errors) && s->errors >= 0 && s->errors <= 1
                   ? 0
                   : bad_value(name, value, "a share from 0 to 1 such as 0.01", err);
    if (strcmp(name, "seed") == 0)
        return str_parse_u64(value, &s->seed) ? 0 : bad_value(name, value, "a whole number", err);
    return dlc_err_set(err, DLC_EINVAL,
                       "URL option '%.60s' is unknown; the options are " OPTIONS_TEXT, name);
}

static void set_text(char **p, const char *value)
{
    mem_free(p);
    *p = mem_str(value);
}

static int set_layout(struct url_layout *l, const char *value, struct dlc_err *err)
{
    static const char *const names[] = {"folders", "flat", "manifest", "pairs", "archive", "table"};

    for (size_t i = 0; i < DLC_COUNT(names); i++) {
        if (strcmp(value, names[i]) == 0) {
            set_text(&l->layout, value);
            return 0;
        }
    }
    return bad_value("layout", value, LAYOUTS_TEXT, err);
}

static int set_part(struct url_layout *l, struct url_part part, const char *name, const char *value,
                    struct dlc_err *err)
{
    if (value[0] == '\0' || (value[0] == '/' && part.kind != URL_MANIFEST))
        return bad_value(
            name, value,
            part.kind == URL_MANIFEST ? "a key below the URL" : "a prefix below the URL", err);
    if (l->parts.n == URL_PARTS_MAX)
        return dlc_err_set(err, DLC_EINVAL, "the URL names more than %d prefixes and manifests",
                           URL_PARTS_MAX);
    url_parts_add(&l->parts, part, value);
    return 0;
}

static int option_set(struct url *u, const char *name, const char *value, struct dlc_err *err)
{
    struct url_layout *l = &u->layout;
    struct url_part part;
    bool yes;

    if (strcmp(name, "layout") == 0)
        return set_layout(l, value, err);
    if (url_part_named(name, &part))
        return set_part(l, part, name, value, err);
    if (strcmp(name, "split") == 0) {
        if (value[0] == '\0')
            return bad_value(name, value, "a name", err);
        set_text(&l->split, value);
        return 0;
    }
    if (strcmp(name, "partition") == 0)
        return str_parse_size(value, &l->partition) && l->partition > 0
                   ? 0
                   : bad_value(name, value, "a size such as 64MB", err);
    if (strcmp(name, "group") != 0)
        return shape_set(&u->shape, name, value, err);
    if (!str_parse_bool(value, &yes))
        return bad_value(name, value, "yes or no", err);
    l->group = yes;
    return 0;
}

static void add_option(struct url *u, bool *first, const char *name, const char *value)
{
    bool web = u->scheme == URL_HTTP || u->scheme == URL_HTTPS;
    bool more = *first ? web && strchr(u->prefix, '?') != NULL : true;
    char *text =
        mem_fmt("%s%c%s%s=%s", u->text, more ? '&' : '?', web ? HTTP_OPTION : "", name, value);

    mem_free(&u->text);
    u->text = text;
    *first = false;
}

/* The layout is part of the name. Values have no '&' and no '?', so that (URL-2) holds. */
static void add_layout(struct url *u)
{
    const struct url_layout *l = &u->layout;
    bool first = true;
    char size[24];

    if (l->layout != NULL)
        add_option(u, &first, "layout", l->layout);
    for (size_t i = 0; i < l->parts.n; i++)
        add_option(u, &first, url_part_name(&l->parts.v[i]), l->parts.v[i].prefix);
    if (l->split != NULL)
        add_option(u, &first, "split", l->split);
    if (l->partition != 0) {
        snprintf(size, sizeof(size), "%llu", (unsigned long long)l->partition);
        add_option(u, &first, "partition", size);
    }
    if (l->group >= 0)
        add_option(u, &first, "group", l->group != 0 ? "yes" : "no");
}

/* Does s[0..len) read name=value, the name being letters, digits, '-' and '_'? */
static bool looks_like_option(const char *s, size_t len)
{
    size_t i = 0;

    while (i < len && (isalnum((unsigned char)s[i]) || s[i] == '-' || s[i] == '_'))
        i++;
    return i > 0 && i < len && s[i] == '=' && isalpha((unsigned char)s[0]);
}

static bool all_look_like_options(const char *s)
{
    for (;;) {
        size_t len = strcspn(s, "&");

        if (!looks_like_option(s, len))
            return false;
        if (s[len] == '\0')
            return true;
        s += len + 1;
    }
}

/* One "name=value" of len bytes, `skip` of them a prefix of the name. */
static int option_apply(struct url *u, const char *text, size_t len, size_t skip,
                        struct dlc_err *err)
{
    char *name = mem_strn(text + skip, len - skip);
    char *value = strchr(name, '=');
    int rc;

    dlc_check(value != NULL);
    *value++ = '\0';
    rc = option_set(u, name, value, err);
    mem_free(&name);
    return rc;
}

static int apply_all(struct url *u, const char *q, struct dlc_err *err)
{
    for (;;) {
        size_t len = strcspn(q, "&");
        int rc = option_apply(u, q, len, 0, err);

        if (rc < 0 || q[len] == '\0')
            return rc;
        q += len + 1;
    }
}

/* s3, gs, az, file: take "?name=value&..." off the end of rest, also several, so that (URL-2) holds. */
static int take_options(struct url *u, char *rest, struct dlc_err *err)
{
    char *q;
    int rc = 0;

    while (rc == 0 && (q = strrchr(rest, '?')) != NULL && all_look_like_options(q + 1)) {
        *q = '\0';
        rc = apply_all(u, q + 1, err);
    }
    return rc;
}

/* ---- s3, gs ---- */

static bool bucket_char(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '-' || c == '_';
}

static int check_bucket(const char *scheme, const char *name, size_t max, struct dlc_err *err)
{
    size_t len = strlen(name);
    bool ok = len >= 3 && len <= max && strstr(name, "..") == NULL;

    if (len == 0)
        return dlc_err_set(err, DLC_EINVAL,
                           "the URL names no bucket; write %s://bucket or %s://bucket/prefix",
                           scheme, scheme);
    for (size_t i = 0; i < len; i++)
        ok = ok && bucket_char(name[i]);
    ok = ok && isalnum((unsigned char)name[0]) && isalnum((unsigned char)name[len - 1]);
    if (!ok)
        return dlc_err_set(
            err, DLC_EINVAL,
            "'%.80s' is not a bucket name: it has 3 to %zu letters, digits, '.', '-' "
            "and '_', and begins and ends with a letter or digit",
            name, max);
    return 0;
}

static int parse_cloud(struct url *u, const char *scheme, char *rest, struct dlc_err *err)
{
    char *slash;
    int rc = take_options(u, rest, err);

    if (rc < 0)
        return rc;
    slash = strchr(rest, '/');
    if (slash != NULL)
        *slash++ = '\0';
    rc = check_bucket(scheme, rest, u->scheme == URL_S3 ? 63 : 222, err);
    if (rc < 0)
        return rc;
    if (slash != NULL && strlen(slash) > KEY_MAX)
        return dlc_err_set(err, DLC_EINVAL,
                           "the prefix in %s://%s/... has %zu bytes; keys have at most %d", scheme,
                           rest, strlen(slash), KEY_MAX);
    u->bucket = mem_str(rest);
    u->prefix = mem_str(slash == NULL ? "" : slash);
    u->text = mem_fmt("%s://%s/%s", scheme, u->bucket, u->prefix);
    return 0;
}

/* ---- az ---- */

static int parse_azure(struct url *u, char *rest, struct dlc_err *err)
{
    int rc = take_options(u, rest, err);

    if (rc == 0)
        rc = azure_url_split(rest, &u->bucket, &u->prefix, err);
    if (rc < 0)
        return rc;
    if (strlen(u->prefix) > KEY_MAX)
        return dlc_err_set(err, DLC_EINVAL,
                           "the prefix in az://%.120s/... has %zu bytes; keys have at most %d",
                           u->bucket, strlen(u->prefix), KEY_MAX);
    u->text = mem_fmt("az://%s/%s", u->bucket, u->prefix);
    return 0;
}

/* ---- file ---- */

/* Adds path without empty and "." parts; false when a part is "..". */
static bool normalise(const char *path, struct buf *out)
{
    while (*path != '\0') {
        size_t len = strcspn(path, "/");

        if (len == 2 && path[0] == '.' && path[1] == '.')
            return false;
        if (len > 0 && !(len == 1 && path[0] == '.')) {
            buf_addc(out, '/');
            buf_add(out, path, len);
        }
        path += len + (path[len] == '/');
    }
    if (out->len == 0)
        buf_addc(out, '/');
    return true;
}

static int parse_file(struct url *u, char *rest, struct dlc_err *err)
{
    struct buf path = BUF_INIT;
    int rc = take_options(u, rest, err);

    if (rc < 0)
        return rc;
    if (str_starts(rest, "localhost/"))
        rest += strlen("localhost");
    if (rest[0] == '\0')
        return dlc_err_set(err, DLC_EINVAL, "the URL names no path; write file:///path");
    if (rest[0] != '/')
        return dlc_err_set(err, DLC_EINVAL,
                           "file://%.200s is not an absolute path; write file:///path with three "
                           "slashes",
                           rest);
    if (!normalise(rest, &path)) {
        buf_release(&path);
        return dlc_err_set(err, DLC_EINVAL,
                           "file://%.200s has a '..' in it; write the path without", rest);
    }
    u->bucket = mem_str("");
    u->prefix = buf_take(&path);
    u->text = mem_fmt("file://%s", u->prefix);
    return 0;
}

/* ---- http(s) ---- */

static bool valid_port(const char *s)
{
    uint64_t port;

    return strlen(s) <= 5 && str_parse_u64(s, &port) && port >= 1 && port <= 65535;
}

static bool valid_host(const char *s, size_t len)
{
    if (len >= 4 && s[0] == '[' && s[len - 1] == ']') {
        for (size_t i = 1; i < len - 1; i++) {
            if (!isxdigit((unsigned char)s[i]) && s[i] != ':' && s[i] != '.')
                return false;
        }
        return true;
    }
    for (size_t i = 0; i < len; i++) {
        if (!bucket_char(s[i]))
            return false;
    }
    return len > 0 && len <= 253;
}

/* host[:port] in lower case, without the scheme's own port. */
static int parse_host(struct url *u, const char *scheme, char *host, struct dlc_err *err)
{
    char *colon = strrchr(host, ':');
    const char *own = u->scheme == URL_HTTP ? "80" : "443";
    uint64_t port = 0;

    if (colon != NULL && strchr(colon, ']') != NULL)
        colon = NULL; /* inside an IPv6 address */
    if (colon != NULL)
        *colon++ = '\0';
    if (host[0] == '\0')
        return dlc_err_set(err, DLC_EINVAL, "the URL names no host; write %s://host/path", scheme);
    if (!valid_host(host, strlen(host)))
        return dlc_err_set(err, DLC_EINVAL, "'%.80s' in %s://... is not a host name", host, scheme);
    if (colon != NULL && !valid_port(colon))
        return dlc_err_set(err, DLC_EINVAL,
                           "'%.20s' in %s://%.80s:... is not a port; write 1 to 65535", colon,
                           scheme, host);
    for (char *p = host; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    if (colon != NULL)
        str_parse_u64(colon, &port);
    if (colon == NULL || port == strtoull(own, NULL, 10))
        u->bucket = mem_str(host);
    else
        u->bucket = mem_fmt("%s:%u", host, (unsigned)port);
    return 0;
}

/* Keep the query but for what is ours. */
static int parse_query(struct url *u, const char *query, struct buf *path, struct dlc_err *err)
{
    char sep = '?';
    int rc = 0;

    while (rc == 0) {
        size_t len = strcspn(query, "&");

        if (str_starts(query, HTTP_OPTION) && looks_like_option(query, len)) {
            rc = option_apply(u, query, len, strlen(HTTP_OPTION), err);
        } else if (len > 0) {
            buf_addc(path, sep);
            buf_add(path, query, len);
            sep = '&';
        }
        if (query[len] == '\0')
            break;
        query += len + 1;
    }
    return rc;
}

static int check_http(const char *scheme, const char *host, const char *rest, struct dlc_err *err)
{
    if (strchr(host, '@') != NULL)
        return dlc_err_set(err, DLC_EINVAL,
                           "the %s URL has a user name or password in it, which would end up in "
                           "logs; write it without",
                           scheme);
    for (const char *p = rest; *p != '\0'; p++) {
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return dlc_err_set(err, DLC_EINVAL,
                               "the %s URL has a space or control character in it; write %%20 and "
                               "the like",
                               scheme);
    }
    return 0;
}

static int parse_http(struct url *u, const char *scheme, char *rest, struct dlc_err *err)
{
    size_t host_len = strcspn(rest, "/?#");
    struct buf path = BUF_INIT;
    char *host = mem_strn(rest, host_len), *query;
    int rc;

    rest += host_len;
    rest[strcspn(rest, "#")] = '\0'; /* a fragment is never sent */
    rc = check_http(scheme, host, rest, err);
    if (rc == 0)
        rc = parse_host(u, scheme, host, err);
    if (rc < 0)
        goto out;
    query = strchr(rest, '?');
    if (query != NULL)
        *query++ = '\0';
    buf_adds(&path, rest[0] == '\0' ? "/" : rest);
    if (query != NULL)
        rc = parse_query(u, query, &path, err);
    if (rc < 0)
        goto out;
    u->prefix = buf_take(&path);
    u->text = mem_fmt("%s://%s%s", scheme, u->bucket, u->prefix);
out:
    buf_release(&path);
    mem_free(&host);
    return rc;
}

/* ---- names ---- */

static int parse_name(struct url *u, char *rest, struct dlc_err *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = strlen(rest);

    if (len > 0 && rest[len - 1] == '/')
        rest[--len] = '\0';
    if (len == 0 || len > NAME_LEN || strspn(rest, allowed) != len ||
        strchr("._-", rest[0]) != NULL)
        return dlc_err_set(
            err, DLC_EINVAL,
            "'%.80s' is not the name of a dataset: dlcache:// is followed by 1 to %d of "
            "a-z 0-9 . _ -, beginning with a letter or digit",
            rest, NAME_LEN);
    u->bucket = mem_str(rest);
    u->prefix = mem_str("");
    u->text = mem_fmt("dlcache://%s", rest);
    return 0;
}

/* ---- all ---- */

/* The URL as far as a message may show it (URL-3). */
static int unknown_scheme(const char *text, size_t scheme_len, struct dlc_err *err)
{
    if (scheme_len == 0 && text[0] == '/')
        return dlc_err_set(err, DLC_EINVAL, "'%.200s' is a path, not a URL; write file://%.200s",
                           text, text);
    if (scheme_len == 0)
        return dlc_err_set(err, DLC_EINVAL,
                           "the URL has no scheme; a dataset is named " SCHEMES_TEXT);
    return dlc_err_set(err, DLC_EINVAL,
                       "the scheme '%.*s' is unknown; a dataset is named " SCHEMES_TEXT,
                       (int)DLC_MIN(scheme_len, (size_t)40), text);
}

/* Gives u->shown (URL-3). */
static void show(struct url *u)
{
    struct buf b = BUF_INIT;

    if (u->scheme == URL_HTTP || u->scheme == URL_HTTPS)
        web_show(u->text, &b);
    else
        buf_adds(&b, u->text);
    u->shown = mem_str(buf_str(&b));
    buf_release(&b);
}

static int parse_rest(struct url *u, const char *name, char *rest, struct dlc_err *err)
{
    switch (u->scheme) {
    case URL_S3:
    case URL_GS: return parse_cloud(u, name, rest, err);
    case URL_AZ: return parse_azure(u, rest, err);
    case URL_FILE: return parse_file(u, rest, err);
    case URL_NAMED: return parse_name(u, rest, err);
    case URL_HTTP:
    case URL_HTTPS: break;
    }
    return parse_http(u, name, rest, err);
}

int url_parse(struct url *u, const char *text, struct dlc_err *err)
{
    const char *sep = strstr(text, "://");
    size_t len = sep == NULL ? 0 : (size_t)(sep - text);
    char *rest;
    int rc;

    memset(u, 0, sizeof(*u));
    u->layout.group = -1;
    if (text[0] == '\0')
        return dlc_err_set(err, DLC_EINVAL, "the URL is empty; a dataset is named " SCHEMES_TEXT);
    if (strlen(text) > URL_MAX)
        return dlc_err_set(err, DLC_EINVAL, "the URL has %zu bytes; at most %d are allowed",
                           strlen(text), URL_MAX);
    for (size_t i = 0; i < DLC_COUNT(schemes); i++) {
        if (len != strlen(schemes[i].name) || strncasecmp(text, schemes[i].name, len) != 0)
            continue;
        u->scheme = schemes[i].scheme;
        rest = mem_str(sep + 3);
        rc = parse_rest(u, schemes[i].name, rest, err);
        mem_free(&rest);
        if (rc < 0) {
            url_release(u);
            return rc;
        }
        add_layout(u);
        show(u);
        return 0;
    }
    return unknown_scheme(text, len, err);
}
