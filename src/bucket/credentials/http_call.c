// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/http_call_i.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "net/curl_headers.h"
#include "net/curl_init.h"
#include "net/sync_call.h"
#include "base/secret.h"

#define PAUSE_MS 200 /* between tries */

void web_url_release(struct web_url *u)
{
    mem_free(&u->scheme);
    mem_free(&u->host);
    mem_free(&u->authority);
    mem_free(&u->path);
}

/* Gives a copy of one part, or NULL. */
static char *url_part(CURLU *h, CURLUPart part, unsigned flags)
{
    char *s = NULL, *copy;

    if (curl_url_get(h, part, &s, flags) != CURLUE_OK)
        return NULL;
    copy = mem_str(s);
    curl_free(s);
    return copy;
}

int web_url_parse(struct web_url *u, const char *text, struct dlc_err *err)
{
    CURLU *h;
    char *port = NULL, *bare;
    size_t n;
    int rc = 0;

    *u = (struct web_url)WEB_URL_INIT;
    dlc_check(http_begin(NULL) == 0); /* only for want of a few hundred bytes */
    h = curl_url();
    dlc_check(h != NULL);
    if (curl_url_set(h, CURLUPART_URL, text, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK) {
        u->scheme = url_part(h, CURLUPART_SCHEME, 0);
        u->host = url_part(h, CURLUPART_HOST, 0);
        u->path = url_part(h, CURLUPART_PATH, 0);
        port = url_part(h, CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
    }
    if (u->scheme == NULL || u->host == NULL || u->path == NULL ||
        (strcmp(u->scheme, "http") != 0 && strcmp(u->scheme, "https") != 0)) {
        web_url_release(u);
        rc = dlc_err_set(err, DLC_EINVAL, "not an http:// or https:// URL");
        goto out;
    }
    u->authority = port == NULL ? mem_str(u->host) : mem_fmt("%s:%s", u->host, port);
    n = strlen(u->host);
    if (u->host[0] == '[' && u->host[n - 1] == ']') {
        bare = mem_strn(u->host + 1, n - 2);
        mem_free(&u->host);
        u->host = bare;
    }
out:
    mem_free(&port);
    curl_url_cleanup(h);
    return rc;
}

bool web_host_is_near(const char *host)
{
    static const char *const known[] = {"localhost", "169.254.170.2", "169.254.170.23",
                                        "fd00:ec2::23"};
    struct in6_addr v6;
    struct in_addr v4;

    for (size_t i = 0; i < DLC_COUNT(known); i++) {
        if (strcasecmp(host, known[i]) == 0)
            return true;
    }
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

void web_answer_release(struct web_answer *a)
{
    secret_buf_release(&a->body);
    a->status = 0;
}

/* Gives the lines as curl wants them. */
static struct curl_slist *header_list(const char *lines)
{
    struct curl_slist *list = header_lines_add(NULL, "Expect:");

    while (lines != NULL && *lines != '\0') {
        size_t n = strcspn(lines, "\n");
        char *one = mem_strn(lines, n);

        list = header_lines_add(list, one);
        secret_free(&one);
        lines += n + (lines[n] == '\n');
    }
    return list;
}

/* "http://host/path" of the URL, for messages. Gives. */
static char *public_part(const char *url)
{
    return mem_strn(url, strcspn(url, "?#"));
}

static int try_once(const struct web_call *c, struct sync_handle *handle, struct sync_call *h,
                    struct dlc_err *err)
{
    char *url = public_part(c->url);
    CURLcode code;
    int rc = 0;

    if (!sync_call(handle, h, &code)) {
        if (h->interrupted)
            rc = dlc_err_set(err, DLC_ECANCELED, "%s: given up", url);
        else if (h->too_long)
            rc = dlc_err_set(err, DLC_EBUCKET, "%s: the answer is too long", url);
        else if (code == CURLE_OPERATION_TIMEDOUT)
            rc = dlc_err_set(err, DLC_ETIMEDOUT, "%s: no answer in %g s", url,
                             dlc_dur_seconds(c->timeout));
        else
            rc = dlc_err_set(err, DLC_EBUCKET, "%s: %s", url, curl_easy_strerror(code));
    }
    mem_free(&url);
    return rc;
}

static bool may_try_again(int rc, long status)
{
    return rc < 0 ? rc != DLC_ECANCELED : status == 429 || status >= 500;
}

int web_call(const struct web_call *c, struct web_answer *out, struct dlc_err *err)
{
    struct pollfd stop = {.fd = c->stop_fd, .events = POLLIN};
    struct sync_call h = {.method = c->method,
                          .url = c->url,
                          .text = c->body,
                          .timeout = c->timeout,
                          .connect_max = c->timeout,
                          .most = WEB_BODY_MAX,
                          .proxies = !c->direct,
                          .tls = {.ca_file = c->ca_file},
                          .body = BUF_INIT};
    struct sync_handle *handle;
    int rc;

    if (strncasecmp(c->url, "http://", 7) != 0 && strncasecmp(c->url, "https://", 8) != 0)
        return dlc_err_set(err, DLC_EINVAL, "%.60s is not an http:// or https:// URL", c->url);
    rc = sync_handle_new(c->stop_fd, &handle, err);
    if (rc < 0)
        return rc;
    h.headers = header_list(c->headers);
    buf_reserve(&h.body, WEB_BODY_MAX); /* it does not move, and so leaves no copy of a secret */
    for (unsigned n = 1;; n++) {
        rc = try_once(c, handle, &h, err);
        if (n >= c->tries || !may_try_again(rc, h.status))
            break;
        if (os_poll(&stop, 1, PAUSE_MS) > 0)
            break;
    }
    web_answer_release(out);
    *out = (struct web_answer){rc == 0 ? h.status : 0, h.body};
    header_lines_free(&h.headers);
    sync_handle_free(&handle);
    return rc;
}
