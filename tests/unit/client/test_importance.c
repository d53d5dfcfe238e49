// SPDX-License-Identifier: Apache-2.0
// timeout: 180
/* Weights and draws: threads that learn while others draw and daemons come and go; forks; want of
 * memory and descriptors. */
#include "daemon.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/check.h"
#include "base/fault.h"

#define N     5000u
#define BATCH 64u

static struct daemon d;
static char url[512];

static int setup(void **state)
{
    (void)state;
    daemon_init(&d, "d", "4MB", false);
    daemon_start(&d);
    dataset("i", N, 10, "", url);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    daemon_end(&d);
    return 0;
}

static void begin(struct dlc_dataset *ds, const char *job)
{
    const struct dlc_importance spec = {.rule = DLC_RULE_PLAIN, .every = 50, .seed = 2, .job = job};

    if (dlc_importance(ds, &spec) < 0)
        fail_msg("%s", dlc_last_error());
}

static float weight(struct dlc_dataset *ds, uint64_t i)
{
    float w = -1;

    assert_int_equal(dlc_weights(ds, i, 1, &w), 0);
    return w;
}

static void learn_one(struct dlc_dataset *ds, uint64_t i, float loss)
{
    if (dlc_learn(ds, 0, &i, &loss, 1, NULL) < 0)
        fail_msg("%s", dlc_last_error());
}

/* ---- threads ---- */

struct busy {
    struct dlc_dataset *ds;
    _Atomic bool stop;
    _Atomic unsigned batches[4], draws;
};

/* Samples of residue k modulo 4, again and again; what is wrong, or NULL. */
struct learner {
    struct busy *busy;
    unsigned k;
};

static void *learns(void *arg)
{
    const struct learner *l = arg;
    uint64_t samples[BATCH];
    float losses[BATCH];

    for (unsigned turn = 0; !l->busy->stop; turn++) {
        for (unsigned i = 0; i < BATCH; i++) {
            samples[i] = (turn * BATCH + i) * 4 % N / 4 * 4 + l->k;
            losses[i] = (float)(l->k + 1);
        }
        if (dlc_learn(l->busy->ds, turn / 100, samples, losses, BATCH, NULL) < 0)
            return (void *)(uintptr_t) "dlc_learn failed";
        l->busy->batches[l->k]++;
    }
    return NULL;
}

static void *draws(void *arg)
{
    struct busy *b = arg;
    uint64_t list[N];

    for (unsigned epoch = 0; !b->stop; epoch++) {
        int64_t n = dlc_draw(b->ds, epoch, list, N, NULL);

        if (n != N / 2)
            return (void *)(uintptr_t) "dlc_draw failed";
        for (int64_t i = 0; i < n; i++)
            if (list[i] >= N)
                return (void *)(uintptr_t) "no such sample";
        b->draws++;
    }
    return NULL;
}

static void test_daemons_come_and_go(void **state)
{
    struct busy b = {.ds = open_at(&d, url, 0)};
    struct learner l[4];
    pthread_t t[5];
    void *wrong;

    (void)state;
    begin(b.ds, "busy");
    for (unsigned k = 0; k < 4; k++) {
        l[k] = (struct learner){&b, k};
        assert_int_equal(pthread_create(&t[k], NULL, learns, &l[k]), 0);
    }
    assert_int_equal(pthread_create(&t[4], NULL, draws, &b), 0);
    for (unsigned k = 0; k < 4; k++)
        until(b.batches[k] > N / 4 / BATCH + 1); /* each sample at least once */
    for (unsigned turn = 0; turn < 3; turn++) {
        struct dlc_stats st;
        unsigned before = b.draws;

        daemon_kill(&d);
        until(b.draws > before + 2);
        daemon_start(&d);
        until((dlc_dataset_stats(b.ds, &st), st.reconnects == turn + 1));
    }
    b.stop = true;
    for (unsigned k = 0; k < 5; k++) {
        pthread_join(t[k], &wrong);
        assert_null(wrong);
    }
    for (unsigned i = 0; i < N; i++)
        assert_float_equal(weight(b.ds, i), (float)(i % 4 + 1), 0);
    dlc_close(&b.ds);
}

/* A daemon that starts anew knows nothing: the first to find it brings its weights along. */
static void test_weights_are_told_again(void **state)
{
    struct dlc_dataset *ds = open_at(&d, url, 0), *other;
    struct dlc_stats st;

    (void)state;
    begin(ds, "again");
    learn_one(ds, 7, 3.5f);
    daemon_kill(&d);
    daemon_start(&d);
    until((read_one(ds, 1), dlc_dataset_stats(ds, &st), st.reconnects == 1));
    other = open_at(&d, url, 0);
    begin(other, "again");
    assert_float_equal(weight(other, 7), 3.5f, 0);
    assert_float_equal(weight(ds, 7), 3.5f, 0);
    dlc_close(&other);
    dlc_close(&ds);
}

/* ---- more jobs than there are places ---- */

static void test_a_ninth_job(void **state)
{
    struct dlc_dataset *all[9], *other = open_at(&d, url, 0);
    uint64_t list[N];
    char job[8];

    (void)state;
    for (unsigned k = 0; k < 9; k++) {
        all[k] = open_at(&d, url, 0);
        snprintf(job, sizeof(job), "nine-%u", k);
        begin(all[k], job);
        learn_one(all[k], 3, (float)k + 1);
        assert_int_equal(dlc_draw(all[k], 0, list, N, NULL), N / 2);
    }
    begin(all[8], "nine-8"); /* again, as a sampler does for each epoch */
    assert_float_equal(weight(all[8], 3), 9, 0);
    begin(other, "nine-8"); /* there is no place for it still */
    assert_float_equal(weight(other, 3), 0, 0);
    dlc_close(&all[2]);
    /* Now there is, and what was learnt meanwhile goes there. */
    until((begin(all[8], "nine-8"), begin(other, "nine-8"), weight(other, 3) == 9));
    for (unsigned k = 0; k < 9; k++)
        if (all[k] != NULL)
            dlc_close(&all[k]);
    dlc_close(&other);
}

/* A name that a manager would refuse is refused at once. */
static void test_names_of_jobs(void **state)
{
    static const char *const bad[] = {"", "..", "_a", "-a", ".a", "A", "a/b"};
    struct dlc_dataset *ds = open_at(&d, url, 0);

    (void)state;
    for (unsigned k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
        assert_int_equal(dlc_importance(ds, &(struct dlc_importance){.job = bad[k]}), DLC_EINVAL);
        assert_non_null(strstr(dlc_last_error(), "the first a letter or a digit"));
    }
    begin(ds, "0_.-");
    dlc_close(&ds);
}

/* ---- forks ---- */

static struct dlc_dataset *shared;

static int learns_for_itself(void)
{
    uint64_t sample = 1;
    float loss = 5, w[3];

    if (dlc_learn(shared, 0, &sample, &loss, 1, NULL) != DLC_EINVAL)
        return 1;
    begin(shared, NULL);
    if (dlc_weights(shared, 0, 3, w) < 0 || w[0] > 0 || w[1] > 0)
        return 2;
    if (dlc_learn(shared, 0, &sample, &loss, 1, NULL) < 0)
        return 3;
    begin(shared, "forked"); /* the parent's */
    if (dlc_weights(shared, 0, 3, w) < 0 || w[0] != 3 || w[1] > 0)
        return 4;
    sample = 2;
    if (dlc_learn(shared, 0, &sample, &loss, 1, NULL) < 0)
        return 5;
    dlc_close(&shared);
    return 0;
}

static void test_forks(void **state)
{
    struct busy b = {.stop = false};
    struct learner l = {&b, 3};
    pthread_t t;
    int status;
    pid_t pid;

    (void)state;
    b.ds = shared = open_at(&d, url, 0);
    begin(shared, "forked");
    learn_one(shared, 0, 3);
    assert_int_equal(pthread_create(&t, NULL, learns, &l), 0); /* holds locks when we fork */
    for (unsigned turn = 0; turn < 20; turn++) {
        fflush(NULL);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            _exit(learns_for_itself());
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_float_equal(weight(shared, 2), 5, 0);
        learn_one(shared, 2, 7);
    }
    b.stop = true;
    pthread_join(t, NULL);
    assert_float_equal(weight(shared, 0), 3, 0);
    dlc_close(&shared);
}

/* ---- want ---- */

/* Each failure leaves what was there, and the next try is good. */
static void test_faults(void **state)
{
    const struct dlc_importance one = {.rule = DLC_RULE_PLAIN, .job = "one"},
                                two = {.rule = DLC_RULE_PLAIN,
                                       .job = "two",
                                       .samples = (const uint64_t[]){3, 1, 2},
                                       .n_samples = 3};
    bool fired = true;

    (void)state;
    for (int nth = 1; fired; nth++) {
        struct dlc_dataset *ds = open_at(&d, url, 0);
        uint64_t list[N];
        int rc;

        assert_int_equal(dlc_importance(ds, &one), 0);
        learn_one(ds, 4, 9);
        fault_arm(FAULT_ALLOC | FAULT_SYSCALL, nth);
        rc = dlc_importance(ds, &two);
        if (rc == 0)
            rc = (int)DLC_MIN(dlc_draw(ds, 0, list, N, NULL), 0);
        fired = fault_disarm();
        assert_true(fired || rc == 0);
        assert_int_equal(dlc_importance(ds, &one), 0);
        assert_float_equal(weight(ds, 4), 9, 0);
        assert_int_equal(dlc_draw(ds, 0, list, N, NULL), N / 2);
        dlc_close(&ds);
    }
}

/* What the rule remembers can be saved, and brought back elsewhere. */
static void test_scale(void **state)
{
    const struct dlc_importance spec = {.job = "scale"};
    struct dlc_dataset *ds = open_at(&d, url, 0), *other = open_at(&d, url, 0);
    uint64_t samples[4] = {0, 1, 2, 3}, more[2] = {10, 11};
    float losses[4] = {4, 3, 2, 1}, less[2] = {1, 2}, a[2], b[2];
    struct dlc_scale s, bad = {.mean = -1.0 / 0.0};

    (void)state;
    assert_int_equal(dlc_importance(ds, &spec), 0);
    assert_int_equal(dlc_learn(ds, 0, samples, losses, 4, NULL), 0);
    assert_int_equal(dlc_scale(ds, &s), 0);
    assert_int_equal(s.count, 4);
    assert_int_equal(dlc_learn(ds, 3, more, less, 2, NULL), 0);
    assert_int_equal(dlc_weights(ds, 10, 2, a), 0);
    assert_int_equal(dlc_importance(other, &spec), 0);
    assert_int_equal(dlc_set_scale(other, &bad), DLC_EINVAL);
    assert_int_equal(dlc_set_scale(other, &s), 0);
    assert_int_equal(dlc_learn(other, 3, more, less, 2, NULL), 0);
    assert_int_equal(dlc_weights(other, 10, 2, b), 0);
    assert_memory_equal(a, b, sizeof(a));
    dlc_close(&ds);
    dlc_close(&other);
}

/* A subset of any kind: places in its list are drawn, by the weights of its samples. */
static void test_subset(void **state)
{
    static const uint64_t samples[] = {4000, 7, 7, 12, N - 1};
    struct dlc_importance spec = {.rule = DLC_RULE_PLAIN,
                                  .mode = DLC_SHADE,
                                  .length = 1000,
                                  .job = "subset",
                                  .samples = samples,
                                  .n_samples = 5,
                                  .first = 90,
                                  .count = 3};
    struct dlc_dataset *ds = open_at(&d, url, 0);
    uint64_t list[1000], beyond = N;
    unsigned seen[5] = {0};
    struct dlc_drawn drawn;

    (void)state;
    assert_int_equal(dlc_importance(ds, &spec), 0);
    learn_one(ds, 4000, 6);
    learn_one(ds, N - 1, 1e-9f);
    learn_one(ds, 0, 1e9f); /* none of the list */
    assert_int_equal(dlc_draw(ds, 0, list, 1000, &drawn), 1000);
    for (unsigned i = 0; i < 1000; i++) {
        assert_true(list[i] < 5);
        seen[list[i]]++;
    }
    assert_int_equal(drawn.part, 5);
    assert_true(seen[0] > 500 && seen[1] > 50 && seen[2] > 50 && seen[3] > 50 && seen[4] == 0);
    spec.samples = &beyond;
    spec.n_samples = 1;
    assert_int_equal(dlc_importance(ds, &spec), DLC_EINVAL);
    assert_non_null(strstr(dlc_last_error(), "sample 5000, at place 0: the dataset has 5000"));
    spec.n_samples = 0;
    assert_int_equal(dlc_importance(ds, &spec), DLC_EINVAL);
    assert_int_equal(dlc_draw(ds, 0, list, 1000, &drawn), 1000); /* as before */
    assert_int_equal(drawn.part, 5);
    dlc_close(&ds);
}

/* It is begun, and begun again without a daemon: weights stay, and nothing of the old one does. */
static void test_begun_again_without_a_daemon(void **state)
{
    struct dlc_dataset *ds = open_at(&d, url, 0);

    (void)state;
    begin(ds, "again");
    learn_one(ds, 3, 7);
    begin(ds, "again");
    assert_true(weight(ds, 3) == 7);
    daemon_kill(&d);
    until(segments_of(getpid()) == 0);
    begin(ds, "again");
    assert_true(weight(ds, 3) == 7);
    begin(ds, "another");
    assert_true(weight(ds, 3) != 7);
    daemon_start(&d);
    dlc_close(&ds);
}

/* A range without an end goes to the last sample. */
static void test_to_the_last(void **state)
{
    const struct dlc_importance spec = {.mode = DLC_SHADE, .first = N - 10};
    const struct dlc_importance behind = {.first = N + 1};
    struct dlc_dataset *ds = open_at(&d, url, 0);
    uint64_t list[N];

    (void)state;
    assert_int_equal(dlc_importance(ds, &spec), 0);
    assert_int_equal(dlc_draw(ds, 0, list, N, NULL), 10);
    for (unsigned i = 0; i < 10; i++)
        assert_in_range(list[i], N - 10, N - 1);
    assert_int_equal(dlc_importance(ds, &behind), DLC_EINVAL);
    dlc_close(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_daemons_come_and_go),
        cmocka_unit_test(test_weights_are_told_again),
        cmocka_unit_test(test_a_ninth_job),
        cmocka_unit_test(test_names_of_jobs),
        cmocka_unit_test(test_forks),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_subset),
        cmocka_unit_test(test_begun_again_without_a_daemon),
        cmocka_unit_test(test_to_the_last),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
