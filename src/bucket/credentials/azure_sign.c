// SPDX-License-Identifier: Apache-2.0
/* Azure's shared key authorization, as the blob service has it since version 2015-02-21. */
#include <string.h>

#include "base/hash.h"
#include "base/secret.h"
#include "base/str.h"
#include "bucket/credentials/azure_i.h"

/* "\nname:value" of each part of the query; the values decoded. */
static void add_query(const char *query, struct buf *out)
{
    while (*query != '\0') {
        size_t n = strcspn(query, "&"), name = strcspn(query, "=&");

        buf_addc(out, '\n');
        buf_add(out, query, name);
        buf_addc(out, ':');
        if (name < n)
            str_uri_decode(query + name + 1, n - name - 1, out);
        query += n + (query[n] == '&');
    }
}

void azure_string_to_sign(const struct azure_request *r, const char *account, struct buf *out)
{
    /* Between the method and If-Match: Content-Encoding, -Language, -Length, -MD5, -Type, Date and
     * If-Modified-Since, which these requests do not have; the date is an x-ms- header. */
    buf_addf(out, "%s\n\n\n\n\n\n\n\n%s\n\n\n%s\n%s/%s%s", r->method, r->if_match, r->range,
             r->x_ms, account, r->path);
    add_query(r->query, out);
}

bool azure_sign(const struct azure_request *r, const char *account, const char *key,
                struct buf *out)
{
    struct buf text = BUF_INIT, secret = BUF_INIT;
    unsigned char sum[SHA256_LEN];
    bool ok;

    buf_reserve(&secret, strlen(key) + 1);
    ok = str_unbase64(key, &secret) && secret.len > 0;
    if (ok) {
        azure_string_to_sign(r, account, &text);
        hmac_sha256(secret.data, secret.len, buf_str(&text), text.len, sum);
        buf_addf(out, "SharedKey %s:", account);
        str_base64(sum, sizeof(sum), out);
    }
    secret_buf_release(&secret);
    buf_release(&text);
    return ok;
}
