// SPDX-License-Identifier: Apache-2.0
/* Keeping a dataset attached: when a daemon is looked for, what is told it, what is let go of. */
#include "daemon.h"

#include <pthread.h>

#include "base/fault.h"
#include "client/dataset.h"
#include "client/process.h"

#define N    20u
#define SIZE 5000u

static struct daemon d;
static struct dlc_dataset *ds;
static const struct dlc_mono past = {1};

static int setup(void **state)
{
    char url[512];

    (void)state;
    if (d.pid <= 0) {
        daemon_init(&d, "d", "1MB", false);
        daemon_start(&d);
    }
    ds = open_at(&d, dataset("a", N, SIZE, "", url), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dlc_close(&ds);
    if (d.pid <= 0)
        daemon_start(&d);
    return 0;
}

static int end(void **state)
{
    (void)state;
    daemon_end(&d);
    return 0;
}

static struct dlc_mono in(struct dlc_dur dur)
{
    return dlc_mono_add(dlc_mono_now(), dur);
}

/* Looks for a daemon now. Is there one? */
static bool attaches(void)
{
    struct attachment *a;

    ds->try_again = past;
    a = dataset_attached(ds);
    if (a != NULL)
        dataset_detach(ds, a);
    return a != NULL;
}

/* The watch thread writes it, too. */
static bool is_lost(void)
{
    bool lost;

    client_lock();
    lost = ds->lost;
    client_unlock();
    return lost;
}

static void lose(void)
{
    daemon_kill(&d);
    until(ds->cur == NULL); /* the watch thread notices */
}

/* ---- when ---- */

static void test_back_off(void **state)
{
    struct dlc_mono before;

    (void)state;
    lose();
    before = dlc_mono_now();
    ds->try_again = (struct dlc_mono){0}; /* never tried */
    assert_null(dataset_attached(ds));
    assert_int_equal(ds->patience.ns, DLC_MS(250).ns);
    assert_true(ds->try_again.ns >= before.ns + DLC_MS(250).ns &&
                ds->try_again.ns <= in(DLC_MS(250)).ns);
    ds->try_again = in(DLC_SEC(9));
    assert_null(dataset_attached(ds)); /* too early */
    assert_int_equal(ds->patience.ns, DLC_MS(250).ns);
    assert_false(attaches());
    assert_int_equal(ds->patience.ns, DLC_MS(500).ns);
    ds->patience = DLC_SEC(20);
    assert_false(attaches());
    assert_int_equal(ds->patience.ns, DLC_SEC(30).ns);
    assert_true(ds->try_again.ns > in(DLC_SEC(29)).ns && ds->try_again.ns <= in(DLC_SEC(30)).ns);
    ds->spawn_from = in(DLC_SEC(10)); /* it may start one then */
    assert_false(attaches());
    assert_int_equal(ds->try_again.ns, ds->spawn_from.ns);
    ds->spawn_from = past;
    assert_false(attaches());
    assert_true(ds->try_again.ns > in(DLC_SEC(29)).ns);
    daemon_start(&d);
    assert_true(attaches());
    assert_int_equal(ds->patience.ns, 0);
    assert_int_equal(ds->spawn_from.ns, 0);
}

static void test_hurry(void **state)
{
    struct dlc_mono before = dlc_mono_now();

    (void)state;
    ds->patience = DLC_SEC(20);
    ds->try_again = in(DLC_SEC(20));
    dataset_hurry(ds);
    assert_int_equal(ds->patience.ns, 0);
    assert_true(ds->try_again.ns >= before.ns + DLC_MS(250).ns &&
                ds->try_again.ns <= in(DLC_MS(250)).ns);
    ds->try_again = past;
    dataset_hurry(ds);
    assert_int_equal(ds->try_again.ns, past.ns);
}

static void test_refused(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    dlc_err_set(&err, DLC_ECHANGED, "another snapshot");
    dataset_back_off(ds, &err);
    assert_true(ds->refused);
    assert_int_equal(ds->patience.ns, DLC_SEC(30).ns);
    dlc_err_set(&err, DLC_ENODAEMON, "none");
    dataset_back_off(ds, &err);
    assert_false(ds->refused);
    lose();
    ds->refused = true;
    daemon_start(&d);
    assert_true(attaches());
    assert_false(ds->refused);
}

/* Who told the daemon to stop may start another. */
static void test_told_to_stop(void **state)
{
    struct dlc_mono before;

    (void)state;
    lose();
    assert_int_equal(ds->spawn_from.ns, 0);
    assert_true(is_lost());
    daemon_start(&d);
    assert_true(attaches());
    assert_false(is_lost());
    before = dlc_mono_now();
    daemon_stop(&d);
    until(ds->cur == NULL);
    assert_true(ds->spawn_from.ns >= before.ns + DLC_SEC(30).ns &&
                ds->spawn_from.ns <= in(DLC_SEC(30)).ns);
}

/* ---- how long ---- */

static void test_limits(void **state)
{
    struct attachment *a = dataset_current(ds);
    struct dlc_mono start;

    (void)state;
    dataset_lost(ds, a);
    dataset_detach(ds, a);
    daemon_signal(&d, SIGSTOP);
    start = dlc_mono_now();
    assert_false(attaches());
    assert_in_range(dlc_mono_since(start).ns, DLC_MS(1400).ns, DLC_MS(1900).ns);
    ds->timeout = DLC_MS(300);
    start = dlc_mono_now();
    assert_false(attaches());
    assert_in_range(dlc_mono_since(start).ns, DLC_MS(250).ns, DLC_MS(900).ns);
    daemon_signal(&d, SIGCONT);
}

static void *attached_by_another(void *arg)
{
    (void)arg;
    return dataset_attached(ds);
}

/* Another thread looks for a daemon. */
static void test_attaching(void **state)
{
    struct dlc_mono start = dlc_mono_now();
    struct attachment *a = dataset_current(ds);
    pthread_t t;
    void *got;

    (void)state;
    dataset_lost(ds, a);
    dataset_detach(ds, a);
    ds->attaching = true;
    assert_null(dataset_attached(ds));
    assert_in_range(dlc_mono_since(start).ns, DLC_MS(950).ns, DLC_MS(1900).ns);
    assert_true(ds->attaching);
    start = dlc_mono_now();
    assert_int_equal(pthread_create(&t, NULL, attached_by_another, NULL), 0);
    ds->attaching = false;
    pthread_join(t, &got);
    assert_non_null(got);
    assert_ptr_equal(got, ds->cur);
    assert_true(dlc_mono_since(start).ns < DLC_MS(900).ns);
    assert_int_equal(ds->cur->users, 1);
    dataset_detach(ds, got);
    assert_false(ds->attaching);
    assert_ptr_equal(dataset_attached(ds), got); /* it stays */
    dataset_detach(ds, got);
}

/* ---- letting go ---- */

static void test_users(void **state)
{
    struct attachment *a = dataset_current(ds), *same = dataset_attached(ds);

    (void)state;
    assert_ptr_equal(a, same);
    assert_int_equal(a->users, 2);
    dataset_drop_lost(ds); /* it is not lost */
    assert_ptr_equal(ds->cur, a);
    assert_int_equal(a->users, 2);
    dataset_lost(ds, a);
    dataset_lost(ds, a); /* another thread saw it, too */
    assert_null(ds->cur);
    assert_null(dataset_current(ds));
    assert_ptr_equal(ds->retired.next, &a->link);
    assert_ptr_equal(ds->retired.prev, &a->link);
    dataset_reap(ds);
    assert_false(a->unmapped);
    dataset_detach(ds, a);
    assert_false(a->unmapped);
    assert_true(ds->unreaped);
    dataset_detach(ds, a);
    assert_true(a->unmapped);
    assert_false(ds->unreaped);
    assert_int_equal(segments_of(getpid()), 0);
    assert_true(attaches());
    assert_int_equal(ds->cur->users, 0);
    dataset_lost(ds, a); /* late: it is the other one's turn */
    assert_non_null(ds->cur);
}

/* Two lie retired, one of them with a view. */
static void test_retired(void **state)
{
    struct dlc_view v;
    struct attachment *a, *b;

    (void)state;
    assert_int_equal(dlc_get(ds, 1, &v), 0);
    a = dataset_current(ds);
    dataset_lost(ds, a);
    dataset_detach(ds, a);
    assert_true(attaches());
    b = dataset_current(ds);
    dataset_lost(ds, b);
    dataset_detach(ds, b);
    assert_true(b->unmapped);
    assert_false(a->unmapped);
    assert_true(ds->unreaped); /* a is left */
    assert_true(is_sample(&v, 1));
    dlc_put(ds, &v);
    assert_true(a->unmapped);
    assert_false(ds->unreaped);
}

/* The first attachment brings what the dataset is; whoever comes later has nothing to say. */
static void test_first(void **state)
{
    struct dlc_dataset other = {.lost = true, .said = true, .spawn_from = {7}};
    struct attachment a = {.sock = -1, .n = 7, .generation = UINT64_MAX};
    char *place = mem_str("s3://b/"), *endpoint = mem_str("http://e");

    (void)state;
    dlc_list_init(&other.retired);
    a.place = place;
    a.place_endpoint = endpoint;
    dataset_attach_to(&other, &a);
    assert_ptr_equal(other.place, place);
    assert_ptr_equal(other.place_endpoint, endpoint);
    assert_null(a.place);
    assert_null(a.place_endpoint);
    assert_int_equal(other.n, 7);
    assert_int_equal(other.reconnects, 1);
    assert_int_equal(other.spawn_from.ns, 0);
    assert_false(other.said);
    assert_false(other.lost);
    assert_ptr_equal(other.cur, &a);
    dataset_attach_to(&other, &a);
    assert_int_equal(other.reconnects, 1); /* it had not lost one */
    mem_free(&place);
    mem_free(&endpoint);
    assert_int_equal(ds->n, N);
    assert_null(ds->cur->catalog); /* the dataset's */
}

/* ---- figures ---- */

static struct dlc_stats stats(void)
{
    struct dlc_stats st;

    dlc_dataset_stats(ds, &st);
    return st;
}

static void test_stats(void **state)
{
    struct dlc_stats st;
    struct dlc_view v;
    uint64_t stall;
    uint32_t high;

    (void)state;
    read_one(ds, 0);
    read_one(ds, 0);
    read_one(ds, 0);
    st = stats();
    assert_int_equal(st.misses, 1);
    assert_int_equal(st.hits, 2);
    assert_int_equal(st.bytes, 3 * SIZE);
    assert_true(st.stall_ns > 0 && st.stall_ns < (uint64_t)DLC_SEC(20).ns);
    stall = st.stall_ns;
    high = ds->cur->session->blocks_high;
    ds->cur->session->blocks_high = UINT32_MAX; /* nonsense in shared memory */
    assert_int_equal(stats().bytes, 3 * SIZE);
    ds->cur->session->blocks_high = high;
    assert_int_equal(dlc_get(ds, 0, &v), 0);
    lose();
    for (int held = 1; held >= 0; held--) { /* also when its pages have gone back */
        st = stats();
        assert_int_equal(st.misses, 1);
        assert_int_equal(st.hits, 3);
        assert_int_equal(st.bytes, 4 * SIZE);
        assert_int_equal(st.stall_ns, stall);
        if (held)
            dlc_put(ds, &v);
    }
    read_one(ds, 1);
    st = stats();
    assert_int_equal(st.bypasses, 1);
    assert_int_equal(st.without_daemon, 1);
    assert_int_equal(st.bytes, 5 * SIZE);
    assert_true(st.stall_ns > stall);
    assert_int_equal(st.reconnects, 0);
    daemon_start(&d);
    assert_true(attaches());
    assert_int_equal(stats().reconnects, 1);
    read_one(ds, 1);
    assert_int_equal(stats().misses, 2);
    assert_int_equal(stats().bytes, 6 * SIZE);
}

/* What the parent read is not counted in a child, though it keeps the parent's memory mapped. */
static int child_of_held(struct dlc_view *v)
{
    struct dlc_stats st = stats();

    if (st.hits + st.misses + st.bytes + st.stall_ns != 0)
        return 1;
    if (segments_of(getpid()) != 1 || !is_sample(v, 2))
        return 2;
    dlc_put(ds, v);
    if (segments_of(getpid()) != 0)
        return 3;
    st = stats();
    return st.hits + st.misses + st.bytes + st.stall_ns != 0 ? 4 : 0;
}

static void test_child(void **state)
{
    struct dlc_view v, w;
    int status;
    pid_t pid;

    (void)state;
    read_one(ds, 2);
    assert_int_equal(dlc_get(ds, 2, &v), 0);
    assert_int_equal(dlc_get(ds, 3, &w), 0);
    dlc_put(ds, &w);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(child_of_held(&v));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(ds->cur->session->magic, SHM_SESSION_MAGIC); /* the parent's is untouched */
    assert_true(is_sample(&v, 2));
    dlc_put(ds, &v);
}

/* ---- what is told ---- */

static void follow(void)
{
    static const uint64_t list[] = {3, 4, 5, 6, 7, 8};
    const struct dlc_order o = {.kind = DLC_EXPLICIT, .list = list, .list_len = 6};
    struct dlc_view v;
    uint64_t sample;

    assert_int_equal(dlc_follow(ds, &o, 0, 0), 0);
    for (unsigned k = 0; k < 2; k++) {
        assert_int_equal(dlc_next(ds, &v, &sample), 1);
        assert_int_equal(sample, list[k]);
        dlc_put(ds, &v);
    }
}

static void test_told_again(void **state)
{
    (void)state;
    follow();
    lose();
    daemon_start(&d);
    assert_true(attaches());
    assert_int_equal(ds->cur->session->cursor, 2);
    until(stat_of(&d, "datasets", "resident") >= 4); /* it fetches what is left of the list */
}

/* An order that cannot be told is no reason to do without a daemon, nor to keep weights from it. */
static void test_not_told(void **state)
{
    const struct dlc_importance importance = {.job = "j"};

    (void)state;
    follow();
    assert_int_equal(dlc_importance(ds, &importance), 0);
    assert_int_equal(ds->importance.mapped->generation, ds->cur->generation);
    lose();
    daemon_start(&d);
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(memfd), .nth = 1, .pid = getpid()});
    assert_true(attaches());
    assert_true(fault_disarm());
    assert_int_equal(ds->importance.mapped->generation, ds->cur->generation);
}

/* The daemon dies while it is told: there is none. */
static void test_dies_while_told(void **state)
{
    (void)state;
    follow();
    lose();
    daemon_start(&d);
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(descriptors),
                                    .nth = 1,
                                    .mode = FAULT_KILL,
                                    .pid = d.pid}); /* the list comes with one */
    assert_false(attaches());
    assert_true(fault_disarm());
    daemon_wait(&d);
    assert_null(ds->cur);
    assert_int_equal(segments_of(getpid()), 0);
    daemon_start(&d);
    assert_true(attaches());
}

int main(void)
{
#define WITH_DATASET(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_DATASET(test_back_off), WITH_DATASET(test_hurry),
        WITH_DATASET(test_refused),  WITH_DATASET(test_told_to_stop),
        WITH_DATASET(test_limits),   WITH_DATASET(test_attaching),
        WITH_DATASET(test_users),    WITH_DATASET(test_retired),
        WITH_DATASET(test_first),    WITH_DATASET(test_stats),
        WITH_DATASET(test_child),    WITH_DATASET(test_told_again),
        WITH_DATASET(test_not_told), WITH_DATASET(test_dies_while_told),
    };

    fault_share();
    return cmocka_run_group_tests(tests, NULL, end);
}
