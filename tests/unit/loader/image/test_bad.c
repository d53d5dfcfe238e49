// SPDX-License-Identifier: Apache-2.0
/* Truncated, flipped and hostile images: refused with a code and a text, or decoded; never more. */
#include "unit.h"

#include <png.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "pictures.h"

static struct buf data = BUF_INIT;
static struct image_scratch *scratch;
static struct dlc_err err;

static int set_up(void **state)
{
    (void)state;
    scratch = image_scratch_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    image_scratch_free(&scratch);
    buf_release(&data);
    return 0;
}

/* From memory of exactly this size, so that sanitizers see every step beyond. */
static int make(const char *bytes, size_t len, struct image_spec spec)
{
    char *copy = mem_alloc(len), *out = mem_alloc(image_bytes(&spec));
    struct image_head head;
    struct image_plan plan;
    int rc;

    memcpy(copy, bytes, len);
    err.text[0] = '\0';
    spec.max_pixels = 1 << 22;
    rc = image_read_head(copy, len, &spec, &head, &err);
    if (rc == 0) {
        image_plan(&spec, image_key(1, 1, len), head.width, head.height, &plan);
        rc = image_make(scratch, copy, len, &spec, &head, &plan, out, &err);
    }
    assert_true(rc == 0 || rc == DLC_ECORRUPT || rc == DLC_EINVAL);
    assert_true(rc == 0 || (err.code == rc && err.text[0] != '\0'));
    mem_free(&copy);
    mem_free(&out);
    return rc;
}

static struct image_spec whole(void)
{
    struct image_spec spec = picture_spec(20, 20);

    spec.crop = IMAGE_WHOLE;
    return spec;
}

static void make_baseline(void)
{
    picture_jpeg(&data, 61, 47, NULL);
}

static void make_progressive(void)
{
    picture_jpeg(&data, 61, 47, &(struct picture_jpeg){.progressive = true});
}

static void make_cmyk(void)
{
    picture_jpeg(&data, 40, 30, &(struct picture_jpeg){.components = 4});
}

static void make_png(void)
{
    picture_png(&data, 33, 27, PNG_COLOR_TYPE_RGB, 8, false);
}

static void make_palette(void)
{
    picture_png(&data, 33, 27, PNG_COLOR_TYPE_PALETTE, 4, true);
}

static void (*const kinds[])(void) = {make_baseline, make_progressive, make_cmyk, make_png,
                                      make_palette};

/* Without what ends it an image is still whole; without any byte of its pixels it is not. */
static void test_cut_anywhere(void **state)
{
    (void)state;
    for (size_t k = 0; k < unit_count(kinds); k++) {
        kinds[k]();
        assert_int_equal(make(data.data, data.len, whole()), 0);
        for (size_t len = 0; len + 60 < data.len; len++)
            assert_true(make(data.data, len, whole()) < 0);
        assert_int_equal(err.code, DLC_ECORRUPT);
        for (size_t len = data.len - 60; len < data.len; len++)
            make(data.data, len, whole());
    }
}

static void test_what_lies_below_the_box_is_not_read(void **state)
{
    struct image_spec spec = picture_spec(8, 8);
    struct image_head head;
    struct image_plan plan;
    uint8_t out[2][192];

    (void)state;
    make_baseline();
    assert_int_equal(image_read_head(data.data, data.len, &spec, &head, &err), 0);
    image_plan(&spec, 1, head.width, head.height, &plan);
    plan.x = plan.y = 0;
    plan.width = plan.height = 12;
    assert_int_equal(image_make(scratch, data.data, data.len, &spec, &head, &plan, out[0], &err),
                     0);
    assert_int_equal(
        image_make(scratch, data.data, data.len * 3 / 4, &spec, &head, &plan, out[1], &err), 0);
    assert_memory_equal(out[0], out[1], sizeof(out[0]));
}

static void test_bits_flipped(void **state)
{
    struct rng r = {9};
    unsigned bad = 0;

    (void)state;
    for (size_t k = 0; k < unit_count(kinds); k++) {
        kinds[k]();
        for (int i = 0; i < 1500; i++) {
            size_t at = rng_below(&r, data.len);
            char was = data.data[at];

            data.data[at] ^= (char)(1 << rng_below(&r, 8));
            bad += make(data.data, data.len, i % 2 == 0 ? whole() : picture_spec(16, 16)) < 0;
            data.data[at] = was;
        }
    }
    assert_true(bad > 1000);
}

/* A scratch is as good as new after a failure. */
static void test_after_a_failure(void **state)
{
    struct image_spec spec = whole();
    struct image_head head;
    struct image_plan plan;
    uint8_t out[2][1200];

    (void)state;
    for (size_t k = 0; k < unit_count(kinds); k++) {
        kinds[k]();
        assert_int_equal(image_read_head(data.data, data.len, &spec, &head, &err), 0);
        image_plan(&spec, 1, head.width, head.height, &plan);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(
                image_make(scratch, data.data, data.len, &spec, &head, &plan, out[i], &err), 0);
            assert_int_equal(
                image_make(scratch, data.data, data.len / 2, &spec, &head, &plan, out[1], &err),
                DLC_ECORRUPT);
        }
        assert_int_equal(
            image_make(scratch, data.data, data.len, &spec, &head, &plan, out[1], &err), 0);
        assert_memory_equal(out[0], out[1], sizeof(out[0]));
    }
}

/* Tables of the image before must not decode one that has none. */
static void test_no_tables_from_before(void **state)
{
    (void)state;
    make_baseline();
    assert_int_equal(make(data.data, data.len, whole()), 0);
    for (size_t i = 2; i + 4 < data.len; i++)
        if (data.data[i] == (char)0xff && data.data[i + 1] == (char)0xdb)
            data.data[i + 1] = (char)0xec; /* quantisation becomes an application's segment */
    assert_int_equal(make(data.data, data.len, whole()), DLC_ECORRUPT);
}

static void test_many_scans(void **state)
{
    (void)state;
    picture_jpeg(&data, 40, 30, &(struct picture_jpeg){.scans = 90});
    assert_int_equal(make(data.data, data.len, whole()), 0);
    picture_jpeg(&data, 40, 30, &(struct picture_jpeg){.scans = 150});
    assert_int_equal(make(data.data, data.len, whole()), DLC_EINVAL);
    assert_non_null(strstr(err.text, "scans"));
}

/* A head that belongs to another image is noticed before anything is written. */
static void test_another_head(void **state)
{
    struct image_spec spec = whole();
    struct image_head head;
    struct image_plan plan;
    uint8_t out[1200];

    (void)state;
    for (size_t k = 0; k < unit_count(kinds); k++) {
        kinds[k]();
        assert_int_equal(image_read_head(data.data, data.len, &spec, &head, &err), 0);
        head.width++;
        image_plan(&spec, 1, head.width, head.height, &plan);
        assert_int_equal(image_make(scratch, data.data, data.len, &spec, &head, &plan, out, &err),
                         DLC_ECORRUPT);
        plan.x = head.width;
        assert_int_equal(image_make(scratch, data.data, data.len, &spec, &head, &plan, out, &err),
                         DLC_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_what_lies_below_the_box_is_not_read),
        cmocka_unit_test(test_bits_flipped),
        cmocka_unit_test(test_after_a_failure),
        cmocka_unit_test(test_no_tables_from_before),
        cmocka_unit_test(test_many_scans),
        cmocka_unit_test(test_another_head),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
