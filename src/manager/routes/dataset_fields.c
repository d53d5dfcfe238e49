// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/dataset_fields.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

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
