// SPDX-License-Identifier: Apache-2.0
/* Checksums of blocks: each block by itself, whose they are, and their memory. */
#include "unit.h"

#include "base/fault.h"
#include "base/mem.h"
#include "cache/disk/block_sums_i.h"

#define B DISK_BLOCK

static const struct chunk_name whole = {{1, 2, 0}, 3 * B, 7};

static char *bytes(size_t len)
{
    char *p = mem_alloc(len);

    for (size_t i = 0; i < len; i++)
        p[i] = (char)(i * 7 + i / B);
    return p;
}

/* Set in two steps, as a chunk is read: the last block may be short, or be missing. */
static void test_blocks(void **state)
{
    static const uint64_t sizes[] = {2 * B + 1, 3 * B - 1, 3 * B};
    char *data = bytes(3 * B);

    (void)state;
    for (size_t i = 0; i < unit_count(sizes); i++) {
        struct chunk_name n = {{1, 2, 0}, sizes[i], 7};
        struct block_sums *s = block_sums_new(&n);

        block_sums_set(s, 0, data, B);
        block_sums_set(s, B, data + B, sizes[i] - B);
        for (unsigned k = 0; k < 3; k++) {
            size_t len = k < 2 ? B : sizes[i] - 2 * B;

            assert_true(block_sums_match(s, k * B, data + k * B, len));
            assert_false(block_sums_match(s, k * B, data + k * B, len - 1));
            assert_false(block_sums_match(s, k * B, data + (k + 1) % 3 * B, len));
            data[k * B + len - 1] ^= 1;
            assert_false(block_sums_match(s, k * B, data + k * B, len));
            data[k * B + len - 1] ^= 1;
        }
        block_sums_put(&s);
        assert_null(s);
        block_sums_put(&s); /* legal */
    }
    mem_free(&data);
}

static struct block_sums *shared;
static char page[DISK_BLOCK];

static void set_behind(void)
{
    block_sums_set(shared, 3 * B, page, 1);
}

static void set_across(void)
{
    block_sums_set(shared, 1, page, 1);
}

static void match_behind(void)
{
    (void)block_sums_match(shared, 3 * B, page, 1);
}

static void match_across(void)
{
    (void)block_sums_match(shared, 1, page, 1);
}

/* Nobody writes or reads behind them. */
static void test_bounds(void **state)
{
    (void)state;
    shared = block_sums_new(&whole);
    assert_true(unit_aborts(set_behind));
    assert_true(unit_aborts(set_across));
    assert_true(unit_aborts(match_behind));
    assert_true(unit_aborts(match_across));
    block_sums_put(&shared);
}

/* A chunk that was replaced under its name has no sums of the old one. */
static void test_whose(void **state)
{
    static const struct chunk_name others[] = {
        {{2, 1, 0}, 3 * B, 7}, /* the same place in the map */
        {{1, 2, 0}, 3 * B, 8},
        {{1, 2, 0}, 3 * B + 1, 7},
        {{1, 3, 0}, 3 * B, 7},
    };
    struct block_sums *s = block_sums_new(&whole), *got;
    struct map m = MAP_INIT;

    (void)state;
    assert_null(block_sums_get(&m, &whole));
    block_sums_keep(&m, s);
    got = block_sums_get(&m, &whole);
    assert_ptr_equal(got, s);
    block_sums_put(&got);
    for (size_t i = 0; i < unit_count(others); i++)
        assert_null(block_sums_get(&m, &others[i]));
    block_sums_forget(&m, (struct chunk_id){.hi = 1, .lo = 3});
    got = block_sums_get(&m, &whole);
    assert_ptr_equal(got, s);
    block_sums_forget(&m, whole.id);
    assert_null(block_sums_get(&m, &whole));
    block_sums_put(&got);
    block_sums_put(&s);
    block_sums_release(&m);
}

static void use_and_drop(void)
{
    struct map m = MAP_INIT;

    for (uint64_t i = 0; i < 4; i++) {
        const struct chunk_name n = {{i, 0, 0}, B, i};
        struct block_sums *s = block_sums_new(&n), *got;

        block_sums_keep(&m, s);
        block_sums_keep(&m, s); /* in place of itself */
        got = block_sums_get(&m, &n);
        block_sums_put(&got);
        block_sums_put(&s);
    }
    block_sums_forget(&m, (struct chunk_id){.hi = 1});
    block_sums_release(&m);
}

static void test_no_leak(void **state)
{
    enum { ROUNDS = 1000 };
    size_t before;

    (void)state;
    use_and_drop();
    before = unit_heap();
    for (unsigned i = 0; i < ROUNDS; i++)
        use_and_drop();
    assert_true(unit_heap() < before + ROUNDS * 16);
}

static void test_no_memory(void **state)
{
    (void)state;
    fault_arm(FAULT_ALLOC, 1);
    assert_null(block_sums_new(&whole));
    assert_true(fault_disarm());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),    cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_whose),     cmocka_unit_test(test_no_leak),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
