// SPDX-License-Identifier: Apache-2.0
/* A process that makes no call lets go of the memory of a daemon that is gone. */
#include "daemon.h"

#include <stdatomic.h>

#include "base/fault.h"
#include "client/dataset.h"
#include "proc_self.h"
#include "watch_thread.h"

#define N    30u
#define SIZE 20000u

static struct daemon d;
static char url[512], other_url[512];

static int setup(void **state)
{
    (void)state;
    daemon_init(&d, "d", "1MB", false);
    daemon_start(&d);
    dataset("a", N, SIZE, "", url);
    dataset("b", N, SIZE, "", other_url);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    daemon_end(&d);
    return 0;
}

static void test_idle(void **state)
{
    struct dlc_dataset *a, *b, *c;
    char before[256], after[256];

    (void)state;
    assert_false(watch_thread_status("State", before));
    a = open_at(&d, url, 0);
    for (unsigned i = 0; i < N; i++)
        read_one(a, i); /* the daemon makes extents: below there are no others to hear of */
    dlc_close(&a);
    until(!watch_thread_status("State", before));
    a = open_at(&d, url, 0);
    b = open_at(&d, other_url, 0);
    c = open_at(&d, url, 0);
    until(watch_thread_status("State", before) && strstr(before, "sleeping") != NULL);
    assert_true(watch_thread_status("SigBlk", before));
    assert_int_equal(strtoull(before, NULL, 16) & 0x7fff, 0x7fff & ~(1u << (SIGKILL - 1)));
    assert_true(watch_thread_status("voluntary_ctxt_switches", before));
    for (unsigned i = 0; i < N; i++)
        read_one(a, i);
    dlc_close(&c);
    assert_true(watch_thread_status("voluntary_ctxt_switches", after));
    assert_string_equal(after, before); /* it sleeps while daemons live */
    assert_int_equal(segments_of(getpid()), 2);
    daemon_kill(&d);
    until(segments_of(getpid()) == 0);
    daemon_start(&d);
    read_one(a, 1);
    read_one(b, 1);
    assert_int_equal(segments_of(getpid()), 2);
    daemon_stop(&d);
    until(segments_of(getpid()) == 0);
    daemon_start(&d);
    dlc_close(&a);
    dlc_close(&b);
    until(!watch_thread_status("State", before)); /* nothing is attached: it has ended */
    a = open_at(&d, url, 0);
    until(watch_thread_status("State", before));
    dlc_close(&a);
}

/* The view keeps what it needs, and the last one that is put lets go of it. */
static void test_held(void **state)
{
    struct dlc_dataset *a = open_at(&d, url, 0), *b = open_at(&d, other_url, 0);
    struct dlc_view v;

    (void)state;
    assert_int_equal(dlc_get(a, 3, &v), 0);
    daemon_kill(&d);
    until(segments_of(getpid()) == 1 && atomic_load(&a->cur) == NULL); /* it has seen both ends */
    until(watch_thread_sleeps()); /* has looked once more, and waits for the view */
    assert_true(is_sample(&v, 3));
    dlc_put(a, &v);
    assert_int_equal(segments_of(getpid()), 0);
    daemon_start(&d);
    dlc_close(&a);
    dlc_close(&b);
}

/* As dlc_put() that takes its pin back just when the attachment is retired, and neither sees the
 * other: the thread looks once more. */
static void test_put_at_that_moment(void **state)
{
    struct dlc_dataset *a = open_at(&d, url, 0), *b = open_at(&d, other_url, 0);
    struct dlc_view v;

    (void)state;
    assert_int_equal(dlc_get(a, 3, &v), 0);
    daemon_kill(&d);
    until(segments_of(getpid()) == 1 && atomic_load(&a->cur) == NULL); /* the thread has looked */
    atomic_store((_Atomic uint64_t *)(uintptr_t)v.priv[0], 0);
    until(segments_of(getpid()) == 0);
    daemon_start(&d);
    dlc_close(&a);
    dlc_close(&b);
}

/* ---- children ---- */

struct child {
    pid_t pid;
    int go, done;
};

/* A child that does two things when it is told to. It is forked while the watch thread sleeps: the
 * allocator of AddressSanitizer (gcc 12) does not take its locks before a fork, and a thread that
 * begins may hold one of them. */
static struct child fork_child(struct dlc_dataset *ds, int (*first)(struct dlc_dataset *),
                               int (*second)(struct dlc_dataset *))
{
    int go[2], done[2];
    pid_t pid;
    char c;

    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    assert_int_equal(pipe2(done, O_CLOEXEC), 0);
    fflush(NULL);
    until(watch_thread_sleeps());
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int rc = first(ds);

        os_close(&go[1]);
        if (rc == 0 && (write(done[1], "x", 1) != 1 || read(go[0], &c, 1) != 1))
            rc = 100;
        _exit(rc == 0 ? second(ds) : rc);
    }
    os_close(&go[0]);
    os_close(&done[1]);
    assert_int_equal(read(done[0], &c, 1), 1);
    return (struct child){pid, go[1], done[0]};
}

static void child_ends(struct child *c)
{
    int status;

    assert_int_equal(write(c->go, "x", 1), 1);
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    assert_int_equal(status, 0);
    os_close(&c->go);
    os_close(&c->done);
}

static int read_in_child(struct dlc_dataset *ds)
{
    char line[256];

    if (watch_thread_status("State", line))
        return 1; /* it stayed with the parent */
    read_one(ds, 2);
    until(watch_thread_status("State", line)); /* a thread takes its name when it runs */
    return 0;
}

static int nothing(struct dlc_dataset *ds)
{
    (void)ds;
    return 0;
}

static void test_child(void **state)
{
    struct dlc_dataset *ds = open_at(&d, url, 0);
    struct child reader, idle;

    (void)state;
    read_one(ds, 1);
    reader = fork_child(ds, read_in_child, nothing);
    idle = fork_child(ds, nothing, read_in_child); /* through the daemon that is there by then */
    assert_int_equal(segments_of(reader.pid), 1);
    assert_int_equal(segments_of(idle.pid), 0);
    daemon_kill(&d);
    daemon_start(&d);
    until(segments_of(reader.pid) == 0);
    until(segments_of(getpid()) == 0);
    child_ends(&reader);
    child_ends(&idle);
    dlc_close(&ds);
}

static struct dlc_view held;

static int read_and_put(struct dlc_dataset *ds)
{
    int rc = read_in_child(ds);

    dlc_put(ds, &held); /* ends what came from the parent, and was not watched here */
    return rc;
}

static void test_child_puts_view_of_parent(void **state)
{
    struct dlc_dataset *ds = open_at(&d, url, 0);
    struct child c;

    (void)state;
    assert_int_equal(dlc_get(ds, 1, &held), 0);
    c = fork_child(ds, read_and_put, nothing);
    assert_int_equal(segments_of(c.pid), 1);
    daemon_kill(&d);
    until(segments_of(c.pid) == 0); /* its thread is there, and sees it */
    daemon_start(&d);
    child_ends(&c);
    dlc_put(ds, &held);
    dlc_close(&ds);
}

static int read_unwatched(struct dlc_dataset *ds)
{
    char line[256];

    fault_plan(&(struct fault_plan){
        .calls = FAULT_CALL(thread) | FAULT_CALL(epoll_create), .nth = 1, .times = 100});
    read_one(ds, 2);
    fault_disarm();
    return watch_thread_status("State", line) ? 1 : 0;
}

static int next_call(struct dlc_dataset *ds)
{
    struct dlc_stats st;

    if (segments_of(getpid()) != 1)
        return 3;
    dlc_dataset_stats(ds, &st);
    return segments_of(getpid()) == 0 ? 0 : 4;
}

/* Where the thread cannot be had, the next call notices, as ever. */
static void test_no_thread(void **state)
{
    struct dlc_dataset *ds = open_at(&d, url, 0);
    struct child c = fork_child(ds, read_unwatched, next_call);

    (void)state;
    daemon_kill(&d);
    daemon_start(&d);
    child_ends(&c);
    dlc_close(&ds);
}

/* The set cannot be completed: it is made anew for the next one, which the thread serves to its end.
 */
static int watch_after_failure(struct dlc_dataset *ds)
{
    unsigned before = proc_descriptors();
    struct dlc_dataset *a;
    char line[256];

    (void)ds;
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(epoll_ctl), .nth = 1});
    a = open_at(&d, url, 0);
    if (!fault_disarm() || watch_thread_status("State", line))
        return 1;
    ds = open_at(&d, other_url, 0);
    until(watch_thread_status("State", line));
    dlc_close(&ds);
    dlc_close(&a);
    until(!watch_thread_status("State", line));
    return proc_descriptors() == before + 2 ? 0 : 2; /* the set, and what wakes it */
}

static void test_set_fails(void **state)
{
    struct dlc_dataset *ds = open_at(&d, url, 0);
    struct child c = fork_child(ds, watch_after_failure, nothing);

    (void)state;
    child_ends(&c);
    dlc_close(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_held),
        cmocka_unit_test(test_put_at_that_moment),
        cmocka_unit_test(test_child),
        cmocka_unit_test(test_child_puts_view_of_parent),
        cmocka_unit_test(test_no_thread),
        cmocka_unit_test(test_set_fails),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
