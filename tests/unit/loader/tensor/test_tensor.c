// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "loader/tensor/tensor.h"

static struct buf made = BUF_INIT;
static const struct tensor_spec floats = {
    .format = TENSOR_NPY, .type = TENSOR_F32, .n_dims = 2, .dims = {2, 3}};

/* A file as numpy.save() writes it, then data. */
static void make(unsigned major, const char *dict, const void *data, size_t bytes)
{
    size_t before = major == 1 ? 10 : 12, text = strlen(dict) + 1;
    size_t n = DLC_ALIGN_UP(before + text, (size_t)64) - before;

    buf_clear(&made);
    buf_add(&made, "\x93NUMPY", 6);
    buf_addc(&made, (char)major);
    buf_addc(&made, 0);
    for (size_t i = 0; i < before - 8; i++)
        buf_addc(&made, (char)(n >> 8 * i));
    buf_adds(&made, dict);
    for (; text < n; text++)
        buf_addc(&made, ' ');
    buf_addc(&made, '\n');
    buf_add(&made, data, bytes);
}

static void open_good(const struct tensor_spec *spec, struct tensor_rows *rows)
{
    struct dlc_err err = DLC_ERR_INIT;

    assert_int_equal(tensor_check_spec(spec, &err), 0);
    if (tensor_open(made.data, made.len, spec, rows, &err) != 0)
        fail_msg("%s", err.text);
}

static void refuse(const struct tensor_spec *spec, int code, const char *words)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct tensor_rows rows;

    assert_int_equal(tensor_open(made.data, made.len, spec, &rows, &err), code);
    if (strstr(err.text, words) == NULL)
        fail_msg("expected '%s' in: %s", words, err.text);
}

static void test_npy_of_every_version(void **state)
{
    const float x[6] = {1, 2, 3, -4, 5.5f, 6};
    float out[6];

    (void)state;
    for (unsigned major = 1; major <= 3; major++) {
        struct tensor_rows rows;

        make(major, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", x, sizeof(x));
        open_good(&floats, &rows);
        assert_int_equal(rows.count, 1);
        assert_int_equal(rows.stored, TENSOR_F32);
        assert_int_equal(tensor_make(&rows, &floats, 0, 1, out, NULL), 0);
        assert_memory_equal(out, x, sizeof(x));
    }
}

static void test_rows(void **state)
{
    struct tensor_spec spec = {.type = TENSOR_I64, .n_dims = 1, .dims = {2}};
    const int16_t x[8] = {0, -1, 2, -3, 4, -5, 6, -7};
    struct dlc_err err = DLC_ERR_INIT;
    struct tensor_rows rows;
    int64_t out[4];

    (void)state;
    make(1, "{'descr': '<i2', 'fortran_order': False, 'shape': (4, 2), }", x, sizeof(x));
    open_good(&spec, &rows);
    assert_int_equal(rows.count, 4);
    assert_int_equal(tensor_make(&rows, &spec, 1, 2, out, &err), 0);
    assert_true(out[0] == 2 && out[1] == -3 && out[2] == 4 && out[3] == -5);
    assert_int_equal(tensor_make(&rows, &spec, 4, 0, out, &err), 0);
    assert_int_equal(tensor_make(&rows, &spec, 3, 2, out, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "there are 4"));
    assert_int_equal(tensor_make(&rows, &spec, UINT64_MAX, 2, out, &err), DLC_EINVAL);
    assert_int_equal(tensor_make(&rows, &spec, 2, UINT64_MAX, out, &err), DLC_EINVAL);
}

static void test_one_number(void **state)
{
    struct tensor_spec spec = {.type = TENSOR_F32};
    const double x[2] = {2.5, 7};
    struct tensor_rows rows;
    float out[2];

    (void)state;
    make(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }", x, 8);
    open_good(&spec, &rows);
    assert_int_equal(rows.count, 1);
    assert_int_equal(tensor_make(&rows, &spec, 0, 1, out, NULL), 0);
    assert_true(out[0] == 2.5f);
    make(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", x, 16);
    open_good(&spec, &rows);
    assert_int_equal(rows.count, 2);
    assert_int_equal(tensor_make(&rows, &spec, 0, 2, out, NULL), 0);
    assert_true(out[1] == 7);
}

static void test_raw(void **state)
{
    struct tensor_spec spec = {
        .format = TENSOR_RAW, .stored = TENSOR_U8, .type = TENSOR_F32, .n_dims = 1, .dims = {3}};
    struct tensor_rows rows;
    float out[3];

    (void)state;
    buf_clear(&made);
    buf_add(&made, "\0\1\2\3\4\5\xff\7\x08", 9);
    open_good(&spec, &rows);
    assert_int_equal(rows.count, 3);
    assert_int_equal(tensor_make(&rows, &spec, 2, 1, out, NULL), 0);
    assert_true(out[0] == 255 && out[1] == 7 && out[2] == 8);
    made.len = 8;
    refuse(&spec, DLC_ECORRUPT, "no multiple of a record of 3");
    made.len = 0;
    refuse(&spec, DLC_ECORRUPT, "has 0 bytes");
}

static void test_headers_that_are_refused(void **state)
{
    static const struct {
        const char *dict;
        int code;
        const char *words;
    } bad[] = {
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", DLC_EINVAL, "Fortran"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", DLC_EINVAL, "dtype '>f4'"},
        {"{'descr': '|f4', 'fortran_order': False, 'shape': (2, 3), }", DLC_EINVAL, "dtype"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3), }", DLC_EINVAL, "dtype"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }", DLC_EINVAL, "dtype '|O'"},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (2, 3), }", DLC_EINVAL, "dtype"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }", DLC_EINVAL,
         "dtype"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", DLC_EINVAL,
         "shape (3, 2); expected is (2, 3)"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", DLC_EINVAL, "shape (6,);"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 2, 3), }", DLC_EINVAL, "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", DLC_EINVAL, "shape ();"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 3), }", DLC_ECORRUPT,
         "24 bytes"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", DLC_ECORRUPT, "24 bytes"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }", DLC_ECORRUPT, "24 bytes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2, 3), }", DLC_ECORRUPT,
         "24 bytes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775809, 2, 3), }",
         DLC_ECORRUPT, "24 bytes"},
        {"{'descr': '<f4', 'fortran_order': False, }", DLC_ECORRUPT, "npy header"},
        {"import os", DLC_ECORRUPT, "no dictionary"},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++) {
        make(1, bad[i].dict, (const float[6]){0}, 24);
        refuse(&floats, bad[i].code, bad[i].words);
    }
}

static void test_what_is_no_npy(void **state)
{
    (void)state;
    make(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", (const float[6]){0}, 24);
    made.data[6] = 4;
    refuse(&floats, DLC_ECORRUPT, "unknown version");
    made.data[6] = 2; /* the length has two bytes more then */
    refuse(&floats, DLC_ECORRUPT, "in the npy header");
    made.data[6] = 1;
    made.data[9] = (char)0xff;
    refuse(&floats, DLC_ECORRUPT, "a length of more than there is");
    made.data[0] = 'x';
    refuse(&floats, DLC_ECORRUPT, "no magic number");
    made.len = 11;
    refuse(&floats, DLC_ECORRUPT, "no magic number");
    buf_clear(&made);
    refuse(&floats, DLC_ECORRUPT, "no magic number");
}

static void test_cut_anywhere(void **state)
{
    size_t whole;

    (void)state;
    make(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", (const float[6]){0}, 24);
    whole = made.len;
    for (made.len = 0; made.len < whole; made.len++)
        refuse(&floats, DLC_ECORRUPT, "");
    buf_addc(&made, 0); /* and longer */
    refuse(&floats, DLC_ECORRUPT, "25 bytes");
}

static void test_a_number_that_does_not_fit(void **state)
{
    struct tensor_spec spec = {.type = TENSOR_U8, .n_dims = 1, .dims = {2}};
    const float x[6] = {0, 1, 2, 3, 4, 256};
    struct dlc_err err = DLC_ERR_INIT;
    struct tensor_rows rows;
    uint8_t out[6];

    (void)state;
    make(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", x, sizeof(x));
    open_good(&spec, &rows);
    assert_int_equal(tensor_make(&rows, &spec, 0, 2, out, &err), 0);
    assert_int_equal(tensor_make(&rows, &spec, 1, 2, out, &err), DLC_EINVAL);
    assert_string_equal(err.text, "number 1 of row 2 (float32) does not fit uint8");
}

static void test_specs_that_are_refused(void **state)
{
    struct tensor_spec bad[] = {
        {.type = TENSOR_F64},
        {.type = (enum tensor_type)99},
        {.type = TENSOR_F32, .format = (enum tensor_format)7},
        {.type = TENSOR_F32, .format = TENSOR_RAW, .stored = (enum tensor_type)12},
        {.type = TENSOR_F32, .n_dims = 9},
        {.type = TENSOR_F32, .n_dims = 1, .dims = {0}},
        {.type = TENSOR_F32, .n_dims = 2, .dims = {1u << 31, 1u << 31}},
        {.type = TENSOR_F32, .n_dims = 3, .dims = {1u << 31, 1u << 31, 1u << 31}},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++) {
        struct dlc_err err = DLC_ERR_INIT;

        assert_int_equal(tensor_check_spec(&bad[i], &err), DLC_EINVAL);
        assert_true(err.text[0] != '\0');
    }
    assert_int_equal(tensor_bytes(&floats), 24);
}

static int release(void **state)
{
    (void)state;
    buf_release(&made);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npy_of_every_version),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_one_number),
        cmocka_unit_test(test_raw),
        cmocka_unit_test(test_headers_that_are_refused),
        cmocka_unit_test(test_what_is_no_npy),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_a_number_that_does_not_fit),
        cmocka_unit_test(test_specs_that_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, release);
}
