// SPDX-License-Identifier: Apache-2.0
/* What the watch thread tells of connections and channels whose other ends the test holds, and what
 * is left when something cannot be watched. */
#include "daemon.h"

#include <stdatomic.h>

#include "base/fault.h"
#include "client/fork.h"
#include "client/process.h"
#include "client/watch.h"
#include "proc_self.h"
#include "watch_thread.h"

#define MANY 24u /* more than the thread takes from the kernel at once */

struct connection {
    uint64_t number;
    int sock, end, channel, channel_end;
};

static struct {
    _Atomic unsigned gone[MANY + 1], came[MANY + 1], odd; /* by number; odd: no such number */
    _Atomic bool hold;                                    /* the thread stays in its call */
    _Atomic size_t stack;
} told;

static void count_call(_Atomic unsigned *of, uint64_t number)
{
    if (number <= MANY)
        of[number]++;
    else
        told.odd++;
}

static void on_gone(uint64_t number)
{
    pthread_attr_t attr;
    size_t stack = 0;

    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        pthread_attr_getstacksize(&attr, &stack);
        pthread_attr_destroy(&attr);
    }
    told.stack = stack;
    count_call(told.gone, number);
    while (told.hold)
        sched_yield();
}

static void on_channel(uint64_t number)
{
    count_call(told.came, number);
}

static bool watch(const struct connection *c)
{
    static const struct watch_calls calls = {.gone = on_gone, .channel = on_channel};
    bool ok;

    client_lock();
    ok = watch_add(c->sock, c->channel, c->number, &calls);
    client_unlock();
    return ok;
}

static struct connection connection_new(uint64_t number)
{
    struct connection c = {.number = number};
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    c.sock = fds[0];
    c.end = fds[1];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    c.channel = fds[0];
    c.channel_end = fds[1];
    return c;
}

static struct connection connection_watched(uint64_t number)
{
    struct connection c = connection_new(number);

    assert_true(watch(&c));
    return c;
}

static void connection_free(struct connection *c)
{
    os_close(&c->sock);
    os_close(&c->end);
    os_close(&c->channel);
    os_close(&c->channel_end);
}

static void connection_unwatch(struct connection *c)
{
    client_lock();
    watch_remove(c->channel);
    client_unlock();
    connection_free(c);
}

static void say(const struct connection *c)
{
    assert_int_equal(send(c->channel_end, "x", 1, 0), 1);
}

/* The thread has told all that happened before. `c` is watched. */
static void settle(const struct connection *c)
{
    unsigned before = told.came[c->number];

    say(c);
    until(told.came[c->number] > before);
}

/* Before each test: nothing is watched, and there is no thread. */
static int setup(void **state)
{
    (void)state;
    client_init();
    wait_until_alone();
    for (unsigned i = 0; i <= MANY; i++)
        told.gone[i] = told.came[i] = 0;
    told.odd = 0;
    told.hold = false;
    return 0;
}

/* ---- what it tells ---- */

static void test_end_of_a_connection_is_told_once(void **state)
{
    struct connection c[3];

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        c[i] = connection_watched(i + 1);
    os_close(&c[1].end);
    until(told.gone[2] == 1);
    until(told.gone[0] == 1); /* and a moment later once more, for none in particular */
    settle(&c[0]);
    assert_int_equal(told.gone[1] + told.gone[3] + told.odd, 0);
    assert_int_equal(told.gone[2], 1);
    until(watch_thread_sleeps());
    for (unsigned i = 0; i < 3; i++)
        connection_unwatch(&c[i]);
}

/* A daemon of many datasets ends: all of them are told of, and none again when another one ends. */
static void test_many_end_at_once(void **state)
{
    struct connection c[MANY];

    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        c[i] = connection_watched(i + 1);
    told.hold = true;
    os_close(&c[0].end);
    until(told.gone[1] == 1);
    for (unsigned i = 1; i < MANY - 1; i++)
        os_close(&c[i].end); /* while the thread is busy */
    told.hold = false;
    for (unsigned i = 0; i < MANY - 1; i++)
        until(told.gone[i + 1] == 1);
    settle(&c[MANY - 1]);
    for (unsigned i = 0; i < MANY - 1; i++)
        assert_int_equal(told.gone[i + 1], 1);
    assert_int_equal(told.gone[MANY] + told.odd, 0);
    for (unsigned i = 0; i < MANY; i++)
        connection_unwatch(&c[i]);
}

static void test_channel_is_told_until_it_is_removed(void **state)
{
    struct connection a = connection_watched(1), b = connection_watched(2);
    int kept = dup(a.channel);

    (void)state;
    assert_true(kept >= 0);
    say(&a);
    until(told.came[1] == 1);
    say(&a);
    until(told.came[1] == 2);
    client_lock();
    watch_remove(a.channel); /* another descriptor keeps it open: it leaves the set all the same */
    client_unlock();
    say(&a);
    settle(&b);
    assert_int_equal(told.came[1], 2);
    assert_int_equal(told.came[2], 1);
    assert_int_equal(told.gone[0] + told.gone[1] + told.gone[2] + told.odd, 0);
    os_close(&kept);
    connection_free(&a);
    connection_unwatch(&b);
}

/* A program may have closed its standard input. */
static void test_channel_is_descriptor_zero(void **state)
{
    struct connection a = connection_new(1), b = connection_watched(2);
    int input = dup(0);

    (void)state;
    assert_int_equal(dup2(a.channel, 0), 0);
    os_close(&a.channel);
    a.channel = 0;
    assert_true(watch(&a));
    say(&a);
    until(told.came[1] == 1);
    client_lock();
    watch_remove(0);
    client_unlock();
    say(&a);
    settle(&b);
    assert_int_equal(told.came[1], 1);
    assert_int_equal(dup2(input, 0), 0);
    a.channel = -1;
    os_close(&input);
    connection_free(&a);
    connection_unwatch(&b);
}

/* Every process of every job on the machine has this thread: not 8 MB for each. */
static void test_stack_is_small(void **state)
{
    struct connection c = connection_watched(1);

    (void)state;
    os_close(&c.end);
    until(told.gone[1] == 1);
    if (!UNIT_SANITIZED)
        assert_in_range(told.stack, 240 << 10, 272 << 10);
    connection_unwatch(&c);
}

/* ---- what cannot be watched, each in a child that has watched nothing yet ---- */

static void passes_in_child(bool (*f)(void))
{
    int status;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(f() ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Is its end told? */
static bool serves(struct connection *c)
{
    os_close(&c->end);
    until(told.gone[c->number] == 1);
    return true;
}

static bool set_is_descriptor_zero(void)
{
    struct connection c[2] = {connection_new(1), connection_new(2)};

    close(0);
    return watch(&c[0]) && watch(&c[1]) && proc_fd_is(0, "eventpoll") && serves(&c[0]) &&
           serves(&c[1]);
}

static void close_input(enum fault_call call, int fd)
{
    (void)fd;
    if (call == CALL_eventfd)
        close(0);
}

static bool wake_is_descriptor_zero(void)
{
    struct connection c = connection_new(1);
    bool ok;

    fault_observe(close_input);
    ok = watch(&c);
    fault_observe(NULL);
    return ok && proc_fd_is(0, "eventfd") && serves(&c);
}

static void test_descriptor_zero_is_as_good_as_any(void **state)
{
    (void)state;
    passes_in_child(set_is_descriptor_zero);
    passes_in_child(wake_is_descriptor_zero);
}

/* The nth of such calls fails: it is not watched, nothing of it is left, and the next one is. */
static bool fails_and_recovers(uint64_t calls, int nth, unsigned left)
{
    struct connection a = connection_new(1), b = connection_new(2);
    unsigned before = proc_descriptors();
    bool ok;

    fault_plan(&(struct fault_plan){.calls = calls, .nth = nth});
    ok = watch(&a);
    if (!fault_disarm() || ok || proc_descriptors() != before + left || fcntl(0, F_GETFD) < 0)
        return false;
    if (!watch(&b))
        return false;
    os_close(&a.end);
    say(&a);
    settle(&b);
    return told.gone[1] + told.came[1] == 0 && serves(&b);
}

static bool no_set(void)
{
    return fails_and_recovers(FAULT_CALL(epoll_create), 1, 0);
}

static bool no_wake(void)
{
    return fails_and_recovers(FAULT_CALL(eventfd), 1, 0);
}

static bool no_wake_in_set(void)
{
    return fails_and_recovers(FAULT_CALL(epoll_ctl), 1, 0);
}

static bool no_thread(void)
{
    return fails_and_recovers(FAULT_CALL(thread), 1, 2); /* the set is there for the next one */
}

static bool no_connection_in_set(void)
{
    return fails_and_recovers(FAULT_CALL(epoll_ctl), 2, 2);
}

static bool no_channel_in_set(void)
{
    return fails_and_recovers(FAULT_CALL(epoll_ctl), 3, 2);
}

static void test_not_watched_where_a_call_fails(void **state)
{
    (void)state;
    passes_in_child(no_set);
    passes_in_child(no_wake);
    passes_in_child(no_wake_in_set);
    passes_in_child(no_thread);
    passes_in_child(no_connection_in_set);
    passes_in_child(no_channel_in_set);
}

/* ---- children ---- */

static bool has_no_set(void)
{
    for (int fd = 0; fd < 64; fd++)
        if (proc_fd_is(fd, "eventpoll") || proc_fd_is(fd, "eventfd"))
            return false;
    return true;
}

/* What it watches there would keep the connections of its parent open. */
static void test_child_does_not_inherit_the_set(void **state)
{
    struct connection c = connection_watched(1);

    (void)state;
    assert_false(has_no_set());
    until(watch_thread_sleeps());
    passes_in_child(has_no_set);
    connection_unwatch(&c);
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_not_watched_where_a_call_fails),
        T(test_descriptor_zero_is_as_good_as_any),
        T(test_end_of_a_connection_is_told_once),
        T(test_many_end_at_once),
        T(test_channel_is_told_until_it_is_removed),
        T(test_channel_is_descriptor_zero),
        T(test_stack_is_small),
        T(test_child_does_not_inherit_the_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
