// SPDX-License-Identifier: Apache-2.0
#include "net/json_client.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"
#include "net/curl_headers.h"
#include "net/curl_tls.h"
#include "net/sync_call.h"

#define CLIENT_TAG    DLC_TAG4('h', 't', 'c', 'l')
#define ADDRESSES_MAX 16
#define BODY_MAX      (64u << 20)
#define PAGE          "1000"
#define LINE_MOST     (1u << 20)

/* One of the addresses that the client was given. */
struct server_address {
    char *shown; /* as it was given */
    char *url;   /* what paths are put behind */
    char *path;  /* of a Unix socket; NULL: none */
};

struct http_client {
    uint32_t tag;
    struct sync_handle *handle;
    struct server_address addresses[ADDRESSES_MAX];
    size_t n_addresses, at; /* at: the one that answered last */
    char *token_line, *ca, *ca_pem;
    const char *ca_setting;
    struct tls_identity *identity; /* NULL: none */
    struct buf connect_to;         /* of a node; "": any server */
    struct dlc_dur timeout;
    bool repeatable;
    struct curl_slist *extra; /* for the next request */
};

/* One request and what comes back. */
struct call {
    struct http_client *client;
    const char *path;
    char *text;                                /* body to send; NULL: none */
    bool (*each)(const char *line, void *arg); /* NULL: no stream */
    void *arg;
    struct sync_call http;
};

/* -------- addresses -------- */

static void address_release(struct server_address *p)
{
    mem_free(&p->shown);
    mem_free(&p->url);
    mem_free(&p->path);
}

static int address_init(struct server_address *p, const char *text, size_t len, struct dlc_err *err)
{
    char *shown = mem_strn(text, len);
    size_t n;

    if (str_starts(shown, "unix:") && shown[5] != '\0') {
        p->path = mem_str(shown + 5);
        p->url = mem_str("http://localhost");
    } else if ((strncasecmp(shown, "http://", 7) == 0 && shown[7] != '\0') ||
               (strncasecmp(shown, "https://", 8) == 0 && shown[8] != '\0')) {
        p->url = mem_str(shown);
        for (n = strlen(p->url); p->url[n - 1] == '/'; n--)
            p->url[n - 1] = '\0';
    } else {
        int rc = dlc_err_set(err, DLC_EINVAL,
                             "'%s' is not the address of a manager; write http://HOST:PORT, "
                             "https://HOST:PORT or unix:PATH",
                             shown);

        mem_free(&shown);
        return rc;
    }
    p->shown = shown;
    return 0;
}

static int parse_addresses(struct http_client *c, const char *base, struct dlc_err *err)
{
    int rc = 0;

    while (*base != '\0' && rc == 0) {
        size_t n = strcspn(base, ",");

        if (n > 0 && c->n_addresses == ADDRESSES_MAX)
            return dlc_err_set(err, DLC_EINVAL, "more than %d addresses of managers",
                               ADDRESSES_MAX);
        if (n > 0)
            rc = address_init(&c->addresses[c->n_addresses++], base, n, err);
        base += n + (base[n] == ',');
    }
    if (rc == 0 && c->n_addresses == 0)
        rc = dlc_err_set(err, DLC_EINVAL, "no address of a manager was given");
    return rc;
}

/* -------- asking -------- */

static struct curl_slist *header_lines(struct call *k)
{
    struct http_client *c = k->client;
    struct curl_slist *list = header_lines_add(NULL, "Expect:");

    list = header_lines_add(list, k->each != NULL ? "Accept: application/x-ndjson"
                                                  : "Accept: application/json");
    if (k->text != NULL)
        list = header_lines_add(list, "Content-Type: application/json");
    if (c->token_line != NULL)
        list = header_lines_add(list, c->token_line);
    for (const struct curl_slist *i = c->extra; i != NULL; i = i->next)
        list = header_lines_add(list, i->data);
    return list;
}

static bool on_line(const char *line, size_t len, void *arg)
{
    struct call *k = arg;

    (void)len;
    return k->each(line, k->arg);
}

static int explain(struct call *k, const struct server_address *p, CURLcode code,
                   struct dlc_err *err)
{
    const char *why = k->http.why;

    if (k->http.too_long)
        return dlc_err_set(err, DLC_EPROTO, "%s: the answer is too long", p->shown);
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
        return dlc_err_set(err, DLC_ETIMEDOUT, "%s does not answer in time (%.200s)", p->shown,
                           why);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return dlc_err_set(
            err, DLC_EDENIED,
            "%s: its certificate is not trusted; name its authority in %s "
            "(%.200s)",
            p->shown, k->client->ca_setting != NULL ? k->client->ca_setting : "a PEM file", why);
    case CURLE_URL_MALFORMAT:
        return dlc_err_set(err, DLC_EINVAL, "%s is not an address; write http://HOST:PORT",
                           p->shown);
    default:
        return dlc_err_set(err, DLC_EBUCKET, "no answer from %s; is it running? (%.200s)", p->shown,
                           why);
    }
}

/* Nothing of the request has reached a server. */
static bool was_not_sent(CURLcode code)
{
    return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
           code == CURLE_SSL_CONNECT_ERROR || code == CURLE_PEER_FAILED_VERIFICATION;
}

/* Ask one. *again: another may be asked. */
static int ask_one(struct call *k, const struct server_address *p, bool *again, struct dlc_err *err)
{
    struct sync_call *h = &k->http;
    struct curl_slist *lines = header_lines(k);
    char *url = mem_fmt("%s%s", p->url, k->path);
    CURLcode code;
    int rc = 0;

    h->url = url;
    h->headers = lines;
    h->unix_path = p->path;
    if (sync_call(k->client->handle, h, &code)) {
        *again = h->status == 503;
    } else {
        rc = explain(k, p, code, err);
        h->status = 0;
        *again = !h->too_long && !h->given &&
                 (k->client->repeatable || strcmp(h->method, "POST") != 0 || was_not_sent(code));
    }
    header_lines_free(&lines);
    mem_free(&url);
    return rc;
}

/* Ask until one answers. */
static int ask(struct call *k, const char *method, struct dlc_err *err)
{
    struct http_client *c = k->client;
    size_t first = c->at;
    struct curl_slist to_node = {.data = c->connect_to.data};
    bool again = true;
    int rc = 0;

    k->http = (struct sync_call){.method = method,
                                 .text = k->text,
                                 .timeout = c->timeout,
                                 .most = k->each != NULL ? LINE_MOST : BODY_MAX,
                                 .tls = {.ca_file = c->ca, .ca_pem = c->ca_pem},
                                 .connect_to = c->connect_to.len > 0 ? &to_node : NULL,
                                 .each = k->each != NULL ? on_line : NULL,
                                 .arg = k,
                                 .body = BUF_INIT};
    if (c->identity != NULL) {
        k->http.tls.cert_pem = c->identity->cert;
        k->http.tls.key_pem = c->identity->key;
    }
    if (c->connect_to.len > 0)
        k->http.tls.ca_pem = c->identity->authorities;
    k->http.tls.only_this_ca = k->http.tls.ca_pem != NULL;
    for (size_t i = 0; i < c->n_addresses && again; i++) {
        c->at = (first + i) % c->n_addresses;
        rc = ask_one(k, &c->addresses[c->at], &again, err);
    }
    if (rc < 0 || k->http.status == 503)
        c->at = (c->at + 1) % c->n_addresses; /* another one first, the next time */
    header_lines_free(&c->extra);
    return rc;
}

/* -------- answers -------- */

static int code_of(int status)
{
    switch (status) {
    case 401:
    case 403: return DLC_EDENIED;
    case 404: return DLC_ENOTFOUND;
    case 410: return DLC_ECHANGED; /* it was there, and was deleted */
    case 409:
    case 412: return DLC_EBUSY;
    case 507: return DLC_ENOSPACE;
    default: return status < 500 ? DLC_EINVAL : DLC_EBUCKET;
    }
}

static int fail_status(struct call *k, struct dlc_err *err)
{
    json_t *j =
        k->http.body.len > 0 ? json_loadb(k->http.body.data, k->http.body.len, 0, NULL) : NULL;
    const char *detail = json_string_value(json_object_get(j, "detail"));
    int rc;

    if (detail == NULL)
        detail = json_string_value(json_object_get(j, "title"));
    if (detail != NULL)
        rc = dlc_err_set(err, code_of(k->http.status), "%s", detail);
    else
        rc = dlc_err_set(err, code_of(k->http.status), "%s %s: HTTP status %d from %s",
                         k->http.method, k->path, k->http.status, http_client_at(k->client));
    json_decref(j);
    return rc;
}

static int judge(struct call *k, struct dlc_err *err)
{
    if (k->http.status >= 400)
        return fail_status(k, err);
    if (k->http.status >= 300)
        return dlc_err_set(err, DLC_EPROTO, "%s %s: %s sends us elsewhere (HTTP status %d)",
                           k->http.method, k->path, http_client_at(k->client), k->http.status);
    return 0;
}

static int take_json(struct call *k, json_t **out, struct dlc_err *err)
{
    json_error_t e;

    if (k->http.body.len == 0)
        return 0;
    *out = json_loadb(k->http.body.data, k->http.body.len, JSON_DECODE_ANY, &e);
    if (*out == NULL)
        return dlc_err_set(err, DLC_EPROTO, "%s %s: the answer of %s is not JSON", k->http.method,
                           k->path, http_client_at(k->client));
    return 0;
}

static void call_release(struct call *k)
{
    secret_free(&k->text); /* credentials, tokens */
    sync_call_release(&k->http);
}

/* -------- the front -------- */

int http_json(struct http_client *c, const char *method, const char *path, const json_t *body,
              json_t **out, int *status, struct dlc_err *err)
{
    struct call k = {.client = c, .path = path};
    int rc;

    dlc_check(c->tag == CLIENT_TAG && path[0] == '/');
    *out = NULL;
    if (body != NULL) {
        k.text = json_dumps(body, JSON_COMPACT);
        dlc_check(k.text != NULL);
    }
    rc = ask(&k, method, err);
    if (status != NULL)
        *status = k.http.status;
    if (rc == 0)
        rc = judge(&k, err);
    if (rc == 0)
        rc = take_json(&k, out, err);
    call_release(&k);
    return rc;
}

int http_pages(struct http_client *c, const char *path,
               void (*each)(const json_t *items, void *arg), void *arg, int *status,
               struct dlc_err *err)
{
    char *after = mem_str("");
    int rc;

    do {
        char *page_path = mem_fmt("%s%climit=" PAGE "%s%s", path, strchr(path, '?') ? '&' : '?',
                                  after[0] != '\0' ? "&after=" : "", after);
        json_t *page = NULL;
        const char *next;

        rc = http_json(c, "GET", page_path, NULL, &page, status, err);
        if (rc == 0 && !json_is_array(json_object_get(page, "items")))
            rc = dlc_err_set(err, DLC_EPROTO, "%s: the response is not a list; is that a manager?",
                             http_client_at(c));
        if (rc == 0)
            each(json_object_get(page, "items"), arg);
        next = json_string_value(json_object_get(page, "next"));
        mem_free(&after);
        after = rc == 0 && next != NULL ? http_escape(next) : NULL;
        json_decref(page);
        mem_free(&page_path);
    } while (after != NULL);
    return rc;
}

int http_lines(struct http_client *c, const char *path, bool (*each)(const char *line, void *arg),
               void *arg, struct dlc_err *err)
{
    struct call k = {.client = c, .path = path, .each = each, .arg = arg};
    int rc;

    dlc_check(c->tag == CLIENT_TAG && path[0] == '/');
    rc = ask(&k, "GET", err);
    if (rc == 0)
        rc = judge(&k, err);
    if (rc == 0 && !k.http.stopped && k.http.body.len > 0)
        each(k.http.body.data, arg); /* the last line may lack its end */
    call_release(&k);
    return rc;
}

/* The server is asked by the name of the node, which its certificate must have. */
static int name_node(struct http_client *c, const char *node, struct dlc_err *err)
{
    struct server_address *p = &c->addresses[0];
    struct buf url = BUF_INIT;

    if (c->n_addresses != 1 || c->identity == NULL ||
        !curl_tls_node_url(p->url, node, &url, &c->connect_to)) {
        buf_release(&url);
        return dlc_err_set(err, DLC_EINVAL, "%s is not the address of a node that speaks TLS",
                           p->shown);
    }
    mem_free(&p->url);
    p->url = buf_take(&url);
    return 0;
}

int http_client_open(const struct http_client_config *cfg, struct http_client **out,
                     struct dlc_err *err)
{
    struct http_client *c;
    const char *ca = cfg->ca != NULL ? cfg->ca : getenv("SSL_CERT_FILE");
    struct sync_handle *handle;
    int rc = sync_handle_new(-1, &handle, err);

    *out = NULL;
    if (rc < 0)
        return rc;
    if (cfg->token != NULL && strpbrk(cfg->token, "\r\n") != NULL) {
        sync_handle_free(&handle);
        return dlc_err_set(err, DLC_EINVAL, "the token has more than one line");
    }
    c = mem_new(struct http_client);
    c->tag = CLIENT_TAG;
    c->handle = handle;
    c->timeout = cfg->timeout.ns > 0 ? cfg->timeout : DLC_SEC(30);
    c->repeatable = cfg->repeatable;
    c->token_line = cfg->token != NULL ? mem_fmt("Authorization: Bearer %s", cfg->token) : NULL;
    c->ca = ca != NULL && *ca != '\0' ? mem_str(ca) : NULL;
    c->ca_pem = mem_str(cfg->ca_pem);
    c->ca_setting = cfg->ca_setting;
    c->identity = tls_identity_get(cfg->identity);
    rc = parse_addresses(c, cfg->base, err);
    if (rc == 0 && cfg->node != NULL)
        rc = name_node(c, cfg->node, err);
    if (rc < 0)
        http_client_close(&c);
    *out = c;
    return rc;
}

void http_client_identity(struct http_client *c, struct tls_identity *id)
{
    dlc_check(c->tag == CLIENT_TAG);
    if (id == c->identity)
        return;
    tls_identity_put(&c->identity);
    c->identity = tls_identity_get(id);
}

void http_client_close(struct http_client **cp)
{
    struct http_client *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    dlc_check(c->tag == CLIENT_TAG);
    sync_handle_free(&c->handle);
    header_lines_free(&c->extra);
    for (size_t i = 0; i < c->n_addresses; i++)
        address_release(&c->addresses[i]);
    secret_free(&c->token_line);
    tls_identity_put(&c->identity);
    buf_release(&c->connect_to);
    mem_free(&c->ca);
    mem_free(&c->ca_pem);
    c->tag = 0;
    mem_free(&c);
}

void http_client_header(struct http_client *c, const char *name, const char *value)
{
    char *line = mem_fmt("%s: %s", name, value);

    dlc_check(strpbrk(line, "\r\n") == NULL);
    c->extra = header_lines_add(c->extra, line);
    mem_free(&line);
}

const char *http_client_at(const struct http_client *c)
{
    return c->addresses[c->at].shown;
}

char *http_escape(const char *text)
{
    struct buf b = BUF_INIT;

    str_uri_encode(text, strlen(text), false, &b);
    return buf_take(&b);
}
