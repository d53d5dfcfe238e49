// SPDX-License-Identifier: Apache-2.0
/*
 * For tests of origins that speak HTTP: a lane that runs attempts one by one, and a server that
 * gives scripted answers and remembers what it was asked.
 */
#ifndef DLC_TEST_ORIGIN_RUN_H
#define DLC_TEST_ORIGIN_RUN_H

#include <pthread.h>
#include <semaphore.h>

#include "base/event_loop.h"
#include "bucket/origins/origin.h"
#include "tiny_http.h"

struct origin_run {
    struct origin *origin; /* taken */
    struct loop_thread thread;
    sem_t done;
};

void origin_run_open(struct origin_run *r, struct origin *o);
void origin_run_close(struct origin_run *r);
/* Start it and wait until it has ended; checks that it does not end inside start(). */
void origin_run_attempt(struct origin_run *r, struct attempt *a);
/* Start it and cancel it at once. */
void origin_run_cancelled(struct origin_run *r, struct attempt *a);

struct script {
    struct tiny_http server;
    const char *const *answers; /* raw; after the last (NULL) that one is repeated. "": silence */
    pthread_mutex_t mtx;
    unsigned asked;  /* G: mtx */
    struct buf head; /* G: mtx: of the latest request */
};

void script_start(struct script *s);
void script_stop(struct script *s);
void script_set(struct script *s, const char *const *answers); /* and count from 0 */
unsigned script_asked(struct script *s);
/* Does the head of the latest request hold this text? Case does not matter. */
bool script_saw(struct script *s, const char *text);

#endif
