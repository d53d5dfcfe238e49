// SPDX-License-Identifier: Apache-2.0
/*
 * A TCP proxy on loopback that makes a near server look far: what a client sends reaches the server
 * after a delay, what the server answers goes back at once. So each request costs one latency.
 *
 * usage: bench-delay-proxy SERVER-PORT DELAY-MS [JITTER-MS [BYTES-PER-S]]
 *        prints the port it listens at. JITTER-MS: so much more delay at most, at random.
 *        BYTES-PER-S: of the answers of all connections together; 0: no limit
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/event_loop.h"
#include "base/mem.h"
#include "base/rng.h"

#define CHUNK (256u << 10)
#define SLICE 4096u /* of a link with a limit: connections take turns */

struct late { /* bytes on their way to the server */
    struct dlc_list link;
    struct dlc_mono due;
    size_t len;
    char data[];
};

struct pair {
    struct watch client, server;
    struct timer timer, pause; /* pause: the link is busy */
    struct dlc_list late;
    char *back; /* answer bytes that the client did not take yet */
    size_t back_len, back_at;
};

static struct loop *loop;
static struct sockaddr_in server_addr;
static struct dlc_dur delay, jitter;
static uint64_t bytes_per_s;
static struct dlc_mono link_free; /* when the link has carried what was sent */
static struct rng numbers = {1};

static void pair_free(struct pair *p)
{
    struct dlc_list *n;

    loop_watch_del(loop, &p->client);
    loop_watch_del(loop, &p->server);
    loop_timer_del(loop, &p->timer);
    loop_timer_del(loop, &p->pause);
    close(p->client.fd);
    close(p->server.fd);
    while ((n = dlc_list_pop_head(&p->late)) != NULL) {
        struct late *l = dlc_container(n, struct late, link);

        mem_free(&l);
    }
    mem_free(&p->back);
    mem_free(&p);
}

static void on_due(struct timer *t)
{
    struct pair *p = dlc_container(t, struct pair, timer);

    while (!dlc_list_empty(&p->late)) {
        struct late *l = dlc_container(p->late.next, struct late, link);

        if (l->due.ns > loop_now(loop).ns) {
            loop_timer_set(loop, t, l->due);
            return;
        }
        /* Requests are small: the socket's buffer takes them whole. */
        if (write(p->server.fd, l->data, l->len) != (ssize_t)l->len) {
            pair_free(p);
            return;
        }
        dlc_list_remove(&l->link);
        mem_free(&l);
    }
}

static void on_request(struct watch *w, uint32_t events)
{
    struct pair *p = dlc_container(w, struct pair, client);
    struct late *l;
    ssize_t n;

    if ((events & EPOLLOUT) != 0 && p->back_len > p->back_at) {
        n = write(w->fd, p->back + p->back_at, p->back_len - p->back_at);
        p->back_at += n > 0 ? (size_t)n : 0;
        if (p->back_at == p->back_len) {
            loop_watch_set(loop, w, EPOLLIN);
            loop_watch_set(loop, &p->server, EPOLLIN);
        }
    }
    if ((events & ~(uint32_t)EPOLLOUT) == 0)
        return;
    l = mem_alloc(sizeof(*l) + 16384);
    n = read(w->fd, l->data, 16384);
    if (n <= 0) {
        mem_free(&l);
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            pair_free(p);
        return;
    }
    l->len = (size_t)n;
    l->due = dlc_mono_add(dlc_mono_now(), delay);
    if (jitter.ns > 0)
        l->due = dlc_mono_add(l->due,
                              (struct dlc_dur){(int64_t)rng_below(&numbers, (uint64_t)jitter.ns)});
    if (dlc_list_empty(&p->late))
        loop_timer_set(loop, &p->timer, l->due);
    dlc_list_push_tail(&p->late, &l->link);
}

static void on_pause_over(struct timer *t)
{
    struct pair *p = dlc_container(t, struct pair, pause);

    if (p->back_at == p->back_len)
        loop_watch_set(loop, &p->server, EPOLLIN);
}

/* Nothing more of this answer until the link has carried n bytes. */
static void link_carry(struct pair *p, uint64_t n)
{
    struct dlc_mono now = dlc_mono_now();

    if (bytes_per_s == 0)
        return;
    if (link_free.ns < now.ns)
        link_free = now;
    link_free.ns += (int64_t)(n * 1000000000 / bytes_per_s);
    loop_watch_set(loop, &p->server, 0);
    loop_timer_set(loop, &p->pause, link_free);
}

static void on_answer(struct watch *w, uint32_t events)
{
    struct pair *p = dlc_container(w, struct pair, server);
    ssize_t n = read(w->fd, p->back, bytes_per_s > 0 ? SLICE : CHUNK), sent;

    (void)events;
    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            pair_free(p);
        return;
    }
    sent = write(p->client.fd, p->back, (size_t)n);
    if (sent < 0 && errno != EAGAIN) {
        pair_free(p);
        return;
    }
    if (sent < n) {
        p->back_at = sent > 0 ? (size_t)sent : 0;
        p->back_len = (size_t)n;
        loop_watch_set(loop, &p->client, EPOLLIN | EPOLLOUT);
        loop_watch_set(loop, &p->server, 0);
    } else {
        link_carry(p, (uint64_t)n);
    }
}

static void on_connect(struct watch *w, uint32_t events)
{
    struct pair *p = mem_new(struct pair);
    int one = 1;

    (void)events;
    p->client.fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK);
    p->server.fd = socket(AF_INET, SOCK_STREAM, 0);
    if (p->client.fd < 0 ||
        connect(p->server.fd, (struct sockaddr *)&server_addr, sizeof(server_addr)) < 0) {
        perror("bench-delay-proxy");
        exit(1);
    }
    setsockopt(p->client.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(p->server.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    dlc_list_init(&p->late);
    p->timer.fire = on_due;
    p->pause.fire = on_pause_over;
    p->client.ready = on_request;
    p->server.ready = on_answer;
    p->back = mem_alloc(CHUNK);
    loop_watch_set(loop, &p->client, EPOLLIN);
    loop_watch_set(loop, &p->server, EPOLLIN);
}

int main(int argc, char **argv)
{
    struct sockaddr_in me = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct watch listener = {.ready = on_connect};
    socklen_t len = sizeof(me);

    if (argc < 3 || argc > 5) {
        fprintf(stderr,
                "usage: bench-delay-proxy SERVER-PORT DELAY-MS [JITTER-MS [BYTES-PER-S]]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    server_addr = me;
    server_addr.sin_port = htons((uint16_t)atoi(argv[1]));
    delay = DLC_MS(atoi(argv[2]));
    jitter = DLC_MS(argc > 3 ? atoi(argv[3]) : 0);
    bytes_per_s = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    loop = loop_new(NULL);
    listener.fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener.fd, (struct sockaddr *)&me, sizeof(me)) < 0 ||
        listen(listener.fd, 1024) < 0 ||
        getsockname(listener.fd, (struct sockaddr *)&me, &len) < 0) {
        perror("bench-delay-proxy");
        return 1;
    }
    printf("%d\n", ntohs(me.sin_port));
    fflush(stdout);
    loop_watch_set(loop, &listener, EPOLLIN);
    loop_run(loop);
    return 0;
}
