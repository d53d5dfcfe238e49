// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/http_call_i.h"

#include <poll.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "net/curl_init.h"
#include "bucket/credentials/wipe.h"

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

void web_answer_release(struct web_answer *a)
{
    secret_buf_release(&a->body);
    a->status = 0;
}

static size_t on_body(char *data, size_t one, size_t len, void *priv)
{
    struct web_answer *a = priv;

    (void)one;
    if (a->body.len + len > WEB_BODY_MAX)
        return 0;
    buf_add(&a->body, data, len);
    return len;
}

/* Gives the lines as curl wants them. */
static struct curl_slist *header_list(const char *lines)
{
    struct curl_slist *list = NULL;

    while (lines != NULL && *lines != '\0') {
        size_t n = strcspn(lines, "\n");
        char *one = mem_strn(lines, n);

        list = curl_slist_append(list, one);
        dlc_check(list != NULL);
        secret_free(&one);
        lines += n + (lines[n] == '\n');
    }
    return list;
}

static void header_list_free(struct curl_slist *list)
{
    for (struct curl_slist *i = list; i != NULL; i = i->next)
        explicit_bzero(i->data, strlen(i->data));
    curl_slist_free_all(list);
}

static CURL *easy_new(const struct web_call *c, struct curl_slist *headers, struct web_answer *out)
{
    CURL *e = curl_easy_init();

    dlc_check(e != NULL);
    curl_easy_setopt(e, CURLOPT_URL, c->url);
    curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, c->method);
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)(c->timeout.ns / 1000000));
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, out);
    if (c->body != NULL)
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, c->body);
    if (c->direct)
        curl_easy_setopt(e, CURLOPT_NOPROXY, "*");
    if (c->ca_file != NULL || http_ca_file() != NULL)
        curl_easy_setopt(e, CURLOPT_CAINFO, c->ca_file != NULL ? c->ca_file : http_ca_file());
    return e;
}

/* Drive the transfer to its end. False: stopped. */
static bool drive(CURLM *m, int stop_fd, CURLcode *result)
{
    struct curl_waitfd stop = {.fd = stop_fd, .events = CURL_WAIT_POLLIN};
    int running = 1, left;
    CURLMsg *msg;

    for (;;) {
        dlc_check(curl_multi_perform(m, &running) == CURLM_OK);
        if (running == 0)
            break;
        curl_multi_poll(m, &stop, stop_fd < 0 ? 0 : 1, 1000, NULL);
        if (stop.revents != 0)
            return false;
    }
    msg = curl_multi_info_read(m, &left);
    dlc_check(msg != NULL && msg->msg == CURLMSG_DONE);
    *result = msg->data.result;
    return true;
}

/* "http://host/path" of the URL, for messages. Gives. */
static char *public_part(const char *url)
{
    return mem_strn(url, strcspn(url, "?#"));
}

static int try_once(const struct web_call *c, struct curl_slist *headers, struct web_answer *out,
                    struct dlc_err *err)
{
    CURL *e = easy_new(c, headers, out);
    CURLM *m = curl_multi_init();
    CURLcode result = CURLE_OK;
    char *url = public_part(c->url);
    int rc = 0;

    dlc_check(m != NULL && curl_multi_add_handle(m, e) == CURLM_OK);
    buf_clear(&out->body);
    if (!drive(m, c->stop_fd, &result))
        rc = dlc_err_set(err, DLC_ECANCELED, "%s: given up", url);
    else if (result == CURLE_OK)
        curl_easy_getinfo(e, CURLINFO_RESPONSE_CODE, &out->status);
    else if (result == CURLE_OPERATION_TIMEDOUT)
        rc = dlc_err_set(err, DLC_ETIMEDOUT, "%s: no answer in %g s", url,
                         dlc_dur_seconds(c->timeout));
    else if (result == CURLE_WRITE_ERROR)
        rc = dlc_err_set(err, DLC_EBUCKET, "%s: the answer is too long", url);
    else
        rc = dlc_err_set(err, DLC_EBUCKET, "%s: %s", url, curl_easy_strerror(result));
    curl_multi_remove_handle(m, e);
    curl_easy_cleanup(e);
    curl_multi_cleanup(m);
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
    struct curl_slist *headers;
    int rc;

    if (strncasecmp(c->url, "http://", 7) != 0 && strncasecmp(c->url, "https://", 8) != 0)
        return dlc_err_set(err, DLC_EINVAL, "%.60s is not an http:// or https:// URL", c->url);
    dlc_check(http_begin(NULL) == 0); /* only for want of a few hundred bytes */
    headers = header_list(c->headers);
    buf_reserve(&out->body, WEB_BODY_MAX);
    for (unsigned n = 1;; n++) {
        rc = try_once(c, headers, out, err);
        if (n >= c->tries || !may_try_again(rc, out->status))
            break;
        if (os_poll(&stop, 1, PAUSE_MS) > 0)
            break;
    }
    header_list_free(headers);
    return rc;
}
