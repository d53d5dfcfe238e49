// SPDX-License-Identifier: Apache-2.0
#include "net/curl_init.h"

#include <fcntl.h>
#include <pthread.h>

#include "base/check.h"
#include "base/syscalls.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode result;
static const char *ca_file;

static bool readable(const char *path)
{
    int fd = os_open(path, O_RDONLY, 0);
    bool is = fd >= 0;

    os_close(&fd);
    return is;
}

static const char *find_ca_file(void)
{
    static const char *const paths[] = {
        "/etc/ssl/certs/ca-certificates.crt", /* Debian, Ubuntu, Arch, Alpine */
        "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem", /* SUSE */
    };
    const char *own = curl_version_info(CURLVERSION_NOW)->cainfo;

    if (own == NULL || readable(own))
        return NULL;
    for (size_t i = 0; i < DLC_COUNT(paths); i++)
        if (readable(paths[i]))
            return paths[i];
    return NULL;
}

static void begin(void)
{
    result = curl_global_init(CURL_GLOBAL_DEFAULT);
    ca_file = find_ca_file();
}

const char *http_ca_file(void)
{
    return ca_file;
}

void http_set_up(CURL *easy, bool direct)
{
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "dlcache");
    if (direct)
        curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
}

int http_begin(struct dlc_err *err)
{
    pthread_once(&once, begin);
    if (result != CURLE_OK)
        return dlc_err_set(err, DLC_ENOMEM, "libcurl cannot be started: %s",
                           curl_easy_strerror(result));
    return 0;
}
