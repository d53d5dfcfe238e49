// SPDX-License-Identifier: Apache-2.0
/* Is all of the output written and nothing else; what if memory ends? Which pixels is shown by
 * tests/python/loader. */
#include "unit.h"

#include <png.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/mem.h"
#include "loader/image/image_i.h"
#include "pictures.h"

#define GUARD 64

static struct buf jpeg = BUF_INIT, png = BUF_INIT;

static int set_up(void **state)
{
    (void)state;
    picture_jpeg(&jpeg, 150, 110, NULL);
    picture_png(&png, 150, 110, PNG_COLOR_TYPE_RGB, 8, true);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_release(&jpeg);
    buf_release(&png);
    return 0;
}

static int make(struct image_scratch *s, const struct buf *data, const struct image_spec *spec,
                uint64_t key, void *out, struct dlc_err *err)
{
    struct image_head head;
    struct image_plan plan;
    int rc = image_read_head(data->data, data->len, spec, &head, err);

    if (rc < 0)
        return rc;
    image_plan(spec, key, head.width, head.height, &plan);
    return image_make(s, data->data, data->len, spec, &head, &plan, out, err);
}

/* Over two backgrounds: a byte that differs was not written. */
static void check_written(struct image_spec spec, const struct buf *data)
{
    struct image_scratch *s = image_scratch_new();
    size_t n = image_bytes(&spec);
    uint8_t *out[2] = {malloc(n + GUARD), malloc(n + GUARD)};

    for (int i = 0; i < 2; i++) {
        memset(out[i], i == 0 ? 0 : 0xff, n + GUARD);
        assert_int_equal(make(s, data, &spec, 3, out[i], NULL), 0);
        for (int k = 0; k < GUARD; k++)
            assert_int_equal(out[i][n + (size_t)k], i == 0 ? 0 : 0xff);
    }
    assert_memory_equal(out[0], out[1], n);
    free(out[0]);
    free(out[1]);
    image_scratch_free(&s);
}

static void test_all_is_written_and_nothing_else(void **state)
{
    static const unsigned sizes[] = {1, 7, 16, 33, 224, 300};

    (void)state;
    for (unsigned i = 0; i < 3 * 3 * 2 * 2 * unit_count(sizes); i++) {
        unsigned rest = i / unit_count(sizes);
        struct image_spec spec = picture_spec(sizes[i % unit_count(sizes)], 41);

        spec.crop = (enum image_crop)(rest % 3);
        spec.type = (enum image_type)(rest / 3 % 3);
        spec.layout = (enum image_layout)(rest / 9 % 2);
        if (rest / 18 != 0)
            spec.brightness[0] = spec.brightness[1] = 1.5;
        check_written(spec, i % 2 == 0 ? &jpeg : &png);
    }
}

static void test_padding_is_zero(void **state)
{
    struct image_spec spec = picture_spec(170, 130);
    struct image_scratch *s = image_scratch_new();
    uint8_t *out = malloc(image_bytes(&spec));

    (void)state;
    spec.crop = IMAGE_CENTRE;
    spec.layout = IMAGE_NHWC;
    spec.flip = 0;
    assert_int_equal(make(s, &png, &spec, 1, out, NULL), 0);
    for (unsigned y = 0; y < 130; y++)
        for (unsigned x = 0; x < 170; x++)
            for (unsigned c = 0; c < 3; c++) {
                bool inside = x >= 10 && x < 160 && y >= 10 && y < 120;
                /* rows of PNGs are one run of bytes */
                unsigned want = inside ? picture_at(x - 10, y - 10, c) : 0;

                assert_int_equal(out[(y * 170 + x) * 3 + c], want);
            }
    free(out);
    image_scratch_free(&s);
}

/* Every allocation of ours fails once: ENOMEM or the same result, and no leak (sanitizers). */
static void sweep(const struct buf *data, struct image_spec spec)
{
    uint8_t *want = malloc(image_bytes(&spec)), *out = malloc(image_bytes(&spec));
    struct image_scratch *s = image_scratch_new();
    bool fired = true;
    int nth;

    assert_int_equal(make(s, data, &spec, 5, want, NULL), 0);
    for (nth = 1; fired; nth++) {
        struct image_scratch *fresh = image_scratch_new();
        struct dlc_err err = DLC_ERR_INIT;
        int rc;

        fault_arm(FAULT_ALLOC, nth);
        rc = make(fresh, data, &spec, 5, out, &err);
        fired = fault_disarm();
        assert_int_equal(rc, fired ? DLC_ENOMEM : 0);
        assert_true(rc == 0 || err.text[0] != '\0');
        assert_int_equal(make(fresh, data, &spec, 5, out, NULL), 0);
        assert_memory_equal(out, want, image_bytes(&spec));
        image_scratch_free(&fresh);
    }
    assert_true(nth > 5);
    free(want);
    free(out);
    image_scratch_free(&s);
}

static void test_no_memory(void **state)
{
    struct image_spec spec = picture_spec(50, 40);

    (void)state;
    sweep(&jpeg, spec);
    spec.type = IMAGE_F32;
    spec.brightness[1] = 2;
    sweep(&png, spec);
}

/* The result does not depend on what the scratch did before. */
static void test_pure(void **state)
{
    struct image_spec spec[3] = {picture_spec(60, 60), picture_spec(31, 90), picture_spec(60, 60)};
    struct image_scratch *s = image_scratch_new();
    uint8_t *out[2] = {malloc(60 * 90 * 12), malloc(60 * 90 * 12)};

    (void)state;
    spec[1].type = IMAGE_F32;
    spec[1].hue[1] = 0.4;
    spec[2].crop = IMAGE_CENTRE;
    spec[2].type = IMAGE_F16;
    for (unsigned i = 0; i < 60; i++) {
        const struct image_spec *p = &spec[i % 3];
        struct image_scratch *fresh = image_scratch_new();
        const struct buf *data = i % 2 == 0 ? &jpeg : &png;

        assert_int_equal(make(s, data, p, i, out[0], NULL), 0);
        assert_int_equal(make(fresh, data, p, i, out[1], NULL), 0);
        assert_memory_equal(out[0], out[1], image_bytes(p));
        image_scratch_free(&fresh);
    }
    free(out[0]);
    free(out[1]);
    image_scratch_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_written_and_nothing_else),
        cmocka_unit_test(test_padding_is_zero),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_pure),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
