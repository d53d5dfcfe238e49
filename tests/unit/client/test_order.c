// SPDX-License-Identifier: Apache-2.0
/* Reading in a known order, and the daemon that fetches ahead of it. */
#include "daemon.h"

#include "base/check.h"
#include "base/fault.h"
#include "client/dataset.h"
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

static void assert_at(struct dlc_dataset *ds, uint64_t epoch, uint64_t position)
{
    uint64_t e, p;

    dlc_tell(ds, &e, &p);
    assert_int_equal(e, epoch);
    assert_int_equal(p, position);
}

/* Lists of 6, 3 and 4 samples, each given while the one before is read; strict and relaxed. */
static void lists_of_different_lengths(struct dlc_dataset *ds, uint32_t relaxed)
{
    const uint64_t lists[3][6] = {{5, 5, 100, 0, 5, 99}, {7, 8, 9}, {1, 2, 3, 4}};
    const uint64_t length[] = {6, 3, 4};
    const struct dlc_order o = {
        .kind = DLC_EXPLICIT, .list = lists[0], .list_len = 6, .relaxed = relaxed, .epochs = 7};
    uint64_t got[N];
    unsigned seen[N];

    assert_int_equal(dlc_follow(ds, &o, 4, 0), 0);
    for (unsigned e = 0; e < 3; e++) {
        if (e < 2)
            assert_int_equal(dlc_follow_more(ds, lists[e + 1], length[e + 1]), 0);
        if (e < 1)
            assert_int_equal(dlc_follow_more(ds, lists[2], 4), DLC_EBUSY);
        assert_int_equal(dlc_epoch_length(ds), length[e]);
        assert_at(ds, 4 + e, 0);
        assert_int_equal(read_epoch(ds, seen, got), length[e]);
        if (!relaxed)
            assert_memory_equal(got, lists[e], length[e] * sizeof(*got));
        for (unsigned i = 0; i < length[e]; i++)
            assert_true(seen[lists[e][i]] > 0);
        assert_at(ds, 5 + e, 0);
    }
    assert_int_equal(dlc_epoch_length(ds), 4);
    assert_int_equal(dlc_follow_more(ds, lists[0], 6), DLC_EINVAL); /* seven epochs, all given */
}

static void test_lists_of_epochs(void **state)
{
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("s", N, SIZE, "?latency=2ms", url), 0);

    (void)state;
    lists_of_different_lengths(ds, 0);
    lists_of_different_lengths(ds, 1);
    dlc_close(&ds);
}

/* The list comes too late: the order ends, and goes on when it is there. */
static void test_list_that_comes_late(void **state)
{
    const uint64_t list[] = {3, 4, 5};
    const struct dlc_order o = {.kind = DLC_EXPLICIT, .list = list, .list_len = 3};
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("s", N, SIZE, "?latency=2ms", url), 0);
    struct dlc_view v;
    unsigned seen[N];

    (void)state;
    assert_int_equal(dlc_follow(ds, &o, 0, 3), 0); /* resumed at the end of the first */
    assert_at(ds, 1, 0);
    assert_int_equal(dlc_next(ds, &v, NULL), 0);
    assert_int_equal(dlc_next(ds, &v, NULL), 0);
    for (unsigned e = 1; e < 4; e++) {
        assert_int_equal(dlc_follow_more(ds, list, e), 0);
        assert_int_equal(dlc_epoch_length(ds), e);
        assert_int_equal(read_epoch(ds, seen, NULL), e);
        assert_at(ds, e + 1, 0);
    }
    dlc_close(&ds);
}

/* Nothing is consumed, and yet the second list's samples come. */
static void test_fetched_over_the_end_of_a_list(void **state)
{
    const uint64_t list[] = {1, 2, 3}, more[] = {90, 91};
    const struct dlc_order o = {.kind = DLC_EXPLICIT, .list = list, .list_len = 3};
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("lists", N, SIZE, "?latency=2ms", url), 0);
    struct dlc_view v;

    (void)state;
    assert_int_equal(dlc_follow(ds, &o, 0, 0), 0);
    until(dlc_try_get(ds, 3, &v) == 0);
    dlc_put(ds, &v);
    assert_int_equal(dlc_follow_more(ds, more, 2), 0);
    until(dlc_try_get(ds, 91, &v) == 0);
    dlc_put(ds, &v);
    dlc_close(&ds);
}

static void test_advance_over_lists(void **state)
{
    const uint64_t list[] = {1, 2, 3}, more[] = {90, 91}, third[] = {50};
    const struct dlc_order o = {.kind = DLC_EXPLICIT, .list = list, .list_len = 3};
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("s", N, SIZE, "?latency=2ms", url), 0);

    (void)state;
    assert_int_equal(dlc_follow(ds, &o, 0, 0), 0);
    assert_int_equal(advance(ds, 1, 0), 0); /* the end of the first: the next has not come */
    assert_int_equal(advance(ds, 0, 3), 0); /* the same place */
    assert_int_equal(advance(ds, 1, 1), DLC_EINVAL);
    assert_int_equal(advance(ds, 0, 2), DLC_EINVAL); /* the list has gone */
    assert_int_equal(dlc_follow_more(ds, more, 2), 0);
    assert_int_equal(advance(ds, 1, 1), 0);
    assert_at(ds, 1, 1);
    assert_int_equal(dlc_follow_more(ds, third, 1), 0);
    assert_int_equal(advance(ds, 2, 0), 0);
    assert_int_equal(dlc_follow_more(ds, list, 3), 0); /* the daemon has seen it too */
    assert_int_equal(advance(ds, 3, 2), 0);
    assert_at(ds, 3, 2);
    dlc_close(&ds);
}

static void test_more_of_what(void **state)
{
    const uint64_t list[] = {1, N};
    const struct dlc_order computed = {.kind = DLC_SHUFFLED};
    const struct dlc_order o = {.kind = DLC_EXPLICIT, .list = list, .list_len = 1};
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("s", N, SIZE, "?latency=2ms", url), 0);

    (void)state;
    assert_int_equal(dlc_follow_more(ds, list, 1), DLC_EINVAL);
    assert_non_null(strstr(dlc_last_error(), "dlc_follow() first"));
    assert_int_equal(dlc_follow(ds, &computed, 0, 0), 0);
    assert_int_equal(dlc_follow_more(ds, list, 1), DLC_EINVAL);
    assert_non_null(strstr(dlc_last_error(), "computed"));
    assert_int_equal(dlc_follow(ds, &o, 0, 0), 0);
    assert_int_equal(dlc_follow_more(ds, list, 2), DLC_EINVAL);
    assert_non_null(strstr(dlc_last_error(), "does not exist"));
    assert_int_equal(dlc_follow_more(ds, list, 0), DLC_EINVAL);
    assert_int_equal(dlc_follow_more(ds, NULL, 2), DLC_EINVAL);
    assert_int_equal(dlc_follow_more(ds, list, 1), 0); /* all that changed nothing */
    dlc_close(&ds);
}

/* What workers hold counts as ahead of the window, not as part of it. */
static void test_in_the_hands_of_workers(void **state)
{
    const struct dlc_order o = {.kind = DLC_SEQUENTIAL};
    struct dlc_progress p = {.ahead = 70};
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("hands", N, 100, "?latency=2ms", url), 0);
    struct dlc_view v;

    (void)state;
    assert_int_equal(dlc_follow(ds, &o, 0, 0), 0);
    until(dlc_try_get(ds, 63, &v) == 0); /* the first window */
    dlc_put(ds, &v);
    assert_int_equal(dlc_try_get(ds, 64, &v), DLC_EMISS);
    assert_int_equal(dlc_advance(ds, &p), 0);
    until(dlc_try_get(ds, N - 1, &v) == 0);
    dlc_put(ds, &v);
    p.ahead = UINT64_MAX; /* nonsense harms nobody */
    p.waited_ns = UINT64_MAX;
    p.position = 1;
    assert_int_equal(dlc_advance(ds, &p), 0);
    until(stat_of(&d, "daemon", "pid") > 0);
    read_one(ds, 5);
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

/* A leader that only advances finds the next daemon, and tells it both lists. */
static void test_daemon_killed_under_a_leader(void **state)
{
    const uint64_t list[] = {1, 2, 3}, more[] = {90, 91}, third[] = {50, 51};
    const struct dlc_order o = {.kind = DLC_EXPLICIT, .list = list, .list_len = 3};
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("leader", N, SIZE, "?latency=2ms", url), 0);
    struct dlc_stats st;
    struct dlc_view v;

    (void)state;
    assert_int_equal(dlc_follow(ds, &o, 0, 0), 0);
    assert_int_equal(dlc_follow_more(ds, more, 2), 0);
    assert_int_equal(advance(ds, 1, 1), 0);
    assert_int_equal(dlc_follow_more(ds, third, 2), 0);
    daemon_kill(&d);
    until((advance(ds, 1, 1), dlc_daemon_stats(ds, NULL, 0) == DLC_ENODAEMON));
    daemon_start(&d);
    until((advance(ds, 1, 1), dlc_dataset_stats(ds, &st), st.reconnects == 1));
    until(dlc_try_get(ds, 91, &v) == 0); /* nobody asked for it */
    dlc_put(ds, &v);
    until(dlc_try_get(ds, 51, &v) == 0);
    dlc_put(ds, &v);
    assert_int_equal(dlc_try_get(ds, 2, &v), DLC_EMISS); /* a list that was over */
    assert_int_equal(advance(ds, 2, 1), 0);
    assert_int_equal(dlc_follow_more(ds, list, 3), 0);
    until(dlc_try_get(ds, 3, &v) == 0);
    dlc_put(ds, &v);
    dlc_close(&ds);
}

/* A list that cannot be handed over: the caller is told, since nothing would be fetched ahead. */
static void test_list_not_handed_over(void **state)
{
    const uint64_t list[] = {3, 1, 2};
    const struct dlc_order o = {.kind = DLC_EXPLICIT, .list = list, .list_len = 3, .epochs = 2};
    struct dlc_order computed = {.kind = DLC_SHUFFLED};
    struct dlc_swap swaps[2];
    unsigned seen[N];
    uint64_t was[N];
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("o", N, SIZE, "", url), 0);

    (void)state;
    assert_int_equal(dlc_follow(ds, &computed, 0, 0), 0);
    assert_int_equal(read_epoch(ds, seen, was), N);
    computed.relaxed = 1;
    swaps[0] = (struct dlc_swap){5, was[9]};
    swaps[1] = (struct dlc_swap){9, was[5]};
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(memfd), .nth = 1});
    assert_true(dlc_follow_swapped(ds, &computed, 0, 0, swaps, 2) < 0);
    assert_true(fault_disarm());
    assert_non_null(strstr(dlc_last_error(), "cannot hand over an order: a list of 32 bytes"));
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(memfd), .nth = 1});
    assert_true(dlc_follow(ds, &o, 0, 0) < 0);
    assert_true(fault_disarm());
    assert_non_null(strstr(dlc_last_error(), "cannot hand over an order: a list of 24 bytes"));
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(fcntl), .nth = 1});
    assert_true(dlc_follow(ds, &o, 0, 0) < 0);
    assert_true(fault_disarm());
    assert_int_equal(dlc_follow(ds, &o, 0, 0), 0);
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(memfd), .nth = 1});
    assert_true(dlc_follow_more(ds, list, 3) < 0); /* nothing has changed: */
    assert_true(fault_disarm());
    assert_int_equal(dlc_follow_more(ds, list, 3), 0);
    dlc_close(&ds);
}

/* What is behind the bits of samples that were taken out of turn stays as it is. */
static void test_bits_end_where_they_end(void **state)
{
    const struct dlc_order o = {.kind = DLC_SHUFFLED, .relaxed = 1};
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("o", N, SIZE, "", url), 0);
    unsigned seen[N];

    (void)state;
    assert_int_equal(dlc_follow(ds, &o, 0, 0), 0);
    ds->reading.ahead = 1 << 20;
    assert_int_equal(read_epoch(ds, seen, NULL), N);
    assert_int_equal(ds->reading.ahead, 1 << 20);
    assert_each_once(seen);
    dlc_close(&ds);
}

/* A range without an end goes to the last sample. */
static void test_to_the_last(void **state)
{
    const struct dlc_order o = {.kind = DLC_SEQUENTIAL, .first = N - 5, .epochs = 1};
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("o", N, SIZE, "", url), 0);
    unsigned seen[N];
    uint64_t list[N];

    (void)state;
    assert_int_equal(dlc_follow(ds, &o, 0, 0), 0);
    assert_int_equal(dlc_epoch_length(ds), 5);
    assert_int_equal(read_epoch(ds, seen, list), 5);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(list[i], N - 5 + i);
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
        cmocka_unit_test(test_lists_of_epochs),
        cmocka_unit_test(test_list_that_comes_late),
        cmocka_unit_test(test_fetched_over_the_end_of_a_list),
        cmocka_unit_test(test_advance_over_lists),
        cmocka_unit_test(test_more_of_what),
        cmocka_unit_test(test_in_the_hands_of_workers),
        cmocka_unit_test(test_relaxed_is_exactly_once),
        cmocka_unit_test(test_fetched_ahead),
        cmocka_unit_test(test_daemon_killed),
        cmocka_unit_test(test_daemon_killed_under_a_leader),
        cmocka_unit_test(test_bad_orders),
        cmocka_unit_test(test_list_not_handed_over),
        cmocka_unit_test(test_to_the_last),
        cmocka_unit_test(test_bits_end_where_they_end),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
