// SPDX-License-Identifier: Apache-2.0
/* Our decoder against libjpeg's on the same bytes: the same pixels, whatever is cut out, or both
 * fail. */
#include "unit.h"

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "loader/image/fastjpeg/jpeg_i.h"
#include "loader/image/pictures.h"

#define SIDE 90 /* of damaged images at most */

static struct buf data = BUF_INIT;
static struct image_scratch *scratch;
static struct dlc_err err;
static struct rng rng = {7};

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

static bool is_ours(void)
{
    static struct jpeg_frame f;

    return jpeg_frame_read(&f, (const uint8_t *)data.data, data.len);
}

/* A box as it is, reduced by denom: what is decoded comes out unchanged. */
static int pixels(const uint8_t *bytes, size_t len, const uint32_t box[4], unsigned denom,
                  bool libjpeg, uint8_t *out)
{
    struct image_spec spec = picture_spec(box[2] / denom, box[3] / denom);
    struct image_plan plan = {.x = box[0],
                              .y = box[1],
                              .width = box[2],
                              .height = box[3],
                              .to_width = box[2] / denom,
                              .to_height = box[3] / denom,
                              .jitter = {0, 1, 2, 3},
                              .factor = {1, 1, 1, 0}};
    struct image_head head;
    int rc;

    spec.layout = IMAGE_NHWC;
    spec.exact = denom == 1;
    scratch->libjpeg = libjpeg;
    err.text[0] = '\0';
    rc = image_read_head(bytes, len, &spec, &head, &err);
    if (rc == 0)
        rc = image_make(scratch, bytes, len, &spec, &head, &plan, out, &err);
    assert_true(rc == 0 || (rc == err.code && err.text[0] != '\0'));
    scratch->libjpeg = false;
    return rc;
}

static void compare(const uint32_t box[4], unsigned denom)
{
    size_t n = (size_t)(box[2] / denom) * (box[3] / denom) * 3;
    uint8_t *ours = mem_alloc(n), *theirs = mem_alloc(n);
    const uint8_t *bytes = (const uint8_t *)data.data;

    assert_int_equal(pixels(bytes, data.len, box, denom, true, theirs), 0);
    for (int portable = 0; portable < 2; portable++) {
        scratch->ops = portable ? &image_ops_portable : image_ops_best();
        memset(ours, 1, n);
        assert_int_equal(pixels(bytes, data.len, box, denom, false, ours), 0);
        assert_memory_equal(ours, theirs, n);
    }
    scratch->ops = image_ops_best();
    mem_free(&ours);
    mem_free(&theirs);
}

/* The whole, and boxes at all places. */
static void compare_boxes(uint32_t width, uint32_t height, int n)
{
    compare((uint32_t[4]){0, 0, width, height}, 1);
    for (int i = 0; i < n; i++) {
        uint32_t x = (uint32_t)rng_below(&rng, width), y = (uint32_t)rng_below(&rng, height);

        compare((uint32_t[4]){x, y, 1 + (uint32_t)rng_below(&rng, width - x),
                              1 + (uint32_t)rng_below(&rng, height - y)},
                1);
    }
}

static const struct picture_jpeg kinds[] = {
    {.h = 2, .v = 2},
    {.h = 2, .v = 1},
    {.h = 1, .v = 1},
    {.components = 1},
    {.h = 2, .v = 2, .quality = 98, .noise = 60},
    {.h = 2, .v = 2, .quality = 20, .optimise = true},
    {.h = 2, .v = 1, .quality = 92, .noise = 20, .optimise = true},
    {.h = 1, .v = 1, .quality = 100, .noise = 120, .restart = 3},
    {.h = 2, .v = 2, .quality = 90, .noise = 30, .restart = 1},
    {.h = 2, .v = 2, .quality = 90, .noise = 30, .restart = 7},
    {.h = 2, .v = 2, .quality = 1, .wide_quant = true, .noise = 40},
    {.components = 1, .quality = 100, .noise = 127, .optimise = true},
};

static void test_sizes(void **state)
{
    static const uint32_t sizes[][2] = {{1, 1},   {2, 9},    {5, 1},    {5, 5},    {8, 8},
                                        {9, 17},  {15, 16},  {16, 16},  {17, 15},  {31, 33},
                                        {32, 48}, {33, 100}, {100, 33}, {127, 65}, {250, 3}};

    (void)state;
    for (size_t k = 0; k < unit_count(kinds); k++)
        for (size_t i = 0; i < unit_count(sizes); i++) {
            picture_jpeg(&data, sizes[i][0], sizes[i][1], &kinds[k]);
            assert_true(is_ours() || sizes[i][0] <= 4);
            compare_boxes(sizes[i][0], sizes[i][1], 12);
        }
}

static void test_boxes(void **state)
{
    (void)state;
    for (size_t k = 0; k < unit_count(kinds); k++) {
        picture_jpeg(&data, 147, 118, &kinds[k]);
        compare_boxes(147, 118, 150);
    }
}

/* Reduced by 2, 4 and 8: libjpeg's small transforms. */
static void test_reduced(void **state)
{
    (void)state;
    for (size_t k = 0; k < unit_count(kinds); k++) {
        picture_jpeg(&data, 147, 118, &kinds[k]);
        for (unsigned denom = 2; denom <= 8; denom *= 2)
            for (uint32_t i = 0; i < 40; i++) {
                uint32_t x = (uint32_t)rng_below(&rng, 130), y = (uint32_t)rng_below(&rng, 100);

                compare((uint32_t[4]){x, y, 16 + (uint32_t)rng_below(&rng, 132 - x),
                                      16 + (uint32_t)rng_below(&rng, 103 - y)},
                        denom);
            }
    }
}

static bool says(const char *what)
{
    return strstr(err.text, what) != NULL;
}

/*
 * Damaged or not: both decode the whole image to the same pixels, or both fail. But for codes that
 * no table has, which libjpeg may pass over, and for files without an end, for which it looks too
 * early.
 */
static bool agree(const uint8_t *bytes, size_t len)
{
    static uint8_t ours[SIDE * SIDE * 3], theirs[SIDE * SIDE * 3], part[SIDE * SIDE * 3];
    struct image_spec spec = picture_spec(1, 1);
    struct image_head head;
    bool known = image_read_head(bytes, len, &spec, &head, NULL) == 0;
    const uint32_t w = known ? head.width : 0, h = known ? head.height : 0;
    const uint32_t box[4] = {w / 3, h / 2, DLC_MAX(w / 2, 1), DLC_MAX(h / 3, 1)};
    int rc, theirs_rc;
    bool no_end;

    if (!known || w > SIDE || h > SIDE)
        return false;
    theirs_rc = pixels(bytes, len, (uint32_t[4]){0, 0, w, h}, 1, true, theirs);
    no_end = theirs_rc < 0 && says("Premature end of JPEG file");
    rc = pixels(bytes, len, (uint32_t[4]){0, 0, w, h}, 1, false, ours);
    assert_true(rc == 0 || rc == theirs_rc || says("a code that its tables do not have"));
    assert_true(theirs_rc == 0 || rc == theirs_rc || no_end);
    if (rc < 0)
        return false;
#ifdef __x86_64__ /* elsewhere libjpeg may overflow in another way */
    assert_true(theirs_rc < 0 || memcmp(ours, theirs, (size_t)w * h * 3) == 0);
#endif
    assert_int_equal(pixels(bytes, len, box, 1, false, part), 0);
    for (uint32_t y = 0; y < box[3]; y++)
        assert_memory_equal(part + (size_t)y * box[2] * 3,
                            ours + ((size_t)(box[1] + y) * w + box[0]) * 3, box[2] * 3);
    return true;
}

/* From memory of exactly this size, so that sanitizers see every step beyond. */
static bool agree_on(const char *bytes, size_t len)
{
    uint8_t *copy = mem_alloc(len);
    bool good;

    memcpy(copy, bytes, len);
    good = agree(copy, len);
    mem_free(&copy);
    return good;
}

static void test_cut_anywhere(void **state)
{
    (void)state;
    for (size_t k = 0; k < unit_count(kinds); k++) {
        picture_jpeg(&data, 45, 39, &kinds[k]);
        for (size_t len = 0; len < data.len; len++)
            assert_true(!agree_on(data.data, len) || len + 2 >= data.len);
        assert_true(agree_on(data.data, data.len));
    }
}

static void test_bits_flipped(void **state)
{
    unsigned good = 0, bad = 0;

    (void)state;
    for (size_t k = 0; k < unit_count(kinds); k++) {
        picture_jpeg(&data, 83, 77, &kinds[k]);
        for (int i = 0; i < 800; i++) {
            size_t at = rng_below(&rng, data.len);
            char was = data.data[at];

            data.data[at] ^= (char)(1 << rng_below(&rng, 8));
            *(agree_on(data.data, data.len) ? &good : &bad) += 1;
            data.data[at] = was;
        }
    }
    assert_true(good > 500 && bad > 500);
}

static size_t scan_at(void)
{
    static struct jpeg_frame f;

    assert_true(jpeg_frame_read(&f, (const uint8_t *)data.data, data.len));
    return (size_t)(f.scan - (const uint8_t *)data.data);
}

/* Random coefficients behind real headers, some with steps that overflow every sum. */
static void test_nonsense(void **state)
{
    unsigned good = 0;

    (void)state;
    for (unsigned i = 0; i < 600; i++) {
        size_t at;

        picture_jpeg(&data, 33, 31, &kinds[i % unit_count(kinds)]);
        at = scan_at();
        data.len = at;
        for (int n = 0; n < 30000; n++) {
            uint8_t byte = (uint8_t)rng_below(&rng, 255);

            buf_add(&data, &byte, 1);
        }
        for (size_t p = 0; i % 3 == 0 && p + 70 < at; p++) /* steps of quantisation */
            if ((uint8_t)data.data[p] == 0xff && (uint8_t)data.data[p + 1] == 0xdb &&
                data.data[p + 3] == 67)
                for (int n = 0; n < 64; n++)
                    data.data[p + 5 + (size_t)n] = (char)rng_below(&rng, 256);
        good += agree_on(data.data, data.len);
    }
    assert_true(good > 300);
}

/* What the headers must say to be ours; all else decodes as well, by libjpeg. */
static void test_whose(void **state)
{
    static const struct picture_jpeg theirs[] = {
        {.progressive = true}, {.components = 4}, {.h = 1, .v = 2}, {.h = 4, .v = 1}, {.scans = 3}};

    (void)state;
    for (size_t k = 0; k < unit_count(theirs); k++) {
        picture_jpeg(&data, 50, 40, &theirs[k]);
        assert_false(is_ours());
        compare_boxes(50, 40, 3);
    }
    picture_jpeg(&data, 50, 40, NULL);
    assert_true(is_ours());
    for (size_t i = 0; i < data.len; i++) { /* without a byte of the headers it is another thing */
        char was = data.data[i];

        data.data[i] = (char)0xff;
        is_ours();
        data.data[i] = was;
    }
}

static void test_errors_say_where(void **state)
{
    const uint32_t whole[4] = {0, 0, 61, 47};
    static uint8_t out[61 * 47 * 3];
    size_t at;

    (void)state;
    picture_jpeg(&data, 61, 47, &(struct picture_jpeg){.restart = 4});
    at = scan_at();
    assert_int_equal(pixels((uint8_t *)data.data, at + 30, whole, 1, false, out), DLC_ECORRUPT);
    assert_true(says("the file ends early") && says("row 0"));
    for (size_t i = data.len - 3; i > at; i--)
        if ((uint8_t)data.data[i] == 0xff && (uint8_t)data.data[i + 1] == 0xd1) {
            data.data[i + 1] = (char)0xd5;
            break;
        }
    assert_int_equal(pixels((uint8_t *)data.data, data.len, whole, 1, false, out), DLC_ECORRUPT);
    assert_true(says("marker 0xd5 where restart 1 should be"));
    picture_jpeg(&data, 61, 47, NULL);
    memset(data.data + at + 20, 0xff, 1);
    memset(data.data + at + 21, 0xd9, 1);
    assert_int_equal(pixels((uint8_t *)data.data, data.len, whole, 1, false, out), DLC_ECORRUPT);
    assert_true(says("end early at marker 0xd9"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),        cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_reduced),      cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_bits_flipped), cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_whose),        cmocka_unit_test(test_errors_say_where),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
