// SPDX-License-Identifier: Apache-2.0
/*
 * Is a lock held when a system call is made? No test that only runs two threads shows for sure that
 * a lock is missing. So before each such call another thread tries to take the lock, and must not
 * get it.
 *
 *     lock_watch(CALL_mmap_at, client_lock, client_unlock);
 *     ...
 *     assert_int_equal(lock_watch_end(), 2);     two calls were made, both with the lock
 *
 * A thread that sleeps is taken for one that waits for the lock. It may sleep for another reason, so
 * a missing lock can escape; a lock that is held is never reported.
 *
 * What makes no system call under its lock must wait while another thread has it:
 *
 *     assert_true(waits_for(client_lock, client_unlock, reaps, ds));
 */
#ifndef DLC_TESTS_LOCK_HELD_H
#define DLC_TESTS_LOCK_HELD_H

#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/fault.h"

struct lock_trial {
    pthread_t thread;
    _Atomic pid_t tid;
    _Atomic bool taken;
};

static struct {
    enum fault_call call;
    void (*lock)(void), (*unlock)(void);
    struct lock_trial trials[16];
    unsigned skip; /* so many calls first, which are not of interest */
    unsigned n, without;
} lock_watched;

static inline void *lock_trial_main(void *arg)
{
    struct lock_trial *t = arg;

    atomic_store(&t->tid, gettid());
    lock_watched.lock();
    atomic_store(&t->taken, true);
    lock_watched.unlock();
    return NULL;
}

/* The state of a thread as the kernel says it: 'S' sleeps. */
static inline char thread_state(pid_t tid)
{
    char path[64], state = '?';
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
    f = fopen(path, "re");
    if (f == NULL || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    if (f != NULL)
        fclose(f);
    return state;
}

static inline void lock_trial(enum fault_call call, int fd)
{
    struct lock_trial *t = &lock_watched.trials[lock_watched.n];

    (void)fd;
    if (call != lock_watched.call || (lock_watched.skip > 0 && lock_watched.skip-- > 0))
        return;
    assert_true(lock_watched.n++ < unit_count(lock_watched.trials));
    atomic_store(&t->tid, 0);
    atomic_store(&t->taken, false);
    assert_int_equal(pthread_create(&t->thread, NULL, lock_trial_main, t), 0);
    while (!atomic_load(&t->taken) &&
           (atomic_load(&t->tid) == 0 || thread_state(atomic_load(&t->tid)) != 'S'))
        sched_yield();
    lock_watched.without += atomic_load(&t->taken);
}

static inline void lock_watch(enum fault_call call, void (*lock)(void), void (*unlock)(void))
{
    lock_watched.call = call;
    lock_watched.lock = lock;
    lock_watched.unlock = unlock;
    lock_watched.n = lock_watched.without = lock_watched.skip = 0;
    fault_observe(lock_trial);
}

/* How many such calls there were. Each had the lock. */
static inline unsigned lock_watch_end(void)
{
    fault_observe(NULL);
    for (unsigned i = 0; i < lock_watched.n; i++)
        pthread_join(lock_watched.trials[i].thread, NULL);
    assert_int_equal(lock_watched.without, 0);
    return lock_watched.n;
}

struct lock_waiter {
    void (*f)(void *arg);
    void *arg;
    _Atomic pid_t tid;
    _Atomic bool done;
};

static inline void *lock_waiter_main(void *arg)
{
    struct lock_waiter *w = arg;

    atomic_store(&w->tid, gettid());
    w->f(w->arg);
    atomic_store(&w->done, true);
    return NULL;
}

/* Calls f on another thread while this one holds the lock. Has f waited? */
static inline bool waits_for(void (*lock)(void), void (*unlock)(void), void (*f)(void *arg),
                             void *arg)
{
    struct lock_waiter w = {.f = f, .arg = arg};
    pthread_t t;
    bool waits;

    lock();
    assert_int_equal(pthread_create(&t, NULL, lock_waiter_main, &w), 0);
    while (!atomic_load(&w.done) &&
           (atomic_load(&w.tid) == 0 || thread_state(atomic_load(&w.tid)) != 'S'))
        sched_yield();
    waits = !atomic_load(&w.done);
    unlock();
    pthread_join(t, NULL);
    return waits;
}

#endif
