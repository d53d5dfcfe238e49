// SPDX-License-Identifier: Apache-2.0
#include "odd.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "base/syscalls.h"
#include "unit.h"

static void *odd_run(void *arg)
{
    struct odd *o = arg;
    int kept[64], n = 0, fd;
    char data[4096];

    while ((fd = accept(o->fd, NULL, NULL)) >= 0 && n < 64) {
        if (recv(fd, data, sizeof(data), 0) > 0)
            o->asked++;
        if (o->answer != NULL)
            send(fd, o->answer, strlen(o->answer), MSG_NOSIGNAL);
        if (o->answer == NULL || o->stays)
            kept[n++] = fd;
        else
            close(fd);
    }
    while (n > 0)
        close(kept[--n]);
    return NULL;
}

void odd_open(struct odd *o, const char *answer)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);

    memset(o, 0, sizeof(*o));
    o->answer = answer;
    o->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(o->fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(o->fd, 16), 0);
    assert_int_equal(getsockname(o->fd, (struct sockaddr *)&a, &len), 0);
    snprintf(o->base, sizeof(o->base), "http://127.0.0.1:%u", ntohs(a.sin_port));
    assert_int_equal(pthread_create(&o->thread, NULL, odd_run, o), 0);
}

void odd_close(struct odd *o)
{
    shutdown(o->fd, SHUT_RDWR);
    pthread_join(o->thread, NULL);
    os_close(&o->fd);
}

void odd_dead(char out[static 64])
{
    struct odd o;

    odd_open(&o, "");
    memcpy(out, o.base, 64);
    odd_close(&o);
}
