// SPDX-License-Identifier: Apache-2.0
/* One easy handle in a multi handle of its own, so that a wait can be broken off: by another thread
 * (curl_multi_wakeup) or by a descriptor. */
#include "net/sync_call.h"

#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/secret.h"
#include "net/curl_init.h"

#define HANDLE_TAG  DLC_TAG4('s', 'y', 'n', 'c')
#define CONNECT_MAX DLC_SEC(5)
#define RETRY_MOST  300 /* s: nobody may send us to sleep for longer */

struct sync_handle {
    uint32_t tag;
    CURLM *multi;
    CURL *easy;
    int stop_fd;
    _Atomic bool stop; /* W any thread, R ours; relaxed: the wake-up orders it */
    char error[CURL_ERROR_SIZE];
};

/* -------- receiving -------- */

static struct sync_call *call_of(void *priv)
{
    struct sync_call *c = priv;

    dlc_check(c != NULL && c->handle->tag == HANDLE_TAG);
    return c;
}

static int status_now(const struct sync_handle *h)
{
    long status = 0;

    curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

/* Hand over the lines that are whole. */
static bool give_lines(struct sync_call *c, size_t fresh)
{
    size_t from = 0, look = c->body.len - fresh; /* before it there is no end of line */
    char *end;

    while ((end = memchr(c->body.data + look, '\n', c->body.len - look)) != NULL) {
        size_t len = (size_t)(end - c->body.data) - from;

        *end = '\0';
        c->given = true;
        c->stopped = !c->each(c->body.data + from, len, c->arg);
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
    struct sync_call *c = call_of(priv);

    (void)one;
    c->heard = dlc_mono_now();
    if (len == 0)
        return 0;
    if (len > c->most - c->body.len) {
        c->too_long = true;
        return 0;
    }
    buf_add(&c->body, data, len);
    if (c->each != NULL && status_now(c->handle) < 300 && !give_lines(c, len))
        return 0;
    return len;
}

/* -------- sending -------- */

/* One of CURLOPT_X (a file) and CURLOPT_X_BLOB. */
static void set_pem(CURL *e, CURLoption file_option, const char *file, CURLoption blob_option,
                    const char *pem)
{
    if (pem != NULL) {
        struct curl_blob blob = {(void *)pem, strlen(pem), CURL_BLOB_NOCOPY};

        curl_easy_setopt(e, blob_option, &blob);
    } else if (file != NULL) {
        curl_easy_setopt(e, file_option, file);
    }
}

static void set_up_tls(CURL *e, const struct sync_tls *t)
{
    const char *ca_file = t->ca_file != NULL ? t->ca_file : http_ca_file();

#if LIBCURL_VERSION_NUM >= 0x074d00 /* 7.77, which the operator needs */
    set_pem(e, CURLOPT_CAINFO, ca_file, CURLOPT_CAINFO_BLOB, t->ca_pem);
#else
    dlc_check(t->ca_pem == NULL);
    set_pem(e, CURLOPT_CAINFO, ca_file, CURLOPT_CAINFO, NULL);
#endif
    set_pem(e, CURLOPT_SSLCERT, t->cert_file, CURLOPT_SSLCERT_BLOB, t->cert_pem);
    set_pem(e, CURLOPT_SSLKEY, t->key_file, CURLOPT_SSLKEY_BLOB, t->key_pem);
    if (t->only_this_ca)
        curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
    if (t->insecure) {
        curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 0L);
    }
}

static void set_up(struct sync_handle *h, struct sync_call *c)
{
    CURL *e = h->easy;
    bool sends = strcmp(c->method, "POST") == 0 || strcmp(c->method, "PUT") == 0;
    struct dlc_dur connect = c->connect_max.ns > 0 ? c->connect_max : CONNECT_MAX;

    curl_easy_reset(e); /* connections stay */
    http_set_up(e, !c->proxies);
    curl_easy_setopt(e, CURLOPT_URL, c->url);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, 20L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, 10L);
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, c->headers);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, h->error);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)(DLC_MIN(c->timeout.ns, connect.ns) / 1000000));
    if (c->each == NULL)
        curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)(c->timeout.ns / 1000000));
    if (c->agent != NULL)
        curl_easy_setopt(e, CURLOPT_USERAGENT, c->agent);
    if (c->unix_path != NULL)
        curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, c->unix_path);
    if (c->connect_to != NULL)
        curl_easy_setopt(e, CURLOPT_CONNECT_TO, c->connect_to);
    set_up_tls(e, &c->tls);
    if (sends || c->text != NULL)
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, c->text != NULL ? c->text : "");
    curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, c->method);
}

/* Has a stream been silent for too long? If not, *ms is how long to wait at most. */
static bool is_silent(const struct sync_call *c, int *ms)
{
    int64_t left = c->silence.ns - dlc_mono_since(c->heard).ns;

    *ms = 1000;
    if (c->each == NULL || c->silence.ns <= 0)
        return false;
    *ms = (int)DLC_CLAMP(left / 1000000 + 1, 1, 1000);
    return left <= 0;
}

/* Drive the transfer to its end, or until it is given up. */
static CURLcode perform(struct sync_handle *h, struct sync_call *c)
{
    struct curl_waitfd stop = {.fd = h->stop_fd, .events = CURL_WAIT_POLLIN};
    CURLcode code = CURLE_OPERATION_TIMEDOUT;
    int running = 1, ms, left;
    CURLMsg *m;

    c->heard = dlc_mono_now();
    dlc_check(curl_multi_add_handle(h->multi, h->easy) == CURLM_OK);
    while (running > 0 && !is_silent(c, &ms)) {
        c->interrupted = sync_handle_is_interrupted(h) || stop.revents != 0;
        if (c->interrupted)
            break;
        dlc_check(curl_multi_perform(h->multi, &running) == CURLM_OK);
        if (running > 0)
            dlc_check(curl_multi_poll(h->multi, &stop, h->stop_fd < 0 ? 0 : 1, ms, NULL) ==
                      CURLM_OK);
    }
    while ((m = curl_multi_info_read(h->multi, &left)) != NULL) {
        if (m->msg == CURLMSG_DONE)
            code = m->data.result;
    }
    c->status = status_now(h);
    if (c->status == 429 || c->status >= 500) {
        curl_off_t s = 0;

        curl_easy_getinfo(h->easy, CURLINFO_RETRY_AFTER, &s);
        c->retry_after = DLC_SEC(DLC_CLAMP(s, 0, RETRY_MOST));
    }
    curl_multi_remove_handle(h->multi, h->easy);
    return code;
}

bool sync_call(struct sync_handle *h, struct sync_call *c, CURLcode *code)
{
    dlc_check(h->tag == HANDLE_TAG);
    c->handle = h;
    c->status = 0;
    c->retry_after = DLC_SEC(0);
    c->given = c->stopped = c->too_long = c->interrupted = false;
    buf_clear(&c->body);
    h->error[0] = '\0';
    set_up(h, c);
    *code = perform(h, c);
    c->why = h->error[0] != '\0' ? h->error : curl_easy_strerror(*code);
    return *code == CURLE_OK || c->stopped;
}

void sync_call_release(struct sync_call *c)
{
    secret_buf_release(&c->body);
}

/* -------- handles -------- */

int sync_handle_new(int stop_fd, struct sync_handle **out, struct dlc_err *err)
{
    struct sync_handle *h;
    int rc = http_begin(err);

    *out = NULL;
    if (rc < 0)
        return rc;
    h = mem_new(struct sync_handle);
    h->tag = HANDLE_TAG;
    h->stop_fd = stop_fd;
    h->multi = curl_multi_init();
    h->easy = curl_easy_init();
    dlc_check(h->multi != NULL && h->easy != NULL); /* only for want of a few hundred bytes */
    *out = h;
    return 0;
}

void sync_handle_free(struct sync_handle **hp)
{
    struct sync_handle *h = *hp;

    *hp = NULL;
    if (h == NULL)
        return;
    dlc_check(h->tag == HANDLE_TAG);
    curl_easy_cleanup(h->easy);
    curl_multi_cleanup(h->multi);
    h->tag = 0;
    mem_free(&h);
}

void sync_handle_interrupt(struct sync_handle *h)
{
    dlc_check(h->tag == HANDLE_TAG);
    atomic_store_explicit(&h->stop, true, memory_order_relaxed); /* pairs with perform() */
    curl_multi_wakeup(h->multi);
}

bool sync_handle_is_interrupted(const struct sync_handle *h)
{
    return atomic_load_explicit(&h->stop, memory_order_relaxed); /* pairs with the interrupt */
}
