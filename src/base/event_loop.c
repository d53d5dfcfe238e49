// SPDX-License-Identifier: Apache-2.0
#include "base/event_loop.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/turn_limit.h"

#define TURN_EVENTS 64
/* Of one turn, for its events and then for its tasks: (EVENT-LOOP-4). */
#define TURN_PART DLC_MS(4)

struct loop {
    int epoll_fd, wake_fd;
    struct heap timers; /* key: nanoseconds of the instant */
    struct dlc_mono now;
    _Atomic bool stopping;
    bool running;

    /* Events from at_event on have not been handled; loop_watch_del() blanks those of a removed watch
     * (EVENT-LOOP-2). */
    struct epoll_event events[TURN_EVENTS];
    int n_events, at_event;

    struct dlc_mtx mtx;    /* rank LCK_loop */
    struct dlc_list inbox; /* G: mtx */
    bool awake;            /* G: mtx: the loop will look at the inbox without being woken */

    struct turn {
        struct dlc_dur cpu; /* the thread's, when the turn began */
        struct dlc_mono at; /* when the callback that runs began, and the longest of this turn: */
        struct dlc_dur most;
        const char *kind;
        uintptr_t callback;
        long switches; /* of the thread, by its own will, when the turn began */
    } turn, longest_turn;
    struct loop_figures figures; /* longest_in is made when it is asked for */
    _Atomic int64_t longest_ns;  /* figures.longest, for other threads */
    struct turn_limit limit;
};

static _Thread_local const struct loop *current; /* the loop this thread runs */

struct loop *loop_new(struct dlc_err *err)
{
    struct loop *l = mem_new(struct loop);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};

    dlc_mtx_init(&l->mtx, LCK_loop);
    dlc_list_init(&l->inbox);
    l->epoll_fd = os_epoll_create();
    l->wake_fd = os_eventfd();
    l->now = dlc_mono_now();
    if (l->epoll_fd < 0 || l->wake_fd < 0 ||
        os_epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->wake_fd, &ev) < 0) {
        dlc_err_sys(err, "cannot make an event loop");
        loop_free(&l);
    }
    return l;
}

void loop_free(struct loop **lp)
{
    struct loop *l = *lp;

    *lp = NULL;
    if (l == NULL)
        return;
    dlc_check(!l->running);
    os_close(&l->epoll_fd);
    os_close(&l->wake_fd);
    heap_release(&l->timers);
    dlc_mtx_release(&l->mtx);
    mem_free(&l);
}

static void wake(struct loop *l)
{
    os_wake(l->wake_fd);
}

void loop_post(struct loop *l, struct task *t)
{
    dlc_mtx_lock(&l->mtx);
    dlc_list_push_tail(&l->inbox, &t->link);
    if (!l->awake)
        wake(l); /* under the lock: once the task can run, it may be the one that ends the loop */
    l->awake = true;
    dlc_mtx_unlock(&l->mtx);
}

void loop_stop(struct loop *l)
{
    l->stopping = true;
    wake(l);
}

struct dlc_mono loop_now(const struct loop *l)
{
    return l->now;
}

void loop_timer_set(struct loop *l, struct timer *t, struct dlc_mono when)
{
    if (heap_has(&t->node))
        heap_update(&l->timers, &t->node, (double)when.ns);
    else
        heap_push(&l->timers, &t->node, (double)when.ns);
}

void loop_timer_del(struct loop *l, struct timer *t)
{
    heap_remove(&l->timers, &t->node);
}

int loop_watch_set(struct loop *l, struct watch *w, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = w};

    if (w->added && w->events == events)
        return 0;
    if (os_epoll_ctl(l->epoll_fd, w->added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, w->fd, &ev) < 0)
        return -1;
    w->added = true;
    w->events = events;
    return 0;
}

void loop_watch_del(struct loop *l, struct watch *w)
{
    if (!w->added)
        return;
    w->added = false;
    os_epoll_remove(l->epoll_fd, w->fd); /* may be closed already: harmless */
    for (int i = l->at_event; i < l->n_events; i++) {
        if (l->events[i].data.ptr == w)
            l->events[i].events = 0;
    }
}

static int timeout_ms(struct loop *l)
{
    const struct heap_node *top = heap_top(&l->timers);
    double ms;

    if (l->stopping)
        return 0;
    if (top == NULL)
        return -1;
    ms = (top->key - (double)dlc_mono_now().ns) / 1e6;
    /* Round up, so that the timer is due when we wake; wake at least daily. */
    return ms <= 0 ? 0 : ms > 86400e3 ? 86400000 : (int)ms + 1;
}

/* ---- how long turns take ---- */

/* A system call, 0.2 us: once per turn. */
static struct dlc_dur thread_cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (struct dlc_dur){(int64_t)t.tv_sec * 1000000000 + t.tv_nsec};
}

static long thread_switches(void)
{
#ifdef DLC_DEBUG
    struct rusage u;

    return getrusage(RUSAGE_THREAD, &u) == 0 ? u.ru_nvcsw : 0;
#else
    return 0;
#endif
}

static void turn_begin(struct loop *l)
{
    turn_limit_restart(&l->limit);
    l->turn = (struct turn){thread_cpu(), l->now, {0}, "", 0, thread_switches()};
}

/* A callback of the turn has ended. */
static void turn_ran(struct loop *l, const char *kind, uintptr_t callback)
{
    struct dlc_mono now = dlc_mono_now();
    struct dlc_dur took = dlc_mono_sub(now, l->turn.at);

    l->turn.at = now;
    if (took.ns < l->turn.most.ns)
        return;
    l->turn.most = took;
    l->turn.kind = kind;
    l->turn.callback = callback;
}

static void turn_end(struct loop *l)
{
    struct loop_figures *f = &l->figures;
    struct dlc_dur passed = dlc_mono_sub(l->turn.at, l->now), cpu;

    f->turns++;
    f->slept += thread_switches() != l->turn.switches;
    f->longest_passed.ns = DLC_MAX(f->longest_passed.ns, passed.ns);
    if (passed.ns <= f->longest.ns)
        return; /* CPU time is no more than that: no need to ask */
    cpu.ns = thread_cpu().ns - l->turn.cpu.ns;
    if (cpu.ns > f->longest.ns) {
        f->longest = cpu;
        atomic_store_explicit(&l->longest_ns, cpu.ns, memory_order_relaxed); /* a figure */
        l->longest_turn = l->turn;
    }
    if (turn_limit_is_over(&l->limit, cpu))
        turn_limit_exceeded(cpu, l->turn.callback);
}

void loop_limit_turns(struct loop *l, struct dlc_dur most)
{
    dlc_check(!l->running || most.ns == 0);
    turn_limit_close(&l->limit);
    l->limit.most = most;
}

void loop_figures(const struct loop *l, struct loop_figures *out)
{
    uintptr_t at = l->longest_turn.callback;
    Dl_info d = {0};

    *out = l->figures;
    if (at == 0 || dladdr((void *)at, &d) == 0 || d.dli_fname == NULL)
        return; /* what "callback" addresses mean is told by addr2line */
    snprintf(out->longest_in, sizeof(out->longest_in), "%s %s+0x%llx", l->longest_turn.kind,
             strrchr(d.dli_fname, '/') != NULL ? strrchr(d.dli_fname, '/') + 1 : d.dli_fname,
             (unsigned long long)(at - (uintptr_t)d.dli_fbase));
}

struct dlc_dur loop_longest_turn(const struct loop *l)
{
    return (struct dlc_dur){atomic_load_explicit(&l->longest_ns, memory_order_relaxed)};
}

/* What the turn has no time for goes back to the front of the inbox. */
static void inbox_put_back(struct loop *l, struct dlc_list *batch)
{
    dlc_mtx_lock(&l->mtx);
    while (!dlc_list_empty(batch)) {
        struct dlc_list *n = batch->prev;

        dlc_list_remove(n);
        dlc_list_push_head(&l->inbox, n);
    }
    if (!l->awake)
        wake(l);
    l->awake = true;
    dlc_mtx_unlock(&l->mtx);
}

/* Run what was posted before this call, in the last turn all of it. Tasks posted by those tasks run
 * in the next turn. */
static void run_inbox(struct loop *l, bool last)
{
    struct dlc_mono end = dlc_mono_add(l->turn.at, TURN_PART);
    struct dlc_list batch;
    struct dlc_list *n;

    dlc_list_init(&batch);
    dlc_mtx_lock(&l->mtx);
    while ((n = dlc_list_pop_head(&l->inbox)) != NULL)
        dlc_list_push_tail(&batch, n);
    l->awake = false;
    dlc_mtx_unlock(&l->mtx);
    while ((n = dlc_list_pop_head(&batch)) != NULL) {
        struct task *t = dlc_container(n, struct task, link);
        uintptr_t run = (uintptr_t)t->run; /* the task may be freed by it */

        t->run(t);
        turn_ran(l, "task", run);
        if (!last && dlc_mono_passed(end, l->turn.at) && !dlc_list_empty(&batch)) {
            inbox_put_back(l, &batch);
            break;
        }
    }
}

/* At most as many as there are now, so that a timer that sets itself again cannot keep the turn. */
static void run_timers(struct loop *l)
{
    struct heap_node *n;

    for (size_t left = l->timers.n; left > 0; left--) {
        n = heap_top(&l->timers);
        if (n == NULL || n->key > (double)l->now.ns)
            break;
        heap_pop(&l->timers);
        struct timer *t = dlc_container(n, struct timer, node);
        uintptr_t fire = (uintptr_t)t->fire;

        t->fire(t);
        turn_ran(l, "timer", fire);
    }
}

/* What it waits for by now: the kernel said so in an earlier turn, or before another callback. */
static uint32_t still_wanted(const struct epoll_event *ev, const struct watch *w)
{
    return ev->events & (w->events | EPOLLERR | EPOLLHUP);
}

/* In the last turn all of them. */
static void run_events(struct loop *l, bool last)
{
    struct dlc_mono end = dlc_mono_add(l->now, TURN_PART);

    for (; l->at_event < l->n_events && (last || !dlc_mono_passed(end, l->turn.at));
         l->at_event++) {
        const struct epoll_event *ev = &l->events[l->at_event];
        struct watch *w = ev->data.ptr;

        if (w == NULL) {
            os_wake_drain(l->wake_fd);
        } else if (ev->events != 0 && still_wanted(ev, w) != 0) {
            uintptr_t ready = (uintptr_t)w->ready;

            w->ready(w, still_wanted(ev, w));
            turn_ran(l, "watch", ready);
        }
    }
}

/* Those of the last turn first: an edge is told once. */
static void wait_for_events(struct loop *l)
{
    if (l->at_event < l->n_events)
        return;
    l->at_event = 0;
    l->n_events = os_epoll_wait(l->epoll_fd, l->events, TURN_EVENTS, timeout_ms(l));
    if (l->n_events < 0) {
        dlc_check(errno == EINTR);
        l->n_events = 0;
    }
}

void loop_run(struct loop *l)
{
    const struct loop *outer = current;
    bool last = false;

    current = l;
    l->running = true;
    turn_limit_open(&l->limit);
    while (!last) {
        last = l->stopping;
        wait_for_events(l);
        l->now = dlc_mono_now();
        turn_begin(l);
        run_events(l, last);
        run_inbox(l, last);
        run_timers(l);
        turn_end(l);
    }
    turn_limit_close(&l->limit);
    l->running = false;
    current = outer;
}

static void *thread_main(void *arg)
{
    loop_run(arg);
    return NULL;
}

int loop_thread_start(struct loop_thread *t, const char *name, struct dlc_err *err)
{
    t->loop = loop_new(err);
    if (t->loop == NULL)
        return err != NULL ? err->code : DLC_EIO;
    errno = os_thread(&t->thread, thread_main, t->loop);
    if (errno != 0) {
        int rc = dlc_err_sys(err, "cannot start thread %s", name);

        loop_free(&t->loop);
        return rc;
    }
    pthread_setname_np(t->thread, name);
    return 0;
}

void loop_thread_stop(struct loop_thread *t)
{
    if (t->loop == NULL)
        return;
    loop_stop(t->loop);
    pthread_join(t->thread, NULL);
    loop_free(&t->loop);
}
