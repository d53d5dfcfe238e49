// SPDX-License-Identifier: Apache-2.0
/* A server that answers everybody with the same bytes, or with silence. */
#ifndef DLC_TEST_ODD_H
#define DLC_TEST_ODD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Each connection gets `answer` after the first piece of its request, and is closed then. */
struct odd {
    int fd;
    const char *answer; /* NULL: silence */
    bool stays;         /* the connection stays open after the answer */
    _Atomic int asked;
    pthread_t thread;
    char base[64]; /* "http://127.0.0.1:PORT" */
};

void odd_open(struct odd *o, const char *answer);
void odd_close(struct odd *o);
void odd_dead(char out[static 64]); /* an address at which nobody listens */

#endif
