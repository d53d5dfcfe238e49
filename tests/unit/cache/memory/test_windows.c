// SPDX-License-Identifier: Apache-2.0
/* Who goes when a large sample comes: neighbours that make one hole, as few bytes as possible. */
#include "world.h"

#define KB      ((uint64_t)1024)
#define CEILING (4096 * KB)
#define SIZE    (128 * KB)
#define FILLED  31u /* samples that fit; then there is a hole of 124 KiB */
#define NEW     500u

static int put(struct world *w, uint64_t sample, uint64_t len)
{
    struct mem_fill *f;
    int rc = memory_reserve(w->m, w->x, sample, len, &f);

    if (rc == 0)
        memory_publish(w->m, &f);
    return rc;
}

/* Samples side by side from the first on, the coldest first. */
static int setup(void **state)
{
    struct world *w = world_new(CEILING, CEILING);

    for (unsigned i = 0; i < FILLED; i++) {
        uint64_t len;
        const char *data;

        assert_int_equal(put(w, i, SIZE), 0);
        data = memory_hold(w->m, w->x, i, &len);
        assert_int_equal(data - (const char *)memory_hold(w->m, w->x, 0, &len), i * SIZE);
        memory_unhold(w->m, w->x, i);
        memory_unhold(w->m, w->x, 0);
    }
    *state = w;
    return 0;
}

static void touch_all_but(struct world *w, unsigned cold)
{
    for (unsigned i = 0; i < FILLED; i++) {
        if (i != cold)
            memory_touch(w->m, w->x, i);
    }
}

static void pin(struct world *w, unsigned entry, uint64_t sample)
{
    uint32_t len;

    assert_non_null(client_read(&w->c, w->b, entry, sample, &len));
}

/* Those of the first ones that have gone, as bits. */
static uint32_t gone(const struct world *w)
{
    uint32_t bits = 0;

    for (unsigned i = 0; i < FILLED; i++)
        bits |= mem_index_ready(w->x, i) ? 0 : 1u << i;
    return bits;
}

#define BIT(i) (1u << (i))

static void test_around_the_coldest(void **state)
{
    struct world *w = *state;

    touch_all_but(w, 5);
    assert_int_equal(put(w, NEW, 2 * SIZE), 0);
    assert_int_equal(gone(w), BIT(4) | BIT(5)); /* both sides cost the same: to the left */
}

static void test_past_pins(void **state)
{
    struct world *w = *state;

    touch_all_but(w, 5);
    pin(w, 0, 4);
    assert_int_equal(put(w, NEW, 2 * SIZE), 0);
    assert_int_equal(gone(w), BIT(5) | BIT(6));
}

/* A hole beside a sample that is in use saves the cold ones. */
static void test_cheapest(void **state)
{
    struct world *w = *state;

    touch_all_but(w, 5);
    memory_touch(w->m, w->x, FILLED - 1);
    assert_int_equal(put(w, NEW, 250 * KB), 0);
    assert_int_equal(gone(w), BIT(FILLED - 1));
}

/* One that fits where a single one was. */
static void test_one(void **state)
{
    struct world *w = *state;

    touch_all_but(w, 7);
    pin(w, 0, 0);
    assert_int_equal(put(w, NEW, SIZE), 0);
    assert_int_equal(gone(w), BIT(7));
}

/* Pins that leave no two neighbours: only the end of the arena has room. */
static void test_between_pins(void **state)
{
    struct world *w = *state;

    for (unsigned i = 0; i < FILLED; i += 2)
        pin(w, i, i);
    assert_int_equal(put(w, NEW, 2 * SIZE), DLC_EBYPASS);
    assert_int_equal(gone(w), 0);
    shm_unpin(w->b, 16);
    assert_int_equal(put(w, NEW, 2 * SIZE), 0);
    assert_int_equal(__builtin_popcount(gone(w)), 2);
    assert_true((gone(w) & BIT(16)) != 0 && (gone(w) & ~(BIT(15) | BIT(16) | BIT(17))) == 0);
    shm_unpin(w->b, 2);
    assert_int_equal(put(w, NEW + 1, 3 * SIZE), 0);
    assert_int_equal(gone(w) & 0xff, BIT(1) | BIT(2) | BIT(3));
}

/* What is being filled, and what the daemon holds, stays. */
static void test_not_what_is_filled(void **state)
{
    struct world *w = *state;
    struct mem_fill *f;
    uint64_t len;

    touch_all_but(w, 3);
    assert_int_equal(memory_reserve(w->m, w->x, NEW, SIZE, &f), 0);
    assert_int_equal(gone(w), BIT(3));
    memory_touch(w->m, w->x, 3);
    for (unsigned i = 0; i < FILLED; i++) {
        if (i != 2 && i != 4 && i != 3)
            memory_hold(w->m, w->x, i, &len);
    }
    assert_int_equal(put(w, NEW + 1, 2 * SIZE), DLC_EBYPASS); /* 2 and 4 with the fill between */
    assert_int_equal(gone(w), BIT(3));
    memory_abandon(w->m, &f);
    assert_int_equal(put(w, NEW + 1, 3 * SIZE), 0);
    assert_int_equal(gone(w), BIT(2) | BIT(3) | BIT(4));
    for (unsigned i = 0; i < FILLED; i++) {
        if (i != 2 && i != 4 && i != 3)
            memory_unhold(w->m, w->x, i);
    }
}

/* Nothing around the coldest: the cheapest of all windows, and not a block more. */
static void test_anywhere(void **state)
{
    struct world *w = *state;
    uint64_t hole = CEILING - 4 * KB - 80 * 50 * KB;

    memory_evict_all(w->m, w->x);
    for (unsigned i = 100; i < 180; i++)
        assert_int_equal(put(w, i, 50 * KB), 0);
    for (unsigned i = 0; i < 34; i++)
        pin(w, i, 100 + 2 * i); /* 33 cold ones stand alone */
    assert_int_equal(put(w, NEW, hole + 50 * KB), 0);
    for (unsigned i = 100; i < 180; i++)
        assert_int_equal(mem_index_ready(w->x, i), i != 179);
    assert_int_equal(put(w, NEW + 1, 100 * KB), 0);
    for (unsigned i = 100; i < 180; i++)
        assert_int_equal(mem_index_ready(w->x, i), i != 167 && i != 168 && i != 179);
}

/* A small arena is looked at from its beginning, also where decoded samples are in the majority. */
static void test_anywhere_beside_decoded(void **state)
{
    struct world *w = *state;
    struct mem_index *decoded;
    struct mem_fill *f;
    uint64_t len;

    memory_evict_all(w->m, w->x);
    assert_int_equal(mem_index_new(w->m, 100, 2, &decoded, NULL), 0);
    mem_index_set_decoded(decoded);
    for (unsigned i = 0; i < 80; i++)
        assert_int_equal(put(w, i, 40 * KB), 0);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(memory_reserve_decoded(w->m, decoded, i, 5 * KB, 0, &f), 0);
        memory_publish(w->m, &f);
        assert_non_null(memory_hold(w->m, decoded, i, &len));
    }
    for (unsigned i = 3; i < 80; i += 2) /* between them one stands alone */
        assert_non_null(memory_hold(w->m, w->x, i, &len));
    for (unsigned i = 100; arena_largest(&w->m->arena) >= 40 * KB; i++) { /* what is free */
        assert_int_equal(put(w, i, 40 * KB), 0);
        assert_non_null(memory_hold(w->m, w->x, i, &len));
    }
    for (unsigned i = 0; i < 3; i++)
        memory_touch(w->m, w->x, i); /* the only neighbours that can go: used last */
    assert_int_equal(put(w, NEW, 100 * KB), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_false(mem_index_ready(w->x, i));
    for (unsigned i = 0; i < 1000; i++)
        if (w->x->fills[i] != NULL && w->x->fills[i]->holds > 0)
            memory_unhold(w->m, w->x, i);
    for (unsigned i = 0; i < 100; i++)
        memory_unhold(w->m, decoded, i);
    mem_index_free(&decoded);
}

/* So many samples that one pass does not look at all of them, and the only hole that can be made is at
 * the end: who asks again looks elsewhere. */
static void test_anywhere_in_a_large_arena(void **state)
{
    const unsigned n = 20000, held = 17000, alone = 100;
    struct world w = {0};
    unsigned tries = 1;
    uint64_t len;

    (void)state;
    assert_int_equal(memory_new(4 * KB + n * 256, 4 * KB + n * 256, &w.m, NULL), 0);
    assert_int_equal(mem_index_new(w.m, n + 1, 1, &w.x, NULL), 0);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(put(&w, i, 256), 0);
    for (unsigned i = 0; i < held; i++) /* the coldest stand alone, between those */
        if (i >= alone || i % 2 == 0)
            assert_non_null(memory_hold(w.m, w.x, i, &len));
    while (put(&w, n, 256 * KB) < 0) {
        assert_true(++tries < 40);         /* of four that begin anywhere one fails, at most */
        while (memory_room_is_coming(w.m)) /* the pass had no time left, as on a slow machine */
            memory_scan_on(w.m);
    }
    for (unsigned i = 0; i < held; i++) {
        assert_true(mem_index_ready(w.x, i));
        if (i >= alone || i % 2 == 0)
            memory_unhold(w.m, w.x, i);
    }
    mem_index_free(&w.x);
    while (memory_free_some(w.m))
        ;
    memory_free(&w.m);
}

/* Small ones go in batches of a 64th of the ceiling, in the order of their last use. */
static void test_batch(void **state)
{
    struct world *w = *state;

    for (unsigned i = FILLED; i-- > 0;)
        memory_touch(w->m, w->x, i);
    assert_int_equal(put(w, NEW, 124 * KB), 0); /* the hole */
    assert_int_equal(gone(w), 0);
    pin(w, 0, FILLED - 1);
    assert_int_equal(put(w, NEW + 1, 1 * KB), 0);
    assert_int_equal(gone(w), BIT(FILLED - 2)); /* 128 of the 64 KiB that a batch has */
    shm_unpin(w->b, 0);
    assert_int_equal(put(w, NEW + 2, 127 * KB), 0);
    assert_int_equal(put(w, NEW + 3, 1 * KB), 0);
    assert_int_equal(gone(w), BIT(FILLED - 2) | BIT(FILLED - 1)); /* it can go again */
}

static void test_batch_of_small_ones(void **state)
{
    struct world *w = *state;

    memory_evict_all(w->m, w->x);
    for (unsigned i = 0; i < 511; i++)
        assert_int_equal(put(w, i, 8 * KB), 0);
    assert_int_equal(put(w, 900, 8 * KB), 0);
    for (unsigned i = 0; i < 511; i++)
        assert_int_equal(mem_index_ready(w->x, i), i >= 8); /* 64 KiB of the coldest */
}

/* What clients read counts when the daemon looks, not when room is needed. */
static void test_logs(void **state)
{
    struct world *w = *state;

    shm_log(w->b, 0, SIZE);
    memory_tick(w->m);
    touch_all_but(w, 0);
    assert_int_equal(put(w, NEW, SIZE), 0);
    assert_int_equal(gone(w), BIT(0));
    shm_log(w->b, 1, SIZE); /* seen in time */
    assert_int_equal(put(w, NEW + 1, SIZE), 0);
    assert_int_equal(gone(w), BIT(0) | BIT(2));
}

/* Emptying goes in steps over a large index; hints about what is not there do nothing. */
static void test_steps(void **state)
{
    struct world *w = *state;
    struct mem_index *x;
    struct mem_fill *f;
    uint64_t place = 0, bytes = 0;
    unsigned calls = 0;

    memory_use_is_sooner(w->x, 900);
    memory_forget_use(w->x, 900);
    memory_evict_all(w->m, w->x);
    assert_int_equal(mem_index_new(w->m, 1000000, 1, &x, NULL), 0);
    assert_int_equal(memory_reserve(w->m, x, 999999, SIZE, &f), 0);
    memory_publish(w->m, &f);
    while (mem_index_evict_some(x, &place, &bytes)) {
        assert_true(place < 1000000);
        calls++;
    }
    assert_true(calls > 3);
    assert_int_equal(bytes, SIZE);
    assert_int_equal(mem_index_resident(x), 0);
    mem_index_free(&x);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, world_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_around_the_coldest),
        T(test_past_pins),
        T(test_cheapest),
        T(test_one),
        T(test_between_pins),
        T(test_not_what_is_filled),
        T(test_batch),
        T(test_logs),
        T(test_batch_of_small_ones),
        T(test_steps),
        T(test_anywhere),
        T(test_anywhere_beside_decoded),
        cmocka_unit_test(test_anywhere_in_a_large_arena),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
