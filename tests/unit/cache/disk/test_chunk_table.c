// SPDX-License-Identifier: Apache-2.0
/* The table of chunks against a plain array, and its memory. */
#include "unit.h"

#include "base/fault.h"
#include "base/rng.h"
#include "cache/disk/chunk_table_i.h"

enum { IDS = 300 };

static struct chunk_id id_of(unsigned i)
{
    return (struct chunk_id){.hi = i % 7, .lo = i * 64}; /* all in few buckets */
}

/* The list, from old to new, is what the model says. */
static void check_order(const struct chunks *t, const struct chunk_list *l, const unsigned *model,
                        unsigned n)
{
    uint32_t slot = l->oldest, back = l->newest;

    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(t->chunks[slot].size, model[i]);
        slot = t->chunks[slot].newer;
        assert_int_equal(t->chunks[back].size, model[n - 1 - i]);
        back = t->chunks[back].older;
    }
    assert_int_equal(slot, CHUNK_NONE);
    assert_int_equal(back, CHUNK_NONE);
    assert_int_equal(t->n, n);
}

static unsigned take_out(unsigned *model, unsigned n, unsigned what)
{
    unsigned k = 0;

    while (model[k] != what)
        k++;
    memmove(model + k, model + k + 1, (n - k - 1) * sizeof(*model));
    return n - 1;
}

static void test_model(void **state)
{
    struct chunks t = CHUNKS_INIT;
    struct chunk_list l = CHUNK_LIST_INIT;
    unsigned model[IDS], n = 0;
    struct rng r = {3};

    (void)state;
    for (unsigned step = 0; step < 20000; step++) {
        unsigned i = (unsigned)rng_below(&r, IDS), what = (unsigned)rng_below(&r, 3);
        uint32_t slot = chunks_find(&t, id_of(i));

        if (slot == CHUNK_NONE && what != 0) {
            slot = chunks_add(&t, id_of(i), i, 0);
            chunks_link_newest(&t, &l, slot);
            model[n++] = i;
        } else if (slot != CHUNK_NONE) {
            n = take_out(model, n, i);
            chunks_unlink(&t, &l, slot);
            if (what == 0) {
                chunks_remove(&t, slot);
            } else if (what == 1) {
                chunks_link_newest(&t, &l, slot);
                model[n++] = i;
            } else {
                chunks_link_oldest(&t, &l, slot);
                memmove(model + 1, model, n++ * sizeof(*model));
                model[0] = i;
            }
        }
        if (step % 50 == 0)
            check_order(&t, &l, model, n);
    }
    assert_true(t.n_slots <= IDS);
    chunks_release(&t);
}

static void test_no_memory(void **state)
{
    struct chunks t = CHUNKS_INIT;
    unsigned failed = 0;

    (void)state;
    for (unsigned i = 0; i < IDS; i++) {
        fault_arm(FAULT_ALLOC, 1);
        if (chunks_add(&t, id_of(i), i, 0) == CHUNK_NONE) {
            failed++;
            assert_int_equal(t.n, i);
            assert_int_equal(chunks_find(&t, id_of(i)), CHUNK_NONE);
            fault_disarm();
            assert_int_not_equal(chunks_add(&t, id_of(i), i, 0), CHUNK_NONE);
        }
        fault_disarm();
    }
    assert_true(failed >= 4); /* both arrays grew more than once */
    assert_in_range(t.cap, IDS, IDS * 3 / 2);
    for (unsigned i = 0; i < IDS; i++)
        assert_int_equal(t.chunks[chunks_find(&t, id_of(i))].size, i);
    chunks_release(&t);
}

static void test_million(void **state)
{
    struct chunks t = CHUNKS_INIT;
    struct rng r = {5};

    (void)state;
    for (unsigned i = 0; i < 1000000; i++)
        assert_int_not_equal(
            chunks_add(&t, (struct chunk_id){.hi = rng_next(&r), .lo = rng_next(&r)}, i, i),
            CHUNK_NONE);
    assert_in_range(t.n_buckets, 1000000, 2097152); /* short chains */
    assert_in_range(t.cap, 1000000, 1500000);
    assert_true(t.cap * sizeof(*t.chunks) + t.n_buckets * sizeof(*t.buckets) < 100000000);
    chunks_release(&t);
}

/* Both halves of an id count, and a chunk that is busy is there but not to be used. */
static void test_find(void **state)
{
    static const struct chunk_id ids[] = {{1, 5, 0}, {2, 5, 0}, {1, 6, 0}, {5, 1, 0}};
    struct chunks t = CHUNKS_INIT;

    (void)state;
    assert_int_equal(chunks_find(&t, ids[0]), CHUNK_NONE);
    assert_int_equal(chunks_find_idle(&t, ids[0]), CHUNK_NONE);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(chunks_add(&t, ids[i], 100 + i, 200 + i), i);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(chunks_find(&t, ids[i]), i);
        assert_int_equal(chunks_find_idle(&t, ids[i]), i);
        assert_int_equal(t.chunks[i].size, 100 + i);
        assert_int_equal(t.chunks[i].checksum, 200 + i);
        assert_int_equal(t.chunks[i].flags, CHUNK_USED);
    }
    t.chunks[2].flags |= CHUNK_BUSY;
    assert_int_equal(chunks_find(&t, ids[2]), 2);
    assert_int_equal(chunks_find_idle(&t, ids[2]), CHUNK_NONE);
    chunks_remove(&t, 1);
    assert_int_equal(chunks_find(&t, ids[1]), CHUNK_NONE);
    assert_int_equal(chunks_find(&t, ids[0]), 0);
    assert_int_equal(t.n, 3);
    assert_int_equal(chunks_add(&t, ids[1], 1, 1), 1); /* the slot that is free */
    chunks_release(&t);
    assert_null(t.chunks);
    assert_int_equal(t.n, 0);
    assert_int_equal(chunks_add(&t, ids[0], 1, 1), 0); /* as new */
    chunks_release(&t);
}

static void test_no_leak(void **state)
{
    enum { ROUNDS = 100 };
    size_t before = 0;

    (void)state;
    for (unsigned round = 0; round < 2 + ROUNDS; round++) {
        struct chunks t = CHUNKS_INIT;

        if (round == 2)
            before = unit_heap();
        for (unsigned i = 0; i < IDS; i++)
            chunks_add(&t, id_of(i), i, 0);
        chunks_release(&t);
    }
    assert_true(unit_heap() < before + ROUNDS * 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),    cmocka_unit_test(test_no_leak),
        cmocka_unit_test(test_model),   cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_million),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
