// SPDX-License-Identifier: Apache-2.0
#include "operator/csi/grpc_server.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/syscalls.h"
#include "net/listen.h"
#include "operator/csi/grpc_session_i.h"

#define READ_SIZE 16384

struct grpc_conn {
    struct dlc_list link; /* in grpc_server.conns */
    struct grpc_server *server;
    int fd;
    pthread_t thread;
    bool ended; /* under the lock: its thread can be joined */
    struct grpc_session *session;
};

struct grpc_server {
    const struct grpc_method *const *tables;
    void *ctx;
    char *path;
    int listen_fd, stop_fd;
    pthread_t thread;
    struct dlc_list conns; /* of the accepting thread, and of stop after it */
    unsigned n_conns;
    struct dlc_mtx mtx; /* grpc_conn.ended */
};

/* ---- connections ---- */

/* Wait until the socket is ready. False: the server stops, or the wait failed. */
static bool wait_ready(const struct grpc_conn *c, short events)
{
    struct pollfd p[] = {{.fd = c->fd, .events = events},
                         {.fd = c->server->stop_fd, .events = POLLIN}};
    int rc;

    do {
        rc = os_poll(p, 2, -1);
    } while (rc < 0 && errno == EINTR);
    return rc > 0 && p[1].revents == 0;
}

/* Send what the session has to say. */
static bool flush(struct grpc_conn *c)
{
    const void *data;
    const char *p;
    ssize_t n, len;

    while ((len = grpc_session_send(c->session, &data)) > 0)
        for (p = data; len > 0;) {
            n = os_send(c->fd, p, (size_t)len, 0);
            if (n < 0 && errno != EAGAIN && errno != EINTR)
                return false;
            if (n < 0 && !wait_ready(c, POLLOUT))
                return false;
            if (n > 0) {
                p += n;
                len -= n;
            }
        }
    return len == 0;
}

/* One read, and the calls that it completes. */
static bool receive(struct grpc_conn *c)
{
    uint8_t data[READ_SIZE];
    ssize_t n = os_recv(c->fd, data, sizeof(data), 0);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    return n > 0 && grpc_session_receive(c->session, data, (size_t)n);
}

static void *conn_run(void *arg)
{
    struct grpc_conn *c = arg;

    c->session = grpc_session_new(c->server->tables, c->server->ctx);
    while (flush(c) && grpc_session_is_open(c->session) && wait_ready(c, POLLIN) && receive(c))
        ;
    grpc_session_free(&c->session);
    os_close(&c->fd);
    dlc_mtx_lock(&c->server->mtx);
    c->ended = true;
    dlc_mtx_unlock(&c->server->mtx);
    return NULL;
}

/* Join those whose thread ended, or all. */
static void join(struct grpc_server *s, bool all)
{
    dlc_list_each_safe (l, &s->conns) {
        struct grpc_conn *c = dlc_container(l, struct grpc_conn, link);
        bool ended;

        dlc_mtx_lock(&s->mtx);
        ended = c->ended;
        dlc_mtx_unlock(&s->mtx);
        if (!ended && !all)
            continue;
        pthread_join(c->thread, NULL);
        dlc_list_remove(&c->link);
        s->n_conns--;
        mem_free(&c);
    }
}

static void accept_one(struct grpc_server *s)
{
    int fd = os_accept(s->listen_fd);
    struct grpc_conn *c;

    join(s, false);
    if (fd < 0)
        return;
    if (s->n_conns >= GRPC_CONNECTIONS) {
        log_warn("%s: more than %d connections; one is refused", s->path, GRPC_CONNECTIONS);
        os_close(&fd);
        return;
    }
    c = mem_new(struct grpc_conn);
    c->server = s;
    c->fd = fd;
    if (os_thread(&c->thread, conn_run, c) != 0) {
        log_warn("%s: no thread for a connection", s->path);
        os_close(&c->fd);
        mem_free(&c);
        return;
    }
    dlc_list_push_tail(&s->conns, &c->link);
    s->n_conns++;
}

static void *accept_run(void *arg)
{
    struct grpc_server *s = arg;
    struct pollfd p[] = {{.fd = s->listen_fd, .events = POLLIN},
                         {.fd = s->stop_fd, .events = POLLIN}};
    int rc;

    while ((rc = os_poll(p, 2, -1)) >= 0 || errno == EINTR) {
        if (rc > 0 && p[1].revents != 0)
            break;
        if (rc > 0)
            accept_one(s);
    }
    return NULL;
}

/* ---- start and stop ---- */

int grpc_server_start(const char *path, const struct grpc_method *const *tables, void *ctx,
                      struct grpc_server **out, struct dlc_err *err)
{
    struct grpc_server *s = mem_new(struct grpc_server);
    int rc;

    *s = (struct grpc_server){
        .tables = tables, .ctx = ctx, .path = mem_str(path), .listen_fd = -1, .stop_fd = -1};
    dlc_list_init(&s->conns);
    dlc_mtx_init(&s->mtx, LCK_grpc);
    rc = listen_unix(path, &s->listen_fd, err);
    if (rc == 0 && (s->stop_fd = os_eventfd()) < 0)
        rc = dlc_err_sys(err, "cannot make an eventfd");
    if (rc == 0 && (errno = os_thread(&s->thread, accept_run, s)) != 0)
        rc = dlc_err_sys(err, "cannot make a thread");
    if (rc < 0) {
        os_close(&s->listen_fd);
        os_close(&s->stop_fd);
        dlc_mtx_release(&s->mtx);
        mem_free(&s->path);
        mem_free(&s);
    }
    *out = s;
    return rc;
}

void grpc_server_stop(struct grpc_server **sp)
{
    struct grpc_server *s = *sp;

    if (s == NULL)
        return;
    *sp = NULL;
    os_wake(s->stop_fd);
    pthread_join(s->thread, NULL);
    join(s, true);
    os_unlink(s->path);
    os_close(&s->listen_fd);
    os_close(&s->stop_fd);
    dlc_mtx_release(&s->mtx);
    mem_free(&s->path);
    mem_free(&s);
}
