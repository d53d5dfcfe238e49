// SPDX-License-Identifier: Apache-2.0
#include "cache/memory/arena_i.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"

#define MB   ((uint64_t)1 << 20)
#define BASE 4096u

/* The arena beside a plain map of the grains in use and the pages the kernel would hold. */
struct model {
    struct arena a;
    uint8_t *grains;  /* 1: used by a block */
    uint8_t *touched; /* per page: 1: the kernel would hold it */
    struct arena_block **blocks;
    size_t n, cap;
    struct rng r;
    bool both; /* allocate from both ends */
    uint64_t page;
};

static void model_init_pages(struct model *m, uint64_t ceiling, uint64_t end, uint64_t page)
{
    *m = (struct model){.r = {rng_seed()}, .page = page};
    print_message("seed %llu\n", (unsigned long long)m->r.state);
    m->grains = mem_zero(end / ARENA_GRAIN);
    m->touched = mem_zero(end / page);
    arena_init(&m->a, BASE, ceiling, end, page, sizeof(struct arena_block));
}

static void model_init(struct model *m, uint64_t ceiling, uint64_t end)
{
    model_init_pages(m, ceiling, end, 4096);
}

static void model_release(struct model *m)
{
    arena_release(&m->a);
    mem_free(&m->grains);
    mem_free(&m->touched);
    mem_free(&m->blocks);
}

static bool model_alloc(struct model *m, uint64_t len)
{
    bool high = m->both && rng_below(&m->r, 3) == 0;
    struct arena_block *b = high ? arena_alloc_high(&m->a, len) : arena_alloc(&m->a, len);

    if (b == NULL)
        return false;
    assert_true(b->size >= len && b->size <= arena_rounded(len) + len / 64 + ARENA_GRAIN);
    assert_true(b->off >= BASE && arena_block_end(b) <= m->a.ceiling);
    for (uint64_t g = b->off / ARENA_GRAIN; g < arena_block_end(b) / ARENA_GRAIN; g++) {
        assert_int_equal(m->grains[g], 0);
        m->grains[g] = 1;
    }
    for (uint64_t p = b->off / m->page; p <= (arena_block_end(b) - 1) / m->page; p++)
        m->touched[p] = 1;
    mem_reserve(m->blocks, m->n, m->cap);
    m->blocks[m->n++] = b;
    return true;
}

static void model_free_at(struct model *m, size_t i)
{
    struct arena_block *b = m->blocks[i];

    memset(m->grains + b->off / ARENA_GRAIN, 0, b->size / ARENA_GRAIN);
    m->blocks[i] = m->blocks[--m->n];
    arena_free(&m->a, &b);
    assert_null(b);
}

/* In pieces that end on a page. */
static uint64_t on_punch(void *arg, uint64_t off, uint64_t len)
{
    struct model *m = arg;

    if (len > 5 * m->page)
        len = (off + 4 * m->page) / m->page * m->page - off;
    for (uint64_t g = off / ARENA_GRAIN; g < (off + len) / ARENA_GRAIN; g++)
        assert_int_equal(m->grains[g], 0);
    for (uint64_t p = DLC_ALIGN_UP(off, m->page) / m->page; p < (off + len) / m->page; p++)
        m->touched[p] = 0;
    return len;
}

static void drain(struct model *m, bool free_too)
{
    while (arena_drain(&m->a, free_too, 1, on_punch, m))
        ;
}

static void set_ceiling(struct model *m, uint64_t ceiling)
{
    while (!arena_move_ceiling(&m->a, ceiling, NULL))
        arena_check(&m->a);
    assert_int_equal(m->a.ceiling, ceiling);
}

/* Pages held above the ceiling, but for those of blocks that are still there. */
static uint64_t leaked_pages(const struct model *m)
{
    uint64_t n = 0;

    for (uint64_t p = m->a.ceiling / m->page; p < m->a.end / m->page; p++) {
        const uint8_t *g = m->grains + p * (m->page / ARENA_GRAIN);

        n += m->touched[p] && memchr(g, 1, m->page / ARENA_GRAIN) == NULL;
    }
    return n;
}

static uint64_t held_pages(const struct model *m, uint64_t from)
{
    uint64_t n = 0;

    for (uint64_t p = from / m->page; p < m->a.end / m->page; p++)
        n += m->touched[p];
    return n;
}

static void test_simple(void **state)
{
    struct model m;

    (void)state;
    model_init(&m, MB, MB);
    assert_int_equal(arena_largest(&m.a), MB - BASE);
    assert_true(model_alloc(&m, 0));
    assert_true(model_alloc(&m, 1));
    assert_true(model_alloc(&m, 64));
    assert_true(model_alloc(&m, 65));
    assert_int_equal(m.a.used, 5 * 64);
    assert_false(model_alloc(&m, MB));
    assert_true(model_alloc(&m, MB - BASE - 5 * 64)); /* exactly what is left */
    assert_int_equal(arena_largest(&m.a), 0);
    assert_false(model_alloc(&m, 1));
    while (m.n > 0)
        model_free_at(&m, 0);
    arena_check(&m.a);
    assert_int_equal(arena_largest(&m.a), MB - BASE); /* one hole again */
    model_release(&m);
}

/* Random allocations, frees and ceilings against the model. */
static void random_with_pages(uint64_t page)
{
    struct model m;

    model_init_pages(&m, 2 * MB, 4 * MB, page);
    m.both = true;
    for (int i = 0; i < 60000; i++) {
        uint64_t dice = rng_below(&m.r, 1000);
        uint64_t size = rng_below(&m.r, (uint64_t)1 << rng_below(&m.r, 17));

        if (dice < 550)
            model_alloc(&m, size);
        else if (m.n > 0)
            model_free_at(&m, rng_below(&m.r, m.n));
        if (dice == 999)
            set_ceiling(&m, m.page * (2 + rng_below(&m.r, 4 * MB / m.page - 2)));
        if (dice % 100 == 0) {
            drain(&m, dice == 0);
            arena_check(&m.a);
            assert_int_equal(leaked_pages(&m), 0);
        }
    }
    while (m.n > 0)
        model_free_at(&m, 0);
    drain(&m, false);
    arena_check(&m.a);
    assert_int_equal(m.a.used, 0);
    assert_int_equal(arena_largest(&m.a), m.a.ceiling - BASE);
    model_release(&m);
}

static void test_random(void **state)
{
    (void)state;
    random_with_pages(4096);
}

static void test_random_with_large_pages(void **state)
{
    (void)state;
    random_with_pages(65536);
}

static uint64_t on_punch_fail(void *arg, uint64_t off, uint64_t len);

static unsigned passed;

static void on_above(struct arena_block *b)
{
    (void)b;
    passed++;
}

/* Work of one step is bounded, whatever lies there. */
static void test_the_ceiling_moves_in_steps(void **state)
{
    unsigned steps = 0, all = 0;
    struct model m;
    bool there;

    (void)state;
    model_init(&m, 2 * MB, 2 * MB);
    for (int i = 0; i < 30000; i++)
        assert_true(model_alloc(&m, ARENA_GRAIN));
    do {
        passed = 0;
        there = arena_move_ceiling(&m.a, MB / 4, on_above);
        arena_check(&m.a);
        assert_true(passed <= ARENA_STEP + 4096 / ARENA_GRAIN + 1);
        all += passed;
        steps++;
    } while (!there);
    assert_true(steps > 20);
    assert_true(all >= (30000 * 64 + BASE - MB / 4) / 64);
    while (m.n > 0)
        model_free_at(&m, m.n - 1);
    arena_check(&m.a);
    set_ceiling(&m, 2 * MB);
    arena_check(&m.a);
    assert_int_equal(arena_largest(&m.a), 2 * MB - BASE);
    model_release(&m);
}

/* Moving up past many that stayed is done in steps, too. */
static void test_the_ceiling_rises_in_steps(void **state)
{
    unsigned steps = 1;
    struct model m;

    (void)state;
    model_init(&m, 2 * MB, 2 * MB);
    for (int i = 0; i < 30000; i++)
        assert_true(model_alloc(&m, ARENA_GRAIN));
    for (size_t i = 0; i < m.n; i++) /* the last one takes the place of the one that goes */
        model_free_at(&m, i);
    set_ceiling(&m, MB / 4);
    arena_check(&m.a);
    while (!arena_move_ceiling(&m.a, 2 * MB, NULL)) {
        arena_check(&m.a);
        steps++;
    }
    arena_check(&m.a);
    assert_true(steps > 5);
    model_release(&m);
}

/* Large holes below the ceiling are given back when asked for, and once. */
static void test_holes_are_given_back_once(void **state)
{
    struct model m;
    int asked = 0;

    (void)state;
    model_init(&m, 8 * MB, 8 * MB);
    assert_false(arena_drain(&m.a, true, 1, on_punch_fail, &asked)); /* never used */
    model_alloc(&m, 3 * MB);
    model_alloc(&m, MB / 2);
    model_alloc(&m, MB / 2);
    model_free_at(&m, 0);
    assert_false(arena_drain(&m.a, true, 1, on_punch_fail, &asked));
    assert_int_equal(asked, 1);
    drain(&m, true);
    assert_false(arena_drain(&m.a, true, 1, on_punch_fail, &asked));
    assert_int_equal(asked, 1);
    assert_true(model_alloc(&m, MB)); /* dirty again, in part */
    model_free_at(&m, m.n - 1);
    assert_false(arena_drain(&m.a, true, 1, on_punch_fail, &asked));
    assert_int_equal(asked, 2);
    drain(&m, true);
    arena_check(&m.a);
    model_release(&m);
}

/* A hole that was given back in part is used meanwhile: then all of it is looked at again. */
static void test_a_hole_is_used_while_it_is_given_back(void **state)
{
    struct model m;

    (void)state;
    model_init(&m, 8 * MB, 8 * MB);
    model_alloc(&m, m.a.free);
    model_free_at(&m, 0);
    assert_true(arena_drain(&m.a, true, 3, on_punch, &m));
    assert_int_equal(m.touched[BASE / m.page], 0);
    model_alloc(&m, 1000); /* at its beginning */
    assert_int_equal(m.touched[BASE / m.page], 1);
    model_free_at(&m, 0);
    drain(&m, true);
    assert_int_equal(held_pages(&m, 0), 0);
    model_release(&m);
}

/* The same of one that was above the ceiling, and becomes part of a larger one when it rises. */
static void test_the_ceiling_rises_while_pages_are_given_back(void **state)
{
    struct model m;

    (void)state;
    model_init(&m, 8 * MB, 8 * MB);
    model_alloc(&m, 2 * MB - BASE);
    model_alloc(&m, m.a.free);
    model_free_at(&m, 1);
    set_ceiling(&m, 4 * MB);
    assert_true(arena_drain(&m.a, false, 3, on_punch, &m));
    assert_int_equal(held_pages(&m, 2 * MB), (8 * MB - 2 * MB) / m.page - 3 * 4);
    set_ceiling(&m, 8 * MB);
    drain(&m, true);
    assert_int_equal(held_pages(&m, 2 * MB), 0);
    model_release(&m);
}

static uint64_t on_punch_fail(void *arg, uint64_t off, uint64_t len)
{
    (void)off;
    (void)len;
    ++*(int *)arg;
    return 0;
}

/* A range that could not be punched is asked for again; one that was is not. */
static void test_punch_again(void **state)
{
    struct model m;
    int asked = 0;

    (void)state;
    model_init(&m, 2 * MB, 2 * MB);
    model_alloc(&m, 1500000);
    model_free_at(&m, 0);
    assert_false(arena_drain(&m.a, false, 9, on_punch_fail, &asked));
    assert_int_equal(asked, 0); /* below the ceiling pages are kept */
    set_ceiling(&m, MB);
    assert_false(arena_drain(&m.a, false, 9, on_punch_fail, &asked));
    assert_false(arena_drain(&m.a, false, 9, on_punch_fail, &asked));
    assert_int_equal(asked, 2);
    drain(&m, false);
    assert_false(arena_drain(&m.a, false, 9, on_punch_fail, &asked));
    assert_int_equal(asked, 2);
    model_release(&m);
}

/* Holes below the ceiling are given back from 1 MiB on; what is used never is. */
static void test_punch_holes(void **state)
{
    struct model m;

    (void)state;
    model_init(&m, 16 * MB, 16 * MB);
    for (unsigned i = 0; i < 6; i++) /* in turn a block that stays and one that goes */
        model_alloc(&m, i == 1 ? MB : i == 3 ? MB - ARENA_GRAIN : 2 * MB);
    model_alloc(&m, m.a.free);
    for (unsigned i = 5; i < 6; i -= 2) {
        uint64_t first = (m.blocks[i]->off + m.page - 1) / m.page, n = m.blocks[i]->size;

        assert_int_equal(m.touched[first], 1);
        model_free_at(&m, i);
        drain(&m, true); /* fails on a grain that is used */
        assert_int_equal(m.touched[first], n < MB);
    }
    for (unsigned i = 0; i < m.n; i++)
        assert_int_equal(m.touched[m.blocks[i]->off / m.page], 1);
    arena_check(&m.a);
    model_release(&m);
}

/* Ceiling below, inside and above a block that stays. */
static void test_ceiling_across_a_block(void **state)
{
    struct model m;

    (void)state;
    model_init(&m, 2 * MB, 4 * MB);
    model_alloc(&m, MB - BASE);
    model_alloc(&m, MB / 2);
    set_ceiling(&m, MB + MB / 4); /* inside the second */
    arena_check(&m.a);
    assert_false(model_alloc(&m, 64));
    model_free_at(&m, 1);
    arena_check(&m.a);
    assert_int_equal(arena_largest(&m.a), MB / 4);
    set_ceiling(&m, 4 * MB);
    arena_check(&m.a);
    assert_int_equal(arena_largest(&m.a), 3 * MB);
    model_release(&m);
}

/* Both ends of one hole. */
static void test_high(void **state)
{
    struct arena_block *low, *high, *higher;
    struct arena a;

    (void)state;
    arena_init(&a, BASE, MB, 2 * MB, 4096, sizeof(struct arena_block));
    higher = arena_alloc_high(&a, 1000);
    high = arena_alloc_high(&a, 5000);
    low = arena_alloc(&a, 3000);
    assert_int_equal(arena_block_end(higher), MB);
    assert_int_equal(arena_block_end(high), higher->off);
    assert_int_equal(low->off, BASE);
    assert_null(arena_alloc_high(&a, MB));
    arena_check(&a);
    arena_free(&a, &high);
    high = arena_alloc_high(&a, a.free);
    assert_int_equal(high->off, arena_block_end(low));
    assert_null(arena_alloc_high(&a, 1));
    arena_check(&a);
    arena_release(&a);
}

/* Of holes of nearly the same size those that are too small are passed over, before a larger one is
 * split. */
static void test_a_hole_that_fits_before_a_larger_one(void **state)
{
    const uint64_t small = (uint64_t)64 * ARENA_GRAIN, fits = small + ARENA_GRAIN;
    struct arena_block *b[8], *used;
    struct arena a;
    uint64_t wanted;

    (void)state;
    arena_init(&a, BASE, MB, MB, 4096, sizeof(struct arena_block));
    for (unsigned i = 0; i < DLC_COUNT(b); i += 2) {
        b[i] = arena_alloc(&a, i == 0 ? fits : small);
        b[i + 1] = arena_alloc(&a, 1); /* keeps the holes apart */
    }
    wanted = b[0]->off;
    for (unsigned i = 0; i < DLC_COUNT(b); i += 2)
        arena_free(&a, &b[i]); /* the one that fits is tried last */
    used = arena_alloc(&a, fits);
    assert_int_equal(used->off, wanted);
    arena_check(&a);
    arena_release(&a);
}

/* From above: the higher of two holes, whichever was freed last. */
static void test_the_higher_hole(void **state)
{
    struct arena_block *b[3], *high;
    struct arena a;

    (void)state;
    arena_init(&a, BASE, MB, MB, 4096, sizeof(struct arena_block));
    b[0] = arena_alloc(&a, 300000);
    b[1] = arena_alloc(&a, 1000);
    b[2] = arena_alloc(&a, 300000);
    while (a.free > 0)
        assert_non_null(arena_alloc(&a, DLC_MIN(a.free, 200000u)));
    for (unsigned round = 0; round < 2; round++) {
        uint64_t end = arena_block_end(b[2]);

        arena_free(&a, &b[round == 0 ? 2 : 0]);
        arena_free(&a, &b[round == 0 ? 0 : 2]);
        high = arena_alloc_high(&a, 1000);
        assert_int_equal(arena_block_end(high), end);
        arena_free(&a, &high);
        b[0] = arena_alloc(&a, 300000);
        b[2] = arena_alloc(&a, 300000);
        if (b[0]->off > b[2]->off) {
            high = b[0];
            b[0] = b[2];
            b[2] = high;
        }
    }
    arena_check(&a);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simple),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_punch_again),
        cmocka_unit_test(test_ceiling_across_a_block),
        cmocka_unit_test(test_high),
        cmocka_unit_test(test_the_higher_hole),
        cmocka_unit_test(test_a_hole_that_fits_before_a_larger_one),
        cmocka_unit_test(test_punch_holes),
        cmocka_unit_test(test_random_with_large_pages),
        cmocka_unit_test(test_the_ceiling_moves_in_steps),
        cmocka_unit_test(test_the_ceiling_rises_in_steps),
        cmocka_unit_test(test_holes_are_given_back_once),
        cmocka_unit_test(test_a_hole_is_used_while_it_is_given_back),
        cmocka_unit_test(test_the_ceiling_rises_while_pages_are_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
