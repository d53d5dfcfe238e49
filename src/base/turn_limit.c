// SPDX-License-Identifier: Apache-2.0
#include "base/turn_limit.h"

#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/event_loop.h"
#include "base/syscalls.h"
#include "base/str.h"

#define FRAMES      32
#define TURN_SIGNAL SIGXCPU /* its default ends the process too, and nobody else uses it */

struct dlc_dur turn_limit_configured(void)
{
    const char *env = getenv("DLCACHE_TURN_LIMIT_MS");
    uint64_t ms;

    if (env != NULL && str_parse_u64(env, &ms) && ms < 1000000)
        return DLC_MS((int64_t)ms);
#ifdef DLC_DEBUG
    return (struct dlc_dur){5 * LOOP_TURN_MAX.ns};
#else
    return (struct dlc_dur){0};
#endif
}

static _Thread_local struct turn_limit *current; /* of the loop that this thread runs */

static long preemptions(void)
{
    struct rusage u;

    return getrusage(RUSAGE_THREAD, &u) == 0 ? u.ru_nivcsw : 0;
}

static void set_timer(const struct turn_limit *t, int64_t ns)
{
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)}};

    timer_settime(t->timer, 0, &when, NULL);
}

/* In a signal handler: only calls that are allowed there, and system calls. backtrace() is allowed
 * once it was called. */
static void on_signal(int sig)
{
    static const char text[] =
        "dlcache: BUG: one turn of the event loop takes too long; readers wait meanwhile. It is "
        "here (addr2line -fe FILE +OFFSET):\n";
    void *frames[FRAMES];
    int n;

    (void)sig;
    if (current != NULL && current->preempted >= 0 && preemptions() != current->preempted) {
        current->preempted = -1; /* the next time is the last */
        set_timer(current, (TURN_LIMIT_BUSY - 1) * current->most.ns);
        return;
    }
    n = backtrace(frames, FRAMES);
    if (os_write(STDERR_FILENO, text, sizeof(text) - 1) > 0)
        backtrace_symbols_fd(frames, n, STDERR_FILENO);
    abort();
}

void turn_limit_open(struct turn_limit *t)
{
    struct sigaction act = {.sa_handler = on_signal};
    struct sigevent ev = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = TURN_SIGNAL};
    void *frame;

    t->armed = false;
    if (t->most.ns == 0)
        return;
    backtrace(&frame, 1); /* loads what it needs */
    ev._sigev_un._tid = gettid();
    if (sigaction(TURN_SIGNAL, &act, NULL) < 0 ||
        timer_create(CLOCK_THREAD_CPUTIME_ID, &ev, &t->timer) < 0)
        log_warn("no timer for long turns of the event loop; they are found when they end");
    else
        t->armed = true;
    current = t;
}

void turn_limit_restart(struct turn_limit *t)
{
    if (!t->armed)
        return;
    t->preempted = preemptions();
    set_timer(t, t->most.ns);
}

bool turn_limit_is_over(const struct turn_limit *t, struct dlc_dur cpu)
{
    int64_t most = t->most.ns;

    if (t->most.ns == 0)
        return false;
    if (!t->armed || t->preempted < 0 || preemptions() != t->preempted)
        most *= TURN_LIMIT_BUSY;
    return cpu.ns > most;
}

void turn_limit_close(struct turn_limit *t)
{
    if (t->armed)
        timer_delete(t->timer);
    t->armed = false;
    if (current == t)
        current = NULL;
}

void turn_limit_exceeded(struct dlc_dur cpu, uintptr_t callback)
{
    void *frame = (void *)callback;

    fprintf(stderr,
            "dlcache: BUG: one turn of the event loop took %.1f ms of CPU time; readers waited "
            "meanwhile. Most of it went into this callback (addr2line -fe FILE +OFFSET):\n",
            dlc_dur_seconds(cpu) * 1e3);
    backtrace_symbols_fd(&frame, 1, STDERR_FILENO);
    abort();
}
