// SPDX-License-Identifier: Apache-2.0
/* Queued prefetches: in which order they start, how many in one turn of the loop, and when none. */
#include "daemon/played.h"

#include "base/counters.h"
#include "daemon/backlog.h"
#include "daemon/prefetch/warm.h"

#define N    1000u
#define TURN 256u /* fetches that one turn of the loop starts */

static struct node n;

static int set_up(void **state)
{
    (void)state;
    played_open(&n, (uint64_t)64 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    played_close(&n);
    return 0;
}

static void queue(struct dataset *ds, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        dataset_backlog_add(ds, first + i);
}

/* Datasets take turns, one sample each. */
static void test_turns(void **state)
{
    struct dataset *a = played_dataset(&n, "a", N), *b = played_dataset(&n, "b", N);

    (void)state;
    queue(a, 0, 3);
    queue(b, 100, 2);
    prefetch_pump(&n);
    assert_int_equal(played.n_asked, 5);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(played.asked[i], i % 2 == 0 ? i / 2 : 100 + i / 2);
    assert_int_equal(played.asked[4], 2);
    played_end_all(0);
    assert_int_equal(mem_index_resident(a->index), 3);
    assert_int_equal(mem_index_resident(b->index), 2);
}

/* The loop looks at its clients in between. */
static void test_bounded_turn(void **state)
{
    struct dataset *ds = played_dataset(&n, "a", N);

    (void)state;
    queue(ds, 0, 2 * TURN + 10);
    prefetch_pump(&n);
    assert_int_equal(played.n_asked, TURN);
    assert_true(heap_has(&n.pump.node));
    played_turn(&n);
    assert_int_equal(played.n_asked, 2 * TURN);
    played_turn(&n);
    assert_int_equal(played.n_asked, 2 * TURN + 10);
    assert_false(heap_has(&n.pump.node));
    played_turn(&n);
    assert_int_equal(played.n_asked, 2 * TURN + 10);
    played_end_all(0);
}

/* However many datasets have some: each has its turn, none a second one before that. */
static void test_many_datasets(void **state)
{
    enum { MANY = 600 };
    struct dataset *ds[MANY];
    unsigned served = 0;
    char name[16];

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "d%u", i);
        ds[i] = played_dataset(&n, name, 2);
        queue(ds[i], 0, 2);
    }
    for (unsigned turn = 1; turn <= 2; turn++) {
        prefetch_pump(&n);
        assert_int_equal(played.n_asked, turn * TURN);
    }
    for (unsigned i = 0; i < MANY; i++)
        served += ds[i]->backlog.len == 1;
    assert_int_equal(served, 2 * TURN);
    for (unsigned turn = 0; turn < 3; turn++)
        prefetch_pump(&n);
    assert_int_equal(played.n_asked, 2 * MANY);
    played_end_all(0);
}

/* A fetch that ends while it is started makes room, and does not pump again. */
static void test_fetches_that_end_at_once(void **state)
{
    struct dataset *ds = played_dataset(&n, "a", N);

    (void)state;
    played.at_once = true;
    queue(ds, 0, TURN + 3);
    prefetch_pump(&n);
    assert_int_equal(played.n_asked, TURN);
    played_turn(&n);
    assert_int_equal(mem_index_resident(ds->index), TURN + 3);
    assert_false(n.pumping);
}

static void test_not_while_it_stops(void **state)
{
    struct dataset *ds = played_dataset(&n, "a", N);

    (void)state;
    queue(ds, 0, 3);
    n.stopping = true;
    prefetch_pump(&n);
    assert_int_equal(played.n_asked, 0);
    n.stopping = false;
    prefetch_pump(&n);
    assert_int_equal(played.n_asked, 3);
    played_end_all(DLC_EBUCKET);
}

static void on_end(struct warm *w, void *arg)
{
    (void)w;
    *(bool *)arg = true;
}

/* Warm-ups take turns with datasets, within the same bounds. */
static void test_warm_ups(void **state)
{
    struct dataset *a = played_dataset(&n, "a", N), *b = played_dataset(&n, "b", N);
    const uint64_t first[] = {0, 100, 500, 1, 101, 501};
    bool ended[2] = {false, false};

    (void)state;
    queue(a, 0, 2);
    n.pumping = true; /* not yet */
    assert_true(warm_start_command(b, FETCH_MEMORY, 100, TURN + 50, on_end, &ended[0]));
    assert_true(warm_start_command(b, FETCH_MEMORY, 500, 2, on_end, &ended[1]));
    n.pumping = false;
    prefetch_pump(&n);
    for (unsigned i = 0; i < unit_count(first); i++)
        assert_int_equal(played.asked[i], first[i]);
    assert_in_range(played.n_asked, TURN, TURN + 2);
    played_turn(&n);
    assert_int_equal(played.n_asked, TURN + 50 + 4);
    played_end_all(0);
    assert_true(ended[0] && ended[1]);
    memory_set_ceiling(n.own_memory->memory, (uint64_t)400 << 10); /* 100 KiB of it for fetches */
    memory_evict_all(n.own_memory->memory, NULL);
    assert_true(warm_start_command(b, FETCH_MEMORY, 0, N, on_end, &ended[0]));
    played_turn(&n);
    assert_in_range(played.n_held, 50, 110);
    for (unsigned i = 0; i < 100; i++)
        played_end_all(DLC_EBUCKET);
    assert_int_equal(played.n_asked, TURN + 50 + 4 + N);
}

/* No more than its budget is on its way; room that a fetch leaves is used at once. */
static void test_budget(void **state)
{
    struct dataset *a = played_dataset(&n, "a", N), *b = played_dataset(&n, "b", N);
    unsigned before;

    (void)state;
    memory_set_ceiling(n.own_memory->memory, (uint64_t)400 << 10); /* 100 KiB of it for fetches */
    dlc_clock_advance(DLC_SEC(1));
    played_turn(&n);
    queue(a, 0, N);
    prefetch_pump(&n);
    assert_in_range(played.n_asked, 50, 110); /* samples of 1000 bytes */
    before = played.n_asked;
    prefetch_pump(&n);
    assert_int_equal(played.n_asked, before);
    queue(b, 0, 2);
    dlc_clock_advance(DLC_SEC(1));
    played_turn(&n);
    prefetch_pump(&n); /* another dataset has its share */
    assert_int_equal(n.n_sharing, 2);
    assert_int_equal(played.n_asked, before + 2);
    for (unsigned i = 0; i < before + 2; i++)
        played_end_all(0); /* each starts others */
    assert_int_equal(played.n_asked, N + 2);
    assert_int_equal(a->backlog.len + b->backlog.len, 0);
}

/* All memory is pinned: each try takes a look at every pin, so there is one, and others after a
 * while. Before, one client could keep the loop busy with 256 of them in each turn. */
static void test_memory_is_pinned(void **state)
{
    struct memory *m = n.own_memory->memory;
    struct dataset *ds = played_dataset(&n, "a", N);
    uint64_t len, bypasses, held = 0;

    (void)state;
    memory_set_ceiling(m, (uint64_t)400 << 10);
    played.at_once = true;
    for (; held < N / 2; held++) {
        queue(ds, held, 1);
        prefetch_pump(&n);
        played_turn(&n);
        if (memory_hold(m, ds->index, held, &len) == NULL)
            break;
    }
    assert_in_range(held, 100, N / 2 - 1); /* the next one found no room */
    dlc_clock_advance(DLC_MS(30));
    played_turn(&n);
    bypasses = atomic_load(&counters.mem_bypasses);
    queue(ds, N / 2, N / 2);
    prefetch_pump(&n);
    prefetch_pump(&n);
    assert_int_equal(atomic_load(&counters.mem_bypasses) - bypasses, 1);
    assert_int_equal(ds->backlog.len, N / 2 - 1);
    while (held > 0)
        memory_unhold(m, ds->index, --held);
    memory_tick(m);
    dlc_clock_advance(DLC_MS(30));
    played_turn(&n);
    prefetch_pump(&n);
    played_turn(&n);
    while (ds->backlog.len > 0) /* they all fit, one after the other */
        played_turn(&n);
    memory_tick(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bounded_turn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_datasets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fetches_that_end_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_while_it_stops, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_warm_ups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_budget, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_is_pinned, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
