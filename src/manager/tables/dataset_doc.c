// SPDX-License-Identifier: Apache-2.0
/* What is in a dataset's document, and which URLs may go into one. */
#include "manager/routes/datasets_i.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "bucket/url.h"

#define NUMBER_MAX (UINT64_C(1) << 53)

/* ---- snapshots ---- */

const json_t *dataset_snapshot(const json_t *body)
{
    return json_object_get(body, "snapshot");
}

const json_t *dataset_nodes(const json_t *body)
{
    return json_object_get(body, "nodes");
}

bool snapshot_bytes(const json_t *snapshot, const json_t *splits, uint64_t *bytes)
{
    *bytes = json_array_size(splits) == 0 ? json_u64_at(snapshot, "bytes") : 0;
    for (size_t i = 0; i < json_array_size(splits); i++) {
        const json_t *s = json_find(json_object_get(snapshot, "splits"), "name",
                                    json_string_value(json_array_get(splits, i)));

        if (s == NULL)
            return false;
        *bytes += json_u64_at(s, "bytes");
    }
    return true;
}

static bool count_ok(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);

    return json_is_integer(v) && json_integer_value(v) >= 0 &&
           (uint64_t)json_integer_value(v) <= NUMBER_MAX;
}

/* A split as a node names it: its samples, or {"samples", "bytes"}. Where bytes are not said, its
 * part of the whole by the number of samples. NULL: it makes no sense. */
static json_t *split_copy(const char *name, const json_t *v, const json_t *whole)
{
    json_t *o = json_is_object(v) ? json_incref((json_t *)v) : json_pack("{s:O}", "samples", v);
    uint64_t samples = json_u64_at(o, "samples"), all = json_u64_at(whole, "samples");
    json_t *copy = NULL;
    uint64_t bytes;

    if (name[0] != '\0' && strlen(name) <= SPLIT_MAX_LEN && count_ok(o, "samples")) {
        bytes = count_ok(o, "bytes") ? json_u64_at(o, "bytes")
                : all == 0           ? 0
                                     : (uint64_t)((double)json_u64_at(whole, "bytes") *
                                        (double)DLC_MIN(samples, all) / (double)all);
        copy = json_pack("{s:s, s:I, s:I}", "name", name, "samples", (json_int_t)samples, "bytes",
                         (json_int_t)bytes);
    }
    json_decref(o);
    return copy;
}

json_t *snapshot_of_result(const json_t *result)
{
    const char *id = json_string_value(json_object_get(result, "snapshot")), *name;
    json_t *splits = json_array(), *v;
    bool ok = id != NULL && id[0] != '\0' && strlen(id) <= 64 &&
              strspn(id, "0123456789abcdefABCDEF-") == strlen(id) && count_ok(result, "samples") &&
              count_ok(result, "bytes") &&
              json_object_size(json_object_get(result, "splits")) <= SPLITS_MAX;

    json_object_foreach(json_object_get(result, "splits"), name, v)
    {
        ok = ok && json_array_append_new(splits, split_copy(name, v, result)) == 0;
    }
    if (!ok) {
        json_decref(splits);
        return NULL;
    }
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:o}", "id", id, "samples",
        (json_int_t)json_u64_at(result, "samples"), "objects",
        (json_int_t)json_u64_at(result, count_ok(result, "objects") ? "objects" : "samples"),
        "bytes", (json_int_t)json_u64_at(result, "bytes"), "time_ms", (json_int_t)control_wall_ms(),
        "splits", splits);
}

bool splits_ok(const json_t *splits, const char *field, struct http_reply *reply)
{
    for (size_t i = 0; i < json_array_size(splits); i++) {
        const char *s = json_string_value(json_array_get(splits, i));

        if (strlen(s) > SPLIT_MAX_LEN || strchr(s, '/') != NULL) {
            refuse_field(reply, "", field,
                         "its elements must be names of splits without '/', "
                         "such as train, validation and test");
            return false;
        }
        for (size_t k = 0; k < i; k++)
            if (strcmp(s, json_string_value(json_array_get(splits, k))) == 0) {
                refuse_field(reply, "", field, "a split is there twice");
                return false;
            }
    }
    return true;
}

/* ---- URLs ---- */

/* The host of "scheme://user@host:port/path", brackets taken off. False: there is none, or a user
 * name is in it. */
static bool host_of(const char *url, char out[static 256])
{
    const char *at = strstr(url, "://");
    size_t len;

    if (at == NULL)
        return false;
    at += 3;
    len = strcspn(at, "/?#");
    if (len == 0 || len >= 256 || memchr(at, '@', len) != NULL)
        return false;
    memcpy(out, at, len);
    out[len] = '\0';
    if (out[0] == '[') {
        char *end = strchr(out, ']');

        if (end == NULL)
            return false;
        *end = '\0';
        memmove(out, out + 1, (size_t)(end - out));
    } else {
        out[strcspn(out, ":")] = '\0';
    }
    return out[0] != '\0';
}

static bool v4_link_local(uint32_t address)
{
    return address >> 16 == 0xa9fe; /* 169.254.0.0/16 */
}

/* Where clouds give machines their credentials. A node has some; a tenant's dataset must not be a
 * way to them. */
static bool is_metadata_service(const char *host)
{
    static const unsigned char aws6[16] = {0xfd, 0x00, 0x0e, 0xc2, 0, 0, 0, 0,
                                           0,    0,    0,    0,    0, 0, 2, 0x54};
    struct in_addr v4;
    struct in6_addr v6;
    char plain[256];
    size_t len;

    snprintf(plain, sizeof(plain), "%s", host);
    len = strlen(plain);
    while (len > 0 && plain[len - 1] == '.')
        plain[--len] = '\0';
    if (strcasecmp(plain, "metadata.google.internal") == 0 || strcasecmp(plain, "metadata") == 0 ||
        strcasecmp(plain, "instance-data") == 0)
        return true;
    if (inet_aton(plain, &v4) != 0) /* also 0xa9fea9fe and 2852039166, as curl reads them */
        return v4_link_local(ntohl(v4.s_addr));
    plain[strcspn(plain, "%")] = '\0';
    if (inet_pton(AF_INET6, plain, &v6) != 1)
        return false;
    if (IN6_IS_ADDR_V4MAPPED(&v6))
        return v4_link_local((uint32_t)v6.s6_addr[12] << 24 | (uint32_t)v6.s6_addr[13] << 16);
    return IN6_IS_ADDR_LINKLOCAL(&v6) || memcmp(&v6, aws6, sizeof(aws6)) == 0;
}

/* Signatures in a URL are secrets, and end. */
static bool has_signature(const char *url)
{
    static const char *const names[] = {"x-amz-signature",
                                        "x-amz-credential",
                                        "x-amz-security-token",
                                        "x-goog-signature",
                                        "x-goog-credential",
                                        "awsaccesskeyid",
                                        "signature",
                                        "sig",
                                        "token",
                                        "access_token",
                                        "key"};
    const char *q = strchr(url, '?');

    while (q != NULL) {
        size_t len = strcspn(++q, "=&");

        for (size_t i = 0; i < DLC_COUNT(names); i++)
            if (len == strlen(names[i]) && strncasecmp(q, names[i], len) == 0)
                return true;
        q = strchr(q, '&');
    }
    return false;
}

bool dataset_web_ok(const struct caller *who, const char *url, const char *field,
                    struct http_reply *reply)
{
    char host[256];

    if (!host_of(url, host)) {
        refuse_field(reply, "", field,
                     "must have a host, and no user name or password: credentials go to "
                     "/v1/tenants/NAME/credentials");
        return false;
    }
    if (who->role != ROLE_ADMIN && is_metadata_service(host)) {
        refuse_field(reply, "", field, "points to a metadata service of the node");
        return false;
    }
    if (has_signature(url)) {
        refuse_field(reply, "", field,
                     "carries a signature or token, which ends and would be stored in clear; "
                     "credentials go to /v1/tenants/NAME/credentials");
        return false;
    }
    return true;
}

bool dataset_url_ok(const struct caller *who, const char *url, const char *endpoint,
                    struct http_reply *reply)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct url u = URL_INIT;
    bool ok = false;

    if (url_parse(&u, url, &err) < 0) {
        refuse_field(reply, "", "url", "%s", err.text);
        return false;
    }
    if (u.scheme == URL_FILE && who->role != ROLE_ADMIN)
        http_problem(reply, 403, "Forbidden",
                     "url: file:// is a path on the nodes themselves; an admin may register it and "
                     "give it to a tenant with \"tenant\"");
    else if (endpoint != NULL && !str_starts(endpoint, "http://") &&
             !str_starts(endpoint, "https://"))
        refuse_field(reply, "", "endpoint", "must start with http:// or https://");
    else if (endpoint != NULL && u.scheme != URL_S3 && u.scheme != URL_GS)
        refuse_field(reply, "", "endpoint", "belongs to s3:// and gs:// only");
    else
        ok = (endpoint == NULL || dataset_web_ok(who, endpoint, "endpoint", reply)) &&
             ((u.scheme != URL_HTTP && u.scheme != URL_HTTPS) ||
              dataset_web_ok(who, url, "url", reply));
    url_release(&u);
    return ok;
}

/* ---- as the API shows it ---- */

static void add_time(json_t *out, const char *name, const json_t *ms)
{
    char *text = control_time((int64_t)json_integer_value(ms));

    json_object_set_new(out, name, json_string(text));
    mem_free(&text);
}

static json_t *snapshot_json(const json_t *s)
{
    json_t *out = json_object();

    json_object_set(out, "id", json_object_get(s, "id"));
    json_object_set(out, "samples", json_object_get(s, "samples"));
    json_object_set(out, "objects", json_object_get(s, "objects"));
    json_object_set(out, "bytes", json_object_get(s, "bytes"));
    json_object_set(out, "splits", json_object_get(s, "splits"));
    add_time(out, "time", json_object_get(s, "time_ms"));
    return out;
}

json_t *dataset_json(const struct store_doc *d)
{
    static const char *const copied[] = {"url",   "endpoint",   "splits",
                                         "nodes", "node_count", "error"};
    const json_t *snapshot = dataset_snapshot(d->body);
    json_t *out = json_pack("{s:s, s:s}", "name", d->id, "tenant", d->tenant);

    for (size_t i = 0; i < DLC_COUNT(copied); i++)
        if (json_object_get(d->body, copied[i]) != NULL)
            json_object_set(out, copied[i], json_object_get(d->body, copied[i]));
    if (snapshot != NULL)
        json_object_set_new(out, "snapshot", snapshot_json(snapshot));
    json_object_set_new(out, "state",
                        json_string(json_object_get(d->body, "error") != NULL    ? "failed"
                                    : snapshot == NULL                           ? "new"
                                    : json_object_get(d->body, "moving") != NULL ? "moving"
                                                                                 : "ready"));
    add_time(out, "created", json_object_get(d->body, "created_ms"));
    return out;
}

json_t *dataset_command(const struct store_doc *d, const char *op, const char *tier)
{
    bool evict = strcmp(op, "evict") == 0;

    return json_pack("{s:s, s:s, s:s, s:s*, s:s*}", "op", op, "dataset", d->id, "tenant", d->tenant,
                     "tier", tier, "url",
                     evict ? json_string_value(json_object_get(d->body, "url")) : NULL);
}

bool dataset_commanded(const struct store_doc *d, const json_t *command)
{
    const char *dataset = json_string_value(json_object_get(command, "dataset"));
    const char *tenant = json_string_value(json_object_get(command, "tenant"));

    return dataset != NULL && strcmp(dataset, d->id) == 0 && tenant != NULL &&
           strcmp(tenant, d->tenant) == 0;
}

bool dataset_is(const struct store_doc *now, const struct store_doc *was)
{
    return strcmp(now->tenant, was->tenant) == 0 &&
           json_equal(json_object_get(now->body, "created_ms"),
                      json_object_get(was->body, "created_ms")) == 1;
}
