// SPDX-License-Identifier: Apache-2.0
/* Decoded samples in the memory tier: they take what is free, and leave before any sample. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/counters.h"
#include "client.h"
#include "cache/memory/memory_i.h"

#define MB ((uint64_t)1 << 20)
#define KB ((uint64_t)1 << 10)
#define N  1000u

struct world {
    struct memory *m;
    struct mem_index *x, *decoded;
    struct mem_session *s; /* reads decoded samples */
    struct client c;
    struct shm_pin_block *b;
    uint64_t evictions;
};

static int setup(void **state)
{
    struct world *w = test_calloc(1, sizeof(*w));

    assert_int_equal(memory_new(8 * MB, 4 * MB, &w->m, NULL), 0);
    assert_int_equal(mem_index_new(w->m, N, 1, &w->x, NULL), 0);
    assert_int_equal(mem_index_new(w->m, N, 1, &w->decoded, NULL), 0);
    mem_index_set_decoded(w->decoded);
    assert_int_equal(mem_session_new(w->decoded, &w->s, NULL), 0);
    client_open(&w->c, w->m, w->decoded, w->s);
    w->b = client_block(&w->c, 0);
    w->evictions = counters.mem_evictions;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    arena_check(&w->m->arena);
    client_close(&w->c);
    mem_session_free(&w->s);
    mem_index_free(&w->decoded);
    mem_index_free(&w->x);
    memory_free(&w->m);
    test_free(w);
    return 0;
}

static int put(struct world *w, uint64_t sample, uint64_t len)
{
    struct mem_fill *f;
    int rc = memory_reserve(w->m, w->x, sample, len, &f);

    if (rc == 0)
        memory_publish(w->m, &f);
    return rc;
}

static int put_form(struct world *w, uint64_t sample, uint64_t len, uint64_t keep)
{
    struct mem_fill *f;
    int rc = memory_reserve_decoded(w->m, w->decoded, sample, len, keep, &f);

    if (rc == 0) {
        memset(mem_fill_data(f), (int)sample, len);
        memory_publish(w->m, &f);
    }
    return rc;
}

/* As many as go in. */
static unsigned fill_with_forms_from(struct world *w, unsigned first, uint64_t len)
{
    unsigned n = 0;

    while (first + n < N && put_form(w, first + n, len, 0) == 0)
        n++;
    return n;
}

static unsigned fill_with_forms(struct world *w, uint64_t len)
{
    return fill_with_forms_from(w, 0, len);
}

static void test_takes_what_is_free(void **state)
{
    struct world *w = *state;
    struct memory_figures f;
    unsigned n;

    assert_int_equal(put_form(w, 0, 100 * KB, 4 * MB), DLC_EBUSY); /* all of it will be needed */
    assert_int_equal(put_form(w, 0, 100 * KB, 3 * MB), 0);
    memory_evict_all(w->m, w->decoded);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(put(w, i, 100 * KB), 0);
    n = fill_with_forms(w, 100 * KB);
    memory_figures(w->m, &f);
    assert_int_equal(f.decoded, n);
    assert_in_range(n, 20, 30);
    assert_true(f.ceiling - f.used >= f.ceiling / 16);
    assert_true(memory_room_decoded(w->m, 0) < 100 * KB);
    assert_int_equal(f.residents, 10);
    assert_true(f.decoded_bytes >= n * 100 * KB && f.decoded_bytes < f.used);
    assert_int_equal(counters.mem_evictions, w->evictions);
    memory_evict_all(w->m, w->decoded);
    memory_figures(w->m, &f);
    assert_int_equal(f.decoded, 0);
    assert_int_equal(f.decoded_bytes, 0);
    assert_int_equal(f.residents, 10);
}

/* While the daemon ends: who holds a view of what was there is not asked any more. */
static void test_closing(void **state)
{
    struct world *w = *state;

    assert_int_equal(put_form(w, 0, 100 * KB, 0), 0);
    memory_set_closing(w->m);
    assert_int_equal(put_form(w, 1, 100 * KB, 0), DLC_EBUSY);
    assert_false(mem_index_known(w->decoded, 1));
}

/* The longest that a slot can describe. */
static void test_longest(void **state)
{
    struct memory *m;
    struct mem_index *x;
    struct mem_fill *f;

    (void)state;
    assert_int_equal(memory_new(8192 * MB, 8192 * MB, &m, NULL), 0);
    assert_int_equal(mem_index_new(m, 1, 1, &x, NULL), 0);
    mem_index_set_decoded(x);
    assert_int_equal(memory_reserve_decoded(m, x, 0, (uint64_t)UINT32_MAX + 1, 0, &f), DLC_EBUSY);
    assert_int_equal(memory_reserve_decoded(m, x, 0, UINT32_MAX, 0, &f), 0);
    memory_abandon(m, &f);
    mem_index_free(&x);
    memory_free(&m);
}

/* Memory full of samples: nothing leaves for a decoded sample. */
static void test_evicts_nothing(void **state)
{
    struct world *w = *state;
    uint64_t before;

    for (unsigned i = 0; i < 60; i++)
        assert_int_equal(put(w, i, 100 * KB), 0);
    before = counters.mem_evictions;
    for (unsigned i = 0; i < 60; i++)
        assert_int_equal(put_form(w, i, 10 * KB, 0), DLC_EBUSY);
    assert_int_equal(counters.mem_evictions, before);
}

static void test_leaves_first(void **state)
{
    struct world *w = *state;
    uint64_t decoded = counters.decoded_evictions;
    unsigned n;

    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(put(w, i, 100 * KB), 0);
    n = fill_with_forms(w, 70 * KB);
    for (unsigned i = 0; i < n; i++)
        memory_touch(w->m, w->decoded, i); /* used after all samples: that does not help */
    for (unsigned i = 10; i < 39; i++)
        assert_int_equal(put(w, i, 100 * KB), 0);
    for (unsigned i = 0; i < 39; i++)
        assert_true(mem_index_ready(w->x, i));
    assert_int_equal(counters.mem_evictions, w->evictions);
    assert_true(counters.decoded_evictions > decoded + 30);
    assert_int_equal(put(w, 39, 200 * KB), 0); /* then it is the samples' turn */
    assert_int_equal(put(w, 40, 200 * KB), 0);
    assert_true(mem_index_resident(w->decoded) < 3); /* too small to make the hole */
    assert_true(counters.mem_evictions > w->evictions);
}

/* The ceiling comes down: what lies above it goes, and that are decoded samples. */
static void test_ceiling(void **state)
{
    struct world *w = *state;
    unsigned n;

    for (unsigned i = 0; i < 15; i++) { /* in turn: they lie apart all the same */
        assert_int_equal(put(w, i, 100 * KB), 0);
        assert_int_equal(put_form(w, i, 50 * KB, 0), 0);
    }
    n = 15 + fill_with_forms_from(w, 15, 50 * KB);
    memory_set_ceiling(w->m, 2 * MB);
    for (unsigned i = 0; i < 15; i++)
        assert_true(mem_index_ready(w->x, i));
    assert_true(mem_index_resident(w->decoded) < n - 35);
    assert_int_equal(counters.mem_evictions, w->evictions);
}

/* A large sample needs one hole: it is made where decoded samples are, not samples. */
static void test_large_sample(void **state)
{
    struct world *w = *state;

    for (unsigned i = 0; i < 40; i++) { /* one after the other, in turn */
        assert_int_equal(put(w, i, 20 * KB), 0);
        assert_int_equal(put_form(w, i, 20 * KB, 0), 0);
    }
    for (unsigned i = 40; i < 140; i++)
        if (put_form(w, i, 20 * KB, 0) < 0)
            break;
    assert_int_equal(put(w, 500, 900 * KB), 0);
    assert_int_equal(counters.mem_evictions, w->evictions);
}

/* Who reads a decoded sample keeps it, as a sample. */
static void test_pinned(void **state)
{
    struct world *w = *state;
    const unsigned char *p;
    uint32_t len;

    assert_int_equal(put_form(w, 7, 100 * KB, 0), 0);
    assert_null(client_read(&w->c, w->b, 0, 8, &len));
    p = client_read(&w->c, w->b, 0, 7, &len);
    assert_non_null(p);
    assert_int_equal(len, 100 * KB);
    for (unsigned i = 0; i < 60; i++)
        assert_int_equal(put(w, i, 100 * KB), 0);
    for (unsigned i = 0; i < len; i++)
        assert_int_equal(p[i], 7);
    shm_unpin(w->b, 0);
    memory_evict_all(w->m, NULL);
    assert_int_equal(w->m->arena.used, 0);
}

static void test_room_is_told(void **state)
{
    struct world *w = *state;
    const struct shm_index_hdr *h = (const void *)w->c.index;

    assert_int_equal(put_form(w, 1, 1000, 0), 0);
    mem_index_tell_room(w->decoded, 12345);
    assert_int_equal(atomic_load(&h->decoded), 1);
    assert_int_equal(atomic_load(&h->decoded_bytes), 1000);
    assert_int_equal(atomic_load(&h->decoded_room), 12345);
}

/* What datasets in use may still bring in, and what nobody uses: sums over all indexes. */
static void test_sums(void **state)
{
    struct world *w = *state;
    struct mem_index *other;

    assert_int_equal(mem_index_new(w->m, N, 1, &other, NULL), 0);
    mem_index_expect(w->x, 1000 * KB);
    mem_index_expect(other, 50 * KB);
    assert_int_equal(memory_to_come(w->m), 1050 * KB);
    assert_int_equal(put(w, 0, 100 * KB), 0);
    assert_int_equal(memory_to_come(w->m), 950 * KB);
    mem_index_expect(other, 0);
    assert_int_equal(memory_to_come(w->m), 900 * KB);
    mem_index_expect(w->x, 60 * KB); /* it has more than that */
    assert_int_equal(memory_to_come(w->m), 0);
    memory_evict(w->m, w->x, 0);
    assert_int_equal(memory_to_come(w->m), 60 * KB);

    assert_int_equal(put_form(w, 0, 10 * KB, 0), 0);
    assert_int_equal(memory_unused(w->m), 0);
    mem_index_set_unused(w->decoded, true);
    assert_int_equal(memory_unused(w->m), 10 * KB);
    memory_evict(w->m, w->decoded, 0);
    assert_int_equal(memory_unused(w->m), 0);
    mem_index_expect(other, 50 * KB);
    mem_index_free(&other);
    assert_int_equal(memory_to_come(w->m), 60 * KB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_takes_what_is_free, setup, teardown),
        cmocka_unit_test_setup_teardown(test_closing, setup, teardown),
        cmocka_unit_test(test_longest),
        cmocka_unit_test_setup_teardown(test_evicts_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leaves_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ceiling, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_sample, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pinned, setup, teardown),
        cmocka_unit_test_setup_teardown(test_room_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sums, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
