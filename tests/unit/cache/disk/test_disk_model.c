// SPDX-License-Identifier: Apache-2.0
/* The disk tier's decisions without its files: what is kept, and what goes for it. */
#include "unit.h"

#include "cache/disk/disk_model.h"

#define SIZE      ((uint64_t)100)
#define COOL_DOWN 1000.0

static struct disk_model *m;
static uint64_t evicted;
static double now;

static void begin(uint64_t limit, const struct policy_ops *ops)
{
    m = disk_model_new(limit, COOL_DOWN, ops, NULL);
    evicted = 0;
    now = 1;
}

/* What a read comes to, a second later than the last. */
static enum disk_model_outcome reads(uint32_t group, uint64_t chunk, uint64_t size, double cost)
{
    return disk_model_read(m, group, chunk, size, cost, ++now, &evicted);
}

static uint32_t job(uint64_t key)
{
    uint32_t group = disk_model_group(m, key, now);

    disk_model_join(m, group, now);
    return group;
}

static void test_the_oldest_go_for_what_comes(void **state)
{
    uint32_t a;

    (void)state;
    begin(3 * SIZE, &policy_lru);
    a = job(1);
    for (unsigned i = 1; i <= 3; i++)
        assert_int_equal(reads(a, i, SIZE, 1), DISK_MODEL_STORED);
    assert_int_equal(evicted, 0); /* just fits */
    assert_int_equal(reads(a, 1, SIZE, 1), DISK_MODEL_HIT);
    assert_int_equal(reads(a, 4, SIZE, 1), DISK_MODEL_STORED);
    assert_int_equal(evicted, 1); /* 2, since 1 was used again */
    assert_int_equal(reads(a, 1, SIZE, 1), DISK_MODEL_HIT);
    assert_int_equal(reads(a, 3, SIZE, 1), DISK_MODEL_HIT);
    assert_int_equal(reads(a, 2, SIZE, 1), DISK_MODEL_STORED);
    assert_int_equal(evicted, 2);
    assert_int_equal(reads(a, 9, 3 * SIZE + 1, 1), DISK_MODEL_REFUSED);
    assert_int_equal(evicted, 2); /* nothing goes for what can never fit */
    assert_int_equal(reads(a, 9, 3 * SIZE, 1), DISK_MODEL_STORED);
    assert_int_equal(evicted, 5);
    assert_int_equal(reads(a, 9, 3 * SIZE, 1), DISK_MODEL_HIT);
    disk_model_free(&m);
    assert_null(m);
    disk_model_free(&m); /* harmless */
}

static void test_a_dataset_without_jobs_goes_first(void **state)
{
    uint32_t a, b;

    (void)state;
    begin(2 * SIZE, NULL);
    a = job(1);
    b = job(2);
    assert_int_not_equal(a, b);
    assert_int_equal(disk_model_group(m, 1, now), a);
    assert_int_equal(reads(a, 1, SIZE, 1), DISK_MODEL_STORED);
    assert_int_equal(reads(a, 2, SIZE, 1), DISK_MODEL_STORED);
    assert_int_equal(reads(b, 11, SIZE, 1), DISK_MODEL_REFUSED); /* jobs read what is there */
    assert_int_equal(evicted, 0);
    assert_int_equal(reads(b, 11, SIZE, 1000), DISK_MODEL_STORED); /* far dearer to bring again */
    assert_int_equal(evicted, 1);
    disk_model_leave(m, a, now);
    assert_int_equal(reads(b, 12, SIZE, 1), DISK_MODEL_STORED);
    assert_int_equal(evicted, 2);
    assert_int_equal(reads(b, 11, SIZE, 1), DISK_MODEL_HIT);
    disk_model_free(&m);
}

/* By declared runs and by the cost of the chunk for each byte. */
static void test_worth_decides_what_is_admitted(void **state)
{
    uint32_t a, b;

    (void)state;
    begin(2 * SIZE, NULL);
    a = job(1);
    b = job(2);
    disk_model_expect(m, a, 1);
    disk_model_expect(m, b, 1);
    assert_int_equal(reads(b, 10, 2 * SIZE + 1, 1e6), DISK_MODEL_REFUSED); /* a dear dataset */
    assert_int_equal(reads(a, 1, SIZE, 100), DISK_MODEL_STORED);
    assert_int_equal(reads(a, 2, SIZE, 100), DISK_MODEL_STORED);
    disk_model_leave(m, a, now);
    assert_int_equal(reads(b, 11, SIZE / 2, 40), DISK_MODEL_REFUSED);
    assert_int_equal(evicted, 0);
    assert_int_equal(reads(b, 12, SIZE / 2, 60), DISK_MODEL_STORED);
    assert_int_equal(evicted, 1);
    disk_model_expect(m, a, 1000);
    assert_int_equal(reads(b, 13, SIZE, 120), DISK_MODEL_REFUSED);
    disk_model_free(&m);
}

/* A chunk that another dataset's job reads is that dataset's. */
static void test_a_chunk_goes_with_its_reader(void **state)
{
    uint32_t a, b, c;

    (void)state;
    begin(2 * SIZE, NULL);
    a = job(1);
    b = job(2);
    c = job(3);
    assert_int_equal(reads(a, 1, SIZE, 1), DISK_MODEL_STORED);
    assert_int_equal(reads(a, 2, SIZE, 1), DISK_MODEL_STORED);
    disk_model_leave(m, a, now);
    assert_int_equal(reads(b, 1, SIZE, 1), DISK_MODEL_HIT);
    assert_int_equal(reads(c, 21, SIZE, 1), DISK_MODEL_STORED); /* for 2 */
    assert_int_equal(reads(c, 22, SIZE, 1), DISK_MODEL_REFUSED);
    assert_int_equal(reads(b, 1, SIZE, 1), DISK_MODEL_HIT);
    assert_int_equal(evicted, 1);
    disk_model_free(&m);
}

static void test_no_leak(void **state)
{
    enum { ROUNDS = 100 };
    size_t before = 0;

    (void)state;
    for (unsigned i = 0; i < 10 + ROUNDS; i++) {
        if (i == 10)
            before = unit_heap();
        begin(2 * SIZE, NULL);
        reads(job(1), 1, SIZE, 1);
        disk_model_free(&m);
    }
    assert_true(unit_heap() < before + (size_t)ROUNDS * 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_oldest_go_for_what_comes),
        cmocka_unit_test(test_a_dataset_without_jobs_goes_first),
        cmocka_unit_test(test_worth_decides_what_is_admitted),
        cmocka_unit_test(test_a_chunk_goes_with_its_reader),
        cmocka_unit_test(test_no_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
