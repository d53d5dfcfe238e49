// SPDX-License-Identifier: Apache-2.0
/* The weights of one direction. That they are PIL's is what tests/python/loader shows. */
#include "unit.h"

#include "base/err.h"
#include "base/rng.h"
#include "loader/image/image_i.h"

static struct image_axis build(struct image_line line)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct image_axis a = {0};

    assert_int_equal(image_axis_build(&a, &line, &err), 0);
    return a;
}

static int32_t weight(const struct image_axis *a, uint32_t j, uint32_t tap)
{
    const int16_t *w = a->weights + (size_t)j * a->quads * 8 + tap / 4 * 8 + tap % 4;

    return w[0] * 2048 + w[4];
}

static void test_the_same_size_is_one_tap(void **state)
{
    struct image_axis a = build((struct image_line){
        .from = 10, .length = 50, .size = 100, .most = 100, .to = 50, .out = 50});

    (void)state;
    assert_int_equal(a.quads, 1);
    assert_int_equal(a.first, 10);
    assert_int_equal(a.last, 60);
    for (uint32_t j = 0; j < 50; j++) {
        assert_int_equal(a.start[j], j);
        assert_int_equal(a.count[j], 1);
        assert_int_equal(weight(&a, j, 0), 1 << 22);
    }
    image_axis_release(&a);
}

static void check(const struct image_axis *a, const struct image_line *line)
{
    uint32_t before = 0;

    assert_true(a->n > 0 && a->pad + a->n <= a->total && a->total == line->out);
    assert_true((double)a->first >= line->from - 1 && a->last <= line->size);
    assert_true((double)a->last <= line->from + line->length + 1);
    for (uint32_t j = 0; j < a->n; j++) {
        int64_t sum = 0;

        assert_true(a->start[j] >= before); /* rows come in order */
        before = a->start[j];
        assert_true(a->start[j] + a->count[j] <= a->last - a->first);
        assert_true(a->count[j] >= 1 && a->count[j] <= 4 * a->quads);
        for (uint32_t t = 0; t < a->quads * 4; t++) {
            assert_true(weight(a, j, t) >= 0 && (t < a->count[j] || weight(a, j, t) == 0));
            sum += weight(a, j, t);
        }
        assert_true(llabs(sum - (1 << 22)) <= a->count[j]);
    }
}

static void test_any_line(void **state)
{
    struct rng r = {3};

    (void)state;
    for (int i = 0; i < 3000; i++) {
        unsigned d = 1u << rng_below(&r, 4);
        uint64_t whole = 1 + rng_below(&r, 3000), length = 1 + rng_below(&r, whole);
        struct image_line line = {
            .from = (double)rng_below(&r, whole - length + 1) / d,
            .length = (double)length / d,
            .size = (whole + d - 1) / d,
            .most = (whole + d - 1) / d,
            .to = 1 + rng_below(&r, 500),
            .out = 1 + (uint32_t)rng_below(&r, 300),
        };
        struct image_axis a;

        line.left = (int64_t)rng_below(&r, line.to + line.out - 1) - (int64_t)line.out + 1;
        a = build(line);
        check(&a, &line);
        image_axis_release(&a);
    }
}

static void test_more_taps_than_there_are(void **state)
{
    struct image_line line = {.length = 1e12, .size = 1u << 31, .most = 50, .to = 1, .out = 1};
    struct dlc_err err = DLC_ERR_INIT;
    struct image_axis a = {0};

    (void)state;
    assert_int_equal(image_axis_build(&a, &line, &err), DLC_EINVAL);
    image_axis_release(&a);
}

static void test_turned(void **state)
{
    struct image_line line = {
        .length = 90, .size = 90, .most = 90, .to = 40, .left = -3, .out = 45};
    struct image_axis a = build(line), b = build(line);

    (void)state;
    image_axis_turn(&b);
    assert_int_equal(a.pad, 3);
    assert_int_equal(b.pad, 2);
    for (uint32_t j = 0; j < a.n; j++) {
        assert_int_equal(a.start[j], b.start[a.n - 1 - j]);
        for (uint32_t t = 0; t < a.quads * 4; t++)
            assert_int_equal(weight(&a, j, t), weight(&b, a.n - 1 - j, t));
    }
    image_axis_release(&a);
    image_axis_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_size_is_one_tap),
        cmocka_unit_test(test_any_line),
        cmocka_unit_test(test_more_taps_than_there_are),
        cmocka_unit_test(test_turned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
