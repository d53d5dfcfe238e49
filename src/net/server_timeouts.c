// SPDX-License-Identifier: Apache-2.0
/*
 * Timeouts of connections. libmicrohttpd closes a connection that is silent for `idle`; one that
 * sends or receives a byte from time to time is never silent. So a thread checks all connections
 * periodically: each must send a whole request within twice `idle` of its beginning or of the
 * previous reply, and must receive a response of known length at PACE_LEAST or faster.
 *
 * (SERVER-TIMEOUTS-1) A connection's descriptor is open as long as it is in the list.
 */
#include <errno.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "net/server_i.h"

#define PACE_LEAST 1000000 /* bytes per second, beyond twice `idle` */

struct conn {
    struct dlc_list link; /* G: mtx, and what follows */
    int fd;
    bool busy;     /* a handler is at work, or an event stream is under way */
    uint64_t left; /* bytes that the client is to take; 0: none are known */
    struct dlc_mono since;
};

void conns_notify(void *cls, struct MHD_Connection *c, void **priv,
                  enum MHD_ConnectionNotificationCode what)
{
    struct http_server *s = ((struct listener *)cls)->server;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct conn *x = *priv;

    dlc_mtx_lock(&s->mtx);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *priv = x = mem_new(struct conn);
        x->fd = info != NULL ? info->connect_fd : -1;
        x->since = dlc_mono_now();
        dlc_list_push_tail(&s->conns, &x->link);
    } else if (x != NULL) {
        *priv = NULL;
        dlc_list_remove(&x->link);
        mem_free(&x);
    }
    dlc_mtx_unlock(&s->mtx);
}

static struct conn *conn_of(const struct exchange *x)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info != NULL ? info->socket_context : NULL;
}

void conns_busy(struct exchange *x)
{
    struct http_server *s = x->server;
    struct conn *c = conn_of(x);

    dlc_mtx_lock(&s->mtx);
    s->busy++;
    if (c != NULL)
        c->busy = true;
    dlc_mtx_unlock(&s->mtx);
    x->busy = true;
}

void conns_replying(struct exchange *x, size_t len)
{
    struct http_server *s = x->server;
    struct conn *c = conn_of(x);

    if (c == NULL)
        return;
    dlc_mtx_lock(&s->mtx);
    c->busy = false;
    c->left = len;
    c->since = dlc_mono_now();
    dlc_mtx_unlock(&s->mtx);
}

void conns_free(struct exchange *x)
{
    struct http_server *s = x->server;
    struct conn *c = conn_of(x);

    dlc_mtx_lock(&s->mtx);
    if (x->busy && --s->busy == 0)
        dlc_cond_broadcast(&s->quiet);
    if (c != NULL) {
        c->busy = false;
        c->left = 0;
        c->since = dlc_mono_now();
    }
    dlc_mtx_unlock(&s->mtx);
    x->busy = false;
}

static void look_locked(struct http_server *s)
{
    struct dlc_mono now = dlc_mono_now();

    dlc_list_each (n, &s->conns) {
        const struct conn *c = dlc_container(n, struct conn, link);
        struct dlc_dur most = DLC_SEC(2 * s->idle_s + c->left / PACE_LEAST);

        if (!c->busy && dlc_mono_sub(now, c->since).ns > most.ns)
            os_shutdown(c->fd, SHUT_RDWR); /* its thread does the rest */
    }
}

static void *run(void *arg)
{
    struct http_server *s = arg;
    struct dlc_dur every = {DLC_SEC(s->idle_s).ns / 4};

    dlc_mtx_lock(&s->mtx);
    while (!s->watch_ends) {
        dlc_cond_wait_for(&s->watch_wake, &s->mtx, every);
        look_locked(s);
    }
    dlc_mtx_unlock(&s->mtx);
    return NULL;
}

int conns_open(struct http_server *s, struct dlc_err *err)
{
    errno = os_thread(&s->watcher, run, s);
    if (errno != 0)
        return dlc_err_sys(err, "cannot start a thread for the HTTP server");
    s->watching = true;
    return 0;
}

void conns_close(struct http_server *s)
{
    if (!s->watching)
        return;
    dlc_mtx_lock(&s->mtx);
    s->watch_ends = true;
    dlc_cond_signal(&s->watch_wake);
    dlc_mtx_unlock(&s->mtx);
    pthread_join(s->watcher, NULL);
    s->watching = false;
}
