// SPDX-License-Identifier: Apache-2.0
/* Our decoder against libjpeg's on the same bytes: the same pixels, whatever is cut out, or both
 * fail. */
#include "unit.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "loader/image/jpeg_i.h"
#include "pictures.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_boxes),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
