// SPDX-License-Identifier: Apache-2.0
/* A loopback HTTP server for tests: one thread, one request per connection. */
#ifndef DLC_TEST_TINY_HTTP_H
#define DLC_TEST_TINY_HTTP_H

#include "base/buf.h"

struct tiny_request {
    const char *method, *target;
    const char *head; /* request line and header lines */
    const char *body;
};

struct tiny_http {
    /* Called on the server's thread. Appends the whole answer (tiny_reply()); with none, the server
     * says nothing until the client hangs up. */
    void (*answer)(void *priv, const struct tiny_request *r, struct buf *out);
    void *priv;
    char url[40]; /* http://127.0.0.1:PORT */
    int fd;
    unsigned long thread;
};

void tiny_http_start(struct tiny_http *h);
void tiny_http_stop(struct tiny_http *h);

void tiny_reply(struct buf *out, int status, const char *body);

/* The value of a header, copied; NULL when absent. */
char *tiny_header(const struct tiny_request *r, const char *name);

#endif
