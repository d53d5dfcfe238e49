// SPDX-License-Identifier: Apache-2.0
/* What the daemon says of itself and of the dataset that is open. */
#include "daemon.h"
#include "fake_daemon.h"

#define ROUNDS 200u

#define N    20u
#define SIZE 3000u

static struct daemon d;

static int setup(void **state)
{
    (void)state;
    daemon_init(&d, "d", "1MB", false);
    daemon_start(&d);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    daemon_end(&d);
    return 0;
}

/* Gives. */
static json_t *figures(struct dlc_dataset *ds)
{
    int64_t len = dlc_daemon_stats(ds, NULL, 0);
    size_t cap = (size_t)len + 200; /* numbers may have grown meanwhile */
    char *text = mem_alloc(cap);
    json_t *o;

    if (len < 0)
        fail_msg("%s", dlc_last_error());
    len = dlc_daemon_stats(ds, text, cap);
    assert_in_range(len, 1, cap - 1);
    assert_int_equal(strlen(text), len);
    o = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(o);
    mem_free(&text);
    return o;
}

static json_int_t counter(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(json_object_get(o, "counters"), name);

    assert_true(json_is_integer(v));
    return json_integer_value(v);
}

/* Two datasets: each is told what was done for it alone, and the daemon's sum of both. */
static void test_each_its_own(void **state)
{
    char url[2][512];
    struct dlc_dataset *a = open_at(&d, dataset("a", N, SIZE, "", url[0]), 0);
    struct dlc_dataset *b = open_at(&d, dataset("b", N, SIZE, "", url[1]), 0);
    json_t *of_a, *of_b, *mine;

    (void)state;
    for (unsigned i = 0; i < 7; i++)
        read_one(a, i);
    read_one(b, 0);
    of_a = figures(a);
    of_b = figures(b);
    assert_null(json_object_get(of_a, "ok"));
    assert_true(json_object_size(json_object_get(of_a, "daemon")) > 0);
    assert_true(json_object_size(json_object_get(of_a, "memory")) > 0);
    assert_int_equal(json_array_size(json_object_get(of_a, "datasets")), 2);

    mine = json_object_get(of_a, "dataset");
    assert_int_equal(counter(mine, "bucket_gets"), 7);
    assert_int_equal(counter(mine, "bucket_bytes"), 7 * SIZE);
    assert_true(counter(mine, "bucket_lists") >= 1);
    assert_true(counter(mine, "bucket_requests") >= 8);
    assert_true(counter(mine, "stall_client_ns") > 0); /* no order was told */
    assert_int_equal(counter(mine, "stall_memory_ns"), 0);
    assert_int_equal(counter(json_object_get(of_b, "dataset"), "bucket_gets"), 1);
    assert_int_equal(counter(of_b, "bucket_gets"), 8);
    json_decref(of_a);
    json_decref(of_b);
    dlc_close(&a);
    dlc_close(&b);
}

static void test_too_small_a_buffer(void **state)
{
    char url[512], small[8] = "before";
    struct dlc_dataset *ds = open_at(&d, dataset("a", N, SIZE, "", url), 0);

    (void)state;
    assert_true(dlc_daemon_stats(ds, small, sizeof(small)) > (int64_t)sizeof(small));
    assert_string_equal(small, "before");
    dlc_close(&ds);
}

/* Workers wait for what their leader's order brings: that is not "no order told". */
static void test_stalls_of_workers(void **state)
{
    const struct dlc_order o = {.kind = DLC_SEQUENTIAL};
    const struct dlc_progress p = {.ahead = 10};
    char url[512];
    struct dlc_dataset *leader, *worker;
    json_t *all, *mine;

    (void)state;
    leader = open_at(&d, dataset("w", N, SIZE, "?latency=50ms", url), 0);
    worker = open_at(&d, url, 0);
    assert_int_equal(dlc_follow(leader, &o, 0, 0), 0);
    assert_int_equal(dlc_advance(leader, &p), 0);
    read_one(worker, N - 1);
    all = figures(leader);
    mine = json_object_get(all, "dataset");
    assert_int_equal(counter(mine, "stall_client_ns"), 0);
    assert_true(counter(mine, "stall_latency_ns") + counter(mine, "stall_bandwidth_ns") > 0);
    json_decref(all);
    dlc_close(&leader);
    dlc_close(&worker);
}

static void test_no_daemon(void **state)
{
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("a", N, SIZE, "", url), 0);
    json_t *o;

    (void)state;
    daemon_kill(&d);
    assert_int_equal(dlc_daemon_stats(ds, NULL, 0), DLC_ENODAEMON);
    assert_true(strlen(dlc_last_error()) > 0);
    daemon_start(&d);
    until(dlc_daemon_stats(ds, NULL, 0) > 0);
    o = figures(ds);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "daemon"), "pid")),
                     d.pid);
    json_decref(o);
    dlc_close(&ds);
}

/* A daemon that answers stays; one that hangs is lost, since its answer may still come. Nothing keeps
 * the memory of one that is gone. */
static void test_lost_or_not(void **state)
{
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("a", N, SIZE, "", url), 300);
    struct dlc_stats st;

    (void)state;
    read_one(ds, 1);
    for (unsigned i = 0; i < 3; i++)
        assert_true(dlc_daemon_stats(ds, NULL, 0) > 0);
    read_one(ds, 1);
    dlc_dataset_stats(ds, &st);
    assert_int_equal(st.reconnects, 0);
    daemon_signal(&d, SIGSTOP);
    assert_int_equal(dlc_daemon_stats(ds, NULL, 0), DLC_ETIMEDOUT);
    daemon_signal(&d, SIGCONT);
    until(dlc_daemon_stats(ds, NULL, 0) > 0);
    dlc_dataset_stats(ds, &st);
    assert_int_equal(st.reconnects, 1);
    read_one(ds, 1);
    assert_int_equal(segments_of(getpid()), 1);
    daemon_kill(&d);
    until(segments_of(getpid()) == 0);
    daemon_start(&d);
    dlc_close(&ds);
}

/* ---- a daemon that the test plays ---- */

/* One that is lost under the question may have been followed by another, which is asked once. */
static void test_asks_the_daemon_that_followed(void **state)
{
    struct dlc_dataset *ds = fake_dataset();

    (void)state;
    fake.stat = json_pack("{s:b, s:i}", "ok", 1, "n", 5);
    fake.lost_stats = 1;
    assert_int_equal(dlc_daemon_stats(ds, NULL, 0), strlen("{\"n\":5}"));
    assert_int_equal(fake.stats, 2);
    fake.stats = 0;
    fake.lost_stats = 4;
    assert_int_equal(dlc_daemon_stats(ds, NULL, 0), DLC_ENODAEMON);
    assert_int_equal(fake.stats, 2);
    dlc_close(&ds);
}

/* Who asks while there is none is told so each time, and never that the text is empty. */
static void test_says_where_no_daemon_answers(void **state)
{
    struct dlc_dataset *ds = fake_dataset();

    (void)state;
    fake_stop();
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(dlc_daemon_stats(ds, NULL, 0), DLC_ENODAEMON);
        assert_non_null(strstr(dlc_last_error(), fake.addr.sun_path));
    }
    dlc_close(&ds);
}

/* All of the text and its NUL fit, or nothing is written. */
static void test_buffer_of_exactly_that_size(void **state)
{
    const char text[] = "{\"n\":5}";
    char buf[sizeof(text) + 2];
    struct dlc_dataset *ds = fake_dataset();

    (void)state;
    fake.stat = json_pack("{s:b, s:i}", "ok", 1, "n", 5);
    memset(buf, 'x', sizeof(buf));
    assert_int_equal(dlc_daemon_stats(ds, buf, sizeof(text) - 1), sizeof(text) - 1);
    for (unsigned i = 0; i < sizeof(buf); i++)
        assert_int_equal(buf[i], 'x');
    assert_int_equal(dlc_daemon_stats(ds, buf, sizeof(text)), sizeof(text) - 1);
    assert_string_equal(buf, text);
    assert_int_equal(buf[sizeof(text)], 'x');
    dlc_close(&ds);
}

static void ask_often(struct dlc_dataset *ds, json_t *answer, int64_t result)
{
    size_t before = 0;

    json_decref(fake.stat);
    fake.stat = answer;
    for (unsigned i = 0; i < 2 * ROUNDS; i++) {
        if (i == ROUNDS)
            before = unit_heap();
        assert_int_equal(dlc_daemon_stats(ds, NULL, 0), result);
    }
    assert_true(unit_heap() < before + ROUNDS * 16);
}

/* A program that asks every second for a year. */
static void test_questions_leave_nothing_behind(void **state)
{
    struct dlc_dataset *ds = fake_dataset();

    (void)state;
    ask_often(ds, json_pack("{s:b, s:i}", "ok", 1, "n", 5), strlen("{\"n\":5}"));
    ask_often(ds, json_pack("{s:b, s:i, s:s}", "ok", 0, "code", DLC_EDENIED, "error", "no"),
              DLC_EDENIED);
    dlc_close(&ds);
}

#define FAKE(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_its_own),       cmocka_unit_test(test_too_small_a_buffer),
        cmocka_unit_test(test_stalls_of_workers),  cmocka_unit_test(test_no_daemon),
        cmocka_unit_test(test_lost_or_not),        FAKE(test_asks_the_daemon_that_followed),
        FAKE(test_says_where_no_daemon_answers),   FAKE(test_buffer_of_exactly_that_size),
        FAKE(test_questions_leave_nothing_behind),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
