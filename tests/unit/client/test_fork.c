// SPDX-License-Identifier: Apache-2.0
/* fork() with datasets open: each process reads through a session of its own. */
// timeout: 120
#include "daemon.h"
#include "lock_held.h"
#include "proc_self.h"

#include "base/fault.h"
#include "client/dataset.h"
#include "client/process.h"

#define N    100u
#define SIZE 20000u

static struct daemon d;
static struct dlc_dataset *ds;

static int setup(void **state)
{
    char url[512];

    (void)state;
    daemon_init(&d, "d", "1MB", false);
    daemon_start(&d);
    ds = open_at(&d, dataset("f", N, SIZE, "", url), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dlc_close(&ds);
    daemon_end(&d);
    return 0;
}

/* In a child: 0, or the number of the first thing that is wrong. */
static int reads_all(void)
{
    for (unsigned i = 0; i < N; i++) {
        struct dlc_view v;

        if (dlc_get(ds, i, &v) < 0)
            return 1;
        if (!is_sample(&v, i))
            return 2;
        dlc_put(ds, &v);
    }
    return 0;
}

static int child_of(int (*f)(void))
{
    pid_t pid;
    int status;

    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(f());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int reads_and_counts(void)
{
    struct dlc_stats st;
    int rc = reads_all();

    if (rc != 0)
        return rc;
    dlc_dataset_stats(ds, &st);
    if (st.hits + st.misses != N || st.bypasses + st.without_daemon + st.reconnects != 0)
        return 3;
    dlc_close(&ds);
    return 0;
}

static void test_child_reads(void **state)
{
    (void)state;
    read_one(ds, 1);
    assert_int_equal(child_of(reads_and_counts), 0);
    read_one(ds, 2);
    until(stat_of(&d, "datasets", "sessions") == 1);
}

/* The parent has lost its daemon and waits before it looks for another one. Its child never had one:
 * it finds the new one at once, and has lost nothing. */
static void test_child_of_one_that_lost_its_daemon(void **state)
{
    struct dlc_stats st;

    (void)state;
    read_one(ds, 1);
    daemon_kill(&d);
    read_one(ds, 1);
    daemon_start(&d);
    assert_int_equal(child_of(reads_and_counts), 0);
    until((read_one(ds, 1), dlc_dataset_stats(ds, &st), st.reconnects == 1));
    assert_int_equal(child_of(reads_and_counts), 0); /* nor has it found one again */
}

static struct dlc_view held, two[2];

/* How many segments are mapped here. */
static unsigned segments(void)
{
    return segments_of(getpid());
}

/* The memory of the parent's views stays mapped until the last of them is put, and no longer. */
static int puts_two_views(void)
{
    if (segments() != 1 || !is_sample(&two[0], 2) || !is_sample(&two[1], 3))
        return 1;
    dlc_put(ds, &two[0]);
    if (segments() != 1 || !is_sample(&two[1], 3))
        return 2;
    dlc_put(ds, &two[1]);
    return segments() == 0 ? 0 : 3;
}

static void test_two_views_of_parent(void **state)
{
    (void)state;
    assert_int_equal(dlc_get(ds, 2, &two[0]), 0);
    assert_int_equal(dlc_get(ds, 3, &two[1]), 0);
    assert_int_equal(child_of(puts_two_views), 0);
    assert_true(is_sample(&two[0], 2) && is_sample(&two[1], 3));
    dlc_put(ds, &two[0]);
    dlc_put(ds, &two[1]);
}

static int puts_views_of_parent(void)
{
    struct dlc_stats st;

    if (!is_sample(&held, 7) || reads_all() != 0)
        return 9;
    dlc_put(ds, &held); /* harmless: it is the parent's, whose descriptors have numbers of ours */
    if (held.data != NULL || reads_all() != 0)
        return 8;
    dlc_dataset_stats(ds, &st);
    return st.bypasses + st.without_daemon + st.reconnects == 0 ? 0 : 10;
}

static void test_views_of_parent(void **state)
{
    (void)state;
    assert_int_equal(dlc_get(ds, 7, &held), 0);
    assert_int_equal(child_of(puts_views_of_parent), 0);
    for (unsigned i = 0; i < N; i++)
        read_one(ds, i); /* would overwrite it, were it not pinned */
    assert_true(is_sample(&held, 7));
    dlc_put(ds, &held);
    until(stat_of(&d, "datasets", "pins") == 0);
}

/* In a child: the order is the parent's. */
static int has_no_order(void)
{
    const struct dlc_progress p = {.position = 90};
    const struct dlc_order o = {.kind = DLC_SEQUENTIAL};
    struct dlc_view v;
    uint64_t one = 1;

    if (dlc_next(ds, &v, NULL) != DLC_EINVAL || dlc_advance(ds, &p) != DLC_EINVAL ||
        dlc_follow_more(ds, &one, 1) != DLC_EINVAL)
        return 10;
    if (reads_all() != 0 || dlc_daemon_stats(ds, NULL, 0) <= 0)
        return 11;
    if (dlc_follow(ds, &o, 0, 7) < 0 || dlc_next(ds, &v, &one) != 1 || one != 7)
        return 12;
    dlc_put(ds, &v);
    dlc_close(&ds);
    return 0;
}

/* Children read through a session of their own and leave the parent's order alone. */
static void test_order_of_parent(void **state)
{
    const uint64_t list[] = {1, 2, 3}, more[] = {4, 5};
    const struct dlc_order o = {.kind = DLC_EXPLICIT, .list = list, .list_len = 3};
    struct dlc_view v;
    uint64_t sample;

    (void)state;
    assert_int_equal(dlc_follow(ds, &o, 0, 1), 0);
    assert_int_equal(dlc_follow_more(ds, more, 2), 0);
    assert_int_equal(child_of(has_no_order), 0);
    until(stat_of(&d, "datasets", "sessions") == 1);
    until(stat_of(&d, "datasets", "ahead") == 4); /* to the end of the second list, as before */
    assert_int_equal(dlc_next(ds, &v, &sample), 1);
    assert_int_equal(sample, 2);
    dlc_put(ds, &v);
    until(stat_of(&d, "datasets", "ahead") == 3);
}

static int forks_again(void)
{
    int rc = reads_all();

    return rc != 0 ? rc : child_of(reads_all);
}

static void test_grandchild(void **state)
{
    (void)state;
    assert_int_equal(child_of(forks_again), 0);
}

/* Threads in the middle of everything while the process forks. */
static _Atomic bool enough;

static void *busy(void *arg)
{
    (void)arg;
    while (!enough) {
        uint64_t idx[3] = {1, 50, 99};

        dlc_prefetch(ds, idx, 3);
        if (reads_all() != 0)
            return (void *)(uintptr_t)1;
    }
    return NULL;
}

/* Gives lists, passes their ends and tells other orders. */
static void *leads(void *arg)
{
    const uint64_t list[] = {1, 2, 3};
    const struct dlc_order o = {.kind = DLC_EXPLICIT, .list = list, .list_len = 3};
    int rc = 0;

    (void)arg;
    while (!enough && rc == 0) {
        rc = dlc_follow(ds, &o, 0, 0);
        for (uint64_t e = 0; e < 5 && rc == 0; e++) {
            const struct dlc_progress p = {.epoch = e + 1};

            rc = dlc_follow_more(ds, list, 3);
            if (rc == 0)
                rc = dlc_advance(ds, &p);
        }
    }
    return (void *)(uintptr_t)(rc != 0);
}

static void test_fork_among_threads(void **state)
{
    pthread_t t[4];
    void *wrong;

    (void)state;
    for (unsigned k = 0; k < 4; k++)
        assert_int_equal(pthread_create(&t[k], NULL, k == 0 ? leads : busy, NULL), 0);
    for (unsigned k = 0; k < 10; k++)
        assert_int_equal(child_of(reads_all), 0);
    enough = true;
    for (unsigned k = 0; k < 4; k++) {
        pthread_join(t[k], &wrong);
        assert_null(wrong);
    }
}

/* What a program executed after fork() inherits: nothing of ours. */
static int looks_for_descriptors(void)
{
    execl(
        "/bin/sh", "sh", "-c",
        "exec </dev/null >/dev/null 2>&1; ls -l /proc/$$/fd | grep -E 'memfd|eventfd|catalogs' && "
        "exit 1; exit 0",
        (char *)NULL);
    return 7;
}

static void test_exec(void **state)
{
    (void)state;
    assert_int_equal(child_of(looks_for_descriptors), 0);
}

/* ---- fork() while another thread attaches or closes ---- */

static char url[512];

static void *opens_and_closes(void *arg)
{
    struct dlc_dataset *mine = open_at(&d, url, 0);
    struct dlc_view v;

    if (dlc_get(mine, 1, &v) < 0)
        abort();
    dlc_close(&mine); /* with a view: what it pins must go with us */
    return arg;
}

/* In a child: fork a grandchild while a thread hangs in its nth call, tell its pid, and end. False:
 * the thread has not that many calls. */
static bool forks_in_call(int nth, int to_test)
{
    /* Not those that are made under the lock that fork() takes: they do not wait. */
    uint64_t calls = FAULT_CALL(connect) | FAULT_CALL(sendmsg) | FAULT_CALL(poll) |
                     FAULT_CALL(fstat) | FAULT_CALL(mmap) | FAULT_CALL(dup) | FAULT_CALL(close);
    pthread_t t;
    pid_t pid;

    fault_plan(&(struct fault_plan){.calls = calls, .nth = nth, .mode = FAULT_HANG});
    if (os_thread(&t, opens_and_closes, NULL) != 0)
        abort();
    while (fault_hanging() == 0) {
        if (pthread_tryjoin_np(t, NULL) == 0)
            return false;
        poll(NULL, 0, 1);
    }
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, 0);
        for (;;)
            pause();
    }
    if (write(to_test, &pid, sizeof(pid)) != (ssize_t)sizeof(pid))
        abort();
    return true;
}

/* The daemon must see that the process has ended, whatever its child inherited: at each moment of
 * opening, reading and closing. */
static void test_fork_while_attaching(void **state)
{
    bool more = true;
    int hung = 0;

    (void)state;
    dataset("f", N, SIZE, "", url);
    for (int nth = 1; more; nth++) {
        int fds[2], status;
        pid_t pid, grandchild = -1;

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        fflush(NULL);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            _exit(forks_in_call(nth, fds[1]) ? 0 : 1);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        more = WEXITSTATUS(status) == 0;
        if (more) {
            hung++;
            assert_int_equal(read(fds[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
            until(stat_of(&d, "daemon", "sessions") == 1); /* ds */
            assert_int_equal(kill(grandchild, SIGKILL), 0);
        }
        os_close(&fds[0]);
        os_close(&fds[1]);
    }
    assert_true(hung > 10);
    assert_int_equal(stat_of(&d, "datasets", "pins"), 0);
}

/* ---- what the parent's other threads were doing ---- */

static struct dlc_mtx *locks[5];

static void take_locks(void)
{
    for (unsigned i = 0; i < unit_count(locks); i++)
        dlc_mtx_lock(locks[i]);
}

static void give_locks(void)
{
    for (unsigned i = unit_count(locks); i-- > 0;)
        dlc_mtx_unlock(locks[i]);
}

/* In a child: the locks that were held, and a thread that was looking for a daemon. */
static int finds_nothing_busy(void)
{
    for (unsigned i = 0; i < unit_count(locks); i++)
        if (!dlc_mtx_trylock(locks[i]))
            return 20 + (int)i;
    give_locks();
    return reads_and_counts();
}

static void *forks(void *arg)
{
    *(int *)arg = child_of(finds_nothing_busy);
    return NULL;
}

/* The child has none of the parent's threads, so nobody would end what they have begun. */
static void test_threads_of_parent_are_busy(void **state)
{
    struct attachment *a;
    int result = -1;
    pthread_t t;

    (void)state;
    read_one(ds, 1);
    a = ds->cur;
    locks[0] = &ds->mtx; /* by rank */
    locks[1] = &ds->direct_mtx;
    locks[2] = &a->rpc;
    locks[3] = &a->mtx;
    locks[4] = &ds->importance.mtx;
    atomic_store(&ds->attaching, true);
    take_locks();
    assert_int_equal(pthread_create(&t, NULL, forks, &result), 0);
    pthread_join(t, NULL);
    give_locks();
    atomic_store(&ds->attaching, false);
    assert_int_equal(result, 0);
}

static void forks_and_goes_on(void *arg)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(reads_and_counts());
    *(pid_t *)arg = pid;
}

/* What the process-wide lock guards is whole in a child. */
static void test_fork_waits_for_lock(void **state)
{
    pid_t pid = -1;
    int status;

    (void)state;
    read_one(ds, 1);
    fflush(NULL);
    assert_true(waits_for(client_lock, client_unlock, forks_and_goes_on, &pid));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- what a child keeps ---- */

static int has_input_and_no_memory(void)
{
    if (fcntl(STDIN_FILENO, F_GETFD) < 0)
        return 1;
    if (segments() != 0)
        return 4;
    if (proc_mapped("weights") != 0 || ds->importance.job != NULL || ds->importance.samples != NULL)
        return 2;
    dlc_close(&ds);
    return fcntl(STDIN_FILENO, F_GETFD) < 0 ? 3 : 0;
}

/* A child lets go of memory of the daemon at once, weights included: it may never make a call. Of
 * what is not ours it lets go of nothing. */
static void test_child_keeps_no_memory(void **state)
{
    const uint64_t samples[] = {1, 2, 3};
    const struct dlc_importance spec = {.job = "f", .samples = samples, .n_samples = 3};

    (void)state;
    read_one(ds, 1);
    assert_int_equal(dlc_importance(ds, &spec), 0);
    assert_int_equal(proc_mapped("weights"), 1);
    assert_int_equal(child_of(has_input_and_no_memory), 0);
    assert_int_equal(proc_mapped("weights"), 1);
}

static int puts_views_of_two_daemons(void)
{
    if (segments() != 2 || !is_sample(&two[0], 2) || !is_sample(&two[1], 3))
        return 1;
    dlc_put(ds, &two[0]);
    if (segments() != 1 || !is_sample(&two[1], 3))
        return 2;
    dlc_put(ds, &two[1]);
    return segments() == 0 ? 0 : 3;
}

static int forks_holding_views(void)
{
    int rc = child_of(puts_views_of_two_daemons);

    return rc != 0 ? rc : puts_views_of_two_daemons();
}

/* A view of a daemon that the parent has lost is held as well, also by a child of the child. */
static void test_views_of_lost_daemon(void **state)
{
    struct dlc_stats st;

    (void)state;
    dlc_dataset_stats(ds, &st);
    assert_int_equal(dlc_get(ds, 2, &two[0]), 0);
    daemon_kill(&d);
    daemon_start(&d);
    for (uint64_t before = st.reconnects; st.reconnects == before; dlc_dataset_stats(ds, &st))
        read_one(ds, 1);
    assert_int_equal(dlc_get(ds, 3, &two[1]), 0);
    assert_int_equal(child_of(forks_holding_views), 0);
    dataset_reap(ds);
    assert_int_equal(segments(), 2); /* the parent's pins are still there */
    assert_true(is_sample(&two[0], 2) && is_sample(&two[1], 3));
    dlc_put(ds, &two[0]);
    dlc_put(ds, &two[1]);
}

static int gate[2]; /* the child says that it reads */

static int waits_for_the_end(void)
{
    int rc = reads_all();

    dlc_put(ds, &held); /* the parent's: that its memory goes is no reason to watch no more */
    if (rc != 0 || segments() != 1 || os_write_all(gate[1], "R", 1) < 0)
        return 1;
    for (unsigned i = 0; segments() != 0; i++) {
        if (i == 30000)
            return 2;
        poll(NULL, 0, 1);
    }
    return 0;
}

/* A child that makes no call gives the memory of a daemon that ends back, too. */
static void test_child_watches_its_daemon(void **state)
{
    pid_t pid;
    int status;
    char c;

    (void)state;
    assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
    assert_int_equal(dlc_get(ds, 7, &held), 0);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(waits_for_the_end());
    os_close(&gate[1]);
    assert_int_equal(read(gate[0], &c, 1), 1);
    daemon_kill(&d);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    os_close(&gate[0]);
    dlc_put(ds, &held);
    daemon_start(&d);
}

/* The bucket that the parent has open is read by threads of the parent. */
static void test_child_reads_past_cache(void **state)
{
    (void)state;
    daemon_kill(&d);
    until(segments() == 0);
    read_one(ds, 1);
    assert_non_null(ds->direct);
    assert_int_equal(child_of(reads_all), 0);
    read_one(ds, 2);
    daemon_start(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_child_reads),
        cmocka_unit_test(test_views_of_parent),
        cmocka_unit_test(test_order_of_parent),
        cmocka_unit_test(test_grandchild),
        cmocka_unit_test(test_fork_among_threads),
        cmocka_unit_test(test_exec),
        cmocka_unit_test(test_fork_while_attaching),
        cmocka_unit_test(test_two_views_of_parent),
        cmocka_unit_test(test_child_of_one_that_lost_its_daemon),
        cmocka_unit_test(test_threads_of_parent_are_busy),
        cmocka_unit_test(test_fork_waits_for_lock),
        cmocka_unit_test(test_child_keeps_no_memory),
        cmocka_unit_test(test_views_of_lost_daemon),
        cmocka_unit_test(test_child_watches_its_daemon),
        cmocka_unit_test(test_child_reads_past_cache),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
