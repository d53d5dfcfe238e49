// SPDX-License-Identifier: Apache-2.0
/* Chunks whose files are being removed: who waits for them, and that nobody waits for nothing. */
#include "util.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

#include "cache/disk/disk_i.h"

/* Removing files of chunks waits at a gate. This is the C library's, so that the tier's own way to
 * it does not matter. */
static pthread_mutex_t gate_mtx = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_moved = PTHREAD_COND_INITIALIZER;
static bool gate_closed;
static _Atomic bool unlink_fails; /* of chunks, with EBUSY */
static unsigned at_gate;

int unlink(const char *path)
{
    pthread_mutex_lock(&gate_mtx);
    at_gate++;
    pthread_cond_broadcast(&gate_moved);
    while (gate_closed && strstr(path, "/chunks/") != NULL)
        pthread_cond_wait(&gate_moved, &gate_mtx);
    at_gate--;
    pthread_mutex_unlock(&gate_mtx);
    if (unlink_fails && strstr(path, "/chunks/") != NULL) {
        errno = EBUSY;
        return -1;
    }
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

static void gate(bool closed)
{
    pthread_mutex_lock(&gate_mtx);
    gate_closed = closed;
    pthread_cond_broadcast(&gate_moved);
    pthread_mutex_unlock(&gate_mtx);
}

static void await_gate(void)
{
    pthread_mutex_lock(&gate_mtx);
    while (at_gate == 0)
        pthread_cond_wait(&gate_moved, &gate_mtx);
    pthread_mutex_unlock(&gate_mtx);
}

/* A thread that stores a chunk, or drops it when len is 0. */
struct work {
    struct disk *d;
    unsigned i;
    size_t len;
    pthread_t thread;
    _Atomic pid_t tid;
    int rc;
};

static void *work_main(void *arg)
{
    struct work *w = arg;

    atomic_store(&w->tid, (pid_t)syscall(SYS_gettid));
    if (w->len == 0)
        disk_drop(w->d, id_of(w->i));
    else
        w->rc = store(w->d, w->i, w->len);
    return NULL;
}

static void start(struct work *w)
{
    assert_int_equal(pthread_create(&w->thread, NULL, work_main, w), 0);
}

/* Stores the chunk that another thread is removing: it waits until the old one has gone. */
static void test_store_what_leaves(void **state)
{
    struct disk *d = open_limited(0);
    struct work drops = {.d = d, .i = 1}, stores = {.d = d, .i = 1, .len = 2000};

    (void)state;
    assert_int_equal(store(d, 1, 1000), 0);
    gate(true);
    start(&drops);
    await_gate();
    assert_false(disk_has(d, id_of(1)));
    start(&stores);
    until_waits(&stores.tid);
    gate(false);
    pthread_join(drops.thread, NULL);
    pthread_join(stores.thread, NULL);
    assert_int_equal(stores.rc, 0);
    assert_int_equal(fetch(d, 1, 2000), 0);
    assert_int_equal(figures_of(d).bytes, 2000);
    assert_int_equal(count_files("chunks", ""), 1);
    disk_close(&d);
}

/* Room is being made already: who needs some too waits for it, and finds it. */
static void test_wait_for_room(void **state)
{
    struct disk *d = open_limited(2500);
    struct work first = {.d = d, .i = 2, .len = 1000}, second = {.d = d, .i = 3, .len = 1000};

    (void)state;
    assert_int_equal(store(d, 1, 2000), 0);
    gate(true);
    start(&first);
    await_gate();
    assert_int_equal(d->leaving, 1);
    start(&second);
    until_waits(&second.tid);
    gate(false);
    pthread_join(first.thread, NULL);
    pthread_join(second.thread, NULL);
    assert_int_equal(first.rc, 0);
    assert_int_equal(second.rc, 0);
    assert_int_equal(figures_of(d).bytes, 2000);
    assert_int_equal(d->leaving, 0);
    disk_close(&d);
}

/* A file that cannot be removed stays a chunk, and can go later. */
static void test_file_that_stays(void **state)
{
    struct disk *d = open_limited(2500);

    (void)state;
    assert_int_equal(store(d, 1, 2000), 0);
    unlink_fails = true;
    assert_int_equal(store(d, 2, 1000), DLC_ENOSPACE);
    assert_int_equal(d->leaving, 0);
    assert_int_equal(figures_of(d).bytes, 2000);
    assert_int_equal(fetch(d, 1, 2000), 0);
    unlink_fails = false;
    assert_int_equal(store(d, 2, 1000), 0);
    assert_false(disk_has(d, id_of(1)));
    assert_int_equal(figures_of(d).bytes, 1000);
    disk_close(&d);
}

/* Nothing to evict and nothing on its way out: nobody waits. */
static void test_no_victim(void **state)
{
    struct disk *d = open_limited(10000);
    struct disk_fill *f;

    (void)state;
    alarm(30); /* instead of a wait without end */
    assert_int_equal(store(d, 1, 5000), 0);
    assert_int_equal(disk_fill_begin(d, id_of(2), 7000, &f, NULL), 0); /* 1 goes */
    assert_int_equal(figures_of(d).chunks, 0);
    assert_int_equal(d->leaving, 0);
    disk_set_limit(d, 4000); /* what is over it is no chunk yet */
    assert_int_equal(figures_of(d).limit, 4000);
    assert_int_equal(store(d, 3, 1000), DLC_ENOSPACE);
    disk_fill_abandon(d, &f);
    assert_int_equal(store(d, 3, 1000), 0);
    alarm(0);
    disk_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        disk_test(test_store_what_leaves),
        disk_test(test_wait_for_room),
        disk_test(test_file_that_stays),
        disk_test(test_no_victim),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
