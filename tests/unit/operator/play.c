// SPDX-License-Identifier: Apache-2.0
#include "play.h"

#include <arpa/inet.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "unit.h"

#define EXISTS "{\"kind\": \"Status\", \"reason\": \"AlreadyExists\", \"message\": \"is there\"}"
#define OTHER  "{\"kind\": \"Status\", \"reason\": \"Conflict\", \"message\": \"another version\"}"
#define NONE   "{\"kind\": \"Status\", \"reason\": \"NotFound\", \"message\": \"not found\"}"

struct request {
    char method[8], path[256], what[300];
    json_t *body; /* owned; NULL: none */
};

json_t *play_parse(const char *json)
{
    json_error_t e;
    json_t *j = json_loads(json, JSON_DECODE_ANY, &e);

    if (j == NULL)
        fail_msg("%s at %d of %s", e.text, e.position, json);
    return j;
}

static const char *text(const json_t *o, const char *member)
{
    const char *s = json_string_value(json_object_get(o, member));

    return s != NULL ? s : "";
}

/* ---- what it keeps ---- */

/* stringData of a Secret becomes data. */
static void encode(json_t *object)
{
    json_t *texts = json_object_get(object, "stringData"), *v;
    const char *key;

    if (texts != NULL && json_object_get(object, "data") == NULL)
        json_object_set_new(object, "data", json_object());
    json_object_foreach(texts, key, v)
    {
        struct buf b = BUF_INIT;

        str_base64(json_string_value(v), json_string_length(v), &b);
        json_object_set_new(json_object_get(object, "data"), key, json_string(buf_str(&b)));
        buf_release(&b);
    }
    json_object_del(object, "stringData");
}

static void touch(struct play *p, json_t *object)
{
    json_t *meta = json_object_get(object, "metadata");
    char version[16], uid[16];

    encode(object);
    if (meta == NULL)
        return;
    snprintf(version, sizeof(version), "%d", ++p->version);
    snprintf(uid, sizeof(uid), "u%d", p->version);
    json_object_set_new(meta, "resourceVersion", json_string(version));
    if (json_object_get(meta, "uid") == NULL)
        json_object_set_new(meta, "uid", json_string(uid));
}

void play_put(struct play *p, const char *path, json_t *object)
{
    touch(p, object);
    json_object_set_new(p->kept, path, object);
}

json_t *play_at(struct play *p, const char *path)
{
    return json_object_get(p->kept, path);
}

static void merge(json_t *to, const json_t *from)
{
    const char *name;
    json_t *v;

    json_object_foreach((json_t *)from, name, v)
    {
        if (json_is_null(v))
            json_object_del(to, name);
        else if (json_is_object(v) && json_is_object(json_object_get(to, name)))
            merge(json_object_get(to, name), v);
        else
            json_object_set_new(to, name, json_deep_copy(v));
    }
}

static bool differs(const json_t *have, const json_t *want, const char *member)
{
    const char *w = text(json_object_get(want, "metadata"), member);

    return w[0] != '\0' && strcmp(w, text(json_object_get(have, "metadata"), member)) != 0;
}

static json_t *change(struct play *p, const struct request *r, int *status)
{
    char path[256], *end;
    json_t *have;

    snprintf(path, sizeof(path), "%s", r->path);
    end = strstr(path, "/status");
    if (end != NULL)
        *end = '\0';
    have = play_at(p, path);
    *status = have == NULL ? 404 : 200;
    if (have == NULL)
        return play_parse(NONE);
    if (differs(have, r->body, "resourceVersion") || differs(have, r->body, "uid")) {
        *status = 409;
        return play_parse(OTHER);
    }
    if (end != NULL)
        json_object_set_new(have, "status", json_deep_copy(json_object_get(r->body, "status")));
    else
        merge(have, r->body);
    touch(p, have);
    return json_incref(have);
}

static json_t *make(struct play *p, const struct request *r, int *status)
{
    const char *name = text(json_object_get(r->body, "metadata"), "name");
    char *path = mem_fmt("%s/%s", r->path, name[0] != '\0' ? name : text(r->body, "name"));
    json_t *out;

    *status = play_at(p, path) != NULL ? 409 : 201;
    if (*status == 201)
        play_put(p, path, r->body != NULL ? json_deep_copy(r->body) : json_object());
    out = *status == 201 ? json_incref(play_at(p, path)) : play_parse(EXISTS);
    mem_free(&path);
    return out;
}

/* Gives. */
static json_t *answer(struct play *p, const struct request *r, int *status)
{
    json_t *have = play_at(p, r->path);

    if (strcmp(r->method, "POST") == 0)
        return make(p, r, status);
    if (strcmp(r->method, "PUT") == 0 || strcmp(r->method, "PATCH") == 0)
        return change(p, r, status);
    *status = have != NULL ? 200 : 404;
    have = have != NULL ? json_incref(have) : play_parse(NONE);
    if (strcmp(r->method, "DELETE") == 0)
        json_object_del(p->kept, r->path);
    return have;
}

/* ---- what it was told ---- */

void play_says(struct play *p, const char *what, int status, const char *json, int times)
{
    json_t *all = json_object_get(p->says, what);

    if (all == NULL) {
        all = json_array();
        json_object_set_new(p->says, what, all);
    }
    json_array_append_new(all,
                          json_pack("{s:i, s:o, s:i}", "status", status, "body",
                                    json != NULL ? play_parse(json) : json_null(), "times", times));
}

void play_forget(struct play *p)
{
    json_object_clear(p->says);
}

/* Gives *body, NULL for none. */
static bool was_told(struct play *p, const struct request *r, int *status, json_t **body)
{
    json_t *all = json_object_get(p->says, r->what), *first = json_array_get(all, 0);
    json_int_t times = json_integer_value(json_object_get(first, "times"));

    if (first == NULL)
        return false;
    *status = (int)json_integer_value(json_object_get(first, "status"));
    *body = json_object_get(first, "body");
    *body = json_is_null(*body) ? NULL : json_incref(*body);
    if (times > 1)
        json_object_set_new(first, "times", json_integer(times - 1));
    else if (times == 1)
        json_array_remove(all, 0);
    return true;
}

/* ---- the connection ---- */

static void header(const char *head, const char *name, char *out, size_t len)
{
    size_t n = strlen(name);

    out[0] = '\0';
    for (const char *l = strstr(head, "\r\n"); l != NULL; l = strstr(l, "\r\n")) {
        l += 2;
        if (strncasecmp(l, name, n) == 0)
            snprintf(out, len, "%.*s", (int)strcspn(l + n, "\r"), l + n);
    }
}

/* A whole request: its head and as many bytes as it says. False: the client went. */
static bool receive(struct play *p, int fd, struct request *r)
{
    struct buf b = BUF_INIT;
    char data[4096], length[16];
    const char *end = NULL;
    size_t need = 0;
    ssize_t n = 1;

    memset(r, 0, sizeof(*r));
    while (end == NULL || b.len < need) {
        n = recv(fd, data, sizeof(data), 0);
        if (n <= 0)
            break;
        buf_add(&b, data, (size_t)n);
        end = strstr(b.data, "\r\n\r\n");
        if (end != NULL) {
            header(b.data, "Content-Length: ", length, sizeof(length));
            need = (size_t)(end + 4 - b.data) + (size_t)atol(length);
        }
    }
    if (n > 0 && sscanf(b.data, "%7s %255[^ ?]", r->method, r->path) == 2) {
        header(b.data, "Authorization: Bearer ", p->token, sizeof(p->token));
        header(b.data, "Idempotency-Key: ", p->idempotent, sizeof(p->idempotent));
        header(b.data, "Dlcache-As-Tenant: ", p->as_tenant, sizeof(p->as_tenant));
        r->body = json_loads(end + 4, 0, NULL);
        snprintf(r->what, sizeof(r->what), "%s %s", r->method, r->path);
    }
    buf_release(&b);
    return r->path[0] != '\0';
}

static void serve(struct play *p, int fd)
{
    struct request r;
    struct buf b = BUF_INIT;
    json_t *body = NULL;
    int status;

    if (!receive(p, fd, &r))
        return;
    buf_addf(&p->asked, "%s\n", r.what);
    if (r.body != NULL)
        json_object_set(p->bodies, r.what, r.body);
    if (!was_told(p, &r, &status, &body))
        body = answer(p, &r, &status);
    if (status != 0) {
        char *json = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;

        buf_addf(&b, "HTTP/1.1 %d X\r\nConnection: close\r\n%s", status,
                 status == 429 ? "Retry-After: 7\r\n" : "");
        buf_addf(&b, "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                 json != NULL ? strlen(json) : 0, json != NULL ? json : "");
        free(json);
    }
    json_decref(body);
    json_decref(r.body);
    if (b.len > 0)
        send(fd, b.data, b.len, MSG_NOSIGNAL);
    buf_release(&b);
}

static void *run(void *arg)
{
    struct play *p = arg;
    int fd;

    while ((fd = accept(p->fd, NULL, NULL)) >= 0) {
        pthread_mutex_lock(&p->mtx);
        serve(p, fd);
        pthread_mutex_unlock(&p->mtx);
        close(fd);
    }
    return NULL;
}

void play_open(struct play *p)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);

    memset(p, 0, sizeof(*p));
    pthread_mutex_init(&p->mtx, NULL);
    p->kept = json_object();
    p->says = json_object();
    p->bodies = json_object();
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(p->fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(p->fd, 16), 0);
    assert_int_equal(getsockname(p->fd, (struct sockaddr *)&a, &len), 0);
    snprintf(p->base, sizeof(p->base), "http://127.0.0.1:%u", ntohs(a.sin_port));
    assert_int_equal(pthread_create(&p->thread, NULL, run, p), 0);
}

void play_close(struct play *p)
{
    shutdown(p->fd, SHUT_RDWR);
    pthread_join(p->thread, NULL);
    os_close(&p->fd);
    pthread_mutex_destroy(&p->mtx);
    json_decref(p->kept);
    json_decref(p->says);
    json_decref(p->bodies);
    buf_release(&p->asked);
}

/* ---- what it was asked ---- */

json_t *play_body(struct play *p, const char *what)
{
    return json_object_get(p->bodies, what);
}

int play_count(const struct play *p, const char *of)
{
    size_t n = strlen(of);
    int count = 0;

    for (const char *l = buf_str(&p->asked); *l != '\0'; l = strchr(l, '\n') + 1)
        count += strncmp(l, of, n) == 0;
    return count;
}

void play_expect(struct play *p, const char *want)
{
    struct buf b = BUF_INIT;

    for (const char *l = buf_str(&p->asked); *l != '\0'; l = strchr(l, '\n') + 1)
        buf_addf(&b, "%s%.*s", b.len > 0 ? ", " : "", (int)strcspn(l, "\n"), l);
    assert_string_equal(buf_str(&b), want);
    buf_release(&b);
    buf_clear(&p->asked);
}
