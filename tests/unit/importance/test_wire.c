// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <math.h>

#include "base/mem.h"
#include "importance/wire.h"
#include "base/rng.h"

struct pair {
    uint64_t sample;
    float weight;
};

/* What was written comes back, bit by bit. */
static void expect(const struct pairs *p, const struct pair *want, size_t n)
{
    struct pairs_reader r;
    uint64_t sample;
    float weight;

    pairs_read(&r, p->bytes.data, p->bytes.len);
    for (size_t i = 0; i < n; i++) {
        assert_true(pairs_next(&r, &sample, &weight));
        assert_int_equal(sample, want[i].sample);
        assert_memory_equal(&weight, &want[i].weight, sizeof(weight));
    }
    assert_false(pairs_next(&r, &sample, &weight));
    assert_false(r.bad);
    assert_int_equal(p->n, n);
    assert_int_equal(pairs_count(p->bytes.data, p->bytes.len), n);
}

static void test_round_trip(void **state)
{
    static const struct pair want[] = {
        {0, 1.0f},     {1, 1e-45f},         {128, 3.4e38f},         {129, 2.3f},
        {16512, 0.1f}, {2113665, 1.0f / 3}, {(uint64_t)1 << 40, 7}, {PAIRS_SAMPLES - 1, 5},
    };
    struct pairs p = {0};

    (void)state;
    expect(&p, want, 0);
    for (size_t i = 0; i < unit_count(want); i++)
        assert_true(pairs_add(&p, want[i].sample, want[i].weight));
    expect(&p, want, unit_count(want));
    buf_release(&p.bytes);
}

static void test_random_lists(void **state)
{
    enum { N = 2000 };
    struct pair *want = mem_zero(N * sizeof(*want));
    struct rng r = {7};

    (void)state;
    for (unsigned spread = 1; spread < 40; spread++) {
        struct pairs p = {0};
        uint64_t at = 0;

        for (size_t i = 0; i < N; i++) {
            at += 1 + (rng_next(&r) >> (64 - spread)) % (PAIRS_SAMPLES / (2 * N));
            want[i] = (struct pair){at, (float)(1 + (rng_next(&r) >> 40)) * 1e-3f};
            assert_true(pairs_add(&p, want[i].sample, want[i].weight));
        }
        expect(&p, want, N);
        buf_release(&p.bytes);
    }
    mem_free(&want);
}

static void test_what_is_no_weight_is_left_out(void **state)
{
    static const struct pair want[] = {{3, 1}, {9, 2}};
    struct pairs p = {0};

    (void)state;
    assert_true(pairs_add(&p, 1, 0));
    assert_true(pairs_add(&p, 2, -1));
    assert_true(pairs_add(&p, 3, 1));
    assert_true(pairs_add(&p, 4, NAN));
    assert_true(pairs_add(&p, 5, INFINITY));
    assert_true(pairs_add(&p, 9, 2));
    expect(&p, want, 2);
    buf_release(&p.bytes);
}

static void test_a_list_is_bounded(void **state)
{
    struct pairs near = {0}, far = {0};
    uint64_t i = 0;

    (void)state;
    while (pairs_add(&near, i, 1))
        i++;
    assert_int_equal(i, PAIRS_MAX);
    assert_int_equal(pairs_count(near.bytes.data, near.bytes.len), PAIRS_MAX);
    near.n--; /* one more than a reader takes */
    assert_true(pairs_add(&near, i, 1));
    assert_int_equal(pairs_count(near.bytes.data, near.bytes.len), 0);
    for (i = 0; pairs_add(&far, i << 31, 1); i++)
        continue;
    assert_true(i > PAIRS_MAX / 2 && i < PAIRS_MAX);
    assert_true(far.bytes.len <= PAIRS_BYTES_MAX);
    assert_int_equal(pairs_count(far.bytes.data, far.bytes.len), i);
    buf_release(&near.bytes);
    buf_release(&far.bytes);
}

/* Wherever it is cut, a reader gets whole pairs or knows that it was cut. */
static void test_every_cut(void **state)
{
    struct pairs p = {0};
    size_t ends[64] = {0}, n = 0;

    (void)state;
    for (uint64_t i = 0; i < 60; i++) {
        assert_true(pairs_add(&p, i * i * i * 37, 1.5f));
        ends[++n] = p.bytes.len;
    }
    for (size_t cut = 0; cut < p.bytes.len; cut++) {
        char *exact = mem_alloc(cut + 1); /* so that a sanitizer sees what is read beyond */
        size_t whole = 0;

        memcpy(exact, p.bytes.data, cut);
        while (ends[whole + 1] <= cut)
            whole++;
        assert_int_equal(pairs_count(exact, cut), ends[whole] == cut ? whole : 0);
        mem_free(&exact);
    }
    buf_release(&p.bytes);
}

static void test_hostile(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {
        {"\x80\x00\x00\x00\x80\x3f", 6},                          /* longer than it need be */
        {"\x80\x80\x80\x80\x80\x80\x80\x01\x00\x00\x80\x3f", 12}, /* too large */
        {"\xff\xff\xff\xff\xff\xff\x7f\x00\x00\x80\x3f", 11},     /* the same */
        {"\xff\xff\xff\xff\xff\xff\x3f\x00\x00\x80\x3f"           /* the last sample, ... */
         "\x00\x00\x00\x80\x3f",
         16},                        /* ... and one behind it */
        {"\x05\x00\x00\x00\x00", 5}, /* 0 */
        {"\x05\x00\x00\x80\xbf", 5}, /* -1 */
        {"\x05\x00\x00\x80\x7f", 5}, /* infinite */
        {"\x05\x00\x00\xc0\x7f", 5}, /* no number */
        {"\x05\x00\x00\x00\x80", 5}, /* -0 */
    };
    static const char good[] = "\xff\xff\xff\xff\xff\xff\x3f\x00\x00\x80\x3f";
    char *much = mem_zero(PAIRS_BYTES_MAX + 1);
    struct pairs_reader r;
    uint64_t sample;
    float weight;

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++)
        assert_int_equal(pairs_count(bad[i].bytes, bad[i].len), 0);
    assert_int_equal(pairs_count(good, 11), 1);
    pairs_read(&r, bad[4].bytes, bad[4].len);
    assert_false(pairs_next(&r, &sample, &weight));
    assert_true(r.bad);
    assert_false(pairs_next(&r, &sample, &weight)); /* and nothing more */
    assert_int_equal(pairs_count(much, PAIRS_BYTES_MAX + 1), 0);
    mem_free(&much);
}

static void descend(void)
{
    struct pairs p = {0};

    pairs_add(&p, 5, 1);
    pairs_add(&p, 5, 1);
}

static void test_samples_ascend(void **state)
{
    (void)state;
    assert_true(unit_aborts(descend));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_random_lists),
        cmocka_unit_test(test_what_is_no_weight_is_left_out),
        cmocka_unit_test(test_a_list_is_bounded),
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_samples_ascend),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
