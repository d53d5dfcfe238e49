// SPDX-License-Identifier: Apache-2.0
/*
 * The HTTP engine of one loop. libcurl tells us which sockets to watch and when its next timer is
 * due (socket and timer callbacks); the loop tells libcurl what happened
 * (curl_multi_socket_action); finished transfers are collected after each such call.
 *
 * Sockets: libcurl forgets a socket after each transfer and names it again for the next one on the
 * same connection. To save two epoll_ctl calls per request, the watch of a connection stays in
 * place in between (`wanted` is false) and goes when the connection is closed or when the server
 * speaks, that is closes, while nobody listens. Some sockets libcurl closes without telling us: its
 * own (the resolver's) and connections given up before they stood, that is while they were watched
 * for writing alone. Their watches go at once.
 *
 * Timers: a timer of 0 ms fires at the end of the same turn of the loop, so all requests sent in
 * one turn are driven by one call.
 */
#include "net/async_client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "net/curl_init.h"
#include "net/curl_tls.h"

#define ENGINE_TAG  DLC_TAG4('h', 't', 'e', 'n')
#define REQUEST_TAG DLC_TAG4('h', 'r', 'e', 'q')
#define BUFFER_SIZE (128L << 10) /* of one recv(); one per request in flight */

struct sock {
    struct watch watch;
    struct engine *http;
    bool connection; /* made by on_socket_open: on_socket_close will be called */
    bool wanted;     /* libcurl waits for it */
};

struct engine {
    uint32_t tag;
    struct loop *loop;
    CURLM *multi;
    struct timer timer;
    struct sock **socks; /* by descriptor */
    size_t n_socks;
    struct dlc_list idle; /* of engine_request.link */
    unsigned out;         /* requests not idle */
    long connect_ms;
    const char *ca_file; /* NULL: the system's */
    bool direct;
    const struct address_rules *rules; /* NULL: none */
    const char *proxy;                 /* with rules; NULL: none */
    struct tls_identity *identity;     /* of requests to nodes; NULL: none */
};

static struct engine *engine_of(void *priv)
{
    struct engine *h = priv;

    dlc_check(h != NULL && h->tag == ENGINE_TAG);
    return h;
}

static struct engine_request *request_of(void *priv)
{
    struct engine_request *r = priv;

    dlc_check(r != NULL && r->tag == REQUEST_TAG);
    return r;
}

/* -------- what libcurl calls for a transfer -------- */

static void heard(struct engine_request *r)
{
    if (r->heard != NULL)
        *r->heard = dlc_mono_now();
}

static size_t on_head_line(char *line, size_t size, size_t n, void *priv)
{
    struct engine_request *r = request_of(priv);

    heard(r);
    if (r->first_byte != NULL && r->first_byte->ns == 0)
        *r->first_byte = dlc_mono_now();
    engine_answer_line(&r->answer, line, size * n);
    return size * n;
}

static size_t take_data(struct engine_request *r, const char *data, size_t len)
{
    if (r->got == 0 && !engine_expected(r))
        r->unexpected = true;
    if (r->unexpected || len > r->dst_len - r->got) {
        r->unexpected = true;
        return 0;
    }
    memcpy((char *)r->dst + r->got, data, len);
    r->got += len;
    return len;
}

static size_t on_body(char *data, size_t size, size_t n, void *priv)
{
    struct engine_request *r = request_of(priv);
    size_t len = size * n, room;

    heard(r);
    if (r->received != NULL)
        *r->received += len;
    if (engine_success(r->answer.status) && r->dst != NULL)
        return take_data(r, data, len);
    room = (engine_success(r->answer.status) ? r->body_max : ENGINE_ERROR_BODY) - r->body.len;
    if (len > room && engine_success(r->answer.status)) {
        r->unexpected = true;
        return 0;
    }
    buf_add(&r->body, data, DLC_MIN(len, room));
    return len;
}

/* -------- sockets and timers -------- */

static struct sock *sock_at(struct engine *h, int fd)
{
    return (size_t)fd < h->n_socks ? h->socks[fd] : NULL;
}

static void sock_remove(struct engine *h, int fd)
{
    struct sock *s = sock_at(h, fd);

    if (s == NULL)
        return;
    loop_watch_del(h->loop, &s->watch);
    h->socks[fd] = NULL;
    mem_free(&s);
}

static void finish(struct engine_request *r, CURLcode code);

/* Hand over what has ended. Callbacks may send, put and cancel. */
static void collect(struct engine *h)
{
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(h->multi, &left)) != NULL) {
        CURLcode code = m->data.result;
        char *priv = NULL;

        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &priv);
        finish(request_of(priv), code);
    }
}

static void drive(struct engine *h, curl_socket_t fd, int what)
{
    int running;

    curl_multi_socket_action(h->multi, fd, what, &running);
    collect(h);
}

static void on_socket_ready(struct watch *w, uint32_t events)
{
    struct sock *s = dlc_container(w, struct sock, watch);
    struct engine *h = engine_of(s->http);
    int what = 0;

    if (!s->wanted) {
        loop_watch_del(h->loop, w);
        return;
    }
    if (events & (EPOLLIN | EPOLLHUP))
        what |= CURL_CSELECT_IN;
    if (events & EPOLLOUT)
        what |= CURL_CSELECT_OUT;
    if (events & EPOLLERR)
        what |= CURL_CSELECT_ERR;
    drive(h, w->fd, what);
}

static struct sock *sock_add(struct engine *h, int fd)
{
    struct sock *s = mem_new(struct sock);

    sock_remove(h, fd); /* closed without telling us, and the number is in use again */
    if ((size_t)fd >= h->n_socks) {
        size_t n = (size_t)fd + 64;

        h->socks = mem_grow(h->socks, n * sizeof(struct sock *));
        memset(h->socks + h->n_socks, 0, (n - h->n_socks) * sizeof(struct sock *));
        h->n_socks = n;
    }
    s->watch.ready = on_socket_ready;
    s->watch.fd = fd;
    s->http = h;
    h->socks[fd] = s;
    return s;
}

/* With a proxy, connections lead to the proxy alone, which an operator of this host has chosen. */
static bool may_connect(const struct engine *h, const struct engine_request *r,
                        const struct sockaddr *a)
{
    return h->rules == NULL || h->proxy != NULL || r->inward || address_rules_allow(h->rules, a);
}

static curl_socket_t on_socket_open(void *priv, curlsocktype purpose, struct curl_sockaddr *addr)
{
    struct engine_request *r = request_of(priv);
    struct engine *h = engine_of(r->http);
    int fd;

    (void)purpose;
    if (!may_connect(h, r, &addr->addr)) {
        memcpy(&r->refused, &addr->addr, DLC_MIN(addr->addrlen, sizeof(r->refused)));
        return CURL_SOCKET_BAD;
    }
    fd = os_socket(addr->family, addr->socktype);
    if (fd < 0)
        return CURL_SOCKET_BAD;
    sock_add(h, fd)->connection = true;
    return fd;
}

static int on_socket_close(void *priv, curl_socket_t fd)
{
    sock_remove(engine_of(priv), fd);
    os_close(&fd);
    return 0;
}

static int on_socket_want(CURL *easy, curl_socket_t fd, int what, void *priv, void *sock_priv)
{
    struct engine *h = engine_of(priv);
    struct sock *s = sock_at(h, fd);
    uint32_t events = 0;

    (void)easy;
    (void)sock_priv;
    if (what == CURL_POLL_REMOVE) {
        if (s != NULL && s->connection && s->watch.events != EPOLLOUT)
            s->wanted = false;
        else
            sock_remove(h, fd);
        return 0;
    }
    if (s == NULL)
        s = sock_add(h, fd);
    if (what & CURL_POLL_IN)
        events |= EPOLLIN;
    if (what & CURL_POLL_OUT)
        events |= EPOLLOUT;
    s->wanted = true;
    return loop_watch_set(h->loop, &s->watch, events);
}

static void on_timer(struct timer *t)
{
    drive(engine_of(dlc_container(t, struct engine, timer)), CURL_SOCKET_TIMEOUT, 0);
}

static int on_timer_want(CURLM *multi, long ms, void *priv)
{
    struct engine *h = engine_of(priv);

    (void)multi;
    if (ms < 0)
        loop_timer_del(h->loop, &h->timer);
    else
        loop_timer_set(h->loop, &h->timer, dlc_mono_add(loop_now(h->loop), DLC_MS(ms)));
    return 0;
}

/* -------- requests -------- */

static void finish(struct engine_request *r, CURLcode code)
{
    curl_multi_remove_handle(r->http->multi, r->easy);
    r->flying = false;
    engine_judge(r, code);
    r->done(r);
}

/* Metadata services are asked directly, and no other request gets their connection: it would reach
 * them without on_socket_open(). */
static void set_route(struct engine_request *r)
{
    const char *proxy = r->inward ? NULL : r->http->proxy;

    if (r->http->rules == NULL)
        return;
    curl_easy_setopt(r->easy, CURLOPT_FORBID_REUSE, r->inward ? 1L : 0L);
    curl_easy_setopt(r->easy, CURLOPT_PROXY, proxy != NULL ? proxy : "");
    curl_easy_setopt(r->easy, CURLOPT_NOPROXY, proxy != NULL ? "" : "*");
    r->was_inward = r->inward;
}

static void set_up_easy(struct engine *h, struct engine_request *r)
{
    CURL *e = r->easy;

    curl_easy_setopt(e, CURLOPT_PRIVATE, r);
    http_set_up(e, h->direct);
    curl_easy_setopt(e, CURLOPT_MAXREDIRS, 8L);
    curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(e, CURLOPT_BUFFERSIZE, BUFFER_SIZE);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, h->connect_ms);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, r->curl_error);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_head_line);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, r);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_socket_open);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, r);
    curl_easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, on_socket_close);
    curl_easy_setopt(e, CURLOPT_CLOSESOCKETDATA, h);
    if (h->ca_file != NULL)
        curl_easy_setopt(e, CURLOPT_CAINFO, h->ca_file);
    set_route(r);
}

static struct engine_request *request_new(struct engine *h)
{
    struct engine_request *r = mem_new(struct engine_request);

    r->tag = REQUEST_TAG;
    r->http = h;
    r->easy = curl_easy_init();
    dlc_check(r->easy != NULL); /* only for want of a few hundred bytes */
    set_up_easy(h, r);
    return r;
}

static void request_free(struct engine_request *r)
{
    curl_easy_cleanup(r->easy);
    tls_identity_put(&r->identity);
    buf_release(&r->connect_to);
    buf_release(&r->url);
    buf_release(&r->body);
    buf_release(&r->text);
    mem_free(&r);
}

struct engine_request *engine_get(struct engine *h)
{
    struct dlc_list *n = dlc_list_pop_head(&h->idle);
    struct engine_request *r = n != NULL ? dlc_container(n, struct engine_request, link) : NULL;

    if (r == NULL)
        r = request_new(h);
    h->out++;
    buf_clear(&r->url);
    buf_clear(&r->text);
    buf_clear(&r->body);
    r->n_lines = 0;
    buf_clear(&r->connect_to);
    r->head = r->follow = r->ranged = r->inward = r->to_node = false;
    r->unexpected = false;
    r->refused.ss_family = AF_UNSPEC;
    r->dst = NULL;
    r->dst_len = r->offset = r->got = 0;
    r->body_max = 0;
    r->first_byte = NULL;
    r->received = NULL;
    r->heard = NULL;
    r->owner = NULL;
    return r;
}

void engine_put(struct engine_request **rp)
{
    struct engine_request *r = *rp;

    *rp = NULL;
    if (r == NULL)
        return;
    if (r->flying)
        curl_multi_remove_handle(r->http->multi, r->easy);
    r->flying = false;
    if (r->body.cap > ENGINE_ERROR_BODY)
        buf_release(&r->body); /* listings are large and rare */
    r->http->out--;
    dlc_list_push_head(&r->http->idle, &r->link);
}

void engine_header(struct engine_request *r, const char *fmt, ...)
{
    size_t at = r->text.len;
    va_list ap;
    int n;

    dlc_check(r->n_lines < ENGINE_HEADERS_MAX);
    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    dlc_check(n > 0);
    buf_reserve(&r->text, (size_t)n + 1);
    va_start(ap, fmt);
    vsnprintf(r->text.data + at, (size_t)n + 1, fmt, ap);
    va_end(ap);
    r->lines[r->n_lines++] = at;
    r->text.len = at + strcspn(r->text.data + at, "\r\n"); /* never more than one line */
    buf_addc(&r->text, '\0');
}

void engine_header_lines(struct engine_request *r, const char *lines, size_t len)
{
    while (len > 0) {
        const char *end = memchr(lines, '\n', len);
        size_t n = end != NULL ? (size_t)(end - lines) : len;

        if (n > 0) {
            dlc_check(r->n_lines < ENGINE_HEADERS_MAX);
            r->lines[r->n_lines++] = r->text.len;
            buf_add(&r->text, lines, n);
            buf_addc(&r->text, '\0');
        }
        n += end != NULL;
        lines += n;
        len -= n;
    }
}

/* libcurl only walks the list of headers, so it can lie in our own memory. */
static struct curl_slist *header_list(struct engine_request *r)
{
    for (size_t i = 0; i < r->n_lines; i++) {
        r->nodes[i].data = r->text.data + r->lines[i];
        r->nodes[i].next = i + 1 < r->n_lines ? &r->nodes[i + 1] : NULL;
    }
    return r->n_lines > 0 ? r->nodes : NULL;
}

bool engine_address(struct engine_request *r, const char *address, const char *node)
{
    size_t n = strlen(address);

    if (node != NULL) {
        r->to_node = true;
        return curl_tls_node_url(address, node, &r->url, &r->connect_to);
    }
    while (n > 0 && address[n - 1] == '/')
        n--;
    buf_add(&r->url, address, n);
    return n > 0;
}

/* The handle keeps what it was given for its next request to a node. */
static void set_node(struct engine_request *r)
{
    struct tls_identity *id = r->http->identity;

    dlc_check(id != NULL);
    r->connect_to_node = (struct curl_slist){.data = r->connect_to.data};
    curl_easy_setopt(r->easy, CURLOPT_CONNECT_TO, &r->connect_to_node);
    if (id != r->identity) {
        curl_tls_use(r->easy, id);
        tls_identity_put(&r->identity);
        r->identity = tls_identity_get(id);
    }
}

void engine_identity(struct engine *h, struct tls_identity *id)
{
    if (h->identity == id)
        return;
    tls_identity_put(&h->identity);
    h->identity = tls_identity_get(id);
}

void engine_send(struct engine_request *r)
{
    engine_answer_clear(&r->answer);
    r->curl_error[0] = '\0';
    curl_easy_setopt(r->easy, CURLOPT_URL, r->url.data);
    curl_easy_setopt(r->easy, CURLOPT_HTTPHEADER, header_list(r));
    if (r->head != r->was_head) {
        curl_easy_setopt(r->easy, r->head ? CURLOPT_NOBODY : CURLOPT_HTTPGET, 1L);
        r->was_head = r->head;
    }
    if (r->inward != r->was_inward)
        set_route(r);
    dlc_check(r->to_node || r->identity == NULL); /* one kind of request in each engine */
    if (r->to_node)
        set_node(r);
    if (r->follow != r->was_follow) {
        curl_easy_setopt(r->easy, CURLOPT_FOLLOWLOCATION, r->follow ? 1L : 0L);
        r->was_follow = r->follow;
    }
    dlc_check(curl_multi_add_handle(r->http->multi, r->easy) == CURLM_OK);
    r->flying = true;
}

/* -------- life -------- */

static const char *find_ca_file(void)
{
    static const char *const names[] = {"AWS_CA_BUNDLE", "SSL_CERT_FILE"};

    for (size_t i = 0; i < DLC_COUNT(names); i++) {
        const char *v = getenv(names[i]);

        if (v != NULL && *v != '\0')
            return v;
    }
    return http_ca_file();
}

int engine_new(struct loop *loop, const struct engine_config *c, struct engine **out,
               struct dlc_err *err)
{
    struct engine *h;
    CURLM *multi;

    if (http_begin(err) < 0)
        return DLC_ENOMEM;
    multi = curl_multi_init();
    if (multi == NULL)
        return dlc_err_set(err, DLC_ENOMEM, "libcurl cannot be started");
    h = mem_new(struct engine);
    h->tag = ENGINE_TAG;
    h->loop = loop;
    h->multi = multi;
    h->timer.fire = on_timer;
    dlc_list_init(&h->idle);
    h->connect_ms = (long)(c->connect_timeout.ns / 1000000);
    h->ca_file = c->ca != NULL ? c->ca : find_ca_file();
    h->direct = c->direct || c->rules != NULL;
    h->rules = c->rules;
    h->proxy = c->rules != NULL ? c->proxy : NULL;
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket_want);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, h);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer_want);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, h);
    curl_multi_setopt(multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)c->connections);
    *out = h;
    return 0;
}

void engine_free(struct engine **hp)
{
    struct engine *h = *hp;
    struct dlc_list *n;

    *hp = NULL;
    if (h == NULL)
        return;
    dlc_check(h->out == 0);
    while ((n = dlc_list_pop_head(&h->idle)) != NULL)
        request_free(dlc_container(n, struct engine_request, link));
    curl_multi_cleanup(h->multi); /* closes the connections: on_socket_close */
    loop_timer_del(h->loop, &h->timer);
    tls_identity_put(&h->identity);
    for (size_t fd = 0; fd < h->n_socks; fd++)
        sock_remove(h, (int)fd);
    mem_free(&h->socks);
    mem_free(&h);
}
