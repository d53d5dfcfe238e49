// SPDX-License-Identifier: Apache-2.0
/*
 * Next uses as the memory tier is told them: by orders, by weights and by the view, on a clock that
 * goes as readers read. A next use is measured through eviction, by bisection: of a sample and of a
 * probe whose next use the test sets, that which is needed later goes.
 */
#include "daemon/parts.h"

#include <math.h>

#include "cluster/peer/view.h"
#include "daemon/client_conn.h"
#include "daemon/events.h"
#include "daemon/job_weights.h"
#include "daemon/ownership.h"
#include "daemon/prefetch/next_use.h"
#include "daemon/session.h"
#include "order/schedule.h"

#define N      100u
#define BLOCKS 4u /* of memory */
#define PACE   1e-3

enum { PROBE, NEWCOMER, FILLER };

static struct node n;
static struct dataset *ds;
static struct session s[2];
static struct conn conn;
static struct mem_index *other;
static double probe_use;

static double use_of_other(void *arg, uint64_t sample, unsigned *steps)
{
    (void)arg;
    (void)steps;
    return sample == PROBE ? probe_use : 0;
}

static void bring(struct mem_index *x, uint64_t sample)
{
    struct mem_fill *f;

    assert_int_equal(memory_reserve(n.own_memory->memory, x, sample, PARTS_SIZE, &f), 0);
    memory_publish(n.own_memory->memory, &f);
}

static int set_up(void **state)
{
    uint64_t room = 4096 + BLOCKS * 1024;

    (void)state;
    parts_node(&n);
    n.events[0] = &next_use_events;
    n.events[1] = &ownership_events;
    n.events[2] = &job_weights_events;
    n.loop = loop_new(NULL);
    n.cluster = cluster_new("a");
    tenant_memories_init(&n.memories, room, room, NULL);
    assert_int_equal(tenant_memory_get(&n.memories, "", &n.own_memory, NULL), 0);
    ds = parts_dataset(&n, "x", parts_catalog("k", N));
    dlc_list_init(&ds->job_weights);
    ds->refs = 1;
    ds->tenant_memory = n.own_memory;
    assert_int_equal(mem_index_new(n.own_memory->memory, N, 1, &ds->index, NULL), 0);
    assert_int_equal(mem_index_new(n.own_memory->memory, FILLER + BLOCKS, 1, &other, NULL), 0);
    mem_index_set_next_use(other, use_of_other, NULL);
    bring(other, PROBE);
    for (unsigned i = 0; i < BLOCKS - 2; i++)
        bring(other, FILLER + i);
    memset(s, 0, sizeof(s));
    for (unsigned i = 0; i < unit_count(s); i++) {
        s[i].ds = ds;
        s[i].conn = &conn;
        dlc_list_push_tail(&ds->sessions, &s[i].link);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < unit_count(s); i++) {
        job_weights_put(&s[i].job_weights);
        schedule_free(&s[i].reader.schedule);
    }
    events_raise(&n, dataset_closing, ds);
    events_raise(&n, dataset_freed, ds);
    mem_index_free(&ds->index);
    mem_index_free(&other);
    parts_free(ds);
    tenant_memory_put(&n.own_memory);
    tenant_memories_free(&n.memories);
    cluster_free(&n.cluster);
    loop_free(&n.loop);
    return 0;
}

static void turn(struct dlc_dur d)
{
    dlc_clock_advance(d);
    loop_stop(n.loop); /* the next turn is its last */
    loop_run(n.loop);
}

static double now(void)
{
    return (double)loop_now(n.loop).ns / 1e9;
}

/* Does the sample go when room is needed, rather than a probe that is needed at this time? */
static bool goes_before(uint64_t sample, double use)
{
    bool went;

    probe_use = use;
    mem_index_forget_uses(other);
    if (!mem_index_ready(ds->index, sample))
        bring(ds->index, sample);
    if (!mem_index_ready(other, PROBE))
        bring(other, PROBE);
    bring(other, NEWCOMER);
    went = !mem_index_ready(ds->index, sample);
    assert_int_equal(went, mem_index_ready(other, PROBE)); /* one of the two */
    memory_evict(n.own_memory->memory, other, NEWCOMER);
    memory_tick(n.own_memory->memory);
    return went;
}

/* In seconds. INFINITY: not known. */
static double use_of(uint64_t sample)
{
    double low = 0, high = 1e12;

    if (goes_before(sample, high))
        return INFINITY;
    while (high - low > 1e-7) {
        double mid = (low + high) / 2;

        mem_index_forget_uses(ds->index);
        *(goes_before(sample, mid) ? &low : &high) = mid;
    }
    memory_evict(n.own_memory->memory, ds->index, sample);
    memory_tick(n.own_memory->memory);
    return low;
}

static void assert_use(uint64_t sample, double want)
{
    double is = use_of(sample);

    assert_int_equal(next_use_known(ds, sample), !isinf(want));
    if (isinf(want) ? !isinf(is) : fabs(is - want) > 1e-6)
        fail_msg("sample %u: %.7f, not %.7f", (unsigned)sample, is - now(), want - now());
}

/* A session follows an order without end, from pos on, with a window of 8. */
static void follow(unsigned i, uint64_t pos)
{
    const struct order_spec spec = {.kind = ORDER_SEQUENTIAL, .n = N};

    s[i].reader.schedule = schedule_new(&spec, 0, 0, NULL);
    assert_non_null(s[i].reader.schedule);
    schedule_move(s[i].reader.schedule, pos);
    s[i].reader.active = true;
    s[i].reader.pos = pos;
    s[i].reader.window = 8;
    s[i].reader.ahead = pos + 8;
    if (ds->prefetch.n_following++ == 0)
        next_use_begin(ds);
    next_use_changed(ds);
}

/* ---- tests ---- */

static void test_by_orders(void **state)
{
    double began;

    (void)state;
    events_raise(&n, dataset_ready, ds);
    assert_use(3, INFINITY); /* nobody reads it */
    turn(DLC_SEC(5));
    ds->clock.progress = 1000; /* of earlier sessions */
    follow(0, 10);
    began = now();
    assert_use(10, began);
    assert_use(15, began + 5 * PACE);
    assert_use(9, began + (N - 1) * PACE);
    follow(1, 90);
    assert_use(15, began + 5 * PACE);
    assert_use(9, began + 19 * PACE); /* who needs it first */
    s[0].reader.idle = true;
    next_use_changed(ds);
    assert_use(15, began + 25 * PACE);
    s[1].reader.active = false;
    next_use_changed(ds);
    assert_use(15, INFINITY);
    ds->prefetch.n_following = 0;
    next_use_changed(ds);
    assert_use(15, INFINITY);
}

/* The clock goes as readers read. If it is far from the time, it is set, and the pace measured. */
static void test_clock(void **state)
{
    double began;

    (void)state;
    turn(DLC_SEC(1));
    follow(0, 0);
    began = now();
    ds->clock.progress += 20;
    next_use_keep_time(ds);
    next_use_changed(ds);
    assert_use(30, began + 20 * PACE + 30 * PACE);
    turn(DLC_MS(500)); /* less than a second since */
    next_use_keep_time(ds);
    assert_true(ds->clock.pace == PACE);
    turn(DLC_MS(700));
    next_use_keep_time(ds);
    assert_true(fabs(ds->clock.pace - (now() - began) / 20) < 1e-6);
    assert_use(30, now() + 30 * ds->clock.pace);
    ds->clock.progress += 10;
    turn(DLC_MS(1500)); /* 0.9 s off by now, of an epoch of 6 s */
    next_use_keep_time(ds);
    assert_true(fabs(ds->clock.pace - 1.5 / 10) < 0.01);
    assert_use(30, now() + 30 * ds->clock.pace);
    began = now();
    turn(DLC_MS(1100)); /* less than a tenth of an epoch of 15 s */
    next_use_keep_time(ds);
    assert_use(30, began + 30 * ds->clock.pace);
    turn(DLC_SEC(20)); /* nobody reads: the pace is not known anew */
    next_use_keep_time(ds);
    assert_true(fabs(ds->clock.pace - 1.5 / 10) < 0.01);
    assert_use(30, now() + 30 * ds->clock.pace);
}

/* A quarter of a second is nothing, however short an epoch is. */
static void test_small_drift(void **state)
{
    double began;

    (void)state;
    turn(DLC_SEC(1));
    follow(0, 0);
    began = now();
    turn(DLC_MS(1500));
    ds->clock.progress += (now() - began - 0.23) / PACE;
    next_use_keep_time(ds);
    assert_true(ds->clock.pace == PACE);
    ds->clock.progress -= 0.06 / PACE;
    next_use_keep_time(ds);
    assert_true(ds->clock.pace > PACE);
}

/* When the clock is set, what memory was told before is out of date. */
static void test_told_again(void **state)
{
    (void)state;
    turn(DLC_SEC(1));
    follow(0, 0);
    assert_true(goes_before(50, now() + 49 * PACE));
    assert_false(goes_before(50, now() + 51 * PACE)); /* 50 stays, with its answer */
    ds->clock.progress += 20;
    turn(DLC_SEC(2));
    next_use_keep_time(ds); /* a tenth of a second each */
    assert_true(goes_before(50, now() + 49 * 0.1));
}

/* A session that bypasses the cache keeps nothing beyond its window. */
static void test_bypass(void **state)
{
    (void)state;
    turn(DLC_SEC(1));
    s[0].bypasses_cache = true;
    follow(0, 10);
    assert_use(17, now() + 7 * PACE);
    assert_use(18, INFINITY);
    s[0].reader.ahead = 30; /* the window was larger */
    assert_use(29, now() + 19 * PACE);
    assert_use(30, INFINITY);
    follow(1, 0);
    assert_use(30, now() + 30 * PACE);
}

static void take_view(void)
{
    json_t *view =
        json_pack("{s:i, s:[{s:s, s:s, s:i, s:s}, {s:s, s:s, s:i, s:s}]}", "version", 1, "nodes",
                  "name", "a", "address", "http://a:1", "weight", 1, "state", "live", "name", "b",
                  "address", "http://b:1", "weight", 1, "state", "live");

    assert_int_equal(cluster_take_view(n.cluster, view, NULL), 0);
    json_decref(view);
    parts_belongs(ds, "train", "ann");
    next_use_changed(ds);
}

/* The first sample at or after `from` that is ours, or another node's. */
static uint64_t one(bool ours, uint64_t from)
{
    while (dataset_owns(ds, from) != ours)
        from++;
    assert_true(from < N);
    return from;
}

/* (docs/design/0006) */
static void test_in_a_cluster(void **state)
{
    uint64_t late, theirs, near;

    (void)state;
    turn(DLC_SEC(1));
    take_view();
    late = one(true, 60);
    theirs = one(false, 30);
    assert_use(late, INFINITY);
    ds->ownership.read_elsewhere = true;
    assert_use(late, now() + N / 2 * PACE); /* others read it, at any time */
    assert_use(theirs, INFINITY);
    ds->ownership.read_elsewhere = false;
    follow(0, 0);
    assert_use(late, now() + N / 2 * PACE); /* ours is kept */
    assert_use(one(true, 10), now() + (double)one(true, 10) * PACE);
    assert_use(theirs, now() + (double)(theirs + 2 * N) * PACE); /* can be had again */
    near = one(false, 0);
    assert_true(near <= 8);
    assert_use(near, now() + (double)near * PACE);
    s[0].reader.ahead = theirs - 1;
    assert_use(theirs, now() + (double)(theirs + 2 * N) * PACE);
    s[0].reader.ahead = theirs;
    assert_use(theirs, now() + (double)theirs * PACE);
    s[0].bypasses_cache = true; /* keeps nothing, and nobody else reads it here */
    s[0].reader.ahead = N;
    assert_use(late, now() + (double)late * PACE);
    s[0].reader.idle = true;
    assert_use(late, INFINITY);
    s[0].bypasses_cache = false;
    assert_use(late, now() + N / 2 * PACE);
}

/* A list of samples [10, 15) and weights: what is in no list is expected after it. */
static void test_by_weights(void **state)
{
    uint64_t *v = mem_alloc(5 * sizeof(*v));
    struct dlc_err err = DLC_ERR_INIT;
    struct schedule_list *l;

    (void)state;
    turn(DLC_SEC(1));
    for (unsigned i = 0; i < 5; i++)
        v[i] = 10 + i;
    l = schedule_list_new(v, 5, N, NULL);
    s[0].reader.schedule = schedule_new_list(&l, 0, 0, 0);
    s[0].reader.active = true;
    s[0].reader.pos = 1;
    s[0].reader.window = 8;
    ds->prefetch.n_following = 1;
    next_use_begin(ds);
    next_use_changed(ds);
    assert_use(12, now() + 1 * PACE);
    assert_use(50, INFINITY);
    assert_int_equal(job_weights_get(&s[0], "job", false, &err), 0);
    assert_use(12, now() + 1 * PACE);
    assert_use(50, now() + (4 + 2.5) * PACE); /* four are left; half an epoch after them */
    weights_set(&s[0].job_weights->w, 50, 4);
    weights_set(&s[0].job_weights->w, 51, 1);
    assert_use(50, now() + (4 + 2.5 / 4) * PACE);
    next_use_heed_weights(ds);
    assert_true(s[0].job_weights->mean == 2.5);
    assert_use(50, now() + (4 + 2.5 * 2.5 / 4) * PACE);
    assert_use(51, now() + (4 + 2.5 * 2.5) * PACE);
    s[0].bypasses_cache = true;
    assert_use(51, INFINITY);
    s[0].bypasses_cache = false;
    s[0].reader.pos = 20; /* beyond what is known */
    assert_use(51, now() + 2.5 * 2.5 * PACE);
}

/* A weight that changes makes memory ask again, for that sample. */
static void test_weights_are_heeded(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t *v = mem_alloc(sizeof(*v));
    struct schedule_list *l;

    (void)state;
    turn(DLC_SEC(1));
    v[0] = 10;
    l = schedule_list_new(v, 1, N, NULL);
    s[0].reader.schedule = schedule_new_list(&l, 0, 0, 0);
    s[0].reader.active = true;
    ds->prefetch.n_following = 1;
    assert_int_equal(job_weights_get(&s[0], "job", false, &err), 0);
    next_use_begin(ds);
    next_use_changed(ds);
    weights_set(&s[0].job_weights->w, 50, 1);
    weights_set(&s[0].job_weights->w, 51, 1);
    next_use_heed_weights(ds);
    assert_false(goes_before(50, now() + 1.6 * PACE)); /* at 1.5, and it stays */
    weights_set(&s[0].job_weights->w, 50, 0.01f);
    next_use_heed_weights(ds);
    assert_true(goes_before(50, now() + 1.6 * PACE));
    weights_set(&s[0].job_weights->w, 50, 100);
    s[0].job_weights->users = 0; /* nobody's any more */
    next_use_heed_weights(ds);
    assert_true(s[0].job_weights->mean < 10);
    s[0].job_weights->users = 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_by_orders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_clock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_small_drift, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_told_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bypass, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_in_a_cluster, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_by_weights, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_weights_are_heeded, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
