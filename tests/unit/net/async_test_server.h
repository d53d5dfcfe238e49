// SPDX-License-Identifier: Apache-2.0
/*
 * An asynchronous server for tests, and clients of it. GET /data/N: N bytes of `bytes`; /held/N:
 * 100 bytes after release_held(); /echo/A: the request as JSON; /file/N: N bytes of a file that
 * holds the same bytes, ASYNC_FILE of them.
 */
#ifndef DLC_TEST_ASYNC_TEST_SERVER_H
#define DLC_TEST_ASYNC_TEST_SERVER_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/fault.h"
#include "net/async_server.h"
#include "unit.h"

#define GET(path)  "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define ASYNC_DATA (32u << 20)
#define ASYNC_FILE (4u << 20)
#define HELD_MAX   4096
#define LONG       "16777216" /* bytes: more than sockets hold */

struct async_test_server {
    struct async_server *server;
    const char *address;
    struct pool *pool;
    unsigned char *bytes;
    int file;
    _Atomic int begun, done, jobs;
    pthread_mutex_t mtx;
    struct async_call *held[HELD_MAX]; /* G: mtx: that wait for release_held() */
    _Atomic int n_held;                /* W: under mtx */
};
extern struct async_test_server s;

#define WAIT_FOR(condition)                                                                        \
    do {                                                                                           \
        for (int turn_ = 0; !(condition); turn_++) {                                               \
            if (turn_ > 10000)                                                                     \
                fail_msg("never: %s", #condition);                                                 \
            poll(NULL, 0, 1);                                                                      \
        }                                                                                          \
    } while (0)

/* With a plan for faults (NULL: none), made before the server has threads. */
int try_start(const struct async_server_config *like, const struct fault_plan *plan,
              struct dlc_err *err);
void start(const struct async_server_config *like);
int release_held(void); /* answers those who wait; how many */
void stop(void);        /* fails the test unless all was given back */
struct async_figures figures(void);

int connect_from(int k); /* from 127.0.1.K, so that clients have addresses of their own */
void say(int fd, const char *text);
bool has_body(const struct buf *answer, size_t offset, size_t n);
void expect_alive(void);

int prepare(void **state); /* of the group */
int clean(void **state);

#endif
