// SPDX-License-Identifier: Apache-2.0
/* Outcomes of reads: reused, prefetched or late, by epoch of a session and by dataset. */
#include "daemon/parts.h"

#include "daemon/events.h"
#include "daemon/prefetch/read_outcomes.h"
#include "daemon/session.h"
#include "order/schedule.h"

#define N     10u /* samples: not a multiple of those in a byte */
#define FIRST 3u  /* epoch */

static struct node n;
static struct dataset *ds;
static struct session s, other;

static int set_up(void **state)
{
    const struct order_spec spec = {.kind = ORDER_SEQUENTIAL, .n = N};

    (void)state;
    parts_node(&n);
    n.events[0] = &outcomes_events;
    ds = parts_dataset(&n, "x", parts_catalog("k", N));
    s = other = (struct session){.ds = ds};
    dlc_list_push_tail(&ds->sessions, &s.link);
    dlc_list_push_tail(&ds->sessions, &other.link);
    s.reader.schedule = schedule_new(&spec, FIRST, 0, NULL);
    assert_non_null(s.reader.schedule);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    schedule_free(&s.reader.schedule);
    events_raise(&n, dataset_freed, ds);
    assert_null(ds->outcomes.bits);
    parts_free(ds);
    return 0;
}

static void follow(void)
{
    s.reader.active = true;
    outcomes_begin(&s);
}

static void comes(uint64_t sample)
{
    events_raise(&n, sample_resident, ds, sample, false);
}

/* The cursor passes absolute positions [from, to): sample a % N is at a. */
static void passes(uint64_t from, uint64_t to)
{
    for (uint64_t a = from; a < to; a++)
        events_raise(&n, sample_passed, &s, a, a % N);
}

static void assert_sum(const struct outcomes_sum *sum, uint64_t reuse, uint64_t ahead,
                       uint64_t waited)
{
    assert_int_equal(sum->reuse, reuse);
    assert_int_equal(sum->ahead, ahead);
    assert_int_equal(sum->waited, waited);
}

/* What stat says of the session's epochs. Takes the expectation as JSON. */
static void assert_epochs(const char *want)
{
    json_t *is = outcomes_epochs(&s), *expected = json_loads(want, 0, NULL);

    assert_non_null(expected);
    if (!json_equal(is, expected)) {
        char *text = json_dumps(is, 0);

        fail_msg("%s, not %s", text, want);
    }
    json_decref(is);
    json_decref(expected);
}

static void test_each_counts_once(void **state)
{
    (void)state;
    comes(0); /* no order was announced: nothing is kept */
    outcomes_mark_late(&s, 0);
    assert_null(ds->outcomes.bits);
    follow();
    for (uint64_t i = 0; i < N; i++)
        comes(i);
    outcomes_mark_late(&s, 1);
    outcomes_mark_late(&s, 7);
    outcomes_mark_late(&s, 7);
    outcomes_mark_late(&s, N); /* not a sample */
    passes(0, N);
    assert_sum(&ds->outcomes.reads, 0, N - 2, 2);
    passes(N, N + 8); /* all are in memory since, and no reader waits any more */
    assert_sum(&ds->outcomes.reads, 8, N - 2, 2);
    comes(8); /* was evicted, came again */
    passes(N + 8, 2 * N);
    assert_sum(&ds->outcomes.reads, 9, N - 1, 2);
    outcomes_mark_late(&s, 0); /* resident by now, or not: the reader waited */
    comes(0);
    passes(2 * N, 2 * N + 1);
    assert_sum(&ds->outcomes.reads, 9, N - 1, 3);
    events_raise(&n, sample_passed, &s, 5, N); /* not a sample */
    assert_sum(&ds->outcomes.reads, 9, N - 1, 3);
}

/* A wait counts where the reader follows an order: its own, or that of its leader. */
static void test_whose_waits_count(void **state)
{
    (void)state;
    follow();
    outcomes_mark_late(&other, 0);
    passes(0, 1);
    assert_sum(&ds->outcomes.reads, 0, 1, 0);
    s.reader.in_hand = 1; /* the other is one of its workers */
    outcomes_mark_late(&other, 1);
    passes(1, 2);
    assert_sum(&ds->outcomes.reads, 0, 1, 1);
    assert_epochs("[{\"epoch\": 3, \"reuse\": 0, \"prefetch\": 1, \"waited\": 1}]");
}

static void test_epochs(void **state)
{
    (void)state;
    follow();
    assert_epochs("[]");
    for (uint64_t i = 0; i < N; i++)
        comes(i);
    outcomes_mark_late(&s, 0);
    passes(0, N);
    assert_epochs("[{\"epoch\": 3, \"reuse\": 0, \"prefetch\": 9, \"waited\": 1}]");
    passes(N, N + 4);
    assert_epochs("[{\"epoch\": 4, \"reuse\": 4, \"prefetch\": 0, \"waited\": 0},"
                  " {\"epoch\": 3, \"reuse\": 0, \"prefetch\": 9, \"waited\": 1}]");
    outcomes_begin(&s); /* another order: nothing was read by it yet */
    outcomes_begin(&s);
    assert_int_equal(s.n_reads, 3);
    passes(2 * N, 3 * N);
    passes(3 * N, 3 * N + 2);
    assert_epochs("[{\"epoch\": 6, \"reuse\": 2, \"prefetch\": 0, \"waited\": 0},"
                  " {\"epoch\": 5, \"reuse\": 10, \"prefetch\": 0, \"waited\": 0},"
                  " {\"epoch\": 4, \"reuse\": 4, \"prefetch\": 0, \"waited\": 0},"
                  " {\"epoch\": 3, \"reuse\": 0, \"prefetch\": 9, \"waited\": 1}]");
    passes(4 * N, 4 * N + 1); /* the oldest is forgotten */
    assert_epochs("[{\"epoch\": 7, \"reuse\": 1, \"prefetch\": 0, \"waited\": 0},"
                  " {\"epoch\": 6, \"reuse\": 2, \"prefetch\": 0, \"waited\": 0},"
                  " {\"epoch\": 5, \"reuse\": 10, \"prefetch\": 0, \"waited\": 0},"
                  " {\"epoch\": 4, \"reuse\": 4, \"prefetch\": 0, \"waited\": 0}]");
    assert_sum(&ds->outcomes.reads, 17, 9, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_counts_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_whose_waits_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_epochs, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
