// SPDX-License-Identifier: Apache-2.0
/* A server with a few routes that answer with what they were asked, for tests. */
#ifndef DLC_TEST_ECHO_SERVER_H
#define DLC_TEST_ECHO_SERVER_H

#include <semaphore.h>
#include <stdatomic.h>

#include "net/server.h"

/*
 * GET  /echo/{a}/{b}      {"a", "b", "q", "x", "token", "local", "method"}
 * POST /echo/{a}          {"a", "body"}; PUT too
 * GET  /data/{n}          n bytes, byte i being i modulo 251
 * GET  /stream/{n}        n lines {"i": N}, then (n = 0) nothing until the client goes or the end
 * POST /block             waits until `release` is posted
 * GET  /fail              a problem
 * GET  /private           (POST too) refused by check() unless the token is "secret"
 */
struct echo_server {
    struct http_server *server;
    const char *address;
    char unix_path[256];
    _Atomic int done, streams, blocked;
    sem_t entered, release;
};

void echo_server_open(struct echo_server *p,
                      const struct http_server_config *like); /* like: may be NULL */
void echo_server_close(struct echo_server *p);

#endif
