// SPDX-License-Identifier: Apache-2.0
/*
 * Sending: one libcurl handle in a multi handle of its own, so that a wait can be broken off by
 * another thread (curl_multi_wakeup) and the connection stays between requests.
 *
 * HTTP/1.1 only: a watch and requests never share a connection, and nothing is gained by frames.
 */
#include "operator/kube_i.h"

#include <string.h>
#include <sys/stat.h>

#include <curl/curl.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/str.h"
#include "base/token.h"
#include "http/begin.h"

#define KUBE_TAG       DLC_TAG4('k', 'u', 'b', 'e')
#define TIMEOUT        DLC_SEC(5)
#define CONNECT_MAX    DLC_SEC(5)
#define TOKEN_FILE_MAX (16u << 10)
#define RETRY_MOST     300 /* s: nobody may send us to sleep for longer */

struct kube {
    uint32_t tag;
    struct kube_options o;
    struct kube_figures own; /* when nobody wants them */
    CURLM *multi;
    CURL *easy;
    _Atomic bool stop;             /* W any thread, R ours; relaxed: the wake-up orders it */
    char *url;                     /* the server, or tls-server-name in its place */
    char *host_line;               /* "Host: ..." and */
    struct curl_slist *connect_to; /* where that name really is; NULL: neither */
    char *token_line;              /* "Authorization: Bearer ...", NULL: none */
    struct stat token_stat;        /* of the file that it is from */
    int status;
    struct dlc_dur retry_after;
    char curl_error[CURL_ERROR_SIZE];
};

/* -------- who we are -------- */

static void set_token(struct kube *k, const char *token)
{
    token_free(&k->token_line);
    k->token_line = mem_fmt("Authorization: Bearer %s", token);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Service accounts' tokens are longer than ours. Gives. */
static int read_token(const char *path, char **out, struct dlc_err *err)
{
    struct buf b = BUF_INIT;
    const char *word = "";
    int rc = os_read_file(path, TOKEN_FILE_MAX, &b, err);

    *out = NULL;
    if (rc == 0 && b.len > 0)
        word = str_trim(b.data);
    for (const char *p = word; rc == 0 && (p == word || *p != '\0'); p++) {
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f)
            rc = dlc_err_set(err, DLC_EINVAL, "%s holds no token", path);
    }
    if (rc == 0)
        *out = mem_str(word);
    if (b.data != NULL)
        explicit_bzero(b.data, b.cap);
    buf_release(&b);
    return rc;
}

/* The kubelet replaces the file well before the token in it ends. */
static int refresh_token(struct kube *k, struct dlc_err *err)
{
    const char *path = k->o.config->token_file;
    struct stat st;
    char *token;
    int rc;

    if (path == NULL)
        return 0;
    if (stat(path, &st) < 0)
        return k->token_line != NULL ? 0 : dlc_err_sys(err, "the token in %s", path);
    if (k->token_line != NULL && same_file(&st, &k->token_stat))
        return 0;
    rc = read_token(path, &token, err);
    if (rc < 0)
        return k->token_line != NULL ? 0 : rc; /* half written: the old one may still do */
    set_token(k, token);
    k->token_stat = st;
    token_free(&token);
    return 0;
}

static struct curl_slist *add_line(struct curl_slist *list, const char *line)
{
    list = curl_slist_append(list, line);
    dlc_check(list != NULL); /* only for want of a few hundred bytes */
    return list;
}

static void free_lines(struct curl_slist **list)
{
    for (struct curl_slist *i = *list; i != NULL; i = i->next)
        explicit_bzero(i->data, strlen(i->data));
    curl_slist_free_all(*list);
    *list = NULL;
}

/* With tls-server-name: ask for that host, and connect to the real one. */
static int resolve_server(struct kube *k, struct dlc_err *err)
{
    const struct kube_config *c = k->o.config;
    CURLU *u = curl_url();
    char *host = NULL, *port = NULL, *url = NULL, *to = NULL;
    int rc = 0;

    dlc_check(u != NULL);
    if (curl_url_set(u, CURLUPART_URL, c->server, 0) != CURLUE_OK ||
        curl_url_get(u, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
        curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK) {
        rc = dlc_err_set(err, DLC_EINVAL,
                         "%s: the server '%.200s' is no address; write "
                         "https://HOST:PORT",
                         c->from, c->server);
    } else if (c->server_name == NULL) {
        k->url = mem_str(c->server);
    } else {
        dlc_check(curl_url_set(u, CURLUPART_HOST, c->server_name, 0) == CURLUE_OK);
        dlc_check(curl_url_get(u, CURLUPART_URL, &url, 0) == CURLUE_OK);
        k->url = mem_strn(url, strlen(url) - (str_ends(url, "/") ? 1 : 0));
        to = mem_fmt("%s:%s:%s:%s", c->server_name, port, host, port);
        k->connect_to = add_line(NULL, to);
        k->host_line = mem_fmt("Host: %s:%s", host, port);
    }
    mem_free(&to);
    curl_free(url);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(u);
    return rc;
}

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
    struct curl_slist *list = add_line(NULL, "Expect:");

    list = add_line(list, "Accept: application/json");
    if (c->text != NULL) {
        char *line = mem_fmt("Content-Type: %s", c->type);

        list = add_line(list, line);
        mem_free(&line);
    }
    if (k->token_line != NULL)
        list = add_line(list, k->token_line);
    if (k->host_line != NULL)
        list = add_line(list, k->host_line);
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
    kube_figures_of(k)->failures++;
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

static void count_status(struct kube *k)
{
    struct kube_figures *f = kube_figures_of(k);

    if (k->status == 409)
        f->conflicts++;
    else if (k->status == 429)
        f->throttled++;
    else if (k->status >= 500)
        f->failures++;
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
    count_status(k);
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
    int rc = refresh_token(k, err);

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
    if (k->status == 401)
        memset(&k->token_stat, 0, sizeof(k->token_stat)); /* look into the file again */
    free_lines(&lines);
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

/* -------- the handle -------- */

int kube_open(const struct kube_options *o, struct kube **out, struct dlc_err *err)
{
    struct kube *k;
    int rc = http_begin(err);

    *out = NULL;
    if (rc < 0)
        return rc;
    k = mem_new(struct kube);
    k->tag = KUBE_TAG;
    k->o = *o;
    if (k->o.timeout.ns <= 0)
        k->o.timeout = TIMEOUT;
    k->multi = curl_multi_init();
    k->easy = curl_easy_init();
    dlc_check(k->multi != NULL && k->easy != NULL); /* only for want of a few hundred bytes */
    if (o->config->token != NULL && o->config->token_file == NULL)
        set_token(k, o->config->token);
    rc = resolve_server(k, err);
    if (rc < 0)
        kube_close(&k);
    *out = k;
    return rc;
}

void kube_close(struct kube **kp)
{
    struct kube *k = *kp;

    *kp = NULL;
    if (k == NULL)
        return;
    dlc_check(k->tag == KUBE_TAG);
    curl_easy_cleanup(k->easy);
    curl_multi_cleanup(k->multi);
    curl_slist_free_all(k->connect_to);
    token_free(&k->token_line);
    mem_free(&k->url);
    mem_free(&k->host_line);
    k->tag = 0;
    mem_free(&k);
}

void kube_interrupt(struct kube *k)
{
    dlc_check(k->tag == KUBE_TAG);
    atomic_store_explicit(&k->stop, true, memory_order_relaxed); /* pairs with perform() */
    curl_multi_wakeup(k->multi);
}

int kube_status(const struct kube *k)
{
    return k->status;
}

struct dlc_dur kube_retry_after(const struct kube *k)
{
    return k->retry_after;
}

void kube_forget(struct kube *k)
{
    k->status = 0;
    k->retry_after = DLC_SEC(0);
}

struct kube_figures *kube_figures_of(struct kube *k)
{
    return k->o.figures != NULL ? k->o.figures : &k->own;
}

int kube_ask_to_write(struct kube *k, struct dlc_err *err)
{
    if (k->o.may_write == NULL || k->o.may_write(k->o.arg))
        return 0;
    kube_forget(k);
    return dlc_err_set(err, DLC_ECANCELED, "this replica does not lead: nothing is written");
}
