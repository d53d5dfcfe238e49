// SPDX-License-Identifier: Apache-2.0
/* Who leaves when next uses are asked for, not told: what that costs, and what it loses against
 * telling all of them at every change. Costs are counted, not timed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/counters.h"
#include "base/syscalls.h"
#include "base/mem.h"
#include "base/rng.h"
#include "order/cursor.h"
#include "cache/memory/memory_i.h"

#define SIZE 1024u

/* Readers of one dataset, each with a shuffle of its own. */
#define READERS_MAX 4
struct world {
    struct memory *m;
    struct mem_index *x;
    uint64_t n;
    struct cursor cursors[READERS_MAX];
    uint64_t pos[READERS_MAX];
    bool gone[READERS_MAX];
    unsigned readers;
    double clock; /* samples that each has read */
    uint64_t asked;
    bool telling; /* as if all were told at every change: what asking is compared with */
    uint64_t hits, reads;
};

static double next_use(void *arg, uint64_t sample, unsigned *steps)
{
    struct world *w = arg;
    double soonest = INFINITY;

    w->asked++;
    for (unsigned r = 0; r < w->readers; r++) {
        uint64_t at;

        if (w->gone[r])
            continue;
        ++*steps;
        at = cursor_next_use(&w->cursors[r], sample, w->pos[r]);
        if (at < CURSOR_LATER)
            soonest = fmin(soonest, (double)(at - w->pos[r]));
    }
    return w->clock + soonest;
}

/* What nobody does any more. */
static void tell(struct world *w, uint64_t sample)
{
    struct mem_fill *f = w->x->fills[sample];
    unsigned steps = 0;

    if (f == NULL || f->state != MEM_RESIDENT)
        return;
    mem_fill_set_known(f, true);
    policy_next_use(w->m->policy, &f->item, next_use(w, sample, &steps));
}

static void changed(struct world *w)
{
    mem_index_forget_uses(w->x);
    for (uint64_t i = 0; w->telling && i < w->n; i++)
        tell(w, i);
}

static void open_world(struct world *w, uint64_t n, uint64_t fit, unsigned readers)
{
    uint64_t ceiling = SHM_HDR_SIZE + fit * SIZE;

    *w = (struct world){.n = n, .readers = readers};
    ceiling = DLC_ALIGN_UP(ceiling, os_page_size());
    assert_int_equal(memory_new(ceiling, ceiling, &w->m, NULL), 0);
    assert_int_equal(mem_index_new(w->m, n, 1, &w->x, NULL), 0);
    for (unsigned r = 0; r < readers; r++) {
        struct order_spec spec = {
            .kind = ORDER_SHUFFLED, .n = n, .seed = 7 + r, .rank = 0, .world = 1};

        assert_int_equal(cursor_init(&w->cursors[r], &spec, 0, 0, NULL), 0);
    }
    mem_index_set_next_use(w->x, next_use, w);
}

static void close_world(struct world *w)
{
    mem_index_free(&w->x);
    assert_int_equal(w->m->known, 0); /* (MEMORY-4): nothing is counted that is not there */
    memory_free(&w->m);
}

static void put(struct world *w, uint64_t sample)
{
    struct mem_fill *f;

    assert_int_equal(memory_reserve(w->m, w->x, sample, SIZE, &f), 0);
    memory_publish(w->m, &f);
    if (w->telling)
        tell(w, sample);
}

static uint64_t read_next(struct world *w, unsigned r)
{
    uint64_t sample = cursor_at(&w->cursors[r], w->pos[r]);

    w->reads++;
    if (mem_index_ready(w->x, sample))
        w->hits++;
    else
        put(w, sample);
    cursor_move(&w->cursors[r], ++w->pos[r]);
    if (r == 0)
        w->clock++;
    if (w->telling)
        tell(w, sample);
    else
        memory_forget_use(w->x, sample);
    return sample;
}

static void read_round(struct world *w)
{
    for (unsigned r = 0; r < w->readers; r++)
        if (!w->gone[r])
            read_next(w, r);
}

/* ---- what it costs ---- */

/* Sessions that come, go, idle, wake and jump, and samples that are passed, ask nobody. */
static void test_changes_ask_nobody(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, 20000, 20100, 4);
    for (uint64_t i = 0; i < w.n; i++)
        put(&w, i);
    for (int i = 0; i < 100; i++)
        mem_index_forget_uses(w.x);
    for (int i = 0; i < 3000; i++)
        read_round(&w);
    mem_index_set_next_use(w.x, NULL, NULL);
    mem_index_set_next_use(w.x, next_use, &w);
    assert_int_equal(w.hits, w.reads);
    assert_int_equal(w.asked, 0);
    close_world(&w);
}

/* However many residents there are and however stale all of them: a batch asks so many at most. */
static void test_a_batch_is_bounded(void **state)
{
    struct world w;
    uint64_t before, evicted = 0;

    (void)state;
    open_world(&w, 70000, 60000, 4);
    for (uint64_t i = 0; i < w.n && evicted < 2000; i++) {
        before = w.x->resident;
        w.asked = 0;
        changed(&w);
        put(&w, i);
        evicted += before + 1 - w.x->resident;
        assert_in_range(before + 1 - w.x->resident, 0, 256);
        assert_in_range(w.asked * w.readers, 0, 32768 + 256 + 8 * w.readers);
    }
    assert_true(evicted >= 2000);
    close_world(&w);
}

/* Answers that cost so much that few can be asked for one victim. */
struct costly {
    uint64_t asked[4096];
    unsigned n;
};

static double costly_use(void *arg, uint64_t sample, unsigned *steps)
{
    struct costly *c = arg;

    c->asked[c->n++ % DLC_COUNT(c->asked)] = sample;
    *steps += 10;
    return 1000 + (double)(sample * 7919 % 1009);
}

/* The bound is reached before one is met that was known: of those asked, the one used last goes. */
static void test_best_of_those_asked(void **state)
{
    const unsigned at_random = 8, most = 24; /* 256 steps of 11 each */
    struct costly *c = mem_new(struct costly);
    struct world w;
    double last = 0;
    uint64_t best = 0;

    (void)state;
    open_world(&w, 1001, 1000, 0);
    mem_index_set_next_use(w.x, costly_use, c);
    for (uint64_t i = 0; i < 1001; i++)
        put(&w, i);
    assert_true(c->n >= most);
    for (unsigned k = at_random; k < most; k++) {
        unsigned steps = 0;
        struct costly other = {.n = 0};
        double when = costly_use(&other, c->asked[k], &steps);

        best = when > last ? c->asked[k] : best;
        last = fmax(last, when);
    }
    assert_false(mem_index_ready(w.x, best));
    mem_index_set_next_use(w.x, NULL, NULL);
    close_world(&w);
    mem_free(&c);
}

/* An index that is freed, or emptied, costs a step at a time; what is left of it leaves first. */
static void test_freed_in_steps(void **state)
{
    struct world w;
    struct mem_index *other;
    struct mem_fill *f;
    uint64_t before, place = 0, bytes = 0;
    unsigned steps = 0;

    (void)state;
    open_world(&w, 6000, 6000, 1);
    assert_int_equal(mem_index_new(w.m, 2000, 2, &other, NULL), 0);
    for (uint64_t i = 0; i < 500; i++) {
        assert_int_equal(memory_reserve(w.m, other, i, SIZE, &f), 0);
        memory_publish(w.m, &f);
    }
    for (uint64_t i = 0; i < 5500; i++)
        put(&w, i);
    before = count_read(mem_evictions);
    while (mem_index_evict_some(w.x, &place, &bytes))
        assert_int_equal(count_read(mem_evictions) - before, 256 * ++steps);
    assert_int_equal(bytes, 5500 * SIZE);
    assert_true(steps >= 5);
    for (uint64_t i = 0; i < 5500; i++)
        put(&w, i);
    before = count_read(mem_evictions);
    mem_index_free(&w.x);
    assert_int_equal(count_read(mem_evictions) - before, 256);
    for (uint64_t i = 500; i < 2000; i++) { /* more than is free now: the rest of it makes way */
        assert_int_equal(memory_reserve(w.m, other, i, SIZE, &f), 0);
        memory_publish(w.m, &f);
    }
    assert_int_equal(mem_index_resident(other), 2000);
    while (memory_free_some(w.m))
        ;
    assert_int_equal(w.m->residents, 2000);
    mem_index_free(&other);
    memory_free(&w.m);
}

/* ---- what it loses ---- */

/* Are those that left since `was` was taken the ones that are needed last? */
static void assert_latest_left(struct world *w, const bool *was)
{
    double soonest_left = INFINITY, latest_stayed = 0;
    unsigned steps = 0, left = 0;

    for (uint64_t i = 0; i < w->n; i++) {
        double when = was[i] ? next_use(w, i, &steps) : 0;

        if (was[i] && !mem_index_ready(w->x, i)) {
            soonest_left = fmin(soonest_left, when);
            left++;
        } else if (was[i]) {
            latest_stayed = fmax(latest_stayed, when);
        }
    }
    assert_true(left > 0);
    assert_true(soonest_left >= latest_stayed);
}

static void see(const struct world *w, bool *was)
{
    for (uint64_t i = 0; i < w->n; i++)
        was[i] = mem_index_ready(w->x, i);
}

/* Few enough to ask all: then the choice is exact, whatever happened before: a reader goes back to
 * the beginning, where everything it has read is needed first again; one goes; one comes. */
static void test_exact_when_few(void **state)
{
    struct world w;
    bool was[256];

    (void)state;
    open_world(&w, 240, 60, 2);
    for (unsigned i = 0; i < 100; i++)
        read_round(&w);
    w.pos[0] = 0; /* a jump back */
    cursor_move(&w.cursors[0], 0);
    for (unsigned change = 0; change < 40; change++) {
        uint64_t other = 0, evictions = count_read(mem_evictions);

        w.gone[1] = change % 2 == 0;
        if (change % 4 == 3) {
            w.pos[0] -= DLC_MIN(w.pos[0], 50);
            cursor_move(&w.cursors[0], w.pos[0]);
        }
        changed(&w);
        see(&w, was);
        while (count_read(mem_evictions) == evictions) { /* the new ones are not judged */
            while (mem_index_ready(w.x, other))
                other++;
            put(&w, other);
        }
        assert_latest_left(&w, was);
    }
    close_world(&w);
}

enum change { NONE, JUMPS, COMES_AND_GOES };

static double hit_ratio(bool telling, uint64_t n, uint64_t fit, unsigned readers,
                        enum change change)
{
    struct rng rng = {5};
    struct world w;
    uint64_t back;
    double ratio;

    open_world(&w, n, fit, readers);
    w.telling = telling;
    changed(&w);
    for (uint64_t i = 0; i < 6 * n; i++) {
        if (i == n) /* full by now */
            w.hits = w.reads = 0;
        if (change == JUMPS && i % (n / 2) == n / 3) {
            back = rng_below(&rng, n);
            w.pos[0] -= DLC_MIN(w.pos[0], back);
            cursor_move(&w.cursors[0], w.pos[0]);
            changed(&w);
        }
        if (change == COMES_AND_GOES && i % (n / 2) == n / 3) {
            w.gone[readers - 1] = !w.gone[readers - 1];
            changed(&w);
        }
        read_round(&w);
    }
    ratio = (double)w.hits / (double)w.reads;
    close_world(&w);
    return ratio;
}

static void test_hit_ratio(void **state)
{
    static const struct {
        const char *name;
        uint64_t n, fit;
        unsigned readers;
        enum change change;
    } rows[] = {
        {"one reader, a quarter fits", 4000, 1000, 1, NONE},
        {"one reader, nine tenths fit", 4000, 3600, 1, NONE},
        {"three readers, half fits", 4000, 2000, 3, NONE},
        {"one reader that jumps, half fits", 4000, 2000, 1, JUMPS},
        {"a reader comes and goes, half fits", 4000, 2000, 3, COMES_AND_GOES},
        {"a reader comes and goes, nine tenths", 4000, 3600, 2, COMES_AND_GOES},
    };

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(rows); i++) {
        double exact = hit_ratio(true, rows[i].n, rows[i].fit, rows[i].readers, rows[i].change);
        double got = hit_ratio(false, rows[i].n, rows[i].fit, rows[i].readers, rows[i].change);

        print_message("%-40s told %.2f %%, asked %.2f %%\n", rows[i].name, 100 * exact, 100 * got);
        assert_true(got >= exact - 0.01);
    }
}

/* Where nobody knows, the least recent goes first; also after somebody knew. */
static void test_nobody_knows(void **state)
{
    struct world w;
    uint64_t evictions;

    (void)state;
    open_world(&w, 300, 200, 1);
    evictions = count_read(mem_evictions);
    mem_index_set_next_use(w.x, NULL, NULL);
    for (uint64_t i = 0; i < 150; i++)
        put(&w, i);
    memory_touch(w.m, w.x, 0);
    for (uint64_t i = 150; count_read(mem_evictions) == evictions; i++)
        put(&w, i);
    assert_true(mem_index_ready(w.x, 0));
    assert_false(mem_index_ready(w.x, 1));
    assert_int_equal(w.asked, 0);
    mem_index_set_next_use(w.x, next_use, &w);
    for (unsigned i = 0; i < 600; i++)
        read_next(&w, 0);
    assert_true(w.asked > 0);
    mem_index_set_next_use(w.x, NULL, NULL);
    for (uint64_t i = 0; i < 4; i++) {
        for (uint64_t k = 0; k < 300; k++) /* each of them becomes known again, as not needed */
            if (!mem_index_ready(w.x, k))
                put(&w, k);
    }
    assert_int_equal(w.m->known, w.x->resident);
    close_world(&w);
}

/* ---- a few samples whose next uses the test sets ---- */

static double uses[10];

static double use_of(void *arg, uint64_t sample, unsigned *steps)
{
    (void)arg;
    ++*steps;
    return uses[sample];
}

static void bring(struct memory *m, struct mem_index *x, uint64_t sample)
{
    struct mem_fill *f;

    assert_int_equal(memory_reserve(m, x, sample, SIZE - 24, &f), 0);
    assert_true(mem_index_known(x, sample) && !mem_index_ready(x, sample));
    memory_publish(m, &f);
    assert_true(mem_index_known(x, sample) && mem_index_ready(x, sample));
}

/* A next use that is sooner than was answered is asked for before the sample goes. */
static void test_sooner(void **state)
{
    uint64_t room = 4096 + 4 * SIZE;
    struct memory *m;
    struct mem_index *x;

    (void)state;
    assert_int_equal(memory_new(room, room, &m, NULL), 0);
    assert_int_equal(mem_index_new(m, 10, 1, &x, NULL), 0);
    mem_index_set_next_use(x, use_of, NULL);
    for (uint64_t i = 0; i < 10; i++)
        uses[i] = 10 * (double)(i + 1);
    assert_false(mem_index_known(x, 0));
    assert_false(mem_index_known(x, 10)); /* not a sample */
    for (uint64_t i = 0; i < 4; i++)
        bring(m, x, i);
    uses[4] = 1;
    bring(m, x, 4);
    assert_false(mem_index_ready(x, 3)); /* needed last */
    assert_false(mem_index_known(x, 3));
    uses[2] = 2; /* and not 30, as was answered */
    memory_use_is_sooner(x, 2);
    memory_use_is_sooner(x, 3); /* not here: nothing happens */
    uses[5] = 1;
    bring(m, x, 5);
    assert_true(mem_index_ready(x, 2));
    assert_false(mem_index_ready(x, 1));
    mem_index_free(&x);
    memory_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes_ask_nobody),  cmocka_unit_test(test_a_batch_is_bounded),
        cmocka_unit_test(test_best_of_those_asked), cmocka_unit_test(test_exact_when_few),
        cmocka_unit_test(test_hit_ratio),           cmocka_unit_test(test_nobody_knows),
        cmocka_unit_test(test_freed_in_steps),      cmocka_unit_test(test_sooner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
