// SPDX-License-Identifier: Apache-2.0
/* Forms whose header lies, that are cut, or that belong to another spec. Their pixels are compared
 * by tests/python/loader. */
#include "unit.h"

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"
#include "loader/image/image_i.h"
#include "pictures.h"

static struct buf jpeg = BUF_INIT;
static struct image_scratch *scratch;
static struct dlc_err err;

static int set_up(void **state)
{
    (void)state;
    picture_jpeg(&jpeg, 90, 71, NULL);
    scratch = image_scratch_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_release(&jpeg);
    image_scratch_free(&scratch);
    return 0;
}

static uint8_t *decoded_of(const struct image_spec *spec, size_t *len)
{
    struct image_head head;
    uint8_t *decoded;
    size_t bound;

    assert_int_equal(image_read_head(jpeg.data, jpeg.len, spec, &head, &err), 0);
    bound = image_decoded_bound(&head, spec);
    decoded = malloc(bound);
    assert_int_equal(
        image_decoded_make(scratch, jpeg.data, jpeg.len, spec, &head, decoded, bound - 1, &err),
        DLC_EINVAL);
    *len =
        (size_t)image_decoded_make(scratch, jpeg.data, jpeg.len, spec, &head, decoded, bound, &err);
    assert_int_equal(*len, bound);
    return decoded;
}

static int use(const uint8_t *decoded, size_t len, const struct image_spec *spec, uint64_t key)
{
    uint8_t *copy = malloc(len), *out = malloc(image_bytes(spec));
    struct image_head head;
    struct image_plan plan;
    int rc;

    memcpy(copy, decoded, len);
    rc = image_decoded_head(copy, len, &head, &err);
    if (rc == 0) {
        image_plan(spec, key, head.width, head.height, &plan);
        rc = image_make(scratch, copy, len, spec, &head, &plan, out, &err);
    }
    assert_true(rc == 0 || rc == DLC_EINVAL || rc == DLC_ECORRUPT || rc == DLC_ENOMEM);
    free(copy);
    free(out);
    return rc;
}

static void lie(struct image_spec spec)
{
    size_t len;
    uint8_t *decoded = decoded_of(&spec, &len);
    static const uint8_t values[] = {0, 1, 2, 3, 4, 7, 8, 9, 0x40, 0x7f, 0x80, 0xff};

    assert_int_equal(use(decoded, len, &spec, 1), 0);
    for (size_t i = 4; i < 64; i++)
        for (size_t v = 0; v < sizeof(values); v++) {
            uint8_t was = decoded[i];

            decoded[i] = values[v];
            for (uint64_t key = 0; key < 3; key++)
                use(decoded, len, &spec, key);
            decoded[i] = was;
        }
    for (size_t cut = 64; cut < len; cut += 1 + len / 200)
        assert_int_equal(use(decoded, cut, &spec, 1), DLC_ECORRUPT);
    free(decoded);
}

static void test_a_header_that_lies(void **state)
{
    struct image_spec spec = picture_spec(30, 20);

    (void)state;
    lie(spec);
    spec.crop = IMAGE_CENTRE;
    spec.resize = 35;
    lie(spec);
}

static void test_not_of_a_form_nor_of_another_image(void **state)
{
    struct image_spec spec = picture_spec(30, 20);
    struct image_head head;
    struct image_plan plan;
    size_t len;
    uint8_t *decoded = decoded_of(&spec, &len), out[1800];

    (void)state;
    assert_int_equal(image_decoded_head(decoded, len, &head, &err), 0);
    assert_int_equal(
        image_decoded_make(scratch, decoded, len, &spec, &head, out, sizeof(out), &err),
        DLC_EINVAL);
    image_plan(&spec, 1, head.width, head.height, &plan);
    assert_int_equal(image_make(scratch, decoded, len, &spec, &head, &plan, out, &err), 0);
    head.width++;
    assert_int_equal(image_make(scratch, decoded, len, &spec, &head, &plan, out, &err), DLC_EINVAL);
    free(decoded);
}

/* An object of a bucket that begins as decoded images do is not one: nobody said so. */
static void test_the_bytes_do_not_decide(void **state)
{
    struct image_spec spec = picture_spec(30, 20);
    struct image_head head;
    size_t len;
    uint8_t *decoded = decoded_of(&spec, &len);

    (void)state;
    assert_int_equal(image_read_head(decoded, len, &spec, &head, &err), DLC_EINVAL);
    assert_int_equal(image_decoded_head(jpeg.data, jpeg.len, &head, &err), DLC_ECORRUPT);
    assert_int_equal(image_decoded_head(decoded, 63, &head, &err), DLC_ECORRUPT);
    free(decoded);
}

/* A window that crosses a multiple of 2^32: positions of 32 bits would lie before its pixels. */
static void test_a_frame_beyond_32_bits(void **state)
{
    struct {
        uint32_t magic;
        uint8_t kind, orientation, format, components;
        uint32_t width, height;
        uint64_t frame[2], at[2];
        uint32_t size[2], reserved[2];
    } h = {.magic = DLC_TAG4('D', 'L', 'i', 'f'), .kind = 1, .orientation = 1, .components = 3};
    size_t len = sizeof(h) + 3 * 112 * 224 + 64;
    uint8_t *decoded = calloc(1, len);
    struct image_spec spec = picture_spec(224, 224);

    (void)state;
    spec.crop = IMAGE_CENTRE;
    spec.resize = 256;
    for (int a = 0; a < 2; a++) {
        h.width = a == 0 ? 1u << 25 : 1;
        h.height = a == 0 ? 1 : 1u << 25;
        h.frame[a] = (uint64_t)1 << 33;
        h.at[a] = 0xffffff90u;
        h.size[a] = 112;
        h.frame[!a] = 256;
        h.at[!a] = 16;
        h.size[!a] = 224;
        memcpy(decoded, &h, sizeof(h));
        assert_int_equal(use(decoded, len, &spec, 1), DLC_ECORRUPT);
    }
    free(decoded);
}

/* Truncated: half an image is not decoded. */
static void test_of_damage(void **state)
{
    struct image_spec spec = picture_spec(30, 20);
    struct image_head head;
    size_t bound;
    uint8_t *decoded;

    (void)state;
    assert_int_equal(image_read_head(jpeg.data, jpeg.len, &spec, &head, &err), 0);
    bound = image_decoded_bound(&head, &spec);
    decoded = malloc(bound);
    assert_int_equal(image_decoded_make(scratch, jpeg.data, jpeg.len * 2 / 3, &spec, &head, decoded,
                                        bound, &err),
                     DLC_ECORRUPT);
    free(decoded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_header_that_lies),
        cmocka_unit_test(test_not_of_a_form_nor_of_another_image),
        cmocka_unit_test(test_the_bytes_do_not_decide),
        cmocka_unit_test(test_a_frame_beyond_32_bits),
        cmocka_unit_test(test_of_damage),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
