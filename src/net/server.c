// SPDX-License-Identifier: Apache-2.0
/*
 * The life of a server: one libmicrohttpd daemon per listening socket.
 *
 * Closing: the sockets take nobody new, streams see `closing` and end, handlers that run are waited
 * for until their replies are out (CLOSE_WAIT at most for replies that nobody reads); only then are
 * connections cut and threads joined.
 */
#include "net/server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/syscalls.h"
#include "net/listen.h"
#include "net/server_i.h"

#define SERVER_TAG  DLC_TAG4('h', 't', 's', 'v')
#define STACK       (2u << 20)
#define HEAD_MAX    (32u << 10) /* request line and headers, and what libmicrohttpd adds */
#define PEM_MAX     (1u << 20)
#define CLOSE_WAIT  DLC_SEC(5)
#define TLS_CIPHERS "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

__attribute__((format(printf, 2, 0))) static void on_log(void *cls, const char *fmt, va_list ap)
{
    char line[300];

    (void)cls;
    vsnprintf(line, sizeof(line), fmt, ap);
    line[strcspn(line, "\n")] = '\0';
    log_debug("http: %s", line);
}

/* The path goes as it came: what it means is router.c's to say. */
static size_t on_unescape(void *cls, struct MHD_Connection *c, char *s)
{
    (void)cls;
    (void)c;
    return strlen(s);
}

static int start(struct http_server *s, struct listener *l, struct dlc_err *err)
{
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                     MHD_USE_POLL | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, s->cert.data},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, s->key.data},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_CIPHERS},
        {s->authorities.len > 0 ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0,
         s->authorities.data},
        {MHD_OPTION_END, 0, NULL},
    };
    bool secure = !l->local && s->cert.len > 0;

    /* One of its own: if it does not start, libmicrohttpd closes what it was given. Its number may be
     * another thread's by the time that we would close it. */
    l->taken = os_dup(l->fd);
    if (l->taken < 0)
        return dlc_err_sys(err, "cannot listen");
    l->daemon = MHD_start_daemon(
        secure ? flags | MHD_USE_TLS : flags, 0, NULL, NULL, exchange_access, l,
        MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET, l->taken,
        MHD_OPTION_CONNECTION_LIMIT, s->config.connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        l->local ? 0 : s->config.connections - s->config.connections / 4,
        MHD_OPTION_CONNECTION_TIMEOUT, s->idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HEAD_MAX, MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK, MHD_OPTION_STRICT_FOR_CLIENT,
        1, MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, NULL, MHD_OPTION_URI_LOG_CALLBACK,
        exchange_begin, l, MHD_OPTION_NOTIFY_COMPLETED, exchange_end, l,
        MHD_OPTION_NOTIFY_CONNECTION, conns_notify, l, MHD_OPTION_ARRAY,
        secure ? tls : &tls[DLC_COUNT(tls) - 1], MHD_OPTION_END);
    if (l->daemon != NULL)
        return 0;
    l->taken = -1;
    return secure ? dlc_err_set(err, DLC_EINVAL,
                                "the HTTPS server does not start; check that certificate and key "
                                "are PEM and belong together")
                  : dlc_err_set(err, DLC_EIO,
                                "the HTTP server does not start; are there too many "
                                "threads or open files?");
}

/* Nobody new comes through it. */
static void quiesce(struct listener *l)
{
    if (l->daemon != NULL && !l->quiesced)
        MHD_quiesce_daemon(l->daemon);
    l->quiesced = true;
}

/* A text, or what a file holds. */
static int take_pem(const char *from, bool text, struct buf *out, struct dlc_err *err)
{
    int rc = 0;

    buf_reserve(out, PEM_MAX + 1); /* growing would leave copies of a key behind */
    if (!text)
        rc = os_read_file(from, PEM_MAX, out, err);
    else if (strlen(from) <= PEM_MAX)
        buf_adds(out, from);
    if (rc == 0 && out->len == 0)
        rc = dlc_err_set(err, DLC_EINVAL, "%s is empty", text ? "a PEM text" : from);
    return rc;
}

static int listen_as(struct http_server *s, const struct http_server_config *c, struct dlc_err *err)
{
    if (c->heir_of == NULL)
        return listen_tcp(c->address, &s->tcp.fd, &s->address, err);
    dlc_check(c->heir_of->tag == SERVER_TAG && c->heir_of->tcp.fd >= 0);
    s->address = mem_str(c->heir_of->address);
    s->tcp.fd = os_dup(c->heir_of->tcp.fd);
    /* Of the socket, so of both: who comes second to accept() must not wait there. */
    if (s->tcp.fd < 0 || os_fcntl(s->tcp.fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        return dlc_err_sys(err, "cannot take over %s", s->address);
    return 0;
}

static int open_tcp(struct http_server *s, const struct http_server_config *c, struct dlc_err *err)
{
    int rc = 0;

    if ((c->tls_cert == NULL) != (c->tls_key == NULL))
        return dlc_err_set(err, DLC_EINVAL, "TLS needs both a certificate and its key");
    if (c->tls_cert != NULL) {
        rc = take_pem(c->tls_cert, c->tls_text, &s->cert, err);
        if (rc == 0)
            rc = take_pem(c->tls_key, c->tls_text, &s->key, err);
    }
    if (c->tls_cert != NULL && c->authorities != NULL)
        buf_adds(&s->authorities, c->authorities);
    if (rc == 0)
        rc = listen_as(s, c, err);
    if (rc == 0)
        rc = start(s, &s->tcp, err);
    if (rc == 0 && c->heir_of != NULL)
        quiesce(&c->heir_of->tcp);
    return rc;
}

static int open_unix(struct http_server *s, const char *path, struct dlc_err *err)
{
    struct stat st;
    int rc = listen_unix(path, &s->local.fd, err);

    if (rc < 0)
        return rc;
    s->unix_path = mem_str(path);
    if (os_lstat(path, &st) == 0) {
        s->unix_dev = st.st_dev;
        s->unix_ino = st.st_ino;
    }
    return start(s, &s->local, err);
}

static struct http_server *blank(const struct http_server_config *c)
{
    struct http_server *s = mem_new(struct http_server);

    s->tag = SERVER_TAG;
    s->config = *c;
    s->config.address = s->config.unix_path = s->config.tls_cert = s->config.tls_key = NULL;
    s->config.heir_of = NULL;
    s->config.authorities = NULL;
    if (s->config.connections == 0)
        s->config.connections = 512;
    if (s->config.max_body == 0)
        s->config.max_body = 1u << 20;
    if (s->config.max_bodies == 0)
        s->config.max_bodies = 8 * s->config.max_body;
    if (s->config.max_values == 0)
        s->config.max_values = 100000;
    s->idle_s = c->idle.ns == 0 ? 60 : (unsigned)DLC_MAX(c->idle.ns / DLC_SEC(1).ns, 1);
    s->tcp = (struct listener){.fd = -1, .taken = -1, .server = s};
    s->local = (struct listener){.fd = -1, .taken = -1, .local = true, .server = s};
    dlc_mtx_init(&s->mtx, LCK_http);
    dlc_cond_init(&s->quiet);
    dlc_cond_init(&s->watch_wake);
    dlc_list_init(&s->conns);
    return s;
}

int http_server_open(const struct http_server_config *c, struct http_server **out,
                     struct dlc_err *err)
{
    struct http_server *s = blank(c);
    int rc = 0;

    dlc_check(c->address != NULL || c->unix_path != NULL || c->heir_of != NULL);
    *out = NULL;
    rc = conns_open(s, err);
    if (rc == 0 && (c->address != NULL || c->heir_of != NULL))
        rc = open_tcp(s, c, err);
    if (rc == 0 && c->unix_path != NULL)
        rc = open_unix(s, c->unix_path, err);
    if (rc < 0)
        http_server_close(&s);
    *out = s;
    return rc;
}

/* Nobody new comes; the path is another server's from now on. */
static void stop_listening(struct http_server *s)
{
    struct stat st;

    if (s->unix_path != NULL && os_lstat(s->unix_path, &st) == 0 && st.st_dev == s->unix_dev &&
        st.st_ino == s->unix_ino)
        os_unlink(s->unix_path);
    quiesce(&s->tcp);
    quiesce(&s->local);
}

static void wait_quiet(struct http_server *s)
{
    struct dlc_mono until = dlc_mono_add(dlc_mono_now(), CLOSE_WAIT);

    dlc_mtx_lock(&s->mtx);
    while (s->busy > 0) {
        struct dlc_dur left = dlc_mono_sub(until, dlc_mono_now());

        if (left.ns <= 0 || dlc_cond_wait_for(&s->quiet, &s->mtx, left) != 0)
            break;
    }
    dlc_mtx_unlock(&s->mtx);
}

static void listener_release(struct listener *l)
{
    if (l->daemon != NULL)
        MHD_stop_daemon(l->daemon);
    os_close(&l->taken);
    os_close(&l->fd);
}

void http_server_close(struct http_server **sp)
{
    struct http_server *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    dlc_check(s->tag == SERVER_TAG);
    atomic_store_explicit(&s->closing, true, memory_order_relaxed);
    stop_listening(s);
    wait_quiet(s);
    conns_close(s);
    listener_release(&s->tcp);
    listener_release(&s->local);
    secret_buf_release(&s->key);
    buf_release(&s->cert);
    buf_release(&s->authorities);
    dlc_check(s->busy == 0);
    dlc_cond_release(&s->quiet);
    dlc_cond_release(&s->watch_wake);
    dlc_mtx_release(&s->mtx);
    mem_free(&s->address);
    mem_free(&s->unix_path);
    s->tag = 0;
    mem_free(&s);
}

const char *http_server_address(const struct http_server *s)
{
    return s->address;
}
