// SPDX-License-Identifier: Apache-2.0
/* One request to the API server: authentication, and errors by status. */
#include "operator/kube/kube_i.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/api_token.h"
#include "base/secret.h"
#include "net/curl_headers.h"

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

/* -------- what went wrong -------- */

static int explain(struct kube_call *c, CURLcode code, struct dlc_err *err)
{
    struct kube *k = c->kube;
    const char *at = k->o.config->server, *why = c->http.why;

    if (sync_handle_is_interrupted(k->handle))
        return dlc_err_set(err, DLC_ECANCELED, "given up");
    if (c->http.too_long)
        return dlc_err_set(err, DLC_EPROTO, "%s %.200s: the answer is longer than %zu bytes",
                           c->method, c->path, c->http.most);
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
    return c->http.each != NULL ? METRICS_watch : c->list ? METRICS_list : METRICS_get;
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
    if (c->http.body.len > 0)
        j = json_loadb(c->http.body.data, c->http.body.len, 0, NULL);
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

static struct sync_tls tls_of(const struct kube_config *c)
{
    return (struct sync_tls){.ca_file = c->ca_file,
                             .ca_pem = c->ca_pem,
                             .cert_file = c->cert_file,
                             .cert_pem = c->cert_pem,
                             .key_file = c->key_file,
                             .key_pem = c->key_pem,
                             .only_this_ca = c->ca_pem != NULL || c->ca_file != NULL,
                             .insecure = c->insecure};
}

static int send_call(struct kube_call *c, struct dlc_err *err)
{
    struct kube *k = c->kube;
    struct curl_slist *lines = header_lines(c);
    char *url = mem_fmt("%s%s", k->url, c->path);
    struct sync_call *h = &c->http;
    CURLcode code;
    bool answered;

    h->method = c->method;
    h->url = url;
    h->headers = lines;
    h->text = c->text;
    h->agent = "dlcache-operator";
    h->timeout = k->o.timeout;
    h->most = h->most != 0 ? h->most : KUBE_ANSWER_MAX;
    h->connect_to = k->connect_to;
    h->tls = tls_of(k->o.config);
    answered = sync_call(k->handle, h, &code);
    k->status = h->status;
    k->retry_after = h->retry_after;
    header_lines_free(&lines);
    mem_free(&url);
    return answered ? judge(c, err) : explain(c, code, err);
}

int kube_call(struct kube_call *c, struct dlc_err *err)
{
    struct kube *k = c->kube;
    int rc = kube_refresh_token(k, err);

    dlc_check(k->tag == KUBE_TAG && c->path[0] == '/');
    kube_forget(k);
    if (rc < 0)
        return rc;
    rc = send_call(c, err);
    if (k->o.metrics != NULL)
        metrics_call(k->o.metrics, verb_of(c), k->status);
    if (k->status == 401)
        memset(&k->token_stat, 0, sizeof(k->token_stat)); /* look into the file again */
    return rc;
}

int kube_call_json(struct kube_call *c, json_t **out, struct dlc_err *err)
{
    const struct buf *b = &c->http.body;

    *out = b->len > 0 ? json_loadb(b->data, b->len, JSON_DECODE_ANY, NULL) : NULL;
    if (*out == NULL)
        return dlc_err_set(err, DLC_EPROTO, "%s %.*s: the answer is not JSON", c->method,
                           (int)strcspn(c->path, "?"), c->path);
    return 0;
}

void kube_call_release(struct kube_call *c)
{
    secret_free(&c->text);
    sync_call_release(&c->http);
}
