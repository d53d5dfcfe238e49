// SPDX-License-Identifier: Apache-2.0
/* Relaxed orders whose samples change places: each still comes once, whatever happens. */
#include "daemon.h"
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/check.h"
#include "base/rng.h"

#define N    400u
#define SIZE 4000u
#define JOBS 3u

static struct daemon d;
static char url[512];

static const struct dlc_order shuffled = {.kind = DLC_SHUFFLED, .relaxed = 1};

static int setup(void **state)
{
    (void)state;
    daemon_init(&d, "d", "1MB", false); /* holds less than two thirds of the dataset */
    daemon_start(&d);
    dataset("s", N, SIZE, "?latency=2ms", url);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    daemon_end(&d);
    return 0;
}

/* After each test: nobody here swaps what it may not. */
static int no_nonsense(void **state)
{
    (void)state;
    return stat_of(&d, "counters", "client_nonsense") == 0 ? 0 : -1;
}

struct job {
    struct dlc_dataset *ds;
    struct dlc_order order;
    unsigned seen[N], n, epochs;
};

static void job_open(struct job *j, uint64_t seed)
{
    *j = (struct job){.ds = open_at(&d, url, 0), .order = shuffled};
    j->order.seed = seed;
    assert_int_equal(dlc_follow(j->ds, &j->order, 0, 0), 0);
}

static void note(struct job *j, uint64_t sample)
{
    assert_true(sample < N);
    assert_int_equal(j->seen[sample], 0);
    j->seen[sample] = 1;
    j->n++;
}

static void epoch_ends(struct job *j)
{
    assert_int_equal(j->n, N);
    memset(j->seen, 0, sizeof(j->seen));
    j->n = 0;
    j->epochs++;
}

/* One sample, or the end of an epoch. */
static void job_step(struct job *j)
{
    struct dlc_view v;
    uint64_t sample;
    int rc = dlc_next(j->ds, &v, &sample);

    if (rc < 0)
        fail_msg("%s", dlc_last_error());
    if (rc == 0) {
        epoch_ends(j);
        return;
    }
    assert_true(is_sample(&v, sample));
    dlc_put(j->ds, &v);
    note(j, sample);
}

/* Where it is, as it would be saved. Gives *swaps. */
static size_t save(struct dlc_dataset *ds, uint64_t *epoch, uint64_t *position,
                   struct dlc_swap **swaps)
{
    int64_t n = dlc_tell_swaps(ds, epoch, position, NULL, 0);

    assert_true(n >= 0);
    *swaps = mem_alloc((size_t)n * sizeof(**swaps) + 1);
    assert_int_equal(dlc_tell_swaps(ds, epoch, position, *swaps, (size_t)n), n);
    return (size_t)n;
}

/* Save, and go on in a dataset that was opened anew. */
static size_t resume(struct job *j)
{
    uint64_t epoch, position;
    struct dlc_swap *swaps;
    size_t n = save(j->ds, &epoch, &position, &swaps);

    assert_int_equal(epoch, j->n < N ? j->epochs : j->epochs + 1);
    assert_int_equal(position, j->n % N);
    dlc_close(&j->ds);
    j->ds = open_at(&d, url, 0);
    if (dlc_follow_swapped(j->ds, &j->order, epoch, position, swaps, n) < 0)
        fail_msg("%s", dlc_last_error());
    if (j->n == N)
        epoch_ends(j);
    mem_free(&swaps);
    return n;
}

/* ---- one, two and three jobs ---- */

static json_int_t counter(const char *name)
{
    return stat_of(&d, "counters", name);
}

static void test_each_once(void **state)
{
    (void)state;
    for (unsigned jobs = 1; jobs <= JOBS; jobs++) {
        json_int_t before = counter("swaps");
        struct job all[JOBS];

        for (unsigned k = 0; k < jobs; k++)
            job_open(&all[k], k);
        for (unsigned i = 0; all[0].epochs < 4; i++)
            for (unsigned k = 0; k < jobs; k++)
                if (i >= k * N / 3)
                    job_step(&all[k]);
        for (unsigned k = 0; k < jobs; k++)
            dlc_close(&all[k].ds);
        assert_true(counter("swaps") > before);
    }
}

/* A rank has its part of each epoch, a range of samples nothing else. */
static void test_ranks_and_ranges(void **state)
{
    unsigned seen[N] = {0};
    struct job all[2];

    (void)state;
    for (unsigned k = 0; k < 2; k++) {
        job_open(&all[k], 5);
        all[k].order.rank = k;
        all[k].order.world = 2;
        all[k].order.first = 100;
        all[k].order.count = 251;
        assert_int_equal(dlc_follow(all[k].ds, &all[k].order, 0, 0), 0);
    }
    for (unsigned i = 0; i < 126; i++)
        for (unsigned k = 0; k < 2; k++)
            job_step(&all[k]);
    for (unsigned k = 0; k < 2; k++) {
        assert_int_equal(dlc_next(all[k].ds, &(struct dlc_view){0}, NULL), 0);
        for (unsigned i = 0; i < N; i++)
            seen[i] += all[k].seen[i];
        dlc_close(&all[k].ds);
    }
    for (unsigned i = 0; i < N; i++)
        assert_true(i >= 100 && i < 351 ? seen[i] >= 1 : seen[i] == 0);
}

/* ---- states ---- */

/* Again and again, in the middle of epochs and at their ends, while another job has samples fetched
 * and evicted. */
static void test_resume(void **state)
{
    struct job j, other;
    struct rng r = {4};
    size_t most = 0;

    (void)state;
    job_open(&j, 1);
    job_open(&other, 2);
    while (j.epochs < 4) {
        uint64_t steps = 1 + rng_below(&r, 60);
        size_t n;

        for (uint64_t i = 0; i < steps; i++) {
            job_step(&j);
            job_step(&other);
            job_step(&other);
        }
        n = resume(&j);
        most = DLC_MAX(most, n);
    }
    assert_true(most > 10);
    dlc_close(&j.ds);
    dlc_close(&other.ds);
}

/* The state of an explicit order has what was read before its turn. */
static void test_resume_of_a_list(void **state)
{
    uint64_t list[N];
    struct job j;

    (void)state;
    for (unsigned i = 0; i < N; i++)
        list[i] = (i * 7) % N;
    for (unsigned at = 0; at < N; at += 97) {
        job_open(&j, 0);
        j.order = (struct dlc_order){
            .kind = DLC_EXPLICIT, .relaxed = 1, .list = list, .list_len = N, .epochs = 1};
        assert_int_equal(dlc_follow(j.ds, &j.order, 0, 0), 0);
        for (unsigned i = 0; i < at; i++)
            job_step(&j);
        resume(&j);
        while (j.epochs == 0)
            job_step(&j);
        dlc_close(&j.ds);
    }
}

static void test_states_that_cannot_be(void **state)
{
    const struct dlc_swap twice[] = {{50, 7}, {60, 7}}, read[] = {{3, 7}}, alone[] = {{399, 7}};
    struct dlc_dataset *ds = open_at(&d, url, 0);
    struct dlc_order o = shuffled;
    uint64_t epoch, position;
    struct dlc_view v;

    (void)state;
    assert_int_equal(dlc_tell_swaps(ds, &epoch, &position, NULL, 0), DLC_EINVAL);
    assert_int_equal(dlc_take(ds, 0, 0, &epoch, 1), DLC_EINVAL);
    assert_int_equal(dlc_follow_swapped(ds, &o, 0, 10, twice, 2), DLC_EINVAL);
    assert_non_null(strstr(dlc_last_error(), "position 10 of epoch 0"));
    assert_int_equal(dlc_follow_swapped(ds, &o, 0, 10, read, 1), DLC_EINVAL);
    assert_int_equal(dlc_follow_swapped(ds, &o, 0, 10, &(struct dlc_swap){N, 7}, 1), DLC_EINVAL);
    o.relaxed = 0;
    assert_int_equal(dlc_follow_swapped(ds, &o, 0, 0, alone, 1), DLC_EINVAL);
    assert_non_null(strstr(dlc_last_error(), "relaxed"));
    assert_int_equal(dlc_next(ds, &v, NULL), DLC_EINVAL); /* none was set */
    dlc_close(&ds);
}

/* ---- taking ---- */

/* A leader deals batches to two workers' worth of hands, resumes, and goes on. */
static void test_take(void **state)
{
    struct job j, other;
    uint64_t samples[64], dealt = 0, read = 0;
    struct rng r = {9};

    (void)state;
    job_open(&j, 3);
    job_open(&other, 4);
    while (j.epochs < 4) {
        struct dlc_progress p = {.epoch = j.epochs};
        int64_t n = dlc_take(j.ds, j.epochs, dealt, samples, 1 + rng_below(&r, 64));

        assert_true(n >= 0);
        for (int64_t k = 0; k < n; k++) {
            struct dlc_view v;

            note(&j, samples[k]);
            assert_int_equal(dlc_get(j.ds, samples[k], &v), 0);
            assert_true(is_sample(&v, samples[k]));
            dlc_put(j.ds, &v);
            job_step(&other);
        }
        dealt += (uint64_t)n;
        read = rng_below(&r, 3) == 0 ? dealt : read;
        if (n == 0) {
            assert_int_equal(dealt, N);
            epoch_ends(&j);
            dealt = read = 0;
            p.epoch = j.epochs;
        }
        p.position = read;
        p.ahead = dealt - read;
        assert_int_equal(dlc_advance(j.ds, &p), 0);
    }
    dlc_close(&j.ds);
    dlc_close(&other.ds);
}

/* What was dealt and not read comes again after a resume, and nothing else does. */
static void test_resume_of_what_was_taken(void **state)
{
    struct dlc_progress p = {.position = 100, .ahead = 50};
    uint64_t epoch, position, samples[N], again[50];
    struct dlc_swap *swaps;
    struct job j, other;
    struct dlc_view v;
    size_t n, heap = 0;

    (void)state;
    job_open(&other, 6);
    while (other.epochs < 1)
        job_step(&other);
    job_open(&j, 8);
    assert_int_equal(dlc_take(j.ds, 0, 0, samples, 150), 150);
    assert_int_equal(dlc_next(j.ds, &v, NULL), DLC_EINVAL);
    assert_non_null(strstr(dlc_last_error(), "dlc_take"));
    for (unsigned k = 0; k < 100; k++)
        note(&j, samples[k]);
    assert_int_equal(dlc_advance(j.ds, &p), 0);
    n = save(j.ds, &epoch, &position, &swaps);
    assert_true(n > 0);
    for (unsigned k = 0; k < 400; k++) { /* what was looked at to tell it is given back */
        if (k == 200)
            heap = unit_heap();
        assert_int_equal(dlc_tell_swaps(j.ds, &epoch, &position, NULL, 0), n);
    }
    assert_true(unit_heap() < heap + 200 * sizeof(struct dlc_swap));
    assert_int_equal(position, 100);
    assert_int_equal(dlc_follow_swapped(j.ds, &j.order, epoch, position, swaps, n), 0);
    assert_int_equal(dlc_take(j.ds, 0, 100, again, 50), 50);
    assert_memory_equal(again, samples + 100, sizeof(again)); /* it was decided */
    while ((n = (size_t)dlc_take(j.ds, 0, j.n, samples, 150)) > 0)
        for (unsigned k = 0; k < n; k++)
            note(&j, samples[k]);
    epoch_ends(&j);
    assert_int_equal(dlc_take(j.ds, 0, N + 1, samples, 1), DLC_EINVAL);
    assert_int_equal(dlc_take(j.ds, 0, 99, samples, 1), DLC_EINVAL);
    assert_non_null(strstr(dlc_last_error(), "position 99 of epoch 0 was passed"));
    assert_int_equal(dlc_take(j.ds, 1, 5, samples, N), N - 5);
    mem_free(&swaps);
    dlc_close(&j.ds);
    dlc_close(&other.ds);
}

/* Back, to where nothing is settled: each comes once from there on. */
static void test_advance_back(void **state)
{
    struct dlc_progress p = {0};
    uint64_t samples[N], again[N];
    struct dlc_order o = shuffled;
    struct dlc_dataset *ds = open_at(&d, url, 0);
    unsigned seen[N] = {0};

    (void)state;
    assert_int_equal(dlc_follow(ds, &o, 0, 0), 0);
    assert_int_equal(dlc_take(ds, 0, 0, samples, 200), 200);
    p.position = 150;
    assert_int_equal(dlc_advance(ds, &p), 0);
    p.position = 0;
    assert_int_equal(dlc_advance(ds, &p), 0);
    assert_int_equal(dlc_take(ds, 0, 0, again, N), N);
    for (unsigned k = 0; k < N; k++)
        assert_int_equal(seen[again[k]]++, 0);
    dlc_close(&ds);
}

/* Back again and again, while another job has samples fetched: the daemon follows. */
static void test_back_and_forth(void **state)
{
    json_int_t before = counter("swaps");
    struct job j, other;
    uint64_t samples[40];

    (void)state;
    job_open(&j, 21);
    job_open(&other, 22);
    for (unsigned turn = 0; turn < 12; turn++) {
        unsigned seen[N] = {0};

        for (uint64_t at = 0; at < 200; at += 40) {
            assert_int_equal(dlc_take(j.ds, turn / 4, at, samples, 40), 40);
            for (unsigned k = 0; k < 40; k++) {
                assert_int_equal(seen[samples[k]]++, 0);
                job_step(&other);
            }
            assert_int_equal(
                dlc_advance(j.ds, &(struct dlc_progress){.epoch = turn / 4, .position = at + 40}),
                0);
        }
        assert_int_equal(dlc_advance(j.ds, &(struct dlc_progress){.epoch = (turn + 1) / 4}), 0);
    }
    assert_true(counter("swaps") > before);
    dlc_close(&j.ds);
    dlc_close(&other.ds);
}

/* Epochs that are shorter than what is settled ahead: a swap is told before the cursor has come
 * near its epoch, or after several epochs were read at once. */
static void test_short_epochs(void **state)
{
    json_int_t before = counter("swaps");
    struct job j, other;

    (void)state;
    for (uint32_t world = 5; world <= 80; world *= 4) {
        job_open(&other, 31);
        job_open(&j, 32);
        j.order.rank = 1;
        j.order.world = world;
        assert_int_equal(dlc_follow(j.ds, &j.order, 0, 0), 0);
        for (unsigned epoch = 0; epoch < 4 * world; epoch++) {
            struct dlc_view v;
            uint64_t sample;

            memset(j.seen, 0, sizeof(j.seen));
            j.n = 0;
            while (dlc_next(j.ds, &v, &sample) == 1) {
                assert_true(is_sample(&v, sample));
                dlc_put(j.ds, &v);
                note(&j, sample);
                job_step(&other);
            }
            assert_int_equal(j.n, N / world);
        }
        dlc_close(&j.ds);
        dlc_close(&other.ds);
    }
    assert_true(counter("swaps") > before);
}

/* ---- reports ---- */

/* A number of what became of reads of the dataset, by all cursors. */
static json_int_t reads(const char *name)
{
    struct msg m = MSG_INIT;
    int sock = dial_greeted(&d);
    json_t *ds;
    json_int_t v;

    tell(sock, json_pack("{s:s}", "op", "stat"), &m);
    ds = json_array_get(json_object_get(m.body, "datasets"), 0);
    v = json_integer_value(json_object_get(json_object_get(ds, "reads"), name));
    msg_release(&m);
    os_close(&sock);
    return v;
}

static json_int_t all_reads(void)
{
    return reads("reuse") + reads("prefetch") + reads("waited");
}

/* What changes places is there because another job has used it: that is no prefetch. */
static void test_a_swap_is_reuse(void **state)
{
    struct dlc_order o = {.kind = DLC_SEQUENTIAL};
    struct job first, then;
    uint64_t epoch, at = 0;
    json_int_t reused;

    (void)state;
    daemon_stop(&d); /* so that nothing is there */
    daemon_start(&d);
    job_open(&first, 0);
    assert_int_equal(dlc_follow(first.ds, &o, 0, 0), 0);
    for (unsigned i = 0; i < 100; i++)
        job_step(&first);
    until(all_reads() == 100);
    reused = reads("reuse");
    job_open(&then, 41);
    for (; at < 60; dlc_tell(then.ds, &epoch, &at))
        job_step(&then);
    until(all_reads() == 100 + (json_int_t)at);
    assert_true(counter("swaps") > 20);
    assert_true(reads("reuse") - reused > (json_int_t)at * 2 / 3);
    dlc_close(&first.ds);
    dlc_close(&then.ds);
}

/* ---- bad days ---- */

/* The daemon is killed again and again, and found again by whoever reads next: the order goes on
 * where it was, also when it is another thread that tells it. */
static _Atomic bool ends;

static void *read_any(void *arg)
{
    struct rng r = {77};

    while (!atomic_load(&ends)) {
        uint64_t i = rng_below(&r, N);
        struct dlc_view v;

        if (dlc_get(arg, i, &v) < 0 || !is_sample(&v, i))
            return arg;
        dlc_put(arg, &v);
    }
    return NULL;
}

static void test_the_daemon_is_killed(void **state)
{
    struct job j, other;
    pthread_t thread;
    void *failed;

    (void)state;
    job_open(&j, 12);
    job_open(&other, 13);
    assert_int_equal(pthread_create(&thread, NULL, read_any, j.ds), 0);
    for (unsigned i = 0; j.epochs < 4; i++) {
        job_step(&j);
        job_step(&other);
        if (i % 300 == 299) {
            daemon_kill(&d);
            job_step(&j);
            daemon_start(&d);
        }
    }
    atomic_store(&ends, true);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    dlc_close(&j.ds);
    dlc_close(&other.ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_each_once, no_nonsense),
        cmocka_unit_test_teardown(test_ranks_and_ranges, no_nonsense),
        cmocka_unit_test_teardown(test_resume, no_nonsense),
        cmocka_unit_test_teardown(test_resume_of_a_list, no_nonsense),
        cmocka_unit_test_teardown(test_states_that_cannot_be, no_nonsense),
        cmocka_unit_test_teardown(test_take, no_nonsense),
        cmocka_unit_test_teardown(test_resume_of_what_was_taken, no_nonsense),
        cmocka_unit_test_teardown(test_advance_back, no_nonsense),
        cmocka_unit_test_teardown(test_back_and_forth, no_nonsense),
        cmocka_unit_test_teardown(test_short_epochs, no_nonsense),
        cmocka_unit_test_teardown(test_a_swap_is_reuse, no_nonsense),
        cmocka_unit_test_teardown(test_the_daemon_is_killed, no_nonsense),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
