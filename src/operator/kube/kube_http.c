// SPDX-License-Identifier: Apache-2.0
/*
 * Sending: one libcurl handle in a multi handle of its own, so that a wait can be broken off by
 * another thread (curl_multi_wakeup) and the connection stays between requests.
 *
 * HTTP/1.1 only: a watch and requests never share a connection, and nothing is gained by frames.
 */
#include "operator/kube/kube_i.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/api_token.h"
#include "net/curl_headers.h"

#define CONNECT_MAX DLC_SEC(5)
#define RETRY_MOST  300 /* s: nobody may send us to sleep for longer */

/* -------- receiving -------- */

static struct kube_call *call_of(void *priv)
{
    struct kube_call *c = priv;

    dlc_check(c != NULL && c->kube->tag == KUBE_TAG);
    return c;
}

static int status_now(struct kube *k)
{
    long status = 0;

    curl_easy_getinfo(k->easy, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

/* Hand over the lines that are whole. */
static bool give_lines(struct kube_call *c, size_t fresh)
{
    size_t from = 0, look = c->body.len - fresh; /* before it there is no end of line */
    char *end;

    while ((end = memchr(c->body.data + look, '\n', c->body.len - look)) != NULL) {
        size_t len = (size_t)(end - c->body.data) - from;

        *end = '\0';
        c->stopped = len > 0 && !c->each(c->body.data + from, len, c->arg);
        if (c->stopped)
            return false;
        look = from += len + 1;
    }
    memmove(c->body.data, c->body.data + from, c->body.len - from);
    c->body.len -= from;
    c->body.data[c->body.len] = '\0';
    return true;
}

static size_t on_body(char *data, size_t one, size_t len, void *priv)
{
    struct kube_call *c = call_of(priv);

    (void)one;
    c->heard = dlc_mono_now();
    if (len == 0)
        return 0;
    if (len > c->most - c->body.len) {
        c->too_long = true;
        return 0;
    }
    buf_add(&c->body, data, len);
    if (c->each != NULL && status_now(c->kube) < 300 && !give_lines(c, len))
        return 0;
    return len;
}

/* -------- sending -------- */

static struct curl_slist *header_lines(struct kube_call *c)
{
    struct kube *k = c->kube;
    struct curl_slist *list = header_lines_add(NULL, "Expect:");

    list = header_lines_add(list, "Accept: application/json");
    if (c->text != NULL) {
        char *line = mem_fmt("Content-Type: %s", c->type);

        list = header_lines_add(list, line);
        mem_free(&line);
    }
    if (k->token_line != NULL)
        list = header_lines_add(list, k->token_line);
    if (k->host_line != NULL)
        list = header_lines_add(list, k->host_line);
    return list;
}

static void set_blob(CURL *e, CURLoption option, const char *pem)
{
    struct curl_blob blob = {(void *)pem, strlen(pem), CURL_BLOB_NOCOPY};

    curl_easy_setopt(e, option, &blob);
}

static void set_up_tls(CURL *e, const struct kube_config *c)
{
    if (c->ca_pem != NULL)
        set_blob(e, CURLOPT_CAINFO_BLOB, c->ca_pem);
    else if (c->ca_file != NULL)
        curl_easy_setopt(e, CURLOPT_CAINFO, c->ca_file);
    if (c->ca_pem != NULL || c->ca_file != NULL)
        curl_easy_setopt(e, CURLOPT_CAPATH, NULL); /* this authority and no other */
    if (c->cert_pem != NULL)
        set_blob(e, CURLOPT_SSLCERT_BLOB, c->cert_pem);
    else if (c->cert_file != NULL)
        curl_easy_setopt(e, CURLOPT_SSLCERT, c->cert_file);
    if (c->key_pem != NULL)
        set_blob(e, CURLOPT_SSLKEY_BLOB, c->key_pem);
    else if (c->key_file != NULL)
        curl_easy_setopt(e, CURLOPT_SSLKEY, c->key_file);
    if (c->insecure) {
        curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 0L);
    }
}

static void set_up(struct kube_call *c, const char *url, struct curl_slist *lines)
{
    struct kube *k = c->kube;
    CURL *e = k->easy;
    long ms = (long)(k->o.timeout.ns / 1000000);

    curl_easy_reset(e); /* connections stay */
    curl_easy_setopt(e, CURLOPT_URL, url);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, 20L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, 10L);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "dlcache-operator");
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, lines);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, k->curl_error);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, DLC_MIN(ms, (long)(CONNECT_MAX.ns / 1000000)));
    if (c->each == NULL)
        curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, ms);
    if (k->connect_to != NULL)
        curl_easy_setopt(e, CURLOPT_CONNECT_TO, k->connect_to);
    set_up_tls(e, k->o.config);
    if (c->text != NULL)
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, c->text);
    curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, c->method);
}

/* Has a stream been silent for too long? If not, *ms is how long to wait at most. */
static bool is_silent(const struct kube_call *c, int *ms)
{
    int64_t left = c->silence.ns - dlc_mono_since(c->heard).ns;

    *ms = 1000;
    if (c->each == NULL || c->silence.ns <= 0)
        return false;
    *ms = (int)DLC_CLAMP(left / 1000000 + 1, 1, 1000);
    return left <= 0;
}

static CURLcode perform(struct kube_call *c)
{
    struct kube *k = c->kube;
    CURLcode code = CURLE_OPERATION_TIMEDOUT;
    CURLMsg *m;
    int running = 1, ms, left;

    c->heard = dlc_mono_now();
    dlc_check(curl_multi_add_handle(k->multi, k->easy) == CURLM_OK);
    while (running > 0 && !is_silent(c, &ms)) {
        if (atomic_load_explicit(&k->stop, memory_order_relaxed)) /* pairs with kube_interrupt() */
            break;
        dlc_check(curl_multi_perform(k->multi, &running) == CURLM_OK);
        if (running > 0)
            dlc_check(curl_multi_poll(k->multi, NULL, 0, ms, NULL) == CURLM_OK);
    }
    while ((m = curl_multi_info_read(k->multi, &left)) != NULL) {
        if (m->msg == CURLMSG_DONE)
            code = m->data.result;
    }
    k->status = status_now(k);
    k->retry_after = DLC_SEC(0);
    if (k->status == 429 || k->status >= 500) {
        curl_off_t s = 0;

        curl_easy_getinfo(k->easy, CURLINFO_RETRY_AFTER, &s);
        k->retry_after = DLC_SEC(DLC_CLAMP(s, 0, RETRY_MOST));
    }
    curl_multi_remove_handle(k->multi, k->easy);
    return code;
}

/* -------- what went wrong -------- */

static int explain(struct kube_call *c, CURLcode code, struct dlc_err *err)
{
    struct kube *k = c->kube;
    const char *at = k->o.config->server;
    const char *why = k->curl_error[0] != '\0' ? k->curl_error : curl_easy_strerror(code);

    if (atomic_load_explicit(&k->stop, memory_order_relaxed)) /* pairs with kube_interrupt() */
        return dlc_err_set(err, DLC_ECANCELED, "given up");
    if (c->too_long)
        return dlc_err_set(err, DLC_EPROTO, "%s %.200s: the answer is longer than %zu bytes",
                           c->method, c->path, c->most);
    k->status = 0;
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
        return dlc_err_set(err, DLC_ETIMEDOUT, "the API server %s does not answer in time (%.200s)",
                           at, why);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return dlc_err_set(err, DLC_EDENIED,
                           "the certificate of the API server %s is not trusted: see %s (%.200s)",
                           at, k->o.config->from, why);
    case CURLE_SSL_CERTPROBLEM:
        return dlc_err_set(err, DLC_EDENIED, "the client certificate of %s is of no use (%.200s)",
                           k->o.config->from, why);
    default:
        return dlc_err_set(err, DLC_EBUCKET, "no answer from the API server %s (%.200s)", at, why);
    }
}

static int code_of(int status, const char *reason)
{
    switch (status) {
    case 401:
    case 403: return DLC_EDENIED;
    case 404: return DLC_ENOTFOUND;
    case 409: return strcmp(reason, "AlreadyExists") == 0 ? DLC_EBUSY : DLC_ECHANGED;
    case 410: return DLC_ECHANGED;
    case 429: return DLC_EBUCKET;
    default: return status < 500 ? DLC_EINVAL : DLC_EBUCKET;
    }
}

static enum metrics_verb verb_of(const struct kube_call *c)
{
    static const struct {
        const char *method;
        enum metrics_verb verb;
    } table[] = {{"POST", METRICS_create},
                 {"PUT", METRICS_update},
                 {"PATCH", METRICS_patch},
                 {"DELETE", METRICS_delete}};

    for (size_t i = 0; i < DLC_COUNT(table); i++)
        if (strcmp(c->method, table[i].method) == 0)
            return table[i].verb;
    return c->each != NULL ? METRICS_watch : c->list ? METRICS_list : METRICS_get;
}

/* The server's Status object says it best. */
static int judge(struct kube_call *c, struct dlc_err *err)
{
    struct kube *k = c->kube;
    json_t *j = NULL;
    const char *said, *reason;
    int rc;

    if (k->status >= 200 && k->status < 300)
        return 0;
    if (c->body.len > 0)
        j = json_loadb(c->body.data, c->body.len, 0, NULL);
    said = json_string_value(json_object_get(j, "message"));
    if (said == NULL)
        said = k->status == 429 ? "too many requests" : "the API server says no";
    reason = json_string_value(json_object_get(j, "reason"));
    rc = dlc_err_set(err, k->status < 400 ? DLC_EPROTO : code_of(k->status, reason ? reason : ""),
                     "%s %.*s: %.300s (HTTP status %d)", c->method, (int)strcspn(c->path, "?"),
                     c->path, said, k->status);
    json_decref(j);
    return rc;
}

int kube_call(struct kube_call *c, struct dlc_err *err)
{
    struct kube *k = c->kube;
    struct curl_slist *lines;
    char *url;
    CURLcode code;
    int rc = kube_refresh_token(k, err);

    dlc_check(k->tag == KUBE_TAG && c->path[0] == '/');
    kube_forget(k);
    if (rc < 0)
        return rc;
    k->curl_error[0] = '\0';
    lines = header_lines(c);
    url = mem_fmt("%s%s", k->url, c->path);
    if (c->most == 0)
        c->most = KUBE_ANSWER_MAX;
    set_up(c, url, lines);
    code = perform(c);
    rc = code == CURLE_OK || c->stopped ? judge(c, err) : explain(c, code, err);
    if (k->o.metrics != NULL)
        metrics_call(k->o.metrics, verb_of(c), k->status);
    if (k->status == 401)
        memset(&k->token_stat, 0, sizeof(k->token_stat)); /* look into the file again */
    header_lines_free(&lines);
    mem_free(&url);
    return rc;
}

int kube_call_json(struct kube_call *c, json_t **out, struct dlc_err *err)
{
    *out = c->body.len > 0 ? json_loadb(c->body.data, c->body.len, JSON_DECODE_ANY, NULL) : NULL;
    if (*out == NULL)
        return dlc_err_set(err, DLC_EPROTO, "%s %.*s: the answer is no JSON", c->method,
                           (int)strcspn(c->path, "?"), c->path);
    return 0;
}

void kube_call_release(struct kube_call *c)
{
    token_free(&c->text);
    if (c->body.data != NULL)
        explicit_bzero(c->body.data, c->body.cap);
    buf_release(&c->body);
}
