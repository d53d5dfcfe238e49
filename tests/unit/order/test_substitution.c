// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "order/schedule.h"

#define FIRST 100u
#define MOST  400u

static struct order order_of(enum order_kind kind, uint64_t n, uint32_t rank, uint32_t world)
{
    const struct order_spec spec = {kind, n, FIRST, 77, rank, world, false};
    struct order o;

    assert_int_equal(order_init(&o, &spec, 3, NULL), 0);
    return o;
}

/* Against a list in which elements really change places: positions below `at` were read. */
static void check(const struct swaps *w, const struct order *o, const uint64_t *list, uint64_t at)
{
    for (uint64_t k = at; k < o->length; k++)
        assert_int_equal(swaps_at(w, o, k), list[k]);
    for (uint64_t s = FIRST - 1; s <= FIRST + o->spec.n; s++) {
        uint64_t from = at + (s * 7) % (o->length - at + 1), k = from;

        while (k < o->length && list[k] != s)
            k++;
        assert_true(swaps_next(w, o, s, from) == (k < o->length ? k : ORDER_NONE));
    }
}

static void exchange(uint64_t *list, uint64_t p, uint64_t q)
{
    uint64_t t = list[p];

    list[p] = list[q];
    list[q] = t;
}

/* A list of the swaps makes the same order of what is left. */
static void check_saved(const struct swaps *w, const struct order *o, const uint64_t *list,
                        uint64_t at)
{
    struct swaps again = SWAPS_INIT;
    struct swap_pair *pairs;
    size_t n = swaps_list(w, at, &pairs);

    assert_int_equal(swaps_load(&again, o, pairs, n, at, NULL), 0);
    check(&again, o, list, at);
    for (size_t i = 1; i < n; i++)
        assert_true(pairs[i - 1].position < pairs[i].position);
    swaps_release(&again);
    mem_free(&pairs);
}

/* Random swaps, and moves of the reader that are short or long. */
static void wander(const struct order *o, uint64_t seed)
{
    struct rng r = {seed};
    struct swaps w = SWAPS_INIT;
    uint64_t list[MOST], at = 0;

    for (uint64_t k = 0; k < o->length; k++)
        list[k] = order_at(o, k);
    while (at + 1 < o->length) {
        uint64_t left = o->length - at, to;

        for (unsigned i = 0; i < 6; i++) {
            uint64_t p = at + rng_below(&r, left - 1), q = p + 1 + rng_below(&r, o->length - p - 1);

            assert_true(swaps_exchange(&w, o, p, q));
            exchange(list, p, q);
        }
        check(&w, o, list, at);
        check_saved(&w, o, list, at);
        to = at + rng_below(&r, rng_below(&r, 8) == 0 ? left : DLC_MIN(left, 4u));
        swaps_pass(&w, at, to);
        at = to;
        check(&w, o, list, at);
    }
    swaps_pass(&w, at, o->length);
    assert_int_equal(w.at.n, 0); /* nothing is kept of what was read */
    assert_int_equal(w.where.n, 0);
    swaps_release(&w);
}

static void test_against_a_list(void **state)
{
    static const struct {
        uint64_t n;
        uint32_t rank, world;
    } table[] = {{2, 0, 1}, {3, 0, 1}, {17, 0, 1}, {17, 2, 3}, {130, 1, 2}, {300, 0, 1}};

    (void)state;
    for (size_t i = 0; i < unit_count(table); i++)
        for (int kind = ORDER_SEQUENTIAL; kind <= ORDER_SHUFFLED; kind++) {
            struct order o =
                order_of((enum order_kind)kind, table[i].n, table[i].rank, table[i].world);

            for (uint64_t seed = 0; seed < 8; seed++)
                wander(&o, seed);
        }
}

/* What would lose a sample, or read one twice, is refused, and nothing is left of it. */
static void test_pairs_that_cannot_be(void **state)
{
    static const struct {
        struct swap_pair pairs[3];
        size_t n;
    } bad[] = {
        {{{2, 108}, {8, 105}}, 2},          /* a position that was read */
        {{{10, 105}, {5, 106}}, 2},         /* none at all */
        {{{5, 99}, {6, 105}}, 2},           /* no sample of this order */
        {{{5, 110}, {6, 105}}, 2},          /* nor this */
        {{{5, 106}, {5, 107}}, 2},          /* two at one position */
        {{{5, 106}, {7, 106}}, 2},          /* one at two positions */
        {{{5, 106}}, 1},                    /* and it is at its own as well */
        {{{5, 106}, {6, 107}}, 2},          /* the same, farther away */
        {{{5, 101}, {5, 102}}, 2},          /* two late ones at one position */
        {{{5, 101}, {7, 101}}, 2},          /* a late one at two positions */
        {{{UINT64_MAX, 106}, {6, 105}}, 2}, /* numbers that wrap */
        {{{5, UINT64_MAX}, {6, 105}}, 2},
    };
    struct order o = order_of(ORDER_SEQUENTIAL, 10, 0, 1);
    struct dlc_err err = DLC_ERR_INIT;
    struct swap_pair *pairs;
    struct swaps w = SWAPS_INIT;

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++) {
        assert_int_equal(swaps_load(&w, &o, bad[i].pairs, bad[i].n, 4, &err), DLC_EINVAL);
        assert_non_null(strstr(err.text, "position 4 of epoch 3"));
        assert_int_equal(w.at.n + w.where.n, 0);
    }
    /* Sample 1 comes late, sample 6 was read. */
    assert_int_equal(swaps_load(&w, &o, (struct swap_pair[]){{6, 101}}, 1, 4, &err), 0);
    assert_true(swaps_next(&w, &o, 106, 4) == ORDER_NONE);
    assert_int_equal(swaps_next(&w, &o, 101, 4), 6);
    swaps_release(&w);
    /* The first sample of the epoch comes late, at the last position. */
    assert_int_equal(swaps_load(&w, &o, (struct swap_pair[]){{9, 100}}, 1, 4, &err), 0);
    assert_int_equal(swaps_at(&w, &o, 9), 100);
    assert_int_equal(swaps_list(&w, 4, &pairs), 1); /* and is told on */
    assert_int_equal(pairs[0].position, 9);
    assert_int_equal(pairs[0].sample, 100);
    mem_free(&pairs);
    assert_int_equal(swaps_list(&w, 10, &pairs), 0);
    assert_null(pairs);
    swaps_release(&w);
}

/* A list of more pairs than are possible is refused before it is read. */
static void test_too_many(void **state)
{
    struct order o = order_of(ORDER_SEQUENTIAL, 2 * SWAPS_MAX, 0, 1);
    struct dlc_err err = DLC_ERR_INIT;
    struct swaps w = SWAPS_INIT;
    struct swap_pair *pairs = mem_alloc((SWAPS_MAX + 2) * sizeof(*pairs));

    (void)state;
    for (uint64_t k = 0; k < SWAPS_MAX + 2; k++)
        pairs[k] = (struct swap_pair){k, FIRST + (k ^ 1)};
    assert_int_equal(swaps_load(&w, &o, pairs, SWAPS_MAX + 2, 0, &err), DLC_EINVAL);
    assert_int_equal(swaps_load(&w, &o, pairs, SWAPS_MAX, 0, &err), 0);
    assert_int_equal(w.at.n, SWAPS_MAX);
    assert_false(swaps_exchange(&w, &o, SWAPS_MAX, SWAPS_MAX + 1)); /* full */
    assert_int_equal(swaps_at(&w, &o, SWAPS_MAX), FIRST + SWAPS_MAX);
    swaps_pass(&w, 0, 2); /* two are read: room for two */
    assert_true(swaps_exchange(&w, &o, SWAPS_MAX, SWAPS_MAX + 1));
    assert_int_equal(swaps_at(&w, &o, SWAPS_MAX), FIRST + SWAPS_MAX + 1);
    assert_false(swaps_exchange(&w, &o, SWAPS_MAX + 2, SWAPS_MAX + 3));
    swaps_release(&w);
    mem_free(&pairs);
}

/* ---- of a told order: two epochs at a time ---- */

#define N 150u

struct model {
    uint64_t list[3 * N];
};

static struct schedule *schedule_of(struct model *m)
{
    const struct order_spec spec = {ORDER_SHUFFLED, N, 0, 5, 0, 1, false};
    struct schedule *t = schedule_new(&spec, 0, 3, NULL);

    for (uint64_t a = 0; a < 3 * N; a++)
        m->list[a] = cursor_at(&t->cursor, a);
    return t;
}

static void check_told(const struct schedule *t, const struct model *m, uint64_t at)
{
    for (uint64_t a = at; a < 3 * N; a++)
        assert_int_equal(cursor_at(&t->cursor, a), m->list[a]);
    for (uint64_t s = 0; s < N; s++) {
        uint64_t a = at;

        while (a < 3 * N && m->list[a] != s)
            a++;
        assert_true(cursor_next_use(&t->cursor, s, at) == (a < 3 * N ? a : CURSOR_NEVER));
        assert_true(cursor_next_in_epoch(&t->cursor, s, at) ==
                    (a < (at / N + 1) * N ? a : CURSOR_NEVER));
    }
}

/* The swaps of two epochs, told to somebody else. */
static void check_retold(const struct schedule *t, const struct model *m, uint64_t at)
{
    struct model untouched;
    struct schedule *again = schedule_of(&untouched);
    struct swap_pair *pairs;
    size_t n = schedule_swaps(t, &pairs);

    schedule_move(again, at);
    assert_int_equal(schedule_set_swaps(again, pairs, n, NULL), 0);
    check_told(again, m, at);
    schedule_free(&again);
    mem_free(&pairs);
}

static void test_over_the_ends_of_epochs(void **state)
{
    struct rng r = {11};
    struct model m;
    struct schedule *t = schedule_of(&m);

    (void)state;
    for (uint64_t at = 0; at < 3 * N; at += 1 + rng_below(&r, 3)) {
        uint64_t p = at + rng_below(&r, 30), q = p + 1 + rng_below(&r, N);
        bool well = p < 3 * N && q < (p / N + 1) * N;

        schedule_move(t, at);
        assert_int_equal(schedule_swap(t, p, q), well);
        if (well)
            exchange(m.list, p, q);
        assert_false(schedule_swap(t, p, p));
        assert_false(schedule_swap(t, q, p));
        assert_false(at > 0 && schedule_swap(t, at - 1, at + 1));
        assert_false(schedule_swap(t, p, UINT64_MAX));
        if (at % 5 == 0) {
            check_told(t, &m, at);
            check_retold(t, &m, at);
        }
    }
    schedule_free(&t);
}

/* Back, or far away: what was swapped is forgotten, and the order is as it was. */
static void test_jumps_forget(void **state)
{
    static const uint64_t to[] = {3, 2 * N + 7, 3 * N, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < unit_count(to); i++) {
        struct model m;
        struct schedule *t = schedule_of(&m);

        schedule_move(t, 10);
        assert_true(schedule_swap(t, 11, 140));
        assert_true(schedule_swap(t, N + 1, N + 9));
        schedule_move(t, to[i]);
        schedule_move(t, 0);
        check_told(t, &m, 0);
        schedule_free(&t);
    }
}

/* To where the reader is already, or a step on: what is ahead stays swapped, in both epochs. */
static void test_small_moves_keep(void **state)
{
    struct model m;
    struct schedule *t = schedule_of(&m);

    (void)state;
    schedule_move(t, 10);
    assert_true(schedule_swap(t, 12, 140));
    assert_true(schedule_swap(t, N + 1, N + 9));
    exchange(m.list, 12, 140);
    exchange(m.list, N + 1, N + 9);
    for (uint64_t at = 10; at < N + 12; at++) {
        schedule_move(t, at);
        schedule_move(t, at);
        check_told(t, &m, at);
    }
    schedule_free(&t);
}

static void test_no_leak(void **state)
{
    enum { ROUNDS = 20 };
    size_t before = 0;

    for (unsigned i = 0; i < 2 + ROUNDS; i++) {
        struct model m;
        struct schedule *t = schedule_of(&m);

        if (i == 2)
            before = unit_heap();
        assert_true(schedule_swap(t, 1, 140)); /* swaps of two epochs when it is freed */
        assert_true(schedule_swap(t, N + 1, N + 9));
        schedule_free(&t);
        test_jumps_forget(state);
    }
    assert_true(unit_heap() < before + ROUNDS * 16);
}

static void test_explicit_orders_have_none(void **state)
{
    uint64_t *list = mem_alloc(4 * sizeof(*list));
    struct swap_pair pair = {1, 2};
    struct dlc_err err = DLC_ERR_INIT;
    struct schedule_list *l;
    struct schedule *t;

    (void)state;
    for (uint64_t i = 0; i < 4; i++)
        list[i] = i;
    l = schedule_list_new(list, 4, 4, NULL);
    t = schedule_new_list(&l, 0, 0, 0);
    assert_false(schedule_swap(t, 0, 2));
    assert_int_equal(schedule_set_swaps(t, &pair, 1, &err), DLC_EINVAL);
    assert_int_equal(schedule_set_swaps(t, NULL, 0, &err), 0);
    schedule_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_list),   cmocka_unit_test(test_pairs_that_cannot_be),
        cmocka_unit_test(test_too_many),         cmocka_unit_test(test_over_the_ends_of_epochs),
        cmocka_unit_test(test_jumps_forget),     cmocka_unit_test(test_explicit_orders_have_none),
        cmocka_unit_test(test_small_moves_keep), cmocka_unit_test(test_no_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
