// SPDX-License-Identifier: Apache-2.0
/*
 * The loops of the asynchronous server, what it accepts, and its end.
 *
 * The first loop accepts, counts, and hands connections to the loops in turn. Counts are under one
 * lock, which is taken when a connection begins and ends, not for requests.
 *
 * Closing: the first loop stops to accept; each loop closes connections without a request at once,
 * lets replies end for CLOSE_WAIT, and then closes the rest; it is gone when all its calls were
 * answered. A connection that was accepted just before is closed by the loop that gets it.
 */
#include "net/async_server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "net/async_server_i.h"
#include "net/async_server_tls_i.h"
#include "net/listen.h"

#define SERVER_TAG   DLC_TAG4('a', 's', 's', 'v')
#define CONNECTIONS  16384u
#define PER_ADDRESS  1024u
#define ACCEPT_MOST  64 /* in one turn */
#define ACCEPT_PAUSE DLC_MS(100)
#define CLOSE_WAIT   DLC_MS(500)

/* A connection on its way to its loop. */
struct handover {
    struct task task;
    struct async_lane *lane;
    int fd;
    uint64_t address;
    bool over; /* beyond the limit: another one has to go */
};

/* ---- counting ---- */

static unsigned count_of(const struct map *m, uint64_t address)
{
    return (unsigned)(uintptr_t)map_get(m, address);
}

static void set_count(struct map *m, uint64_t address, unsigned n)
{
    if (n == 0)
        map_remove(m, address);
    else
        map_set(m, address, (void *)(uintptr_t)n);
}

void async_uncount(struct async_server *s, uint64_t address)
{
    dlc_mtx_lock(&s->mtx);
    dlc_check(s->counts.connections > 0 && count_of(&s->addresses, address) > 0);
    s->counts.connections--;
    set_count(&s->addresses, address, count_of(&s->addresses, address) - 1);
    dlc_mtx_unlock(&s->mtx);
}

void async_count_late(struct async_server *s)
{
    dlc_mtx_lock(&s->mtx);
    s->counts.late++;
    dlc_mtx_unlock(&s->mtx);
}

void async_figures(struct async_server *s, struct async_figures *out)
{
    dlc_mtx_lock(&s->mtx);
    *out = s->counts;
    dlc_mtx_unlock(&s->mtx);
    out->loops = s->n_lanes;
    for (unsigned i = 0; i < s->n_lanes; i++) {
        struct dlc_dur longest = loop_longest_turn(s->lanes[i].thread.loop);

        out->longest_turn.ns = DLC_MAX(out->longest_turn.ns, longest.ns);
    }
}

/* ---- accepting ---- */

static uint64_t address_of(int fd)
{
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof(a);

    if (os_getpeername(fd, (struct sockaddr *)&a, &len) < 0)
        return 0;
    if (a.ss_family == AF_INET6)
        return hash64(&((struct sockaddr_in6 *)&a)->sin6_addr, sizeof(struct in6_addr));
    return hash64(&((struct sockaddr_in *)&a)->sin_addr, sizeof(struct in_addr));
}

/* Best effort: who comes in such numbers is not waited for. */
static void refuse(struct async_server *s, int fd)
{
    static const char text[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
                               "Retry-After: 1\r\nConnection: close\r\n\r\n";
    struct iovec iov = {(void *)(uintptr_t)text, sizeof(text) - 1};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
    bool say;

    dlc_mtx_lock(&s->mtx);
    s->counts.refused++;
    say = log_limit_allows(&s->refusals);
    dlc_mtx_unlock(&s->mtx);
    if (say)
        log_warn("http %s: a connection is refused; at most %u are taken in all, and %u of one "
                 "address",
                 s->address, s->config.connections, s->config.per_address);
    if (!s->config.tls)
        os_sendmsg(fd, &h, MSG_DONTWAIT);
    os_shutdown(fd, SHUT_WR);
    os_close(&fd);
}

/* Gives what a new connection begins with; NULL: nothing is there. */
static struct async_tls *tls_of(struct async_server *s, int fd)
{
    struct async_tls *tls = NULL;

    dlc_mtx_lock(&s->mtx);
    if (s->tls != NULL)
        tls = async_tls_new(s->tls, fd); /* takes a reference of its own */
    dlc_mtx_unlock(&s->mtx);
    return tls;
}

static void on_handover(struct task *t)
{
    struct handover *o = dlc_container(t, struct handover, task);
    struct async_lane *l = o->lane;
    struct async_server *s = l->server;
    bool shed = o->over && !l->closing && async_conn_shed(l);
    struct async_tls *tls = s->config.tls && !l->closing ? tls_of(s, o->fd) : NULL;
    bool bare = s->config.tls && tls == NULL; /* no certificate yet, or no memory */

    if (shed) {
        dlc_mtx_lock(&s->mtx);
        s->counts.shed++;
        dlc_mtx_unlock(&s->mtx);
    }
    if (l->closing || bare || (o->over && !shed)) {
        async_uncount(s, o->address);
        async_tls_free(&tls);
        if (l->closing || bare)
            os_close(&o->fd);
        else
            refuse(s, o->fd);
    } else {
        async_conn_open(l, o->fd, o->address, tls);
    }
    mem_free(&o);
}

static void admit(struct async_server *s, int fd)
{
    struct handover *o = mem_new(struct handover);
    unsigned of_address;
    int one = 1;

    o->task.run = on_handover;
    o->fd = fd;
    o->address = address_of(fd);
    dlc_mtx_lock(&s->mtx);
    of_address = count_of(&s->addresses, o->address);
    o->over = s->counts.connections >= s->config.connections;
    if (of_address < s->config.per_address) {
        s->counts.accepted++;
        s->counts.connections++;
        set_count(&s->addresses, o->address, of_address + 1);
    }
    dlc_mtx_unlock(&s->mtx);
    if (of_address >= s->config.per_address) {
        mem_free(&o);
        refuse(s, fd);
        return;
    }
    os_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    o->lane = &s->lanes[s->next_lane++ % s->n_lanes];
    loop_post(o->lane->thread.loop, &o->task);
}

static void listen_begin(struct async_server *s)
{
    struct loop *l = s->lanes[0].thread.loop;

    if (loop_watch_set(l, &s->listener, EPOLLIN) < 0)
        loop_timer_set(l, &s->listen_again, dlc_mono_add(loop_now(l), ACCEPT_PAUSE));
}

/* No descriptor is left, or no memory: it would be reported in every turn. */
static void listen_pause(struct async_server *s)
{
    struct loop *l = s->lanes[0].thread.loop;

    async_conn_shed(&s->lanes[0]);
    loop_watch_del(l, &s->listener);
    loop_timer_set(l, &s->listen_again, dlc_mono_add(loop_now(l), ACCEPT_PAUSE));
}

static void on_listen_again(struct timer *t)
{
    listen_begin(dlc_container(t, struct async_server, listen_again));
}

static void on_listener(struct watch *w, uint32_t events)
{
    struct async_server *s = dlc_container(w, struct async_server, listener);

    (void)events;
    for (int i = 0; i < ACCEPT_MOST; i++) {
        int fd = os_accept(w->fd);

        if (fd >= 0) {
            admit(s, fd);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != ECONNABORTED && errno != EINTR) {
            listen_pause(s);
            return;
        }
    }
}

/* ---- the life of a loop ---- */

void async_lane_check_gone(struct async_lane *l)
{
    struct async_server *s = l->server;

    if (!l->closing || l->calls > 0 || !dlc_list_empty(&l->conns) || !dlc_list_empty(&l->idle))
        return;
    loop_timer_del(l->thread.loop, &l->sweep);
    dlc_mtx_lock(&s->mtx);
    l->gone = true;
    dlc_cond_signal(&s->quiet);
    dlc_mtx_unlock(&s->mtx);
}

static void on_sweep(struct timer *t)
{
    struct async_lane *l = dlc_container(t, struct async_lane, sweep);

    if (l->closing) {
        async_conn_close_all(l, true);
        return;
    }
    async_conn_sweep(l);
    loop_timer_set(
        l->thread.loop, t,
        dlc_mono_add(loop_now(l->thread.loop), (struct dlc_dur){l->server->config.idle.ns / 4}));
}

static void on_close(struct task *t)
{
    struct async_lane *l = dlc_container(t, struct async_lane, close);
    struct async_server *s = l->server;

    l->closing = true;
    if (l == s->lanes) {
        loop_watch_del(l->thread.loop, &s->listener);
        loop_timer_del(l->thread.loop, &s->listen_again);
        os_close(&s->listener.fd);
    }
    loop_timer_set(l->thread.loop, &l->sweep, dlc_mono_add(loop_now(l->thread.loop), CLOSE_WAIT));
    async_conn_close_all(l, false);
    async_lane_check_gone(l);
}

static void on_open(struct task *t)
{
    struct async_lane *l = dlc_container(t, struct async_lane, open);

    on_sweep(&l->sweep);
    if (l == l->server->lanes)
        listen_begin(l->server);
}

static int lane_open(struct async_server *s, struct dlc_err *err)
{
    struct async_lane *l = &s->lanes[s->n_lanes];
    int rc;

    l->server = s;
    dlc_list_init(&l->conns);
    dlc_list_init(&l->idle);
    l->sweep.fire = on_sweep;
    rc = loop_thread_start(&l->thread, "dlc-http", err);
    s->n_lanes += rc == 0;
    return rc;
}

/* ---- the life of the server ---- */

static unsigned descriptors(void)
{
    struct rlimit r;

    return getrlimit(RLIMIT_NOFILE, &r) == 0 ? (unsigned)DLC_MIN(r.rlim_cur, 1u << 20) : 1024;
}

static struct async_server *server_new(const struct async_server_config *c)
{
    struct async_server *s = mem_new(struct async_server);
    struct async_server_config *k = &s->config;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    s->tag = SERVER_TAG;
    *k = *c;
    k->address = NULL;
    if (k->loops == 0)
        k->loops = cores <= 4 ? 1 : cores <= 16 ? 2 : ASYNC_LOOPS_MAX;
    k->loops = DLC_MIN(k->loops, (unsigned)ASYNC_LOOPS_MAX);
    if (k->connections == 0)
        k->connections = DLC_MIN(CONNECTIONS, descriptors() / 2);
    if (k->per_address == 0)
        k->per_address = DLC_MIN(PER_ADDRESS, k->connections - k->connections / 4);
    k->idle = k->idle.ns != 0 ? k->idle : DLC_SEC(60);
    k->head = k->head.ns != 0 ? k->head : DLC_SEC(10);
    k->progress = k->progress.ns != 0 ? k->progress : DLC_SEC(10);
    s->listener.fd = -1;
    s->listener.ready = on_listener;
    s->listen_again.fire = on_listen_again;
    dlc_mtx_init(&s->mtx, LCK_http);
    dlc_cond_init(&s->quiet);
    return s;
}

int async_server_open(const struct async_server_config *c, struct async_server **out,
                      struct dlc_err *err)
{
    struct async_server *s = server_new(c);
    int rc = listen_tcp(c->address, &s->listener.fd, &s->address, err);

    *out = NULL;
    if (rc == 0 && os_fcntl(s->listener.fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        rc = dlc_err_sys(err, "cannot listen on %s", c->address);
    while (rc == 0 && s->n_lanes < s->config.loops)
        rc = lane_open(s, err);
    if (rc < 0) {
        async_server_close(&s);
        return rc;
    }
    for (unsigned i = 0; i < s->n_lanes; i++) {
        s->lanes[i].open.run = on_open;
        loop_post(s->lanes[i].thread.loop, &s->lanes[i].open);
    }
    *out = s;
    return 0;
}

static void close_lanes(struct async_server *s)
{
    dlc_mtx_lock(&s->mtx);
    for (unsigned i = 0; i < s->n_lanes; i++)
        while (!s->lanes[i].gone)
            dlc_cond_wait(&s->quiet, &s->mtx);
    dlc_mtx_unlock(&s->mtx);
    for (unsigned i = 0; i < s->n_lanes; i++)
        loop_thread_stop(&s->lanes[i].thread);
}

void async_server_close(struct async_server **sp)
{
    struct async_server *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    dlc_check(s->tag == SERVER_TAG);
    for (unsigned i = 0; i < s->n_lanes; i++) {
        s->lanes[i].close.run = on_close;
        loop_post(s->lanes[i].thread.loop, &s->lanes[i].close);
    }
    close_lanes(s);
    os_close(&s->listener.fd);
    dlc_check(s->counts.connections == 0);
    map_release(&s->addresses);
    async_tls_context_put(&s->tls);
    dlc_cond_release(&s->quiet);
    dlc_mtx_release(&s->mtx);
    mem_free(&s->address);
    s->tag = 0;
    mem_free(&s);
}

int async_server_identity(struct async_server *s, const struct tls_identity *id,
                          struct dlc_err *err)
{
    struct ssl_ctx_st *fresh = NULL, *old;
    int rc = async_tls_context_new(id, &fresh, err);

    dlc_check(s->config.tls);
    if (rc < 0)
        return rc;
    dlc_mtx_lock(&s->mtx);
    old = s->tls;
    s->tls = fresh;
    dlc_mtx_unlock(&s->mtx);
    async_tls_context_put(&old);
    return 0;
}

void async_count_stranger(struct async_server *s, const char *from, bool began)
{
    dlc_mtx_lock(&s->mtx);
    s->counts.strangers++;
    dlc_mtx_unlock(&s->mtx);
    if (began && s->config.stranger != NULL)
        s->config.stranger(from, s->config.ctx);
}

const char *async_server_address(const struct async_server *s)
{
    return s->address;
}
