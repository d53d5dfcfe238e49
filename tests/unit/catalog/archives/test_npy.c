// SPDX-License-Identifier: Apache-2.0
#include "scanning.h"

#include "catalog/archives/npy_header.h"

static struct scanning k;
static struct buf made = BUF_INIT;

/* A file as numpy.save() writes it, then `bytes` bytes of data that count up. */
static void make(unsigned major, const char *dict, size_t bytes)
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
    for (size_t i = 0; i < bytes; i++)
        buf_addc(&made, (char)i);
}

static int run(uint64_t partition)
{
    k.limits.partition_bytes = partition;
    return scanning_run(&k, "a.npy", made.data, made.len);
}

static void test_partitions(void **state)
{
    (void)state;
    for (unsigned major = 1; major <= 3; major++) {
        struct npy_head h;
        unsigned char expected = 0;

        make(major, "{'descr': '<f4', 'fortran_order': False, 'shape': (10, 2, 3), }", 240);
        assert_int_equal(run(128 + 24 * 4 + 23), 0);
        assert_int_equal(k.n, 3);
        assert_string_equal(k.samples[0].name, "rows 0-3");
        assert_string_equal(k.samples[2].name, "rows 8-9");
        for (size_t i = 0; i < 3; i++) {
            const struct buf *b = scanning_bytes(&k, i);

            assert_memory_equal(b->data, "\x93NUMPY", 6);
            assert_int_equal(b->data[6], major == 3 ? 3 : 1);
            assert_true(b->len <= 128 + 24 * 4);
            assert_int_equal((b->len - (i < 2 ? 96u : 48u)) % 64, 0);
            for (size_t at = b->len - (i < 2 ? 96u : 48u); at < b->len; at++)
                assert_int_equal((unsigned char)b->data[at], expected++);
            assert_null(npy_head_parse(&h, b->data + (major == 3 ? 12 : 10),
                                       (size_t)(strchr(b->data + 12, '\n') - b->data) -
                                           (major == 3 ? 12 : 10)));
            assert_int_equal(h.dims[0], i < 2 ? 4 : 2);
            assert_int_equal(h.n_dims, 3);
            assert_int_equal(h.item, 4);
        }
    }
}

static void test_shapes(void **state)
{
    (void)state;
    make(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (7,), }", 7);
    assert_int_equal(run(1), 0);
    assert_int_equal(k.n, 7);
    assert_non_null(strstr(scanning_bytes(&k, 6)->data + 10, "'fortran_order': False"));
    assert_int_equal(scanning_bytes(&k, 6)->data[scanning_bytes(&k, 6)->len - 1], 6);

    make(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 5), }", 0);
    assert_int_equal(run(1), 0);
    assert_int_equal(k.n, 0);

    make(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (5, 0), }", 0);
    assert_int_equal(run(1), 0);
    assert_int_equal(k.n, 1);
    assert_string_equal(k.samples[0].name, "rows 0-4");

    make(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (), }", 8);
    assert_int_equal(run(1), 0);
    assert_int_equal(k.n, 1);
    assert_int_equal(scanning_bytes(&k, 0)->len, made.len);

    make(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (2L, 1L), }", 16);
    assert_int_equal(run(0), 0);
    assert_int_equal(k.n, 1);
}

static void test_sizes_of_dtypes(void **state)
{
    static const struct {
        const char *descr;
        uint64_t size;
    } cases[] = {
        {"'|b1'", 1},
        {"'<f2'", 2},
        {"\">c16\"", 16},
        {"'|S5'", 5},
        {"'<U5'", 20},
        {"'<M8[ns]'", 8},
        {"'<m8'", 8},
        {"'|V13'", 13},
        {"'|S0'", 0},
        {"[('a', '<f4'), ('b', '|u1')]", 5},
        {"[('a', '<f4', (2, 3)), ('', '|V4')]", 28},
        {"[('a', '<f4', (2,))]", 8},
        {"[(('title', 'a'), '<i2'), ('it\\'s', [('x', '|S3'), ('y', '<U2')])]", 13},
    };
    struct npy_head h;

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        char *dict =
            mem_fmt("{'shape': (3,), 'fortran_order': False, 'descr': %s}", cases[i].descr);

        assert_null(npy_head_parse(&h, dict, strlen(dict)));
        assert_int_equal(h.item, cases[i].size);
        assert_int_equal(h.descr_len, strlen(cases[i].descr));
        assert_memory_equal(h.descr, cases[i].descr, h.descr_len);
        make(1, dict, 3 * cases[i].size);
        assert_int_equal(run(1), 0);
        assert_int_equal(k.n, cases[i].size == 0 ? 1 : 3);
        assert_non_null(strstr(scanning_bytes(&k, 0)->data + 10, cases[i].descr));
        mem_free(&dict);
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *dict, *says;
        int code;
    } cases[] = {
        {"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", "Python objects", DLC_EINVAL},
        {"{'descr': [('a', '<i4'), ('b', 'O')], 'fortran_order': False, 'shape': (3,)}",
         "Python objects", DLC_EINVAL},
        {"{'descr': '<i4', 'fortran_order': True, 'shape': (3, 2)}", "Fortran", DLC_EINVAL},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}", "after its array", DLC_EINVAL},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (30,)}", "cut short", DLC_ECORRUPT},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387904,)}", "cut short",
         DLC_ECORRUPT},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1, 4611686018427387904)}", "too large",
         DLC_ECORRUPT},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "bad shape",
         DLC_ECORRUPT},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (-1,)}", "bad shape", DLC_ECORRUPT},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': 3}", "bad shape", DLC_ECORRUPT},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (3", "bad shape", DLC_ECORRUPT},
        {"{'descr': '<i4', 'fortran_order': 0, 'shape': (3,)}", "fortran_order", DLC_ECORRUPT},
        {"{'descr': '<i4', 'fortran_order': False}", "no dtype, order or shape", DLC_ECORRUPT},
        {"{'descr': '<i4', 'descr': '<i4'}", "belong", DLC_ECORRUPT},
        {"{'descr': '<i4', 'evil': __import__('os')}", "belong", DLC_ECORRUPT},
        {"{'descr': '<i4' 'shape': (3,)}", "bad dictionary", DLC_ECORRUPT},
        {"{'descr': '<i4'", "bad dictionary", DLC_ECORRUPT},
        {"{'descr': '<x4'}", "bad dtype", DLC_ECORRUPT},
        {"{'descr': ''}", "bad dtype", DLC_ECORRUPT},
        {"{'descr': '<i'}", "bad dtype", DLC_ECORRUPT},
        {"{'descr': '<i4x'}", "bad dtype", DLC_ECORRUPT},
        {"{'descr': '<U4611686018427387904'}", "bad dtype", DLC_ECORRUPT},
        {"{'descr': '|V3000000000'}", "bad dtype", DLC_ECORRUPT},
        {"{'descr': [('a', '|V99999', (99999,))]}", "bad dtype", DLC_ECORRUPT},
        {"{'descr': [[[[[[[[[[[[[[[[[[[[", "bad dtype", DLC_ECORRUPT},
        {"{'descr': [('a', [('a', [('a', [('a', [('a', [('a', [('a', [('a', [('a', [('a', [('a', "
         "[('a', [('a', [('a', [('a', [('a', [('a', [('a', "
         "'<i4')])])])])])])])])])])])])])])])])])]}",
         "bad dtype", DLC_ECORRUPT},
        {"['descr']", "no dictionary", DLC_ECORRUPT},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (3,)} + x", "after the dictionary",
         DLC_ECORRUPT},
        {"", "no dictionary", DLC_ECORRUPT},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        make(1, cases[i].dict, 40);
        assert_int_equal(run(1), cases[i].code);
        if (strstr(k.err.text, cases[i].says) == NULL)
            fail_msg("case %zu: %s", i, k.err.text);
        assert_int_equal(k.n, 0);
    }
}

static void test_bad_starts(void **state)
{
    (void)state;
    make(2, "{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}", 12);
    made.data[6] = 4;
    assert_int_equal(run(1), DLC_ECORRUPT);
    assert_non_null(strstr(k.err.text, "version"));
    made.data[6] = 2;
    made.data[11] = 1;
    assert_int_equal(run(1), DLC_ECORRUPT);
    assert_non_null(strstr(k.err.text, "1 MiB"));
    made.data[0] = 'x';
    assert_int_equal(run(1), DLC_ECORRUPT);
    assert_non_null(strstr(k.err.text, "magic"));
}

static void test_a_header_that_needs_version_2(void **state)
{
    struct buf dict = BUF_INIT;

    (void)state;
    buf_adds(&dict, "{'descr': [");
    for (int i = 0; i < 5000; i++)
        buf_addf(&dict, "('field%d', '|u1'), ", i);
    buf_adds(&dict, "], 'fortran_order': False, 'shape': (2,), }");
    make(2, dict.data, 10000);
    assert_int_equal(run(1), 0);
    assert_int_equal(k.n, 2);
    assert_int_equal(scanning_bytes(&k, 0)->data[6], 2);
    assert_int_equal((scanning_bytes(&k, 0)->len - 5000) % 64, 0);
    buf_release(&dict);
}

static void test_cut_short_and_failures(void **state)
{
    (void)state;
    make(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}", 12);
    k.limits.partition_bytes = 1;
    scanning_cut_everywhere(&k, "a.npy", &made, 1000);
    scanning_fail_everywhere(&k, "a.npy", &made);
}

static int tear_down(void **state)
{
    (void)state;
    scanning_release(&k);
    buf_release(&made);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partitions),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_sizes_of_dtypes),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bad_starts),
        cmocka_unit_test(test_a_header_that_needs_version_2),
        cmocka_unit_test(test_cut_short_and_failures),
    };

    return cmocka_run_group_tests(tests, NULL, tear_down);
}
