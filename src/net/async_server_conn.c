// SPDX-License-Identifier: Apache-2.0
/*
 * Connections of the asynchronous server: a state machine on one of its loops.
 *
 *            +------------------ the reply is out, the connection is kept --------------+
 *            v                                                                          |
 *     accept --> HEAD --whole head--> WAIT --async_answer()--> SEND --out--> SEND, data, over
 *                 |                                            |   ^
 *                 | malformed: SEND a refusal                  v   | a piece was read
 *                 |                                            FILE
 *                 +--> closed            SEND --over, not kept--> DRAIN --end of file--> closed
 *
 * Owners. A lane (loop) owns its connections; a connection belongs to one lane for life. A call
 * belongs to the handler from the handler's start until async_answer(), and refers to its
 * connection; when the connection ends before that, the call's `conn` becomes NULL. All these
 * pointers are read and written on the lane's thread alone; async_answer() comes by loop_post().
 * The bytes of a reply belong to the handler; they are borrowed until done().
 *
 * (ASYNC-1) Every call is answered exactly once, and done() of every reply is called exactly once.
 * (ASYNC-2) Memory of a connection: this struct, at most REQUEST_HEAD_MAX bytes of requests, the
 *           head of a reply or its JSON, and one piece of a file. While a request is under way
 *           nothing is read: a client that pipelines waits in the socket's buffers.
 * (ASYNC-3) Nobody is waited for: each state but WAIT has a time limit, and a turn sends at most
 *           SEND_MAX bytes to one client. WAIT ends when the handler answers.
 * (ASYNC-4) No system call of a connection blocks. Files are read by workers (async_server_file.c).
 *
 * Events. HEAD watches for input. A state that wants no input leaves the watch as it is, so that
 * the common request costs no epoll_ctl(), and removes it when an event comes all the same. A
 * client that resets the connection is noticed in any state.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "net/async_server_i.h"
#include "net/async_server_tls_i.h"
#include "net/listen.h"
#include "net/server_reply_i.h"

#define CONN_TAG   DLC_TAG4('a', 's', 'c', 'n')
#define CALL_TAG   DLC_TAG4('a', 's', 'c', 'l')
#define SEND_MAX   (512u << 10) /* to one client in one turn */
#define SMALL      4096u        /* a larger buffer is not kept between requests */
#define SIGN_AFTER DLC_MS(10)
#define SIGN_EVERY DLC_MS(500)
#define LINGER     DLC_SEC(1)
#define LINGER_MAX (1u << 20)

enum conn_state { CONN_HEAD, CONN_WAIT, CONN_SEND, CONN_FILE, CONN_DRAIN };

struct async_conn {
    uint32_t tag;
    struct async_lane *lane;
    struct dlc_list link;  /* in lane->conns or lane->idle */
    struct dlc_mono since; /* idle */
    uint64_t address;
    char from[64]; /* HOST:PORT */
    struct watch watch;
    struct timer timer; /* of the state */
    enum conn_state state;
    bool keep, head_only;
    struct async_tls *tls; /* NULL: plain */
    struct buf in;
    size_t scanned; /* of in: no head ends there */
    struct async_call *call;

    /* the reply that is being sent */
    struct buf out;
    const char *data; /* after out; the file's piece when there is one */
    size_t out_at;
    uint64_t data_len, data_at;
    struct async_file *file;
    void (*done)(void *arg);
    void *arg;
    uint64_t sent, sent_before; /* before: when the timer was set */
};

struct async_call {
    uint32_t tag;
    struct async_lane *lane;
    struct async_conn *conn; /* NULL: it has ended */
    char *text;              /* what head and target point into */
    size_t len;
    struct request_head head;
    struct target target;
    struct http_request request;
    char node[TLS_NAME_MAX];
    struct http_reply reply;
    struct task task;
};

static struct loop *loop_of(const struct async_conn *c)
{
    return c->lane->thread.loop;
}

/* ---- the end ---- */

static void call_free(struct async_call **callp)
{
    struct async_call *call = *callp;

    *callp = NULL;
    explicit_bzero(call->text, call->len); /* it holds a token */
    mem_free(&call->text);
    target_release(&call->target);
    call->tag = 0;
    mem_free(&call);
}

/* The reply is over: nothing of it is needed any more. */
static void conn_reply_over(struct async_conn *c)
{
    void (*done)(void *arg) = c->done;

    async_file_free(&c->file);
    c->data = NULL;
    c->data_len = c->data_at = c->out_at = 0;
    c->done = NULL;
    buf_clear(&c->out);
    if (c->out.cap > SMALL)
        buf_release(&c->out);
    if (done != NULL)
        done(c->arg);
}

static void conn_close(struct async_conn *c)
{
    struct async_lane *l = c->lane;

    dlc_check(c->tag == CONN_TAG);
    loop_watch_del(l->thread.loop, &c->watch);
    loop_timer_del(l->thread.loop, &c->timer);
    if (c->tls != NULL && !async_tls_is_open(c->tls))
        async_count_stranger(l->server, c->from, async_tls_began(c->tls));
    async_tls_free(&c->tls);
    os_close(&c->watch.fd);
    if (c->call != NULL)
        c->call->conn = NULL;
    conn_reply_over(c);
    buf_release(&c->in);
    buf_release(&c->out);
    dlc_list_remove(&c->link);
    async_uncount(l->server, c->address);
    c->tag = 0;
    mem_free(&c);
    async_lane_check_gone(l);
}

/* The client is too slow. */
static void conn_close_late(struct async_conn *c)
{
    async_count_late(c->lane->server);
    conn_close(c);
}

static void conn_advance(struct async_conn *c);

/* ---- sending: these return false when they have closed the connection ---- */

static void conn_set_timer(struct async_conn *c, struct dlc_dur d)
{
    loop_timer_set(loop_of(c), &c->timer, dlc_mono_add(loop_now(loop_of(c)), d));
}

static bool conn_watch(struct async_conn *c, uint32_t events)
{
    if (loop_watch_set(loop_of(c), &c->watch, events) == 0)
        return true;
    conn_close(c);
    return false;
}

/* Let the client read the reply before it hears of the end: input that nobody reads would make the
 * kernel reset the connection. */
static bool conn_drain(struct async_conn *c)
{
    if (c->tls != NULL)
        async_tls_end(c->tls);
    if (c->lane->closing || os_shutdown(c->watch.fd, SHUT_WR) < 0) {
        conn_close(c);
        return false;
    }
    c->state = CONN_DRAIN;
    c->sent = 0; /* counts what is thrown away */
    buf_release(&c->in);
    conn_set_timer(c, LINGER);
    return conn_watch(c, EPOLLIN);
}

/* The reply is out. */
static bool conn_sent(struct async_conn *c)
{
    conn_reply_over(c);
    loop_timer_del(loop_of(c), &c->timer);
    if (!c->keep || c->lane->closing)
        return conn_drain(c);
    c->state = CONN_HEAD;
    c->scanned = 0;
    return true;
}

static bool conn_send_later(struct async_conn *c)
{
    if (!heap_has(&c->timer.node)) {
        c->sent_before = c->sent;
        conn_set_timer(c, c->lane->server->config.progress);
    }
    return conn_watch(c, EPOLLOUT);
}

/* The next piece of a file, or the end of the reply. */
static bool conn_next_piece(struct async_conn *c)
{
    c->data = NULL;
    c->data_len = c->data_at = 0;
    if (c->file == NULL || async_file_left(c->file) == 0)
        return conn_sent(c);
    c->state = CONN_FILE;
    conn_set_timer(c, c->lane->server->config.progress); /* of the disk now, not of the client */
    if (async_file_read(c->file))
        return true;
    conn_close(c);
    return false;
}

/* As sendmsg(); counts what the client's host has taken. */
static ssize_t conn_send(struct async_conn *c, const struct msghdr *h)
{
    uint64_t before = c->tls != NULL ? async_tls_written(c->tls) : 0;
    ssize_t n = c->tls != NULL ? async_tls_send(c->tls, h->msg_iov, h->msg_iovlen)
                               : os_sendmsg(c->watch.fd, h, MSG_DONTWAIT);

    if (c->tls != NULL)
        c->sent += async_tls_written(c->tls) - before;
    else
        c->sent += n > 0 ? (uint64_t)n : 0;
    return n;
}

static bool conn_flush(struct async_conn *c)
{
    size_t rest = c->out.len - c->out_at, n;
    struct iovec iov[2];
    struct msghdr h = {.msg_iov = iov};
    ssize_t sent;

    if (rest > 0)
        iov[h.msg_iovlen++] = (struct iovec){c->out.data + c->out_at, rest};
    if (c->data_at < c->data_len)
        iov[h.msg_iovlen++] =
            (struct iovec){(void *)(uintptr_t)(c->data + c->data_at),
                           (size_t)DLC_MIN(c->data_len - c->data_at, (uint64_t)SEND_MAX)};
    sent = conn_send(c, &h);
    if (sent < 0 && errno != EAGAIN) {
        conn_close(c);
        return false;
    }
    n = DLC_MIN((size_t)DLC_MAX(sent, 0), rest);
    c->out_at += n;
    c->data_at += (uint64_t)DLC_MAX(sent, 0) - n;
    if (c->out_at < c->out.len || c->data_at < c->data_len ||
        (c->tls != NULL && async_tls_unsent(c->tls) > 0))
        return conn_send_later(c);
    return conn_next_piece(c);
}

static void on_piece(struct async_file *f, void *arg)
{
    struct async_conn *c = arg;

    dlc_check(c->tag == CONN_TAG && c->state == CONN_FILE);
    c->data_len = async_file_piece(f, &c->data);
    c->state = CONN_SEND;
    loop_timer_del(loop_of(c), &c->timer);
    if (c->data_len == 0)
        conn_close(c); /* the reply is cut short: the client sees that */
    else if (conn_flush(c))
        conn_advance(c);
}

/* ---- replies ---- */

static void file_drop(struct http_reply *reply)
{
    os_close(&reply->file_fd);
    if (reply->file_over != NULL)
        reply->file_over(reply->file_arg);
}

/* Takes *reply. */
static bool conn_reply(struct async_conn *c, struct http_reply *reply)
{
    char *text = reply->body != NULL ? json_dumps(reply->body, JSON_COMPACT) : NULL;
    uint64_t len = text != NULL ? strlen(text) : reply->body != NULL ? 0 : reply->data_len;
    bool file = reply->file && reply->body == NULL && !c->head_only && len > 0;

    c->keep = c->keep && !c->lane->closing && (c->tls == NULL || !async_tls_is_expired(c->tls));
    async_reply_head(&c->out, reply, len, c->keep);
    c->state = CONN_SEND;
    c->done = reply->done;
    c->arg = reply->arg;
    c->sent = 0;
    if (text != NULL && !c->head_only)
        buf_adds(&c->out, text);
    free(text);
    if (file)
        c->file = async_file_new(c->lane, reply, on_piece, c);
    else if (reply->file)
        file_drop(reply);
    else if (reply->body == NULL && reply->data != NULL && !c->head_only)
        c->data = reply->data, c->data_len = len;
    reply_release(reply);
    return conn_flush(c);
}

static bool conn_refuse(struct async_conn *c, int status, const char *title, const char *why)
{
    struct http_reply reply = {0};

    http_problem(&reply, status, title, "%s", why);
    if (status == 405)
        http_reply_header(&reply, "Allow", "GET");
    return conn_reply(c, &reply);
}

/* ---- calls ---- */

static void reply_drop(struct http_reply *reply)
{
    if (reply->file)
        file_drop(reply);
    reply_release(reply);
    if (reply->done != NULL)
        reply->done(reply->arg);
}

static void on_answer(struct task *t)
{
    struct async_call *call = dlc_container(t, struct async_call, task);
    struct async_lane *l = call->lane;
    struct async_conn *c = call->conn;

    dlc_check(call->tag == CALL_TAG);
    l->calls--;
    if (c == NULL) {
        reply_drop(&call->reply);
    } else {
        c->call = NULL;
        loop_timer_del(l->thread.loop, &c->timer);
        reply_cut_range(&call->reply, call->head.range, call->head.if_range);
        if (conn_reply(c, &call->reply))
            conn_advance(c);
    }
    call_free(&call);
    async_lane_check_gone(l);
}

void async_answer(struct async_call *call, struct http_reply *reply)
{
    dlc_check(call->tag == CALL_TAG);
    call->reply = *reply;
    call->task.run = on_answer;
    loop_post(call->lane->thread.loop, &call->task);
}

static void conn_sign(struct async_conn *c)
{
    static const char interim[] = "HTTP/1.1 102 Processing\r\n\r\n";
    struct iovec iov = {(void *)(uintptr_t)interim, sizeof(interim) - 1};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};

    /* A part of it would garble what follows. */
    if (conn_send(c, &h) != (ssize_t)iov.iov_len)
        conn_close(c);
    else
        conn_set_timer(c, SIGN_EVERY);
}

static const struct async_route *find_route(struct async_call *call)
{
    const struct async_route *r = call->lane->server->config.routes;

    while (r->pattern != NULL && !target_fits(&call->target, r->pattern, call->request.params))
        r++;
    return r->pattern != NULL ? r : NULL;
}

/* Parse the request. NULL: the connection has been given a refusal, *alive says what came of it. */
static const struct async_route *call_parse(struct async_call *call, struct async_conn *c,
                                            bool *alive)
{
    const struct async_route *route;
    const char *why = NULL;
    int status = request_head_parse(&call->head, call->text, call->len, &why);
    bool get;

    c->keep = status == 0 && call->head.keep && !call->head.body;
    c->head_only = status == 0 && strcmp(call->head.method, "HEAD") == 0;
    if (status != 0) {
        *alive = conn_refuse(c, status, "Bad request", why);
        return NULL;
    }
    get = c->head_only || strcmp(call->head.method, "GET") == 0;
    why = target_parse(&call->target, call->head.target);
    route = why == NULL ? find_route(call) : NULL;
    if (why != NULL)
        *alive = conn_refuse(c, 400, "Bad request", why);
    else if (route == NULL)
        *alive = conn_refuse(c, 404, "Not found", "there is no such path");
    else if (!get)
        *alive = conn_refuse(c, 405, "Method not allowed", "this path takes GET");
    else if (call->head.body)
        *alive = conn_refuse(c, 400, "Bad request", "this path takes no body");
    else
        return route;
    return NULL;
}

/* The first n bytes are a whole head. False: the connection is closed. */
static bool conn_begin(struct async_conn *c, size_t n)
{
    struct async_call *call = mem_new(struct async_call);
    const struct async_route *route;
    bool alive = true;

    call->tag = CALL_TAG;
    call->lane = c->lane;
    call->text = mem_strn(c->in.data, n);
    call->len = n;
    memmove(c->in.data, c->in.data + n, c->in.len - n);
    c->in.len -= n;
    c->scanned = 0;
    route = call_parse(call, c, &alive);
    if (route == NULL) {
        call_free(&call);
        return alive;
    }
    call->request.method = call->head.method;
    call->request.path = call->head.target;
    call->request.token = call->head.token;
    call->request.address = c->from; /* for the handler */
    call->request.target = &call->target;
    if (c->tls != NULL) {
        snprintf(call->node, sizeof(call->node), "%s", async_tls_node(c->tls));
        call->request.node = call->node;
        call->request.node_generation = async_tls_generation(c->tls);
    }
    call->conn = c;
    c->call = call;
    c->state = CONN_WAIT;
    c->lane->calls++;
    if (call->head.processing)
        conn_set_timer(c, SIGN_AFTER);
    route->handler(call, &call->request, c->lane->server->config.ctx);
    return true;
}

/* ---- reading ---- */

/* No whole head is there. */
static bool conn_wait_head(struct async_conn *c)
{
    c->scanned = c->in.len;
    dlc_list_remove(&c->link);
    if (c->in.len == 0) {
        buf_release(&c->in); /* thousands may be idle */
        c->since = loop_now(loop_of(c));
        dlc_list_push_tail(&c->lane->idle, &c->link);
        if (c->tls != NULL && async_tls_is_open(c->tls))
            loop_timer_del(loop_of(c), &c->timer);
        else if (c->tls != NULL && !heap_has(&c->timer.node))
            conn_set_timer(c, c->lane->server->config.head); /* of the handshake */
    } else {
        dlc_list_push_tail(&c->lane->conns, &c->link);
        if (!heap_has(&c->timer.node))
            conn_set_timer(c, c->lane->server->config.head);
    }
    return conn_watch(c, EPOLLIN);
}

/* RFC 9112: empty lines before a request are passed over. */
static void skip_empty_lines(struct buf *in)
{
    size_t n = 0;

    while (in->len - n >= 2 && in->data[n] == '\r' && in->data[n + 1] == '\n')
        n += 2;
    if (n > 0)
        memmove(in->data, in->data + n, in->len - n);
    in->len -= n;
}

static ssize_t conn_receive(struct async_conn *c, size_t most)
{
    struct iovec iov = {c->lane->scratch, most};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};

    if (c->tls != NULL && c->state != CONN_DRAIN)
        return async_tls_receive(c->tls, c->lane->scratch, most);
    return os_recvmsg(c->watch.fd, &h, MSG_DONTWAIT);
}

/* Did OpenSSL hold more of the head? The socket would not report it. */
static bool conn_read_held(struct async_conn *c)
{
    ssize_t n = c->tls != NULL && async_tls_has_input(c->tls)
                    ? conn_receive(c, REQUEST_HEAD_MAX - c->in.len)
                    : 0;

    if (n > 0)
        buf_add(&c->in, c->lane->scratch, (size_t)n);
    return n > 0; /* an end or a fault is seen again when the socket is read */
}

/* Begin requests that were read, one after the other, until one has to be waited for. */
static void conn_advance(struct async_conn *c)
{
    bool alive = true;

    while (alive && c->state == CONN_HEAD) {
        size_t n;

        skip_empty_lines(&c->in);
        n = request_head_length(c->in.data, c->in.len, c->scanned);
        if (n > 0) {
            loop_timer_del(loop_of(c), &c->timer);
            alive = conn_begin(c, n);
        } else if (c->in.len >= REQUEST_HEAD_MAX || !(request_head_begins(c->in.data, c->in.len) ||
                                                      (c->in.len == 1 && c->in.data[0] == '\r'))) {
            bool large = c->in.len >= REQUEST_HEAD_MAX;

            c->keep = c->head_only = false;
            buf_clear(&c->in);
            alive = large ? conn_refuse(c, 431, "Too large", "a head has at most 16 KiB")
                          : conn_refuse(c, 400, "Bad request", "this is not HTTP/1.1");
        } else if (!conn_read_held(c)) {
            conn_wait_head(c);
            return;
        }
    }
}

static void conn_read(struct async_conn *c)
{
    ssize_t n = conn_receive(c, REQUEST_HEAD_MAX - c->in.len);

    if (n < 0 && errno == EAGAIN && c->tls != NULL && c->in.len == 0)
        conn_wait_head(c); /* the handshake may be over */
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        conn_close(c);
        return;
    }
    dlc_list_remove(&c->link);
    dlc_list_push_tail(&c->lane->conns, &c->link);
    buf_add(&c->in, c->lane->scratch, (size_t)n);
    conn_advance(c);
}

static void conn_read_and_drop(struct async_conn *c)
{
    ssize_t n = conn_receive(c, sizeof(c->lane->scratch));

    if (n < 0 && errno == EAGAIN)
        return;
    c->sent += n > 0 ? (uint64_t)n : 0;
    if (n <= 0 || c->sent > LINGER_MAX)
        conn_close(c);
}

/* ---- what the loop calls ---- */

static void on_event(struct watch *w, uint32_t events)
{
    struct async_conn *c = dlc_container(w, struct async_conn, watch);

    dlc_check(c->tag == CONN_TAG);
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
        conn_close(c);
        return;
    }
    switch (c->state) {
    case CONN_HEAD: conn_read(c); break;
    case CONN_WAIT:
    case CONN_FILE: conn_watch(c, 0); break; /* what comes is read later */
    case CONN_SEND:
        if (conn_flush(c))
            conn_advance(c);
        break;
    case CONN_DRAIN: conn_read_and_drop(c); break;
    }
}

static void on_timer(struct timer *t)
{
    struct async_conn *c = dlc_container(t, struct async_conn, timer);

    dlc_check(c->tag == CONN_TAG);
    switch (c->state) {
    case CONN_WAIT: conn_sign(c); break;
    case CONN_SEND:
        if (c->sent - c->sent_before < ASYNC_MIN_PROGRESS) {
            conn_close_late(c);
        } else {
            c->sent_before = c->sent;
            conn_set_timer(c, c->lane->server->config.progress);
        }
        break;
    case CONN_HEAD: conn_close_late(c); break;
    case CONN_FILE:
    case CONN_DRAIN: conn_close(c); break;
    }
}

/* ---- for async_server.c ---- */

void async_conn_open(struct async_lane *l, int fd, uint64_t address, struct async_tls *tls)
{
    struct async_conn *c = mem_new(struct async_conn);
    struct sockaddr_storage from = {0};
    socklen_t len = sizeof(from);

    c->tag = CONN_TAG;
    c->lane = l;
    c->address = address;
    if (os_getpeername(fd, (struct sockaddr *)&from, &len) < 0)
        from.ss_family = AF_UNSPEC;
    listen_address((struct sockaddr *)&from, c->from, sizeof(c->from));
    c->watch.fd = fd;
    c->watch.ready = on_event;
    c->timer.fire = on_timer;
    dlc_list_init(&c->link);
    c->tls = tls;
    conn_wait_head(c);
}

bool async_conn_shed(struct async_lane *l)
{
    if (dlc_list_empty(&l->idle))
        return false;
    conn_close(dlc_container(l->idle.next, struct async_conn, link));
    return true;
}

void async_conn_sweep(struct async_lane *l)
{
    struct dlc_mono now = loop_now(l->thread.loop);

    while (!dlc_list_empty(&l->idle)) {
        struct async_conn *c = dlc_container(l->idle.next, struct async_conn, link);

        if (dlc_mono_sub(now, c->since).ns < l->server->config.idle.ns)
            break;
        conn_close(c);
    }
}

void async_conn_close_all(struct async_lane *l, bool all)
{
    while (async_conn_shed(l))
        ;
    dlc_list_each_safe (n, &l->conns) {
        struct async_conn *c = dlc_container(n, struct async_conn, link);

        if (all || c->state == CONN_HEAD || c->state == CONN_DRAIN)
            conn_close(c);
    }
}
