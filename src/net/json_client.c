// SPDX-License-Identifier: Apache-2.0
#include "net/json_client.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/curl_init.h"
#include "net/curl_headers.h"

#define CLIENT_TAG  DLC_TAG4('h', 't', 'c', 'l')
#define PLACES_MAX  16
#define BODY_MAX    (64u << 20)
#define LINE_MOST   (1u << 20)
#define CONNECT_MAX DLC_SEC(5)

/* One of the addresses. */
struct place {
    char *shown; /* as it was given */
    char *url;   /* what paths are put behind */
    char *path;  /* of a Unix socket; NULL: none */
};

struct http_client {
    uint32_t tag;
    CURL *easy;
    struct place places[PLACES_MAX];
    size_t n_places, at; /* at: the one that answered last */
    char *token_line, *ca;
    struct dlc_dur timeout;
    bool repeatable;
    struct curl_slist *extra; /* for the next request */
    char curl_error[CURL_ERROR_SIZE];
};

/* One request and what comes back. */
struct call {
    struct http_client *client;
    const char *method, *path;
    char *text; /* body to send; NULL: none */
    struct buf body;
    bool (*each)(const char *line, void *arg); /* NULL: no stream */
    void *arg;
    bool given, stopped, too_long; /* given: lines were handed over */
    int status;
};

/* -------- addresses -------- */

static void place_release(struct place *p)
{
    mem_free(&p->shown);
    mem_free(&p->url);
    mem_free(&p->path);
}

static int place_init(struct place *p, const char *text, size_t len, struct dlc_err *err)
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
                             "'%s' is no address of a manager; write http://HOST:PORT, "
                             "https://HOST:PORT or unix:PATH",
                             shown);

        mem_free(&shown);
        return rc;
    }
    p->shown = shown;
    return 0;
}

static int parse_places(struct http_client *c, const char *base, struct dlc_err *err)
{
    int rc = 0;

    while (*base != '\0' && rc == 0) {
        size_t n = strcspn(base, ",");

        if (n > 0 && c->n_places == PLACES_MAX)
            return dlc_err_set(err, DLC_EINVAL, "more than %d addresses of managers", PLACES_MAX);
        if (n > 0)
            rc = place_init(&c->places[c->n_places++], base, n, err);
        base += n + (base[n] == ',');
    }
    if (rc == 0 && c->n_places == 0)
        rc = dlc_err_set(err, DLC_EINVAL, "no address of a manager was given");
    return rc;
}

/* -------- receiving -------- */

static struct call *call_of(void *priv)
{
    struct call *k = priv;

    dlc_check(k != NULL && k->client->tag == CLIENT_TAG);
    return k;
}

static int status_now(struct call *k)
{
    long status = 0;

    curl_easy_getinfo(k->client->easy, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

/* Hand over the lines that are whole. */
static bool give_lines(struct call *k)
{
    size_t from = 0;
    char *end;

    while (from < k->body.len &&
           (end = memchr(k->body.data + from, '\n', k->body.len - from)) != NULL) {
        *end = '\0';
        k->given = true;
        if (!k->each(k->body.data + from, k->arg)) {
            k->stopped = true;
            return false;
        }
        from = (size_t)(end + 1 - k->body.data);
    }
    memmove(k->body.data, k->body.data + from, k->body.len - from);
    k->body.len -= from;
    k->body.data[k->body.len] = '\0';
    k->too_long = k->body.len > LINE_MOST;
    return !k->too_long;
}

static size_t on_body(char *data, size_t one, size_t len, void *priv)
{
    struct call *k = call_of(priv);

    (void)one;
    if (len > BODY_MAX - k->body.len) {
        k->too_long = true;
        return 0;
    }
    if (len == 0)
        return 0;
    buf_add(&k->body, data, len);
    if (k->each != NULL && status_now(k) < 300 && !give_lines(k))
        return 0;
    return len;
}

/* -------- sending -------- */

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

static void set_up(struct call *k, const struct place *p, const char *url, struct curl_slist *lines)
{
    struct http_client *c = k->client;
    CURL *e = c->easy;
    bool sends = strcmp(k->method, "POST") == 0 || strcmp(k->method, "PUT") == 0;
    long ms = (long)(c->timeout.ns / 1000000);

    curl_easy_reset(e); /* connections stay */
    curl_easy_setopt(e, CURLOPT_URL, url);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "dlcache");
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, lines);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, c->curl_error);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, k);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, DLC_MIN(ms, (long)(CONNECT_MAX.ns / 1000000)));
    if (k->each == NULL)
        curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, ms);
    if (p->path != NULL)
        curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, p->path);
    if (c->ca != NULL)
        curl_easy_setopt(e, CURLOPT_CAINFO, c->ca);
    if (sends || k->text != NULL)
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, k->text != NULL ? k->text : "");
    curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, k->method);
}

static int explain(struct call *k, const struct place *p, CURLcode code, struct dlc_err *err)
{
    const char *why =
        k->client->curl_error[0] != '\0' ? k->client->curl_error : curl_easy_strerror(code);

    if (k->too_long)
        return dlc_err_set(err, DLC_EPROTO, "%s: the answer is too long", p->shown);
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
        return dlc_err_set(err, DLC_ETIMEDOUT, "%s does not answer in time (%.200s)", p->shown,
                           why);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return dlc_err_set(err, DLC_EDENIED,
                           "%s: its certificate is not trusted; name its authority in a PEM file "
                           "(%.200s)",
                           p->shown, why);
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
static int ask_one(struct call *k, const struct place *p, bool *again, struct dlc_err *err)
{
    struct curl_slist *lines = header_lines(k);
    char *url = mem_fmt("%s%s", p->url, k->path);
    CURLcode code;
    int rc = 0;

    buf_clear(&k->body);
    k->client->curl_error[0] = '\0';
    set_up(k, p, url, lines);
    code = curl_easy_perform(k->client->easy);
    k->status = code == CURLE_OK || k->stopped ? status_now(k) : 0;
    *again = k->status == 503;
    if (code != CURLE_OK && !k->stopped) {
        rc = explain(k, p, code, err);
        *again = !k->too_long && !k->given &&
                 (k->client->repeatable || strcmp(k->method, "POST") != 0 || was_not_sent(code));
    }
    header_lines_free(&lines);
    mem_free(&url);
    return rc;
}

/* Ask until one answers. */
static int ask(struct call *k, struct dlc_err *err)
{
    struct http_client *c = k->client;
    size_t first = c->at;
    bool again = true;
    int rc = 0;

    for (size_t i = 0; i < c->n_places && again; i++) {
        c->at = (first + i) % c->n_places;
        rc = ask_one(k, &c->places[c->at], &again, err);
    }
    if (rc < 0 || k->status == 503)
        c->at = (c->at + 1) % c->n_places; /* another one first, the next time */
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
    case 409:
    case 412: return DLC_EBUSY;
    case 507: return DLC_ENOSPACE;
    default: return status < 500 ? DLC_EINVAL : DLC_EBUCKET;
    }
}

static int fail_status(struct call *k, struct dlc_err *err)
{
    json_t *j = k->body.len > 0 ? json_loadb(k->body.data, k->body.len, 0, NULL) : NULL;
    const char *detail = json_string_value(json_object_get(j, "detail"));
    int rc;

    if (detail == NULL)
        detail = json_string_value(json_object_get(j, "title"));
    if (detail != NULL)
        rc = dlc_err_set(err, code_of(k->status), "%s", detail);
    else
        rc = dlc_err_set(err, code_of(k->status), "%s %s: HTTP status %d from %s", k->method,
                         k->path, k->status, http_client_at(k->client));
    json_decref(j);
    return rc;
}

static int judge(struct call *k, struct dlc_err *err)
{
    if (k->status >= 400)
        return fail_status(k, err);
    if (k->status >= 300)
        return dlc_err_set(err, DLC_EPROTO, "%s %s: %s sends us elsewhere (HTTP status %d)",
                           k->method, k->path, http_client_at(k->client), k->status);
    return 0;
}

static int take_json(struct call *k, json_t **out, struct dlc_err *err)
{
    json_error_t e;

    if (k->body.len == 0)
        return 0;
    *out = json_loadb(k->body.data, k->body.len, JSON_DECODE_ANY, &e);
    if (*out == NULL)
        return dlc_err_set(err, DLC_EPROTO, "%s %s: the answer of %s is not JSON", k->method,
                           k->path, http_client_at(k->client));
    return 0;
}

static void call_release(struct call *k)
{
    if (k->text != NULL) {
        explicit_bzero(k->text, strlen(k->text)); /* credentials, tokens */
        free(k->text);
    }
    if (k->body.data != NULL)
        explicit_bzero(k->body.data, k->body.cap);
    buf_release(&k->body);
}

/* -------- the front -------- */

int http_json(struct http_client *c, const char *method, const char *path, const json_t *body,
              json_t **out, int *status, struct dlc_err *err)
{
    struct call k = {.client = c, .method = method, .path = path};
    int rc;

    dlc_check(c->tag == CLIENT_TAG && path[0] == '/');
    *out = NULL;
    if (body != NULL) {
        k.text = json_dumps(body, JSON_COMPACT);
        dlc_check(k.text != NULL);
    }
    rc = ask(&k, err);
    if (status != NULL)
        *status = k.status;
    if (rc == 0)
        rc = judge(&k, err);
    if (rc == 0)
        rc = take_json(&k, out, err);
    call_release(&k);
    return rc;
}

int http_lines(struct http_client *c, const char *path, bool (*each)(const char *line, void *arg),
               void *arg, struct dlc_err *err)
{
    struct call k = {.client = c, .method = "GET", .path = path, .each = each, .arg = arg};
    int rc;

    dlc_check(c->tag == CLIENT_TAG && path[0] == '/');
    rc = ask(&k, err);
    if (rc == 0)
        rc = judge(&k, err);
    if (rc == 0 && !k.stopped && k.body.len > 0)
        each(k.body.data, arg); /* the last line may lack its end */
    call_release(&k);
    return rc;
}

int http_client_open(const struct http_client_config *cfg, struct http_client **out,
                     struct dlc_err *err)
{
    struct http_client *c;
    const char *ca = cfg->ca != NULL ? cfg->ca : getenv("SSL_CERT_FILE");
    int rc = http_begin(err);

    *out = NULL;
    if (rc < 0)
        return rc;
    if (ca == NULL)
        ca = http_ca_file();
    if (cfg->token != NULL && strpbrk(cfg->token, "\r\n") != NULL)
        return dlc_err_set(err, DLC_EINVAL, "the token has more than one line");
    c = mem_new(struct http_client);
    c->tag = CLIENT_TAG;
    c->easy = curl_easy_init();
    dlc_check(c->easy != NULL); /* only for want of a few hundred bytes */
    c->timeout = cfg->timeout.ns > 0 ? cfg->timeout : DLC_SEC(30);
    c->repeatable = cfg->repeatable;
    c->token_line = cfg->token != NULL ? mem_fmt("Authorization: Bearer %s", cfg->token) : NULL;
    c->ca = ca != NULL && *ca != '\0' ? mem_str(ca) : NULL;
    rc = parse_places(c, cfg->base, err);
    if (rc < 0)
        http_client_close(&c);
    *out = c;
    return rc;
}

void http_client_close(struct http_client **cp)
{
    struct http_client *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    dlc_check(c->tag == CLIENT_TAG);
    curl_easy_cleanup(c->easy);
    header_lines_free(&c->extra);
    for (size_t i = 0; i < c->n_places; i++)
        place_release(&c->places[i]);
    if (c->token_line != NULL)
        explicit_bzero(c->token_line, strlen(c->token_line));
    mem_free(&c->token_line);
    mem_free(&c->ca);
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
    return c->places[c->at].shown;
}

char *http_escape(const char *text)
{
    struct buf b = BUF_INIT;

    str_uri_encode(text, strlen(text), false, &b);
    return buf_take(&b);
}
