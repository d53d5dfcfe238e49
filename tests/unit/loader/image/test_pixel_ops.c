// SPDX-License-Identifier: Apache-2.0
/* AVX2 and portable code: the same bytes, whatever the sizes; and nothing written beyond. */
#include "unit.h"

#include "base/err.h"
#include "base/rng.h"
#include "loader/image/image_i.h"

#define WIDE  700
#define GUARD 64

static uint8_t in[4][4 * WIDE + 4096], out[2][3][4 * WIDE + 4 * GUARD];
static struct rng r = {11};

static void refill(void)
{
    for (size_t i = 0; i < sizeof(in); i++)
        ((uint8_t *)in)[i] = (uint8_t)rng_next(&r);
    memset(out, 0xa5, sizeof(out));
}

/* RGB of n pixels; the fourth byte is any. */
static void same_rgbx(const uint8_t *a, const uint8_t *b, size_t n)
{
    for (size_t i = 0; i < 4 * n; i++)
        assert_true(i % 4 == 3 || a[i] == b[i]);
}

static const struct image_ops *ops[2];

static int set_up(void **state)
{
    (void)state;
    ops[0] = &image_ops_portable;
    ops[1] = image_ops_best();
    return 0;
}

static void test_columns(void **state)
{
    (void)state;
    for (int i = 0; i < 400; i++) {
        uint32_t length = 1 + (uint32_t)rng_below(&r, WIDE);
        struct image_line line = {
            .length = length, .size = length, .most = length, .to = 1 + rng_below(&r, 300)};
        struct image_axis x = {0};

        line.out = (uint32_t)line.to;
        assert_int_equal(image_axis_build(&x, &line, NULL), 0);
        refill();
        for (int k = 0; k < 2; k++)
            ops[k]->columns(out[k][0], out[k][1], in[0], i % 4 == 0 ? in[0] : in[1], &x);
        if (i % 4 == 0) /* one row alone */
            for (int k = 0; k < 2; k++)
                ops[k]->columns(out[k][1], out[k][1], in[0], in[0], &x);
        for (int k = 0; k < 2; k++)
            same_rgbx(out[0][k], out[1][k], x.n);
        for (int k = 0; k < 2; k++)
            for (int g = 0; g < GUARD; g++)
                assert_int_equal(out[k][0][4 * x.n + (size_t)g], 0xa5);
        image_axis_release(&x);
    }
}

static void test_rows(void **state)
{
    (void)state;
    for (int i = 0; i < 400; i++) {
        size_t bytes = 1 + rng_below(&r, 4 * WIDE);
        uint32_t taps = i % 2 == 0 ? 1 + (uint32_t)rng_below(&r, 8) : 4;
        const uint8_t *rows[8];
        int16_t weights[16];

        refill();
        for (int k = 0; k < 8; k++)
            rows[k] = in[rng_below(&r, 4)];
        for (int k = 0; k < 16; k++)
            weights[k] = (int16_t)rng_below(&r, i % 2 == 0 ? 256 : 1); /* halves of a sum of one */
        for (uint32_t k = taps; k < 8; k++) /* what is not there has no weight */
            weights[k / 4 * 8 + k % 4] = weights[k / 4 * 8 + k % 4 + 4] = 0;
        if (i % 2 == 1)
            weights[(i / 2) % 4] = 2048;
        for (int k = 0; k < 2; k++)
            ops[k]->rows(out[k][0], rows, weights, taps, bytes);
        assert_memory_equal(out[0][0], out[1][0], bytes + GUARD);
        if (i % 2 == 1)
            assert_memory_equal(out[0][0], rows[(i / 2) % 4], bytes);
    }
}

static void test_layouts(void **state)
{
    (void)state;
    for (size_t n = 1; n < 200; n++) {
        refill();
        for (int k = 0; k < 2; k++)
            ops[k]->planes(out[k][0], out[k][1], out[k][2], in[0], n);
        assert_memory_equal(out[0], out[1], sizeof(out[0]));
        assert_int_equal(out[1][2][n - 1], in[0][4 * n - 2]);
        refill();
        for (int k = 0; k < 2; k++)
            ops[k]->pack(out[k][0], in[0], n);
        assert_memory_equal(out[0][0], out[1][0], 3 * n + GUARD);
        for (int k = 0; k < 2; k++)
            ops[k]->unpack(out[k][1], out[k][0], n);
        same_rgbx(out[0][1], in[0], n);
        same_rgbx(out[1][1], in[0], n);
    }
}

static void test_chroma(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 120; n++)
        for (int i = 0; i < 20; i++) {
            uint32_t low = (uint32_t)rng_below(&r, n);
            uint32_t high = low + 1 + (uint32_t)rng_below(&r, n - low);

            refill();
            for (int k = 0; k < 2; k++)
                ops[k]->chroma(out[k][0], in[0], in[1], low, high, n);
            assert_memory_equal(out[0][0], out[1][0], 2 * (high - low) + GUARD);
            for (int k = 0; k < 2; k++)
                ops[k]->chroma_row(out[k][0], in[0], low, high, n);
            assert_memory_equal(out[0][0], out[1][0], 2 * (high - low) + GUARD);
        }
}

/* Two blocks, from a few coefficients to any: the same samples, nothing beside them, and zeros
 * left. */
static void check_idct(unsigned size, unsigned many, unsigned bits)
{
    static const int16_t zeros[128];
    int16_t blocks[2][128] = {0};
    uint16_t quant[2][64];

    refill();
    for (unsigned i = 0; i < many; i++)
        blocks[0][rng_below(&r, 128)] = (int16_t)((int16_t)rng_next(&r) >> (16 - bits));
    memcpy(blocks[1], blocks[0], sizeof(blocks[0]));
    for (unsigned i = 0; i < 64; i++) {
        quant[0][i] = (uint16_t)rng_below(&r, bits == 16 ? 65536 : 100);
        quant[1][i] = (uint16_t)rng_below(&r, 256);
    }
    for (int k = 0; k < 2; k++) {
        uint8_t *const to[2] = {out[k][0], out[k][1]};
        const size_t stride[2] = {16, 23};
        const uint16_t *const steps[2] = {quant[0], quant[1]};

        (size == 8 ? ops[k]->idct : ops[k]->idct_4)(to, stride, blocks[k], steps);
        assert_memory_equal(blocks[k], zeros, sizeof(zeros));
        assert_int_equal(to[0][size], 0xa5);
        assert_int_equal(to[1][size * 23], 0xa5);
    }
    assert_memory_equal(out[0], out[1], sizeof(out[0]));
}

static void test_idct(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6000; i++)
        check_idct(i % 2 == 0 ? 8 : 4, i % 129, 4 + i / 2 % 13);
}

/* All colours: the two agree, and grey stays grey. */
static void test_colour(void **state)
{
    static uint8_t y[256 + GUARD], u[256 + GUARD], v[256 + GUARD], rgbx[2][1024 + 4 * GUARD];

    (void)state;
    for (int i = 0; i < 256; i++)
        y[i] = (uint8_t)i;
    for (int cb = 0; cb < 256; cb++)
        for (int cr = 0; cr < 256; cr++) {
            memset(u, cb, 256);
            memset(v, cr, 256);
            for (int k = 0; k < 2; k++)
                ops[k]->colour(rgbx[k], y, u, v, 256);
            same_rgbx(rgbx[0], rgbx[1], 256);
            for (int i = 0; cb == 128 && cr == 128 && i < 1024; i++)
                assert_true(i % 4 == 3 || rgbx[0][i] == i / 4);
        }
}

/* Every kind of jitter on pixels of all sorts; greys and nearly grey ones among them. */
static void test_jitter(void **state)
{
    (void)state;
    for (int i = 0; i < 600; i++) {
        size_t n = 1 + rng_below(&r, WIDE);
        float factor = (float)rng_unit(&r) * 3;
        int base = (int)rng_below(&r, 256);

        refill();
        for (size_t k = 0; i % 3 == 0 && k < n; k++)
            in[0][4 * k + 1] = in[0][4 * k + 2] = in[0][4 * k];
        for (size_t k = 0; i % 6 == 0 && k < n; k++)
            in[0][4 * k + rng_below(&r, 3)] ^= (uint8_t)rng_below(&r, 4);
        assert_int_equal(ops[0]->grey_sum(in[0], n), ops[1]->grey_sum(in[0], n));
        for (int k = 0; k < 2; k++) {
            memcpy(out[k][0], in[0], 4 * n);
            memcpy(out[k][1], in[0], 4 * n);
            memcpy(out[k][2], in[0], 4 * n);
            ops[k]->mix(out[k][0], n, base, factor);
            ops[k]->saturate(out[k][1], n, factor);
            ops[k]->turn(out[k][2], n, (uint8_t)base);
        }
        for (int k = 0; k < 3; k++) {
            same_rgbx(out[0][k], out[1][k], n);
            assert_memory_equal(out[0][k] + 4 * n, out[1][k] + 4 * n, GUARD);
        }
    }
}

/* All hues of all pairs of values. */
static void test_turns_of_all_colours(void **state)
{
    (void)state;
    for (unsigned max = 1; max < 256; max++)
        for (unsigned min = 0; min < max; min += 1 + max / 40) {
            size_t n = 0;

            for (unsigned mid = min; mid <= max && n + 6 <= WIDE; mid += 1 + (max - min) / 100)
                for (unsigned k = 0; k < 6; k++, n++) {
                    uint8_t v[3] = {(uint8_t)max, (uint8_t)mid, (uint8_t)min};
                    static const uint8_t order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                                        {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

                    for (int c = 0; c < 3; c++)
                        out[0][0][4 * n + (size_t)c] = v[order[k][c]];
                }
            memcpy(out[1][0], out[0][0], 4 * n);
            for (int k = 0; k < 2; k++)
                ops[k]->turn(out[k][0], n, (uint8_t)(max * 7 + min));
            same_rgbx(out[0][0], out[1][0], n);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_layouts), cmocka_unit_test(test_chroma),
        cmocka_unit_test(test_idct),    cmocka_unit_test(test_colour),
        cmocka_unit_test(test_jitter),  cmocka_unit_test(test_turns_of_all_colours),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
