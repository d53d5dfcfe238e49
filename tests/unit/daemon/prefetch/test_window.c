// SPDX-License-Identifier: Apache-2.0
/* The window ahead of a reader as fetches: which samples are asked for, when, and how. */
#include "daemon/played.h"

#include "daemon/prefetch/prefetch.h"
#include "daemon/session.h"
#include "order/schedule.h"

#define N   1000u
#define NEW 64u /* the window before anything is measured */

static struct node n;
static struct dataset *ds;
static struct session s;

static int set_up(void **state)
{
    (void)state;
    played_open(&n, (uint64_t)64 << 20);
    ds = played_dataset(&n, "a", N);
    dlc_list_init(&ds->job_weights);
    s = (struct session){.ds = ds};
    dlc_list_init(&s.waiters);
    dlc_list_push_tail(&ds->sessions, &s.link);
    assert_int_equal(mem_session_new(ds->index, &s.mem, NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    prefetch_stop(&s);
    loop_timer_del(n.loop, &n.prefetch_timer);
    played_end_all(DLC_EBUCKET);
    mem_session_free(&s.mem);
    dlc_list_remove(&s.link);
    mem_free(&ds->outcomes.bits);
    played_close(&n);
    return 0;
}

/* Follow an order of `epochs` epochs, 0: without end. */
static void follow(uint64_t pos, uint64_t epochs)
{
    const struct order_spec spec = {.kind = ORDER_SEQUENTIAL, .n = N};
    struct schedule *t = schedule_new(&spec, 0, epochs, NULL);

    assert_non_null(t);
    prefetch_start(&s, t, pos, false);
}

static void poll_at(uint64_t pos)
{
    struct shm_session_hdr *h = mem_session_map(s.mem);

    atomic_store(&h->cursor, pos);
    prefetch_poll(&s);
}

static void test_asked_in_order(void **state)
{
    (void)state;
    fetch_start(ds, 70, FETCH_MEMORY, NULL, NULL); /* somebody wants it already */
    assert_int_equal(played.n_asked, 1);
    follow(0, 0);
    poll_at(0);
    assert_int_equal(played.n_asked, 1 + NEW);
    for (unsigned i = 0; i < NEW; i++) {
        assert_int_equal(played.asked[1 + i], i);
        assert_false(played.held[1 + i]->f->bypass);
    }
    poll_at(0); /* they are on their way */
    assert_int_equal(played.n_asked, 1 + NEW);
    poll_at(10); /* ten more, one of which comes anyway */
    assert_int_equal(played.n_asked, NEW + 10);
    assert_int_equal(played.asked[NEW + 9], NEW + 9);
    played_end_all(0);
    poll_at(10);
    assert_int_equal(played.n_asked, NEW + 10); /* resident */
}

/* For a session that bypasses the cache. */
static void test_bypass(void **state)
{
    (void)state;
    s.bypasses_cache = true;
    follow(0, 0);
    poll_at(0);
    assert_int_equal(played.n_asked, NEW);
    for (unsigned i = 0; i < NEW; i++)
        assert_true(played.held[i]->f->bypass);
    poll_at(0);
    assert_int_equal(played.n_asked, NEW);
}

/* Beyond the last epoch there is nothing; a jump begins a window of its own. */
static void test_ends_and_jumps(void **state)
{
    struct shm_session_hdr *h = mem_session_map(s.mem);

    (void)state;
    follow(N - 5, 1);
    poll_at(N - 5);
    assert_int_equal(played.n_asked, 5);
    assert_int_equal(played.asked[4], N - 1);
    atomic_store(&h->overtaken, 3);
    poll_at(N - 5);
    assert_int_equal(s.reader.overtaken, 3);
    poll_at(100);
    assert_int_equal(s.reader.overtaken, 0);
    assert_int_equal(played.asked[5], 100);
    assert_in_range(played.n_asked, 5 + NEW, 5 + NEW + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_asked_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bypass, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends_and_jumps, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
