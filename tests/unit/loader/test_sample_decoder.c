// SPDX-License-Identifier: Apache-2.0
/* From the public spec to one sample. What images and sounds look like is tested below. */
#include "unit.h"

#include "loader/sample_decoder.h"

static struct dlc_loader_spec images(void)
{
    return (struct dlc_loader_spec){
        .kind = DLC_IMAGES,
        .batch = 2,
        .image = {.width = 20, .height = 10, .crop = DLC_CROP_RANDOM_RESIZED}};
}

static void test_defaults_of_images(void **state)
{
    struct dlc_loader_spec spec = images();
    struct dlc_err err = DLC_ERR_INIT;
    struct decode_spec m;

    (void)state;
    assert_int_equal(decode_spec_init(&m, &spec, &err), 0);
    assert_int_equal(m.bytes, 20 * 10 * 3);
    assert_true(m.image.scale[0] == 0.08 && m.image.scale[1] == 1);
    assert_true(m.image.ratio[0] == 0.75);
    assert_true(m.image.brightness[0] == 1 && m.image.brightness[1] == 1);
    assert_true(m.image.hue[0] == 0 && m.image.hue[1] == 0);
    spec.image.dtype = DLC_F16;
    assert_int_equal(decode_spec_init(&m, &spec, &err), 0);
    assert_int_equal(m.bytes, 20 * 10 * 3 * 2);
}

static void refuse(const struct dlc_loader_spec *spec, const char *word)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct decode_spec m;

    assert_int_equal(decode_spec_init(&m, spec, &err), DLC_EINVAL);
    if (strstr(err.text, word) == NULL)
        fail_msg("no '%s' in: %s", word, err.text);
}

static void test_refusals(void **state)
{
    struct dlc_loader_spec spec = images();

    (void)state;
    spec.image.dtype = DLC_I64;
    refuse(&spec, "uint8, float32 or float16");
    spec = images();
    spec.image.crop = 9;
    refuse(&spec, "crop 9");
    spec.kind = 7;
    refuse(&spec, "kind 7");
    spec = (struct dlc_loader_spec){.kind = DLC_TENSORS, .tensor = {.dtype = DLC_F32, .ndim = 9}};
    refuse(&spec, "9 dimensions");
}

static void test_tensors(void **state)
{
    const struct dlc_loader_spec spec = {
        .kind = DLC_TENSORS,
        .tensor = {.dtype = DLC_F32, .raw = 1, .stored = DLC_U8, .ndim = 2, .shape = {2, 2}}};
    const unsigned char raw[4] = {1, 2, 3, 255};
    struct dlc_err err = DLC_ERR_INIT;
    const struct sample_part part = {0, 0, 1};
    struct decode_spec m;
    struct sample_decoder *k;
    uint32_t length;
    float out[4];

    (void)state;
    assert_int_equal(decode_spec_init(&m, &spec, &err), 0);
    assert_int_equal(m.bytes, sizeof(out));
    k = sample_decoder_new(&m);
    assert_int_equal(sample_decoder_run(k, SAMPLE_ENCODED, raw, 4, 0, &part, out, &length, &err),
                     0);
    assert_true(out[0] == 1 && out[3] == 255);
    assert_true(sample_decoder_run(k, SAMPLE_ENCODED, raw, 3, 0, &part, out, &length, &err) < 0);
    sample_decoder_free(&k);
    assert_null(k);
}

static void test_keys(void **state)
{
    const struct decode_spec m = {.seed = 3}, other = {.seed = 4};

    (void)state;
    assert_true(decode_spec_random_key(&m, 1, 2, 0) == decode_spec_random_key(&m, 1, 2, 0));
    assert_true(decode_spec_random_key(&m, 1, 2, 0) != decode_spec_random_key(&other, 1, 2, 0));
    assert_true(decode_spec_random_key(&m, 1, 2, 0) !=
                decode_spec_random_key(&m, 1, 2, 1)); /* no place is not the first */
    assert_true(decode_spec_random_key(&m, 1, 2, 1) == decode_spec_random_key(&m, 1, 2, 1));
    assert_true(decode_spec_random_key(&m, 1, 2, 1) !=
                decode_spec_random_key(&m, 1, 2, 2)); /* the same sample again */
    assert_true(decode_spec_random_key(&m, 1, 2, 1) !=
                decode_spec_random_key(&m, 1, 3, 1)); /* another one at a place */
    assert_true(decode_spec_random_key(&m, 1, 2, 1) != decode_spec_random_key(&m, 2, 2, 1));
    assert_true(decode_spec_random_key(&m, 1, 2, 1) != decode_spec_random_key(&other, 1, 2, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_of_images),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
