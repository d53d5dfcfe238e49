// SPDX-License-Identifier: Apache-2.0
/* Ranks, padding and drop_last against a plain model of torch.utils.data.DistributedSampler. */
#include "unit.h"

#include "base/rng.h"
#include "order/next_use_index.h"
#include "order/order.h"

#define MAX_N     40
#define MAX_WORLD 90

static struct order make(enum order_kind kind, uint64_t n, uint32_t rank, uint32_t world,
                         bool drop_last)
{
    struct order_spec spec = {kind, n, 0, 9, rank, world, drop_last};
    struct dlc_err err = DLC_ERR_INIT;
    struct order o;

    assert_int_equal(order_init(&o, &spec, 4, &err), 0);
    return o;
}

/* What the sampler's documentation says: the global list is cut to a multiple of the world size,
 * or extended by itself, over and over; each rank takes every world-th entry. */
static uint64_t model(uint64_t n, uint32_t world, bool drop_last, const uint64_t *epoch_list,
                      uint64_t *out)
{
    uint64_t total = drop_last ? n - n % world : n;

    for (uint64_t i = 0; i < total; i++)
        out[i] = epoch_list[i];
    if (!drop_last)
        for (uint64_t i = 0; total % world != 0; i = (i + 1) % n)
            out[total++] = epoch_list[i];
    return total;
}

static void check_against_model(enum order_kind kind, uint64_t n, uint32_t world, bool drop_last)
{
    uint64_t list[MAX_N], global[MAX_N + 2 * MAX_WORLD], total;
    struct order whole = make(kind, n, 0, 1, false);

    for (uint64_t k = 0; k < n; k++)
        list[k] = order_at(&whole, k);
    total = model(n, world, drop_last, list, global);
    for (uint32_t rank = 0; rank < world; rank++) {
        struct order o = make(kind, n, rank, world, drop_last);

        assert_int_equal(o.total, total);
        assert_int_equal(o.length, total / world);
        for (uint64_t k = 0; k < o.length; k++)
            assert_int_equal(order_at(&o, k), global[rank + k * world]);
    }
}

static void test_as_distributed_sampler(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= MAX_N; n++)
        for (uint32_t world = 1; world <= MAX_WORLD; world++)
            for (int drop_last = 0; drop_last < 2; drop_last++) {
                check_against_model(ORDER_SEQUENTIAL, n, world, drop_last);
                check_against_model(ORDER_SHUFFLED, n, world, drop_last);
            }
}

/* What DistributedSampler(range(n), world, rank, shuffle=False, drop_last=...) gives. */
static void test_table_of_distributed_sampler(void **state)
{
    static const struct {
        uint64_t n;
        uint32_t rank, world;
        bool drop_last;
        uint64_t length, list[5];
    } table[] = {
        {10, 0, 1, false, 10, {0, 1, 2, 3, 4}},
        {10, 0, 3, false, 4, {0, 3, 6, 9}},
        {10, 1, 3, false, 4, {1, 4, 7, 0}},
        {10, 2, 3, false, 4, {2, 5, 8, 1}},
        {10, 0, 3, true, 3, {0, 3, 6}},
        {10, 2, 3, true, 3, {2, 5, 8}},
        {10, 4, 5, true, 2, {4, 9}},
        {10, 4, 5, false, 2, {4, 9}},
        {3, 0, 8, false, 1, {0}},
        {3, 4, 8, false, 1, {1}},
        {3, 7, 8, false, 1, {1}},
        {3, 7, 8, true, 0, {0}},
        {1, 6, 7, false, 1, {0}},
        {2, 2, 3, false, 1, {0}},
        {5, 1, 4, false, 2, {1, 0}},
        {5, 3, 4, false, 2, {3, 2}},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(table); i++) {
        struct order o =
            make(ORDER_SEQUENTIAL, table[i].n, table[i].rank, table[i].world, table[i].drop_last);

        assert_int_equal(o.length, table[i].length);
        for (uint64_t k = 0; k < o.length && k < 5; k++)
            assert_int_equal(order_at(&o, k), table[i].list[k]);
    }
}

static void test_every_sample_once_over_all_ranks(void **state)
{
    static const uint32_t worlds[] = {1, 2, 3, 4, 7, 8, 64, 1000};
    static uint8_t seen[20000];

    (void)state;
    for (size_t w = 0; w < unit_count(worlds); w++)
        for (int drop_last = 0; drop_last < 2; drop_last++) {
            uint64_t n = 19997, times[3] = {0}, total = 0;

            memset(seen, 0, sizeof(seen));
            for (uint32_t rank = 0; rank < worlds[w]; rank++) {
                struct order o = make(ORDER_SHUFFLED, n, rank, worlds[w], drop_last);

                total = o.total;
                for (uint64_t k = 0; k < o.length; k++)
                    seen[order_at(&o, k)]++;
            }
            for (uint64_t s = 0; s < n; s++) {
                assert_in_range(seen[s], 0, 2);
                times[seen[s]]++;
            }
            assert_int_equal(times[0], drop_last ? n % worlds[w] : 0);
            assert_int_equal(times[2], drop_last ? 0 : total - n);
        }
}

/* Ranks of any world read the same global batches, as long as nothing is padded or cut. */
static void test_global_batches_do_not_depend_on_world(void **state)
{
    static const uint32_t worlds[] = {2, 4, 8};
    const uint64_t n = 100003, batch = 64;
    struct order one = make(ORDER_SHUFFLED, n, 0, 1, true);

    (void)state;
    for (size_t w = 0; w < unit_count(worlds); w++)
        for (uint64_t b = 0; b < n / batch; b++)
            for (uint32_t rank = 0; rank < worlds[w] && b % 97 == 0; rank++) {
                struct order o = make(ORDER_SHUFFLED, n, rank, worlds[w], true);
                uint64_t share = batch / worlds[w];

                for (uint64_t i = 0; i < share; i++)
                    assert_int_equal(order_at(&o, b * share + i),
                                     order_at(&one, b * batch + i * worlds[w] + rank));
            }
}

static void test_next_finds_every_use_and_no_other(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 140; n += n < 20 ? 1 : 15)
        for (uint32_t world = 1; world <= 20; world++)
            for (uint32_t rank = 0; rank < world; rank++)
                for (int mode = 0; mode < 4; mode++) {
                    struct order o = make(mode & 1 ? ORDER_SHUFFLED : ORDER_SEQUENTIAL, n, rank,
                                          world, mode & 2);

                    for (uint64_t s = 0; s <= n; s++) {
                        uint64_t expect = ORDER_NONE;

                        for (uint64_t from = o.length + 1; from-- > 0;) {
                            if (from < o.length && order_at(&o, from) == s)
                                expect = from;
                            assert_int_equal(order_next(&o, s, from), expect);
                        }
                    }
                }
}

static void test_split_begins_at_first(void **state)
{
    struct order_spec spec = {ORDER_SHUFFLED, 100, 5000, 1, 0, 1, false};
    struct order o, at_zero;
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    assert_int_equal(order_init(&o, &spec, 0, &err), 0);
    spec.first = 0;
    assert_int_equal(order_init(&at_zero, &spec, 0, &err), 0);
    for (uint64_t k = 0; k < 100; k++) {
        assert_int_equal(order_at(&o, k), order_at(&at_zero, k) + 5000);
        assert_int_equal(order_next(&o, order_at(&o, k), 0), k);
    }
    assert_true(order_next(&o, 4999, 0) == ORDER_NONE);
    assert_true(order_next(&o, 5100, 0) == ORDER_NONE);
    assert_true(order_next(&o, 0, 0) == ORDER_NONE);
}

/* The rank's first position at or after global position g. */
static uint64_t first_from(const struct order *o, uint64_t g)
{
    const struct order_spec *s = &o->spec;

    return g <= s->rank ? 0 : (g - s->rank + s->world - 1) / s->world;
}

/* A state saved at 8 ranks goes on at 2 with what is left, and nothing twice. */
static void test_resume_at_another_world_size(void **state)
{
    const uint64_t n = 1600, done = 25 * 8;
    uint8_t seen[1600] = {0};

    (void)state;
    for (uint32_t rank = 0; rank < 8; rank++) {
        struct order o = make(ORDER_SHUFFLED, n, rank, 8, false);

        for (uint64_t k = 0; k < first_from(&o, done); k++)
            seen[order_at(&o, k)]++;
    }
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct order o = make(ORDER_SHUFFLED, n, rank, 2, false);

        for (uint64_t k = first_from(&o, done); k < o.length; k++)
            seen[order_at(&o, k)]++;
    }
    for (uint64_t s = 0; s < n; s++)
        assert_int_equal(seen[s], 1);
}

/* (seed, epoch, position) is all there is: a fresh order goes on where the old one stopped. */
static void test_resume_needs_only_numbers(void **state)
{
    struct order a = make(ORDER_SHUFFLED, 1000000000, 3, 8, false);
    struct order b = make(ORDER_SHUFFLED, 1000000000, 3, 8, false);

    (void)state;
    for (uint64_t k = a.length - 100; k < a.length; k++)
        assert_int_equal(order_at(&a, k), order_at(&b, k));
    assert_int_equal(memcmp(&a.perm, &b.perm, sizeof(a.perm.keys)), 0);
}

static void test_bad_input(void **state)
{
    static const struct {
        struct order_spec spec;
        const char *word;
    } table[] = {
        {{ORDER_SHUFFLED, 0, 0, 0, 0, 1, false}, "empty"},
        {{ORDER_SHUFFLED, 10, 0, 0, 2, 2, false}, "rank 2 of world size 2"},
        {{ORDER_SHUFFLED, 10, 0, 0, 1, 0, false}, "rank 1 of world size 1"},
        {{ORDER_SEQUENTIAL, 10, 0, 0, UINT32_MAX, 8, false}, "rank 4294967295"},
        {{ORDER_SHUFFLED, PERMUTATION_MAX + 1, 0, 0, 0, 1, false}, "2^40"},
        {{ORDER_SHUFFLED, UINT64_MAX, 0, 0, 0, 1, false}, "2^40"},
        {{ORDER_SHUFFLED, 2, PERMUTATION_MAX - 1, 0, 0, 1, false}, "2^40"},
        {{ORDER_SEQUENTIAL, 2, UINT64_MAX, 0, 0, 1, false}, "2^40"},
        {{ORDER_EXPLICIT, 10, 0, 0, 0, 1, false}, "kind 2"},
        {{(enum order_kind)77, 10, 0, 0, 0, 1, false}, "kind 77"},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(table); i++) {
        struct dlc_err err = DLC_ERR_INIT;
        struct order o;

        assert_int_equal(order_init(&o, &table[i].spec, 0, &err), DLC_EINVAL);
        assert_non_null(strstr(err.text, table[i].word));
        assert_int_equal(order_init(&o, &table[i].spec, 0, NULL), DLC_EINVAL);
    }
}

/* The last sample that there can be, and one more. */
static void test_limits(void **state)
{
    struct order_spec spec = {ORDER_SEQUENTIAL, 2, PERMUTATION_MAX - 2, 0, 0, 1, false};
    struct order o;

    (void)state;
    assert_int_equal(order_init(&o, &spec, 5, NULL), 0);
    assert_int_equal(o.epoch, 5);
    assert_int_equal(order_at(&o, 1), PERMUTATION_MAX - 1);
    assert_int_equal(order_next(&o, PERMUTATION_MAX - 1, 0), 1);
    assert_int_equal(order_next(&o, PERMUTATION_MAX - 1, 1), 1);
    assert_true(order_next(&o, PERMUTATION_MAX - 1, 2) == ORDER_NONE);
    assert_true(order_next(&o, PERMUTATION_MAX, 0) == ORDER_NONE);
    assert_true(order_next(&o, PERMUTATION_MAX - 3, 0) == ORDER_NONE);
    order_set_epoch(&o, 6);
    assert_int_equal(o.epoch, 6);
    spec.first++;
    assert_int_equal(order_init(&o, &spec, 0, NULL), DLC_EINVAL);
    spec = (struct order_spec){ORDER_SEQUENTIAL, PERMUTATION_MAX, 0, 0, 0, 0, false};
    assert_int_equal(order_init(&o, &spec, 0, NULL), 0);
    assert_int_equal(o.spec.world, 1); /* 0 ranks are one */
    assert_int_equal(o.length, PERMUTATION_MAX);
}

static void test_world_larger_than_everything(void **state)
{
    struct order o = make(ORDER_SHUFFLED, 1, UINT32_MAX - 1, UINT32_MAX, false);

    (void)state;
    assert_int_equal(o.length, 1);
    assert_int_equal(o.total, UINT32_MAX);
    assert_int_equal(order_at(&o, 0), 0);
    assert_int_equal(order_next(&o, 0, 0), 0);
    o = make(ORDER_SHUFFLED, 1000, UINT32_MAX - 1, UINT32_MAX, true);
    assert_int_equal(o.length, 0);
    assert_true(order_next(&o, 0, 0) == ORDER_NONE);
    o = make(ORDER_SHUFFLED, PERMUTATION_MAX, UINT32_MAX - 1, UINT32_MAX, false);
    assert_int_equal(order_next(&o, order_at(&o, o.length - 1), 0), o.length - 1);
}

static void test_explicit_order(void **state)
{
    static const uint64_t list[] = {7, 7, 0, 3, 7};
    struct order_index ix = ORDER_INDEX_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct order o;

    (void)state;
    assert_int_equal(order_init_explicit(&o, list, 5, 9, &err), 0);
    assert_int_equal(o.length, 5);
    assert_int_equal(o.total, 5);
    assert_int_equal(o.epoch, 9);
    for (uint64_t k = 0; k < 5; k++)
        assert_int_equal(order_at(&o, k), list[k]);
    assert_int_equal(order_init_explicit(&o, NULL, 0, 0, &err), 0);
    assert_int_equal(o.length, 0);
    assert_int_equal(order_init_explicit(&o, NULL, 5, 0, &err), DLC_EINVAL);

    assert_int_equal(order_index_init(&ix, list, 5, 8, &err), 0);
    order_init_indexed(&o, &ix, 2);
    assert_int_equal(o.length, 5);
    assert_int_equal(o.total, 5);
    assert_int_equal(o.epoch, 2);
    assert_int_equal(order_at(&o, 3), 3);
    assert_int_equal(order_next(&o, 7, 0), 0);
    assert_int_equal(order_next(&o, 7, 2), 4);
    order_index_release(&ix);
}

static void past_the_end(void)
{
    struct order o = make(ORDER_SEQUENTIAL, 10, 0, 1, false);

    order_at(&o, 10);
}

static void next_without_index(void)
{
    static const uint64_t list[] = {1};
    struct order o;

    order_init_explicit(&o, list, 1, 0, NULL);
    order_next(&o, 1, 0);
}

static void test_misuse_is_caught(void **state)
{
    (void)state;
    assert_true(unit_aborts(past_the_end));
    assert_true(unit_aborts(next_without_index));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_distributed_sampler),
        cmocka_unit_test(test_table_of_distributed_sampler),
        cmocka_unit_test(test_every_sample_once_over_all_ranks),
        cmocka_unit_test(test_global_batches_do_not_depend_on_world),
        cmocka_unit_test(test_next_finds_every_use_and_no_other),
        cmocka_unit_test(test_split_begins_at_first),
        cmocka_unit_test(test_resume_at_another_world_size),
        cmocka_unit_test(test_resume_needs_only_numbers),
        cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_world_larger_than_everything),
        cmocka_unit_test(test_explicit_order),
        cmocka_unit_test(test_misuse_is_caught),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
