// SPDX-License-Identifier: Apache-2.0
#include "tiny_http.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"

void tiny_reply(struct buf *out, int status, const char *body)
{
    buf_addf(out, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s", status,
             strlen(body), body);
}

char *tiny_header(const struct tiny_request *r, const char *name)
{
    const char *line = strchr(r->head, '\n');
    size_t n = strlen(name);

    for (; line != NULL; line = strchr(line, '\n')) {
        line++;
        if (strncasecmp(line, name, n) == 0 && line[n] == ':') {
            char *copy = mem_strn(line + n + 1, strcspn(line + n + 1, "\r\n"));
            char *value = mem_str(str_trim(copy));

            mem_free(&copy);
            return value;
        }
    }
    return NULL;
}

static bool receive(int fd, struct buf *in)
{
    char chunk[4096];
    ssize_t n = recv(fd, chunk, sizeof(chunk), 0);

    if (n <= 0)
        return false;
    buf_add(in, chunk, (size_t)n);
    return true;
}

/* Read one request. False: the client went away. */
static bool receive_request(int fd, struct buf *in, size_t *head_len)
{
    const char *end, *length;

    while ((end = strstr(buf_str(in), "\r\n\r\n")) == NULL) {
        if (!receive(fd, in))
            return false;
    }
    *head_len = (size_t)(end - in->data) + 4;
    length = strcasestr(in->data, "\r\ncontent-length:");
    while (length != NULL && length < end &&
           in->len < *head_len + strtoul(length + sizeof("\r\ncontent-length:") - 1, NULL, 10)) {
        if (!receive(fd, in))
            return false;
        length = strcasestr(in->data, "\r\ncontent-length:");
        end = in->data + *head_len - 4;
    }
    return true;
}

static void serve(struct tiny_http *h, int fd)
{
    struct buf in = BUF_INIT, out = BUF_INIT;
    size_t head_len;

    if (receive_request(fd, &in, &head_len)) {
        char *head = mem_strn(in.data, head_len), *line = mem_strn(head, strcspn(head, "\r"));
        char *save, *method = strtok_r(line, " ", &save), *target = strtok_r(NULL, " ", &save);
        struct tiny_request r = {method, target, head, in.data + head_len};

        h->answer(h->priv, &r, &out);
        if (out.len > 0)
            send(fd, out.data, out.len, MSG_NOSIGNAL);
        else
            while (receive(fd, &in))
                ;
        mem_free(&line);
        mem_free(&head);
    }
    buf_release(&in);
    buf_release(&out);
}

static void *server_main(void *priv)
{
    struct tiny_http *h = priv;
    int fd;

    while ((fd = accept(h->fd, NULL, NULL)) >= 0) {
        serve(h, fd);
        close(fd);
    }
    return NULL;
}

void tiny_http_start(struct tiny_http *h)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);

    h->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    dlc_check(h->fd >= 0 && bind(h->fd, (struct sockaddr *)&a, len) == 0);
    dlc_check(listen(h->fd, 16) == 0 && getsockname(h->fd, (struct sockaddr *)&a, &len) == 0);
    snprintf(h->url, sizeof(h->url), "http://127.0.0.1:%u", ntohs(a.sin_port));
    dlc_check(pthread_create(&h->thread, NULL, server_main, h) == 0);
}

void tiny_http_stop(struct tiny_http *h)
{
    shutdown(h->fd, SHUT_RDWR);
    pthread_join(h->thread, NULL);
    os_close(&h->fd);
}
