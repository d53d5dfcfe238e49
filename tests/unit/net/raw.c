// SPDX-License-Identifier: Apache-2.0
#include "raw.h"

#include <arpa/inet.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/syscalls.h"
#include "unit.h"

#define PATIENCE_MS 10000

int raw_connect(const char *address)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    bool local = address[0] == '/';
    const char *colon = strrchr(address, ':');
    char host[64];
    int fd = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    if (local) {
        snprintf(un.sun_path, sizeof(un.sun_path), "%s", address);
        assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
        return fd;
    }
    snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
    assert_int_equal(inet_pton(AF_INET, host, &in.sin_addr), 1);
    in.sin_port = htons((uint16_t)atoi(colon + 1));
    assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    return fd;
}

void raw_send(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

        if (n <= 0)
            return; /* refused before the end: the answer says why */
        p += n;
        len -= (size_t)n;
    }
}

/* One answer with its body is in b. */
static bool whole(const struct buf *b)
{
    const char *end = b->len > 0 ? strstr(b->data, "\r\n\r\n") : NULL, *length;

    if (end == NULL)
        return false;
    length = strcasestr(b->data, "\ncontent-length:");
    if (length == NULL || length > end)
        return false;
    return b->len >= (size_t)(end + 4 - b->data) + strtoul(length + 16, NULL, 10);
}

static ssize_t receive(int fd, char *data, size_t cap)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    if (poll(&p, 1, PATIENCE_MS) <= 0)
        fail_msg("the server is silent");
    return recv(fd, data, cap, 0);
}

int raw_answer(int fd, struct buf *out)
{
    struct buf own = BUF_INIT, *b = out != NULL ? out : &own;
    int status = 0;
    char data[4096];
    ssize_t n;

    buf_clear(b);
    while (!whole(b) && (n = receive(fd, data, sizeof(data))) > 0)
        buf_add(b, data, (size_t)n);
    if (b->len > 0)
        sscanf(b->data, "HTTP/1.%*d %d", &status);
    buf_release(&own);
    return status;
}

int raw_ask_n(const char *address, const void *data, size_t len, struct buf *out)
{
    int fd = raw_connect(address), status;

    raw_send(fd, data, len);
    status = raw_answer(fd, out);
    os_close(&fd);
    return status;
}

int raw_ask(const char *address, const char *text, struct buf *out)
{
    return raw_ask_n(address, text, strlen(text), out);
}

void raw_rest(int fd, struct buf *out)
{
    char data[4096];
    ssize_t n;

    while ((n = receive(fd, data, sizeof(data))) > 0) {
        if (out != NULL)
            buf_add(out, data, (size_t)n);
    }
}
