// SPDX-License-Identifier: Apache-2.0
/* Is what chance decides within the policy, the same for ever, and torchvision's where it is fixed?
 */
#include "unit.h"

#include <math.h>

#include "base/err.h"
#include "pictures.h"

static void test_boxes_lie_in_the_image_and_the_policy(void **state)
{
    struct image_spec spec = picture_spec(224, 224);
    double sum = 0;
    unsigned flips = 0, n = 20000;

    (void)state;
    for (unsigned i = 0; i < n; i++) {
        struct image_plan p;
        double share, ratio;

        image_plan(&spec, image_key(1, 2, i), 500, 375, &p);
        assert_true(p.width > 0 && p.x + p.width <= 500 && p.height > 0 && p.y + p.height <= 375);
        share = p.width * p.height / (500.0 * 375);
        ratio = (double)p.width / p.height;
        assert_true(share > 0.075 && share <= 1 && ratio > 0.73 && ratio < 1.37);
        assert_true(p.to_width == 224 && p.to_height == 224 && p.left == 0 && p.top == 0);
        sum += share;
        flips += p.flip;
    }
    assert_true(sum / n > 0.42 && sum / n < 0.445); /* torchvision's: 0.434 over as many */
    assert_true(flips > n * 0.48 && flips < n * 0.52);
}

static void test_the_same_for_ever(void **state)
{
    struct image_spec spec = picture_spec(224, 224);
    struct image_plan p;

    (void)state;
    assert_true(image_key(7, 3, 11) == image_key(7, 3, 11));
    assert_true(image_key(7, 3, 11) != image_key(7, 3, 12));
    assert_true(image_key(7, 3, 11) != image_key(7, 4, 11));
    assert_true(image_key(7, 3, 11) != image_key(8, 3, 11));
    image_plan(&spec, image_key(7, 3, 11), 500, 375, &p);
    assert_int_equal(p.x, 82);
    assert_int_equal(p.y, 105);
    assert_int_equal(p.width, 264);
    assert_int_equal(p.height, 202);
    assert_int_equal(p.flip, 0);
}

/* One augmentation more leaves the others as they were. */
static void test_purposes_are_independent(void **state)
{
    struct image_spec spec = picture_spec(224, 224), more = spec;

    (void)state;
    more.flip = 1;
    more.brightness[1] = 2;
    more.hue[0] = -0.1;
    for (unsigned i = 0; i < 100; i++) {
        struct image_plan a, b;

        image_plan(&spec, image_key(1, 1, i), 300, 400, &a);
        image_plan(&more, image_key(1, 1, i), 300, 400, &b);
        assert_true(a.x == b.x && a.y == b.y && a.width == b.width && a.height == b.height);
        assert_true(b.flip && b.factor[0] >= 1 && b.factor[0] < 2 && b.factor[3] <= 0);
        assert_true(a.factor[0] == 1 && a.factor[1] == 1 && a.factor[2] == 1 && a.factor[3] == 0);
        assert_memory_equal(a.jitter, b.jitter, 4);
    }
}

static void test_every_order_of_jitter(void **state)
{
    struct image_spec spec = picture_spec(8, 8);
    unsigned seen[256] = {0}, kinds = 0;

    (void)state;
    for (unsigned i = 0; i < 2400; i++) {
        struct image_plan p;
        unsigned code = 0, all = 0;

        image_plan(&spec, image_key(5, 0, i), 10, 10, &p);
        for (int k = 0; k < 4; k++) {
            code = code * 4 + p.jitter[k];
            all |= 1u << p.jitter[k];
        }
        assert_int_equal(all, 15);
        kinds += seen[code]++ == 0;
    }
    assert_int_equal(kinds, 24);
    for (unsigned i = 0; i < 256; i++)
        assert_true(seen[i] == 0 || (seen[i] > 50 && seen[i] < 160));
}

/* No box fits: the middle, with the nearest ratio. */
static void test_fallback(void **state)
{
    static const struct {
        uint32_t width, height, x, y, w, h;
    } cases[] = {
        {1000, 10, 493, 0, 13, 10},
        {10, 1000, 0, 493, 10, 13},
        {1, 1, 0, 0, 1, 1},
        {65500, 1, 32749, 0, 1, 1},
    };
    struct image_spec spec = picture_spec(224, 224);

    (void)state;
    spec.scale[0] = spec.scale[1] = 1;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct image_plan p;

        image_plan(&spec, i, cases[i].width, cases[i].height, &p);
        assert_int_equal(p.x, cases[i].x);
        assert_int_equal(p.y, cases[i].y);
        assert_int_equal(p.width, cases[i].w);
        assert_int_equal(p.height, cases[i].h);
    }
}

/* torchvision's Resize and CenterCrop: longer side cut off, the middle rounded half to even, the
 * odd pixel of padding behind. */
static void test_centre(void **state)
{
    static const struct {
        uint32_t width, height, resize, out;
        int64_t to_width, to_height, left, top;
    } cases[] = {
        {500, 375, 256, 224, 341, 256, 58, 16}, /* 58.5 */
        {375, 500, 256, 224, 256, 341, 16, 58},
        {100, 100, 0, 33, 100, 100, 34, 34}, /* 33.5 */
        {10, 20, 0, 15, 10, 20, -2, 2},      /* 2.5 */
        {1, 65500, 16384, 8, 16384, 1073152000, 8188, 536575996},
    };
    struct image_spec spec = picture_spec(1, 1);

    (void)state;
    spec.crop = IMAGE_CENTRE;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct image_plan p;

        spec.resize = cases[i].resize;
        spec.width = spec.height = cases[i].out;
        image_plan(&spec, 1, cases[i].width, cases[i].height, &p);
        assert_true(p.x == 0 && p.y == 0);
        assert_true(p.width == cases[i].width && p.height == cases[i].height);
        assert_int_equal(p.to_width, cases[i].to_width);
        assert_int_equal(p.to_height, cases[i].to_height);
        assert_int_equal(p.left, cases[i].left);
        assert_int_equal(p.top, cases[i].top);
    }
}

static void refused(struct image_spec spec, const char *word)
{
    struct dlc_err err = DLC_ERR_INIT;

    assert_int_equal(image_check_spec(&spec, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, word));
}

#define WITH(change, word)                                                                         \
    do {                                                                                           \
        struct image_spec spec = picture_spec(224, 224);                                           \
        spec.change;                                                                               \
        refused(spec, word);                                                                       \
    } while (0)

static void test_specs_that_are_refused(void **state)
{
    struct image_spec good = picture_spec(224, 224);

    (void)state;
    assert_int_equal(image_check_spec(&good, NULL), 0);
    WITH(width = 0, "0x224");
    WITH(height = 16385, "224x16385");
    WITH(scale[0] = 0, "scale");
    WITH(scale[0] = 2, "scale");
    WITH(scale[1] = NAN, "scale");
    WITH(ratio[0] = -1, "ratio");
    WITH(ratio[1] = INFINITY, "ratio");
    WITH(flip = 1.5, "flip");
    WITH(flip = NAN, "flip");
    WITH(brightness[0] = -1, "brightness");
    WITH(saturation[0] = 1.5, "saturation");
    WITH(hue[1] = 0.6, "hue");
    WITH(normalise = true, "uint8");
    good.type = IMAGE_F32;
    good.normalise = true;
    refused(good, "std");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes_lie_in_the_image_and_the_policy),
        cmocka_unit_test(test_the_same_for_ever),
        cmocka_unit_test(test_purposes_are_independent),
        cmocka_unit_test(test_every_order_of_jitter),
        cmocka_unit_test(test_fallback),
        cmocka_unit_test(test_centre),
        cmocka_unit_test(test_specs_that_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
