// SPDX-License-Identifier: Apache-2.0
/* What is known of an image before it is decoded. */
#include "unit.h"

#include <png.h>

#include "base/err.h"
#include "loader/image/image_i.h"
#include "pictures.h"

static struct buf data = BUF_INIT;
static struct image_spec spec;

static int set_up(void **state)
{
    (void)state;
    spec = picture_spec(224, 224);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_release(&data);
    return 0;
}

static struct image_head head_of(void)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct image_head head = {0};

    assert_int_equal(image_read_head(data.data, data.len, &spec, &head, &err), 0);
    return head;
}

static void test_jpeg(void **state)
{
    static const struct {
        struct picture_jpeg how;
        unsigned components;
        bool progressive, yuv420;
    } cases[] = {
        {{0}, 3, false, true},
        {{.h = 1, .v = 1}, 3, false, false},
        {{.h = 2, .v = 1}, 3, false, false},
        {{.progressive = true}, 3, true, true},
        {{.components = 1}, 1, false, false},
        {{.components = 4}, 4, false, false},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct image_head head;

        picture_jpeg(&data, 37, 21, &cases[i].how);
        head = head_of();
        assert_int_equal(head.format, IMAGE_JPEG);
        assert_true(head.width == 37 && head.height == 21 && head.orientation == 1);
        assert_int_equal(head.components, cases[i].components);
        assert_int_equal(head.progressive, cases[i].progressive);
        assert_int_equal(head.yuv420, cases[i].yuv420);
    }
}

static void test_png(void **state)
{
    static const struct {
        int colour, bits;
        bool interlaced;
        unsigned components;
    } cases[] = {
        {PNG_COLOR_TYPE_RGB, 8, false, 3},     {PNG_COLOR_TYPE_RGB_ALPHA, 16, true, 4},
        {PNG_COLOR_TYPE_GRAY, 1, false, 1},    {PNG_COLOR_TYPE_GRAY_ALPHA, 8, false, 2},
        {PNG_COLOR_TYPE_PALETTE, 4, false, 1},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct image_head head;

        picture_png(&data, 19, 40, cases[i].colour, cases[i].bits, cases[i].interlaced);
        head = head_of();
        assert_true(head.format == IMAGE_PNG && head.width == 19 && head.height == 40);
        assert_int_equal(head.components, cases[i].components);
        assert_int_equal(head.progressive, cases[i].interlaced);
    }
}

/* Put a segment behind the first two bytes. */
static void insert(unsigned marker, const void *body, size_t n)
{
    struct buf with = BUF_INIT;
    char start[4] = {(char)0xff, (char)marker, (char)((n + 2) >> 8), (char)(n + 2)};

    buf_add(&with, data.data, 2);
    buf_add(&with, start, 4);
    buf_add(&with, body, n);
    buf_add(&with, data.data + 2, data.len - 2);
    buf_release(&data);
    data = with;
}

static const char exif[] = "Exif\0\0II*\0\x08\0\0\0\x02\0"
                           "\0\1\3\0\1\0\0\0\7\0\0\0"
                           "\x12\1\3\0\1\0\0\0\6\0\0\0";

static void test_orientation(void **state)
{
    struct image_head head;

    (void)state;
    picture_jpeg(&data, 37, 21, NULL);
    insert(0xe1, exif, sizeof(exif) - 1);
    insert(0xe1, "http://ns.adobe.com/xap/1.0/", 29);
    head = head_of();
    assert_true(head.orientation == 6 && head.width == 21 && head.height == 37);
    assert_int_equal(image_stored_width(&head), 37);
}

/* Cut anywhere, and with any byte wrong: a number from 1 to 8, and no step outside. */
static void test_orientation_of_nonsense(void **state)
{
    size_t n = sizeof(exif) - 7;

    (void)state;
    assert_int_equal(image_exif_orientation((const uint8_t *)exif + 6, n), 6);
    for (size_t len = 0; len < n; len++) {
        uint8_t *copy = malloc(len + 1);

        memcpy(copy, exif + 6, len);
        assert_int_equal(image_exif_orientation(copy, len), 1);
        free(copy);
    }
    for (size_t i = 0; i < n; i++)
        for (int v = 0; v < 256; v++) {
            uint8_t *copy = malloc(n);
            uint8_t o;

            memcpy(copy, exif + 6, n);
            copy[i] = (uint8_t)v;
            o = image_exif_orientation(copy, n);
            assert_true(o >= 1 && o <= 8);
            free(copy);
        }
}

static void fails(int code, const char *word)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct image_head head;

    assert_int_equal(image_read_head(data.data, data.len, &spec, &head, &err), code);
    if (strstr(err.text, word) == NULL)
        fail_msg("'%s' has no '%s'", err.text, word);
}

static void test_what_is_no_image(void **state)
{
    (void)state;
    buf_clear(&data);
    fails(DLC_EINVAL, "nothing");
    buf_adds(&data, "GIF89a");
    fails(DLC_EINVAL, "47 49 46 38");
    buf_clear(&data);
    buf_add(&data, "\xff\xd8\xff", 3);
    fails(DLC_ECORRUPT, "ends before");
    buf_add(&data, "\xd9", 1);
    fails(DLC_ECORRUPT, "without a frame");
    buf_clear(&data);
    buf_add(&data, "\x89PNG\r\n\x1a\n", 8);
    fails(DLC_ECORRUPT, "first chunk");
}

static void test_limit(void **state)
{
    (void)state;
    picture_jpeg(&data, 100, 50, NULL);
    spec.max_pixels = 5000;
    head_of();
    spec.max_pixels = 4999;
    fails(DLC_EINVAL, "100x50");
    spec.max_pixels = 0;
    for (size_t i = 0; i + 9 < data.len; i++)
        if (memcmp(data.data + i, "\xff\xc0\0\x11\x08", 5) == 0)
            memcpy(data.data + i + 5, "\xff\xdc\xff\xdc", 4);
    fails(DLC_EINVAL, "65500x65500");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_jpeg, set_up),
        cmocka_unit_test_setup(test_png, set_up),
        cmocka_unit_test_setup(test_orientation, set_up),
        cmocka_unit_test_setup(test_orientation_of_nonsense, set_up),
        cmocka_unit_test_setup(test_what_is_no_image, set_up),
        cmocka_unit_test_setup(test_limit, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, tear_down);
}
