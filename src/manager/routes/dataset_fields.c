// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/dataset_fields.h"

#include <string.h>
#include <strings.h>

#include "base/address_rules.h"
#include "base/check.h"
#include "base/str.h"
#include "bucket/url.h"
#include "manager/routes/auth.h"
#include "manager/routes/json_fields.h"
#include "manager/tables/dataset_doc.h"

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

/* Names under which clouds give machines their credentials. A node has some; a tenant's dataset must
 * not be a way to them. */
static bool is_metadata_name(const char *host)
{
    static const char *const names[] = {"metadata.google.internal", "metadata", "instance-data"};
    size_t len = strlen(host);

    while (len > 0 && host[len - 1] == '.')
        len--;
    for (size_t i = 0; i < DLC_COUNT(names); i++)
        if (len == strlen(names[i]) && strncasecmp(host, names[i], len) == 0)
            return true;
    return false;
}

/* Addresses are refused here, where the user sees it; the nodes judge what names resolve to. */
static bool tenant_host_ok(const struct address_rules *rules, const char *host, const char *field,
                           struct http_reply *reply)
{
    struct sockaddr_storage ss;
    const struct sockaddr *a = (const struct sockaddr *)&ss;
    char text[64];

    if (is_metadata_name(host)) {
        refuse_field(reply, "", field, "points to a metadata service of the node");
        return false;
    }
    if (!address_of_host(host, &ss) || address_rules_allow(rules, a))
        return true;
    address_text(a, text);
    refuse_field(reply, "", field,
                 "points to %s, %s: datasets of tenants are read at public addresses only; an "
                 "operator allows others with --tenant-networks of manager and nodes",
                 text, address_kind_text(address_kind_of(a)));
    return false;
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

bool dataset_web_ok(const struct caller *who, const struct address_rules *rules, const char *url,
                    const char *field, struct http_reply *reply)
{
    char host[256];

    if (!host_of(url, host)) {
        refuse_field(reply, "", field,
                     "must have a host, and no user name or password: credentials belong to the "
                     "tenant (`dlcache tenant credentials`)");
        return false;
    }
    if (who->role != ROLE_ADMIN && !tenant_host_ok(rules, host, field, reply))
        return false;
    if (has_signature(url)) {
        refuse_field(reply, "", field,
                     "carries a signature or token, which ends and would be stored in clear; "
                     "credentials belong to the tenant (`dlcache tenant credentials`)");
        return false;
    }
    return true;
}

bool dataset_url_ok(const struct caller *who, const struct address_rules *rules, const char *url,
                    const char *endpoint, struct http_reply *reply)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct url u = URL_INIT;
    bool ok = false;

    if (url_parse(&u, url, &err) < 0) {
        refuse_field(reply, "", "url", "%s", err.text);
        return false;
    }
    if (u.scheme == URL_FILE && who->role != ROLE_ADMIN)
        http_problem(
            reply, 403, "Forbidden",
            "file:// is a path on the nodes themselves: only an admin may register it, and "
            "say whose it is");
    else if (endpoint != NULL && !str_starts(endpoint, "http://") &&
             !str_starts(endpoint, "https://"))
        refuse_field(reply, "", "endpoint", "must start with http:// or https://");
    else if (endpoint != NULL && !url_is_cloud(u.scheme))
        refuse_field(reply, "", "endpoint", "belongs to s3://, gs:// and az:// only");
    else
        ok = (endpoint == NULL || dataset_web_ok(who, rules, endpoint, "endpoint", reply)) &&
             ((u.scheme != URL_HTTP && u.scheme != URL_HTTPS) ||
              dataset_web_ok(who, rules, url, "url", reply));
    url_release(&u);
    return ok;
}
