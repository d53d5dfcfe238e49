// SPDX-License-Identifier: Apache-2.0
/* Reading in a known order, and the daemon that fetches ahead of it. */
#include "daemon.h"

#include "base/check.h"
#include "order/order.h"

#define N    101u
#define SIZE 4000u

static struct daemon d;

static int setup(void **state)
{
    (void)state;
    daemon_init(&d, "d", "1MB", false); /* holds about half of a dataset */
    daemon_start(&d);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    daemon_end(&d);
    return 0;
}

/* Read to the end of the epoch, check the bytes, count how often each sample came. */
static unsigned read_epoch(struct dlc_dataset *ds, unsigned seen[static N], uint64_t *list)
{
    struct dlc_view v;
    uint64_t sample;
    unsigned n = 0;
    int rc;

    memset(seen, 0, N * sizeof(*seen));
    while ((rc = dlc_next(ds, &v, &sample)) == 1) {
        assert_true(is_sample(&v, sample));
        dlc_put(ds, &v);
        seen[sample]++;
        if (list != NULL)
            list[n] = sample;
        n++;
    }
    if (rc < 0)
        fail_msg("%s", dlc_last_error());
    return n;
}

static int advance(struct dlc_dataset *ds, uint64_t epoch, uint64_t position)
{
    const struct dlc_progress p = {.epoch = epoch, .position = position};

    return dlc_advance(ds, &p);
}

static void assert_each_once(const unsigned seen[static N])
{
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(seen[i], 1);
}

static void test_shuffled_epochs(void **state)
{
    const struct dlc_order o = {.kind = DLC_SHUFFLED, .seed = 7, .epochs = 3};
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("s", N, SIZE, "?latency=2ms", url), 0);
    uint64_t list[2][N], epoch, position;
    struct permutation p;
    unsigned seen[N];
    struct dlc_view v;

    (void)state;
    assert_int_equal(dlc_next(ds, &v, NULL), DLC_EINVAL); /* no order yet */
    assert_int_equal(dlc_follow(ds, &o, 0, 0), 0);
    assert_int_equal(dlc_epoch_length(ds), N);
    for (unsigned e = 0; e < 2; e++) {
        assert_int_equal(read_epoch(ds, seen, list[e]), N);
        assert_each_once(seen);
        permutation_init(&p, N, 7, e);
        for (unsigned i = 0; i < N; i++)
            assert_int_equal(list[e][i], permutation_at(&p, i));
    }
    assert_memory_not_equal(list[0], list[1], sizeof(list[0]));
    dlc_tell(ds, &epoch, &position);
    assert_int_equal(epoch, 2);
    assert_int_equal(position, 0);
    assert_int_equal(read_epoch(ds, seen, NULL), N);
    assert_int_equal(dlc_next(ds, &v, NULL), 0); /* after the last epoch, for good */
    assert_int_equal(dlc_next(ds, &v, NULL), 0);
    dlc_close(&ds);
}

static void test_resume(void **state)
{
    const struct dlc_order o = {.kind = DLC_SHUFFLED, .seed = 3};
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("s", N, SIZE, "?latency=2ms", url), 0);
    uint64_t whole[N], rest[N], epoch, position;
    unsigned seen[N];

    (void)state;
    assert_int_equal(dlc_follow(ds, &o, 5, 0), 0);
    assert_int_equal(read_epoch(ds, seen, whole), N);
    assert_int_equal(dlc_follow(ds, &o, 5, 40), 0);
    dlc_tell(ds, &epoch, &position);
    assert_int_equal(epoch, 5);
    assert_int_equal(position, 40);
    assert_int_equal(read_epoch(ds, seen, rest), N - 40);
    assert_memory_equal(rest, whole + 40, (N - 40) * sizeof(*rest));
    dlc_close(&ds);
}

static void test_ranks(void **state)
{
    char url[512];
    unsigned seen[N], sum[N] = {0};
    uint64_t total = 0;

    (void)state;
    dataset("s", N, SIZE, "?latency=2ms", url);
    for (uint32_t rank = 0; rank < 4; rank++) {
        const struct dlc_order o = {.kind = DLC_SHUFFLED, .rank = rank, .world = 4, .drop_last = 1};
        struct dlc_dataset *ds = open_at(&d, url, 0);

        assert_int_equal(dlc_follow(ds, &o, 0, 0), 0);
        total += read_epoch(ds, seen, NULL);
        for (unsigned i = 0; i < N; i++)
            sum[i] += seen[i];
        dlc_close(&ds);
    }
    assert_int_equal(total, N / 4 * 4);
    for (unsigned i = 0; i < N; i++)
        assert_true(sum[i] <= 1);
}

static void test_explicit(void **state)
{
    const uint64_t list[] = {5, 5, 100, 0, 5, 99};
    const struct dlc_order o = {.kind = DLC_EXPLICIT, .list = list, .list_len = 6};
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("s", N, SIZE, "?latency=2ms", url), 0);
    uint64_t got[N];
    unsigned seen[N];

    (void)state;
    assert_int_equal(dlc_follow(ds, &o, 0, 0), 0);
    assert_int_equal(read_epoch(ds, seen, got), 6);
    assert_memory_equal(got, list, sizeof(list));
    dlc_close(&ds);
}

static void test_relaxed_is_exactly_once(void **state)
{
    const struct dlc_order o = {.kind = DLC_SHUFFLED, .seed = 1, .relaxed = 1, .epochs = 3};
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("s", N, SIZE, "?latency=1ms&jitter=20ms", url), 0);
    struct permutation p;
    uint64_t list[N];
    unsigned seen[N], moved = 0;

    (void)state;
    assert_int_equal(dlc_follow(ds, &o, 0, 0), 0);
    for (unsigned e = 0; e < 3; e++) {
        assert_int_equal(read_epoch(ds, seen, list), N);
        assert_each_once(seen);
        permutation_init(&p, N, 1, e);
        for (unsigned i = 0; i < N; i++)
            moved += list[i] != permutation_at(&p, i);
    }
    assert_true(moved > 0); /* late samples were overtaken */
    dlc_close(&ds);
}

/* Nobody asks for a sample, and yet it comes. */
static void test_fetched_ahead(void **state)
{
    const struct dlc_order o = {.kind = DLC_SEQUENTIAL};
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("ahead", N, SIZE, "?latency=5ms", url), 0);
    struct dlc_view v;

    (void)state;
    assert_int_equal(dlc_follow(ds, &o, 0, 0), 0);
    until(dlc_try_get(ds, 5, &v) == 0);
    dlc_put(ds, &v);
    assert_int_equal(advance(ds, 0, 80), 0); /* a cursor that jumps */
    until(dlc_try_get(ds, 85, &v) == 0);
    dlc_put(ds, &v);
    assert_int_equal(advance(ds, 0, 2), 0); /* and back */
    until(dlc_try_get(ds, 3, &v) == 0);
    dlc_put(ds, &v);
    assert_int_equal(advance(ds, 0, 95), 0); /* the next epoch begins before this one ends */
    until(dlc_try_get(ds, 1, &v) == 0);
    dlc_put(ds, &v);
    dlc_close(&ds);
}

static void test_daemon_killed(void **state)
{
    const struct dlc_order o = {.kind = DLC_SHUFFLED, .seed = 11, .epochs = 2};
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("s", N, SIZE, "?latency=2ms", url), 0);
    struct dlc_stats st;
    struct dlc_view v;
    uint64_t sample;
    unsigned seen[N], first[N] = {0};

    (void)state;
    assert_int_equal(dlc_follow(ds, &o, 0, 0), 0);
    for (unsigned i = 0; i < 50; i++) {
        if (i == 20)
            daemon_kill(&d);
        if (i == 30)
            daemon_start(&d);
        assert_int_equal(dlc_next(ds, &v, &sample), 1);
        assert_true(is_sample(&v, sample));
        dlc_put(ds, &v);
        first[sample]++;
    }
    assert_int_equal(read_epoch(ds, seen, NULL), N - 50);
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(first[i] + seen[i], 1);
    assert_int_equal(read_epoch(ds, seen, NULL), N);
    assert_each_once(seen);
    dlc_dataset_stats(ds, &st);
    until((dlc_get(ds, 0, &v) == 0 ? dlc_put(ds, &v) : (void)0, dlc_dataset_stats(ds, &st),
           st.reconnects == 1));
    dlc_close(&ds);
}

static void test_bad_orders(void **state)
{
    const uint64_t beyond[] = {1, N};
    const struct dlc_order bad[] = {
        {.kind = 9},
        {.kind = DLC_SHUFFLED, .rank = 4, .world = 4},
        {.kind = DLC_SHUFFLED, .first = N + 1},
        {.kind = DLC_SHUFFLED, .first = 100, .count = 2},
        {.kind = DLC_EXPLICIT, .list = beyond, .list_len = 2},
        {.kind = DLC_SEQUENTIAL, .epochs = 1}, /* of which epoch 1 is asked for */
    };
    const struct dlc_order good = {.kind = DLC_SEQUENTIAL};
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("s", N, SIZE, "?latency=2ms", url), 0);

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(bad); i++) {
        assert_int_equal(dlc_follow(ds, &bad[i], 1, 0), DLC_EINVAL);
        assert_true(strlen(dlc_last_error()) > 0);
    }
    assert_int_equal(dlc_follow(ds, &good, 0, N + 1), DLC_EINVAL);
    assert_int_equal(advance(ds, 0, 0), DLC_EINVAL); /* still no order */
    assert_true(dlc_epoch_length(ds) < 0);
    dlc_close(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shuffled_epochs),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_explicit),
        cmocka_unit_test(test_relaxed_is_exactly_once),
        cmocka_unit_test(test_fetched_ahead),
        cmocka_unit_test(test_daemon_killed),
        cmocka_unit_test(test_bad_orders),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
