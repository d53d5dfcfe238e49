// SPDX-License-Identifier: Apache-2.0
#include "net/curl_tls.h"

#include <string.h>

#include "base/check.h"
#include "base/str.h"
#include "net/curl_init.h"

#define SCHEME "https://"

int curl_tls_check(struct dlc_err *err)
{
    const curl_version_info_data *v;
    int rc = http_begin(err);

    if (rc < 0)
        return rc;
    v = curl_version_info(CURLVERSION_NOW);
#if LIBCURL_VERSION_NUM >= 0x074d00
    if (v->version_num >= 0x074d00 && v->ssl_version != NULL &&
        str_starts(v->ssl_version, "OpenSSL"))
        return 0;
#endif
    return dlc_err_set(err, DLC_EINVAL,
                       "TLS between nodes needs libcurl 7.77 or newer with OpenSSL, this one is %s "
                       "with %s: install libcurl4 (not libcurl3-gnutls), or use --peer-tls off in "
                       "a network that you trust",
                       v->version, v->ssl_version != NULL ? v->ssl_version : "no TLS");
}

static void set_blob(CURL *easy, CURLoption option, const char *pem)
{
    struct curl_blob b = {(void *)(uintptr_t)pem, strlen(pem), CURL_BLOB_NOCOPY};

    dlc_check(curl_easy_setopt(easy, option, &b) == CURLE_OK); /* curl_tls_check() */
}

void curl_tls_use(CURL *easy, const struct tls_identity *id)
{
#if LIBCURL_VERSION_NUM >= 0x074d00
    set_blob(easy, CURLOPT_CAINFO_BLOB, id->authorities);
#endif
    set_blob(easy, CURLOPT_SSLCERT_BLOB, id->cert);
    set_blob(easy, CURLOPT_SSLKEY_BLOB, id->key);
    curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_3);
    curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
}

bool curl_tls_node_url(const char *address, const char *node, struct buf *url,
                       struct buf *connect_to)
{
    char host[TLS_NODE_HOST_MAX];
    size_t n;

    if (!str_starts(address, SCHEME))
        return false;
    address += strlen(SCHEME);
    n = strcspn(address, "/");
    if (n == 0 || (address[n] == '/' && address[n + 1] != '\0'))
        return false;
    tls_node_host(node, host);
    buf_addf(url, SCHEME "%s", host);
    buf_addf(connect_to, "::%.*s", (int)n, address);
    return true;
}
