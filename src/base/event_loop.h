// SPDX-License-Identifier: Apache-2.0
/*
 * An event loop: epoll, timers, and an inbox for other threads.
 *
 * Functions marked L are for the loop's own thread only, X for any thread. loop_post() is the only
 * way from another thread into the loop. A task, a timer and a watch belong to their owner; the
 * loop keeps pointers to them only between the call that adds them and the one that removes them
 * (for a task: until it runs).
 *
 * (EVENT-LOOP-1) A posted task runs exactly once, on the loop's thread, in the order of posting per
 *                poster.
 * (EVENT-LOOP-2) After loop_watch_del() returns, the callback of the watch is not called again, not
 *                even for an event that epoll has already reported.
 * (EVENT-LOOP-3) loop_stop() makes loop_run() return after the tasks posted before it have run.
 * (EVENT-LOOP-4) Events have 4 ms of a turn, and tasks then 4 ms. What is left comes first in the
 *                next turn, after the timers that are due; an edge is not lost by that. A watch is
 *                called for what it waits for at that time, and for errors.
 */
#ifndef DLC_BASE_EVENT_LOOP_H
#define DLC_BASE_EVENT_LOOP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/mutex.h"

struct loop;

struct task {
    void (*run)(struct task *t);
    struct dlc_list link; /* G: the loop's inbox lock */
};

struct timer {
    void (*fire)(struct timer *t);
    struct heap_node node;
};

struct watch {
    void (*ready)(struct watch *w, uint32_t events); /* events as epoll names them */
    int fd;
    uint32_t events;
    bool added;
};

struct loop *loop_new(struct dlc_err *err); /* NULL on failure */
void loop_free(struct loop **lp);           /* not running */

void loop_run(struct loop *l);  /* becomes the loop's thread until loop_stop() */
void loop_stop(struct loop *l); /* X */

void loop_post(struct loop *l, struct task *t); /* X */

struct dlc_mono loop_now(const struct loop *l); /* L: cheap, per turn */
void loop_timer_set(struct loop *l, struct timer *t,
                    struct dlc_mono when);            /* L: sets or moves it */
void loop_timer_del(struct loop *l, struct timer *t); /* L: no-op when not set */

int loop_watch_set(struct loop *l, struct watch *w,
                   uint32_t events);                  /* L: adds or changes; 0 or -1 */
void loop_watch_del(struct loop *l, struct watch *w); /* L: before the fd is closed */

/*
 * How long the turns of a loop take. What counts is the time of the thread's own CPU clock, so that
 * a busy machine does not make a turn look long; a turn that waits for a lock, a disk or a page
 * shows in the time that passes, and debug builds (DLC_DEBUG) count the turns in which the thread
 * slept.
 */
#define LOOP_TURN_MAX DLC_MS(20) /* of CPU: nobody else is served meanwhile */

struct loop_figures {
    uint64_t turns;
    struct dlc_dur longest;        /* turn, CPU time */
    struct dlc_dur longest_passed; /* turn, time that passed */
    char longest_in[96];           /* what took most of the longest turn: "task FILE+0xOFFSET" */
    uint64_t slept;                /* turns in which the thread slept; debug builds only */
};
/* Abort when a turn takes longer than that of CPU time (base/turn_limit.h); 0: never, also from now
 * on (L). A limit is set before loop_run(). */
void loop_limit_turns(struct loop *l, struct dlc_dur most);
void loop_figures(const struct loop *l, struct loop_figures *out); /* L, or after loop_run() */

struct dlc_dur loop_longest_turn(const struct loop *l); /* X: of the figures, `longest` */

/* A loop with a thread of its own. */
struct loop_thread {
    struct loop *loop;
    pthread_t thread;
};

int loop_thread_start(struct loop_thread *t, const char *name, struct dlc_err *err);
void loop_thread_stop(struct loop_thread *t); /* X: stops, joins, frees */

#endif
