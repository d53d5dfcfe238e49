// SPDX-License-Identifier: Apache-2.0
#include "echo_server.h"

#include <time.h>

#include "base/mem.h"
#include "unit.h"

static json_t *text(const char *s)
{
    return s != NULL ? json_string(s) : json_null();
}

static void on_echo(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)ctx;
    reply->body = json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:s, s:O*}", "a", text(r->params[0]),
                            "b", text(r->params[1]), "q", text(http_query(r, "q")), "x",
                            text(http_header(r, "X-Test")), "token", text(r->token), "local",
                            (int)r->local, "method", r->method, "body", r->body);
    reply->etag = mem_str("\"7\"");
}

static void on_done(void *arg)
{
    struct echo_server *p = arg;

    p->done++;
}

static unsigned char bytes[4 << 20];

static void on_data(struct http_request *r, struct http_reply *reply, void *ctx)
{
    size_t n = strtoul(r->params[0], NULL, 10);

    reply->data = bytes;
    reply->data_len = n;
    reply->done = on_done;
    reply->arg = ctx;
    http_reply_header(reply, "Dlcache-From", "%s", "memory");
}

struct stream {
    struct echo_server *p;
    int i, n;
};

static long stream_next(void *arg, char *buf, size_t cap)
{
    struct stream *s = arg;

    if (s->i == s->n && s->n > 0)
        return -1;
    if (s->i == s->n) {
        struct timespec t;

        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += 20000000;
        if (t.tv_nsec >= 1000000000) {
            t.tv_nsec -= 1000000000;
            t.tv_sec++;
        }
        sem_timedwait(&s->p->release, &t);
        return 0;
    }
    return snprintf(buf, cap, "{\"i\": %d}\n", s->i++);
}

static void stream_done(void *arg)
{
    struct stream *s = arg;

    s->p->done++;
    mem_free(&s);
}

static void on_stream(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct stream *s = mem_new(struct stream);

    s->p = ctx;
    s->n = atoi(r->params[0]);
    s->p->streams++;
    reply->next = stream_next;
    reply->done = stream_done;
    reply->arg = s;
}

static void on_block(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct echo_server *p = ctx;

    (void)r;
    sem_post(&p->entered);
    sem_wait(&p->release);
    p->blocked++;
    reply->status = 201;
    reply->body = json_pack("{s:b}", "good", 1);
}

static void on_fail(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct dlc_err err;

    (void)r;
    (void)ctx;
    dlc_err_set(&err, DLC_ENOSPACE, "3 bytes are missing; make room");
    http_problem_err(reply, &err);
}

static bool check(struct http_request *r, const struct http_route *route, struct http_reply *reply,
                  void *ctx)
{
    (void)ctx;
    if (route->roles == 0 || (r->token != NULL && strcmp(r->token, "secret") == 0))
        return true;
    http_problem(reply, r->token == NULL ? 401 : 403, "No", "show the token");
    http_reply_header(reply, "WWW-Authenticate", "Bearer");
    return false;
}

static const struct http_route routes[] = {
    {"GET", "/echo/{a}/{b}", 0, on_echo},
    {"GET", "/echo/{a}", 0, on_echo},
    {"POST", "/echo/{a}", 0, on_echo},
    {"PUT", "/echo/{a}", 0, on_echo},
    {"GET", "/data/{n}", 0, on_data},
    {"GET", "/stream/{n}", 0, on_stream},
    {"POST", "/block", 0, on_block},
    {"GET", "/fail", 0, on_fail},
    {"GET", "/private", 1, on_echo},
    {"POST", "/private", 1, on_echo},
    {NULL, NULL, 0, NULL},
};

void echo_server_open(struct echo_server *p, const struct http_server_config *like)
{
    struct http_server_config c = {0};
    struct dlc_err err = DLC_ERR_INIT;

    memset(p, 0, sizeof(*p));
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i % 251);
    sem_init(&p->entered, 0, 0);
    sem_init(&p->release, 0, 0);
    if (like != NULL)
        c = *like;
    c.address = "127.0.0.1:0";
    c.unix_path = unit_path("api", p->unix_path);
    c.routes = routes;
    c.ctx = p;
    c.check = check;
    if (http_server_open(&c, &p->server, &err) < 0)
        fail_msg("%s", err.text);
    p->address = http_server_address(p->server);
}

void echo_server_close(struct echo_server *p)
{
    http_server_close(&p->server);
    sem_destroy(&p->entered);
    sem_destroy(&p->release);
}
