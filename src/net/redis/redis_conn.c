// SPDX-License-Identifier: Apache-2.0
/*
 * A connection to one Redis server. hiredis parses what comes; sending, receiving and waiting are
 * done here, without blocking, because hiredis has no deadline for a whole call and dies of
 * SIGPIPE. TLS: redis_tls.c.
 */
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "net/redis/redis_i.h"

void redis_add_bulk(struct buf *b, const void *data, size_t len)
{
    char head[32];
    int n = snprintf(head, sizeof(head), "$%zu\r\n", len);

    buf_reserve(b, (size_t)n + len + 2);
    buf_add(b, head, (size_t)n);
    buf_add(b, data, len);
    buf_add(b, "\r\n", 2);
}

bool redis_wait(struct pollfd *fds, size_t n, struct dlc_mono deadline)
{
    for (;;) {
        int64_t left = dlc_mono_sub(deadline, dlc_mono_now()).ns;
        int rc =
            os_poll(fds, n, left <= 0 ? 0 : (int)DLC_MIN(left / 1000000 + 1, (int64_t)INT_MAX));

        if (rc > 0)
            return true;
        if (rc < 0 && errno != EINTR)
            return false;
        if (left <= 0)
            return false;
    }
}

/* A socket that is connected to one of the addresses; -1 with errno. */
static int connect_any(const struct addrinfo *list, struct dlc_mono deadline)
{
    int fd = -1, one = 1;

    errno = EHOSTUNREACH;
    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        int error = 0;
        socklen_t len = sizeof(error);
        struct pollfd p;

        fd = os_socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK);
        if (fd < 0)
            continue;
        (void)os_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        (void)os_setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
        p = (struct pollfd){.fd = fd, .events = POLLOUT};
        if (os_connect(fd, a->ai_addr, a->ai_addrlen) == 0)
            return fd;
        if (errno == EINPROGRESS) {
            if (!redis_wait(&p, 1, deadline))
                error = ETIMEDOUT;
            else if (os_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
                error = errno;
            if (error == 0)
                return fd;
            errno = error;
        }
        error = errno;
        os_close(&fd);
        errno = error;
    }
    return -1;
}

static int connect_to(const char *address, struct dlc_mono deadline, int *out, struct dlc_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list = NULL;
    char host[80], service[8];
    uint16_t port;
    int rc;

    if (!redis_address_split(address, host, &port))
        return dlc_err_set(err, DLC_EPROTO, "Redis: '%s' is not an address", address);
    snprintf(service, sizeof(service), "%u", port);
    rc = os_resolve(host, service, &hints, &list);
    if (rc != 0)
        return dlc_err_set(err, DLC_EBUCKET, "Redis %s: %s", address, gai_strerror(rc));
    *out = connect_any(list, deadline);
    rc = *out >= 0 ? 0
                   : dlc_err_set(err, DLC_EBUCKET, "Redis %s: %s; is it running?", address,
                                 strerror(errno));
    freeaddrinfo(list);
    return rc;
}

static int authenticate(struct redis_conn *c, const struct redis_url *u, const char *address,
                        struct dlc_mono deadline, struct dlc_err *err)
{
    redisReply *reply = NULL;
    int rc;

    if (u->password == NULL)
        return 0;
    if (u->user != NULL)
        rc = redis_conn_call(c, deadline, &reply, err, "AUTH", u->user, u->password, (char *)NULL);
    else
        rc = redis_conn_call(c, deadline, &reply, err, "AUTH", u->password, (char *)NULL);
    if (rc == 0 && reply->type == REDIS_REPLY_ERROR)
        rc = dlc_err_set(err, DLC_EDENIED, "Redis %s refuses our user or password: %.200s", address,
                         reply->str);
    if (reply != NULL)
        freeReplyObject(reply);
    return rc;
}

int redis_conn_open(const struct redis_url *u, const char *address, struct dlc_mono deadline,
                    struct redis_conn **out, struct dlc_err *err)
{
    struct redis_conn *c = mem_new(struct redis_conn);
    int rc;

    c->fd = -1;
    c->reader = redisReaderCreate();
    dlc_check(c->reader != NULL);
    rc = connect_to(address, deadline, &c->fd, err);
    if (rc == 0 && u->tls)
        rc = redis_tls_open(u, address, c->fd, deadline, &c->tls, err);
    if (rc == 0)
        rc = authenticate(c, u, address, deadline, err);
    if (rc < 0)
        redis_conn_close(&c);
    *out = c;
    return rc;
}

void redis_conn_close(struct redis_conn **cp)
{
    struct redis_conn *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    redis_tls_close(&c->tls);
    os_close(&c->fd);
    redisReaderFree(c->reader);
    mem_free(&c);
}

int redis_conn_send(struct redis_conn *c, const char *data, size_t len, size_t *at)
{
    while (*at < len) {
        ssize_t n;

        if (c->tls != NULL) {
            n = redis_tls_send(c->tls, data + *at, len - *at, c->tls_error);
            if (n <= 0)
                return (int)n;
            *at += (size_t)n;
            continue;
        }
        n = os_send(c->fd, data + *at, len - *at, 0);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (n < 0 && errno != EINTR)
            return -1;
        *at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* All that OpenSSL has decrypted: poll() would wait for more. */
static int receive_tls(struct redis_conn *c, char *data, size_t cap)
{
    do {
        ssize_t n = redis_tls_receive(c->tls, data, cap, c->tls_error);

        if (n <= 0)
            return (int)n;
        if (redisReaderFeed(c->reader, data, (size_t)n) != REDIS_OK)
            return -1;
    } while (redis_tls_has_more(c->tls));
    return 0;
}

int redis_conn_receive(struct redis_conn *c)
{
    char data[65536];
    ssize_t n;

    if (c->tls != NULL)
        return receive_tls(c, data, sizeof(data));
    n = os_recv(c->fd, data, sizeof(data), 0);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
    if (n == 0) {
        errno = ECONNRESET;
        return -1;
    }
    return redisReaderFeed(c->reader, data, (size_t)n) == REDIS_OK ? 0 : -1;
}

const char *redis_conn_why(const struct redis_conn *c)
{
    return c->tls_error[0] != '\0' ? c->tls_error : strerror(errno);
}

int redis_conn_reply(struct redis_conn *c, redisReply **out)
{
    void *reply = NULL;

    if (redisReaderGetReply(c->reader, &reply) != REDIS_OK) {
        errno = EPROTO;
        return -1;
    }
    *out = reply;
    return 0;
}

static int exchange(struct redis_conn *c, const struct buf *b, struct dlc_mono deadline,
                    redisReply **out)
{
    size_t at = 0;

    while (*out == NULL) {
        struct pollfd p = {.fd = c->fd, .events = (short)(at < b->len ? POLLOUT : POLLIN)};

        if (!redis_wait(&p, 1, deadline)) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (at < b->len ? redis_conn_send(c, b->data, b->len, &at) < 0
                        : redis_conn_receive(c) < 0 || redis_conn_reply(c, out) < 0)
            return -1;
    }
    return 0;
}

/* A server that wants our certificate says so only after the handshake (TLS 1.3). */
static int call_error(const struct redis_conn *c, struct dlc_err *err)
{
    const char *why = redis_conn_why(c);

    if (strstr(why, "alert") != NULL && strstr(why, "certificate") != NULL)
        return dlc_err_set(err, DLC_EDENIED,
                           "Redis refuses our certificate (%s); name one that it knows in the URL: "
                           "rediss://...?cert=FILE&key=FILE",
                           why);
    return dlc_err_set(err, DLC_EBUCKET, "Redis: %s", why);
}

int redis_conn_call(struct redis_conn *c, struct dlc_mono deadline, redisReply **out,
                    struct dlc_err *err, ...)
{
    struct buf args = BUF_INIT, whole = BUF_INIT;
    unsigned n = 0;
    const char *arg;
    va_list list;
    int rc = 0;

    *out = NULL;
    va_start(list, err);
    for (; (arg = va_arg(list, const char *)) != NULL; n++)
        redis_add_bulk(&args, arg, strlen(arg));
    va_end(list);
    buf_addf(&whole, "*%u\r\n", n);
    buf_add(&whole, args.data, args.len);
    if (exchange(c, &whole, deadline, out) < 0)
        rc = call_error(c, err);
    buf_release(&args);
    buf_release(&whole);
    return rc;
}
