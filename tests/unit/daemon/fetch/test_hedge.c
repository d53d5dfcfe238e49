// SPDX-License-Identifier: Apache-2.0
/* Which attempts of a fetch are late: by the least time of their source, by what it has learned,
 * and by the size of the sample. */
#include "daemon/parts.h"

#include <sched.h>

#include "daemon/fetch/hedge.h"
#include "daemon/fetch/source.h"

#define ROWS 2u

static struct node n;
static struct hedge *hedge;
static struct fetch_attempt *late[4];
static unsigned n_late;

/* least, most; a second more for each 1 MB */
static const struct fetch_source quick = {
    .name = "quick", .least = DLC_MS(1), .most = DLC_SEC(100), .slowest = 1};
static const struct fetch_source own_deadlines = {.name = "own"};

static void on_late(struct fetch_attempt *a)
{
    assert_true(n_late < unit_count(late));
    assert_true(dlc_list_empty(&a->link)); /* it is no longer watched */
    late[n_late++] = a;
}

static int set_up(void **state)
{
    (void)state;
    parts_node(&n);
    n_late = 0;
    n.loop = loop_new(NULL);
    loop_stop(n.loop); /* loop_run() is one turn */
    hedge = hedge_new(&n, ROWS, on_late);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    loop_free(&n.loop); /* with the timer, if it is set */
    hedge_free(&hedge);
    assert_null(hedge);
    return 0;
}

static void begin(struct fetch_attempt *a, const struct fetch_source *s, uint64_t size)
{
    memset(a, 0, sizeof(*a));
    a->source = s;
    a->size = size;
    a->began = dlc_mono_now();
    dlc_list_init(&a->link);
}

static int64_t allowed(const struct fetch_attempt *a)
{
    return dlc_mono_sub(a->due, a->began).ns;
}

static void end(struct fetch_attempt *a, unsigned row, struct dlc_dur took)
{
    a->took = took;
    hedge_ended(hedge, a, row);
    assert_true(dlc_list_empty(&a->link));
}

static void turns_until_late(unsigned wanted)
{
    while (n_late < wanted) {
        loop_run(n.loop);
        sched_yield();
    }
}

/* Those in time are still watched, and are found when their time has come. */
static void the_late_are_found(void **state)
{
    struct fetch_attempt a, b, patient, own;

    (void)state;
    begin(&a, &quick, 0);
    begin(&b, &quick, 100000); /* a tenth of a second more */
    begin(&patient, &quick, 10000000);
    begin(&own, &own_deadlines, 0);
    hedge_watch(hedge, &a, 0, false);
    hedge_watch(hedge, &b, 0, false);
    hedge_watch(hedge, &patient, 0, true);
    hedge_watch(hedge, &own, 1, false);
    assert_true(dlc_list_empty(&own.link));
    turns_until_late(1);
    assert_ptr_equal(late[0], &a);
    assert_false(dlc_list_empty(&b.link));
    turns_until_late(2);
    assert_ptr_equal(late[1], &b);
    end(&patient, 0, DLC_MS(1));
}

/* Four times the 99th percentile of its row, within the source's bounds. */
static void a_row_learns(void **state)
{
    static const struct fetch_source s = {
        .name = "s", .least = DLC_MS(10), .most = DLC_MS(900), .slowest = 1};
    struct fetch_attempt a;

    (void)state;
    begin(&a, &s, 0);
    hedge_watch(hedge, &a, 0, false);
    assert_int_equal(allowed(&a), DLC_MS(10).ns); /* nothing is known */
    end(&a, 0, DLC_MS(100));
    begin(&a, &s, 0);
    hedge_watch(hedge, &a, 0, false);
    assert_true(allowed(&a) > DLC_MS(300).ns && allowed(&a) < DLC_MS(600).ns);
    end(&a, 0, DLC_SEC(50));
    begin(&a, &s, 0);
    hedge_watch(hedge, &a, 0, false);
    assert_int_equal(allowed(&a), DLC_MS(900).ns);
    end(&a, 0, DLC_MS(1));
    begin(&a, &s, 0);
    hedge_watch(hedge, &a, 1, false);
    assert_int_equal(allowed(&a), DLC_MS(10).ns); /* another source's row */
    end(&a, 1, DLC_MS(1));
}

static void the_size_and_the_last_try_count(void **state)
{
    struct fetch_attempt a;

    (void)state;
    begin(&a, &quick, 3000000);
    hedge_watch(hedge, &a, 0, false);
    assert_int_equal(allowed(&a), DLC_MS(3001).ns);
    end(&a, 1, DLC_MS(1));
    begin(&a, &quick, 3000000);
    hedge_watch(hedge, &a, 0, true);
    assert_int_equal(allowed(&a), DLC_MS(30010).ns);
    end(&a, 1, DLC_MS(1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_late_are_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_row_learns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_size_and_the_last_try_count, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
