// SPDX-License-Identifier: Apache-2.0
/*
 * The promises of base/event_loop.h: tasks run once and in order, timers in order of time, a
 * deleted watch is never called again, stop runs what was posted before.
 */
#include "unit.h"

#include <dlfcn.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "base/event_loop.h"
#include "base/mem.h"
#include "base/syscalls.h"

static struct loop *the_loop;
static char trace[128]; /* a letter per event */

static void note(char c)
{
    size_t n = strlen(trace);

    assert_true(n + 1 < sizeof(trace));
    trace[n] = c;
    trace[n + 1] = '\0';
}

static int setup(void **state)
{
    (void)state;
    trace[0] = '\0';
    the_loop = loop_new(NULL);
    return the_loop == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    loop_free(&the_loop);
    return the_loop == NULL ? 0 : -1;
}

struct letter {
    struct task task;
    char c;
};

static void on_letter(struct task *t)
{
    note(dlc_container(t, struct letter, task)->c);
}

static void on_stop(struct task *t)
{
    (void)t;
    note('.');
    loop_stop(the_loop);
}

static void test_tasks_run_in_order_then_stop(void **state)
{
    struct letter a = {{.run = on_letter}, 'a'}, b = {{.run = on_letter}, 'b'};
    struct task stop = {.run = on_stop};

    (void)state;
    loop_post(the_loop, &a.task);
    loop_post(the_loop, &b.task);
    loop_post(the_loop, &stop);
    loop_run(the_loop);
    assert_string_equal(trace, "ab.");
}

static void test_stop_runs_what_was_posted_before(void **state)
{
    struct letter a = {{.run = on_letter}, 'a'};

    (void)state;
    loop_post(the_loop, &a.task);
    loop_stop(the_loop);
    loop_run(the_loop);
    assert_string_equal(trace, "a");
}

/* A task posted by a task runs in the next turn, and posting itself anew does not starve the rest.
 */
struct again {
    struct task task;
    int left;
};

static void on_again(struct task *t)
{
    struct again *a = dlc_container(t, struct again, task);

    note('x');
    if (--a->left == 0)
        loop_stop(the_loop);
    else
        loop_post(the_loop, t);
}

static void on_note_timer(struct timer *t)
{
    (void)t;
    note('t');
}

static void test_a_task_may_post_itself_anew(void **state)
{
    struct again a = {{.run = on_again}, 3};
    struct timer t = {.fire = on_note_timer};

    (void)state;
    loop_timer_set(the_loop, &t, dlc_mono_now());
    loop_post(the_loop, &a.task);
    loop_run(the_loop);
    assert_string_equal(trace, "xtxx");
}

struct letter_timer {
    struct timer timer;
    char c;
    bool stop;
};

static void on_timer(struct timer *t)
{
    struct letter_timer *l = dlc_container(t, struct letter_timer, timer);

    note(l->c);
    if (l->stop)
        loop_stop(the_loop);
}

static void test_timers_fire_in_order_of_time(void **state)
{
    struct dlc_mono now = dlc_mono_now();
    struct letter_timer a = {{.fire = on_timer}, 'a', false}, b = {{.fire = on_timer}, 'b', false},
                        c = {{.fire = on_timer}, 'c', false}, z = {{.fire = on_timer}, 'z', true};

    (void)state;
    loop_timer_set(the_loop, &z.timer, dlc_mono_add(now, DLC_MS(30)));
    loop_timer_set(the_loop, &b.timer, dlc_mono_add(now, DLC_MS(20)));
    loop_timer_set(the_loop, &a.timer, dlc_mono_add(now, DLC_MS(10)));
    loop_timer_set(the_loop, &c.timer, dlc_mono_add(now, DLC_MS(5)));
    loop_timer_del(the_loop, &c.timer);
    loop_timer_del(the_loop, &c.timer); /* not set: harmless */
    loop_run(the_loop);
    assert_string_equal(trace, "abz");
    assert_true(dlc_mono_since(now).ns >= 30000000);
}

static void test_a_timer_can_be_moved(void **state)
{
    struct dlc_mono now = dlc_mono_now();
    struct letter_timer a = {{.fire = on_timer}, 'a', false}, z = {{.fire = on_timer}, 'z', true};

    (void)state;
    loop_timer_set(the_loop, &a.timer, dlc_mono_add(now, DLC_SEC(3600)));
    loop_timer_set(the_loop, &z.timer, dlc_mono_add(now, DLC_MS(10)));
    loop_timer_set(the_loop, &a.timer, now);
    loop_run(the_loop);
    assert_string_equal(trace, "az");
}

static void test_moving_the_clock_makes_timers_due(void **state)
{
    struct letter_timer z = {{.fire = on_timer}, 'z', true};

    (void)state;
    loop_timer_set(the_loop, &z.timer, dlc_mono_add(dlc_mono_now(), DLC_SEC(3600)));
    dlc_clock_advance(DLC_SEC(3601));
    loop_run(the_loop);
    assert_string_equal(trace, "z");
}

static void on_rearm(struct timer *t)
{
    loop_timer_set(the_loop, t, loop_now(the_loop));
}

/* A timer that is always due must not keep tasks from running. */
static void test_a_restless_timer_starves_nobody(void **state)
{
    struct timer t = {.fire = on_rearm};
    struct task stop = {.run = on_stop};

    (void)state;
    loop_timer_set(the_loop, &t, dlc_mono_now());
    loop_post(the_loop, &stop);
    loop_run(the_loop);
    assert_string_equal(trace, ".");
}

static struct letter_timer victim = {{.fire = on_timer}, 'v', false};

static void on_kill_victim(struct timer *t)
{
    (void)t;
    note('k');
    loop_timer_del(the_loop, &victim.timer);
    loop_stop(the_loop);
}

static void test_a_timer_may_delete_another_that_is_due(void **state)
{
    struct timer killer = {.fire = on_kill_victim};
    struct dlc_mono now = dlc_mono_now();

    (void)state;
    loop_timer_set(the_loop, &killer, now);
    loop_timer_set(the_loop, &victim.timer, now);
    loop_run(the_loop);
    assert_string_equal(trace, "k");
}

/* Posting from other threads. */
#define POSTERS 4
#define POSTS   2000

struct posted {
    struct task task;
    int poster, n;
};

static int last_of[POSTERS], total;

static void on_posted(struct task *t)
{
    struct posted *p = dlc_container(t, struct posted, task);

    assert_int_equal(p->n, last_of[p->poster] + 1); /* in order per poster */
    last_of[p->poster] = p->n;
    mem_free(&p);
    if (++total == POSTERS * POSTS)
        loop_stop(the_loop);
}

static void *post_many(void *arg)
{
    int me = *(int *)arg;

    for (int i = 1; i <= POSTS; i++) {
        struct posted *p = mem_new(struct posted);

        p->task.run = on_posted;
        p->poster = me;
        p->n = i;
        loop_post(the_loop, &p->task);
    }
    return NULL;
}

static void test_posts_from_threads(void **state)
{
    pthread_t t[POSTERS];
    int who[POSTERS];

    (void)state;
    total = 0;
    memset(last_of, 0, sizeof(last_of));
    for (int i = 0; i < POSTERS; i++) {
        who[i] = i;
        assert_int_equal(pthread_create(&t[i], NULL, post_many, &who[i]), 0);
    }
    loop_run(the_loop);
    for (int i = 0; i < POSTERS; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(total, POSTERS * POSTS);
}

/* Watches. */
struct end {
    struct watch watch;
    struct end *other;
    int fds[2];
};

static void on_readable(struct watch *w, uint32_t events)
{
    char c;

    if (events & EPOLLIN && read(w->fd, &c, 1) == 1) {
        note(c);
    } else if (events & EPOLLHUP) {
        loop_watch_del(the_loop, w);
        loop_stop(the_loop);
    }
}

static void end_open(struct end *e, void (*ready)(struct watch *, uint32_t))
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, e->fds), 0);
    e->watch = (struct watch){.ready = ready, .fd = e->fds[0]};
    assert_int_equal(loop_watch_set(the_loop, &e->watch, EPOLLIN), 0);
}

static void end_close(struct end *e)
{
    os_close(&e->fds[0]);
    os_close(&e->fds[1]);
}

static void test_watch_reads_until_hangup(void **state)
{
    struct end e = {.other = NULL};

    (void)state;
    end_open(&e, on_readable);
    assert_int_equal(write(e.fds[1], "hey", 3), 3);
    os_close(&e.fds[1]);
    loop_run(the_loop);
    assert_string_equal(trace, "hey");
    assert_false(e.watch.added);
    end_close(&e);
}

static void on_writable(struct watch *w, uint32_t events)
{
    note(events & EPOLLOUT ? 'w' : '?');
    if (strlen(trace) == 2) {
        assert_int_equal(loop_watch_set(the_loop, w, 0), 0); /* silent from now on */
        loop_stop(the_loop);
    }
}

static void test_watch_events_can_be_changed(void **state)
{
    struct end e = {.other = NULL};

    (void)state;
    end_open(&e, on_writable);
    assert_int_equal(loop_watch_set(the_loop, &e.watch, EPOLLIN | EPOLLOUT), 0);
    assert_int_equal(loop_watch_set(the_loop, &e.watch, EPOLLIN | EPOLLOUT), 0);
    loop_run(the_loop);
    assert_string_equal(trace, "ww");
    loop_watch_del(the_loop, &e.watch);
    loop_watch_del(the_loop, &e.watch); /* not added: harmless */
    end_close(&e);
}

static void test_watching_nothing_fails(void **state)
{
    struct watch w = {.ready = on_readable, .fd = -1};

    (void)state;
    assert_int_equal(loop_watch_set(the_loop, &w, EPOLLIN), -1);
    assert_false(w.added);
}

/* Both are readable in the same turn; whichever comes first deletes and frees the other. */
static void on_delete_other(struct watch *w, uint32_t events)
{
    struct end *e = dlc_container(w, struct end, watch);

    (void)events;
    note('d');
    loop_watch_del(the_loop, &e->other->watch);
    loop_watch_del(the_loop, w);
    end_close(e->other);
    memset(&e->other->watch, 0xee, sizeof(e->other->watch));
    loop_stop(the_loop);
}

static void test_a_deleted_watch_is_not_called(void **state)
{
    struct end a = {.other = NULL}, b = {.other = NULL};

    (void)state;
    a.other = &b;
    b.other = &a;
    end_open(&a, on_delete_other);
    end_open(&b, on_delete_other);
    assert_int_equal(write(a.fds[1], "x", 1), 1);
    assert_int_equal(write(b.fds[1], "x", 1), 1);
    loop_run(the_loop);
    assert_string_equal(trace, "d");
    end_close(&a);
    end_close(&b);
}

/* A task whose run ends the loop while its poster may still be inside loop_post(). */
static void on_finish(struct task *t)
{
    (void)t;
    loop_stop(the_loop);
}

static void *post_one(void *arg)
{
    loop_post(the_loop, arg);
    return NULL;
}

static void test_the_last_post_may_end_the_loop(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        struct task finish = {.run = on_finish};
        pthread_t t;

        assert_int_equal(pthread_create(&t, NULL, post_one, &finish), 0);
        loop_run(the_loop);
        loop_free(&the_loop);
        pthread_join(t, NULL);
        the_loop = loop_new(NULL);
    }
}

struct handoff {
    struct task task;
    _Atomic bool done;
};

static void on_handoff(struct task *t)
{
    dlc_container(t, struct handoff, task)->done = true;
}

static void test_thread_of_its_own(void **state)
{
    struct loop_thread t = {NULL, 0};
    struct handoff h = {{.run = on_handoff}, false};

    (void)state;
    loop_thread_stop(&t); /* never started: harmless */
    assert_int_equal(loop_thread_start(&t, "test-loop", NULL), 0);
    loop_post(t.loop, &h.task);
    loop_thread_stop(&t); /* runs what was posted before */
    assert_true(h.done);
    assert_null(t.loop);
}

/* ---- how long turns take ---- */

static void on_work(struct task *t)
{
    struct timespec from, now;

    (void)t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((now.tv_sec - from.tv_sec) * 1000000000 + now.tv_nsec - from.tv_nsec < 5000000);
}

static void on_sleep(struct task *t)
{
    (void)t;
    poll(NULL, 0, 50); /* what a slow disk would do */
    loop_stop(the_loop);
}

/* Work counts and sleep does not; both show. */
static void test_longest_turn(void **state)
{
    struct task work = {.run = on_work}, sleep = {.run = on_sleep};
    struct loop_figures f;
    Dl_info d = {0};
    char want[64];

    (void)state;
    loop_figures(the_loop, &f);
    assert_int_equal(f.longest.ns, 0);
    assert_string_equal(f.longest_in, "");
    loop_post(the_loop, &work);
    loop_post(the_loop, &sleep);
    loop_run(the_loop);
    loop_figures(the_loop, &f);
    assert_true(f.turns > 0);
    assert_true(f.longest.ns >= 5000000);
    assert_true(f.longest.ns < 40000000);
    assert_true(f.longest_passed.ns >= 50000000);
    assert_int_not_equal(dladdr((void *)(uintptr_t)on_work, &d), 0);
    snprintf(want, sizeof(want), "+0x%llx",
             (unsigned long long)((uintptr_t)on_work - (uintptr_t)d.dli_fbase));
    assert_non_null(strstr(f.longest_in, want));
    assert_int_equal(strncmp(f.longest_in, "task ", 5), 0);
#ifdef DLC_DEBUG
    assert_true(f.slept > 0);
#endif
}

/* The standard error of a child whose loop runs the tasks under a limit of 20 ms. */
static void run_limited(struct task **tasks, size_t n, char *said, size_t size, int *status)
{
    int fds[2];
    ssize_t got;
    size_t len = 0;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fds[1], STDERR_FILENO);
        close(fds[0]);
        close(fds[1]);
        signal(SIGABRT, SIG_DFL);
        for (size_t i = 0; i < n; i++)
            loop_post(the_loop, tasks[i]);
        loop_limit_turns(the_loop, LOOP_TURN_MAX);
        loop_run(the_loop);
        _exit(0);
    }
    close(fds[1]);
    while (len < size - 1 && (got = read(fds[0], said + len, size - 1 - len)) > 0)
        len += (size_t)got;
    said[len] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(pid, status, 0), pid);
}

static void on_stand_still(struct task *t)
{
    for (int i = 0; i < 100; i++)
        on_work(t);
}

/* A turn that takes too long ends the process while it is in it, and the stack says where. */
static void test_a_long_turn_aborts(void **state)
{
    struct task still = {.run = on_stand_still}, *tasks[] = {&still};
    char said[8192], want[64];
    Dl_info d = {0};
    int status;

    (void)state;
    run_limited(tasks, 1, said, sizeof(said), &status);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(said, "BUG: one turn of the event loop"));
    assert_int_not_equal(dladdr((void *)(uintptr_t)on_stand_still, &d), 0);
    snprintf(want, sizeof(want), "(+0x%llx",
             (unsigned long long)((uintptr_t)on_stand_still - (uintptr_t)d.dli_fbase) >> 12);
    assert_non_null(strstr(said, want));
}

/* Sleep is no work, and a crowd of short tasks is spread over turns. */
static void test_a_crowd_of_tasks_does_not_abort(void **state)
{
    struct task work[20], sleep = {.run = on_sleep}, *tasks[21];
    char said[8192];
    int status;

    (void)state;
    for (size_t i = 0; i < 20; i++) {
        work[i].run = on_work;
        tasks[i] = &work[i];
    }
    tasks[20] = &sleep;
    run_limited(tasks, 21, said, sizeof(said), &status);
    assert_string_equal(said, "");
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- many events at once ---- */

#define CROWD 40

/* Each event costs 1 ms, however often the callback reads. */
static void on_costly(struct watch *w, uint32_t events)
{
    struct timespec from, now;

    assert_int_equal(events, EPOLLIN); /* and no read: the edge is told once */
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((now.tv_sec - from.tv_sec) * 1000000000 + now.tv_nsec - from.tv_nsec < 1000000);
    note('e');
    (void)w;
}

static void open_crowd(struct end *crowd)
{
    for (unsigned i = 0; i < CROWD; i++) {
        end_open(&crowd[i], on_costly);
        loop_watch_del(the_loop, &crowd[i].watch);
        assert_int_equal(loop_watch_set(the_loop, &crowd[i].watch, EPOLLIN | EPOLLET), 0);
        assert_int_equal(write(crowd[i].fds[1], "x", 1), 1);
    }
}

static void close_crowd(struct end *crowd)
{
    for (unsigned i = 0; i < CROWD; i++) {
        loop_watch_del(the_loop, &crowd[i].watch);
        end_close(&crowd[i]);
    }
}

static void on_due(struct timer *t)
{
    note('t');
    if (strlen(trace) < CROWD)
        loop_timer_set(the_loop, t, dlc_mono_add(loop_now(the_loop), DLC_MS(1)));
    else
        loop_stop(the_loop);
}

/* (EVENT-LOOP-4): a timer and a task come between them, and each edge is told once. */
static void test_a_crowd_of_events_takes_turns(void **state)
{
    struct end crowd[CROWD] = {0};
    struct letter task = {{.run = on_letter}, 'p'};
    struct timer timer = {.fire = on_due};
    struct loop_figures f;
    unsigned told = 0;

    (void)state;
    open_crowd(crowd);
    loop_post(the_loop, &task.task);
    loop_timer_set(the_loop, &timer, loop_now(the_loop));
    loop_run(the_loop);
    loop_figures(the_loop, &f);
    for (const char *c = trace; *c != '\0'; c++)
        told += *c == 'e';
    assert_int_equal(told, CROWD);
    assert_in_range(strcspn(trace, "p"), 1, CROWD / 4);
    assert_in_range(strcspn(trace, "t"), 1, CROWD / 4);
    assert_true(f.longest.ns < LOOP_TURN_MAX.ns);
    close_crowd(crowd);
}

/* All others of the crowd wait for nothing any more, or are gone. */
static void on_silence(struct timer *t)
{
    struct end *crowd = *(struct end **)(t + 1);

    note('s');
    for (unsigned i = 0; i < CROWD; i += 2)
        assert_int_equal(loop_watch_set(the_loop, &crowd[i].watch, 0), 0);
    for (unsigned i = 1; i < CROWD; i += 2)
        loop_watch_del(the_loop, &crowd[i].watch);
    loop_stop(the_loop);
}

static void test_events_that_wait_may_become_unwanted(void **state)
{
    struct end crowd[CROWD] = {0};
    struct {
        struct timer timer;
        struct end *crowd;
    } silence = {{.fire = on_silence}, crowd};

    (void)state;
    open_crowd(crowd);
    loop_timer_set(the_loop, &silence.timer, loop_now(the_loop));
    loop_run(the_loop);
    assert_in_range(strcspn(trace, "s"), 1, CROWD / 4);
    assert_int_equal(trace[strlen(trace) - 1], 's');
    close_crowd(crowd);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_tasks_run_in_order_then_stop),
        CASE(test_stop_runs_what_was_posted_before),
        CASE(test_a_task_may_post_itself_anew),
        CASE(test_timers_fire_in_order_of_time),
        CASE(test_a_timer_can_be_moved),
        CASE(test_moving_the_clock_makes_timers_due),
        CASE(test_a_restless_timer_starves_nobody),
        CASE(test_a_timer_may_delete_another_that_is_due),
        CASE(test_posts_from_threads),
        CASE(test_watch_reads_until_hangup),
        CASE(test_watch_events_can_be_changed),
        CASE(test_watching_nothing_fails),
        CASE(test_a_deleted_watch_is_not_called),
        CASE(test_the_last_post_may_end_the_loop),
        CASE(test_thread_of_its_own),
        CASE(test_longest_turn),
        CASE(test_a_long_turn_aborts),
        CASE(test_a_crowd_of_tasks_does_not_abort),
        CASE(test_a_crowd_of_events_takes_turns),
        CASE(test_events_that_wait_may_become_unwanted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
