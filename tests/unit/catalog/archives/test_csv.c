// SPDX-License-Identifier: Apache-2.0
#include "scanning.h"

static struct scanning k;

static int run(const char *key, const char *text, uint64_t bytes)
{
    k.limits.partition_bytes = bytes;
    return scanning_run(&k, key, text, strlen(text));
}

/* Cuts text and compares with the partitions named; NULL ends them. */
static void test_partitions(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
        enum scan_header header;
        const char *parts[5];
    } cases[] = {
        {"", 10, 0, {NULL}},
        {"\n", 10, 0, {NULL}},
        {"\r\n\n", 10, 0, {NULL}},
        {"a,b\n", 10, 0, {NULL}},
        {"a,b", 10, 0, {NULL}},
        {"\xef\xbb\xbf", 10, 0, {NULL}},
        {"a,b\n1,2\n", 100, 0, {"a,b\n1,2\n"}},
        {"a,b\n1,2", 100, 0, {"a,b\n1,2"}},
        {"a,b\n1,2\n3,4\n5,6\n", 12, 0, {"a,b\n1,2\n3,4\n", "a,b\n5,6\n"}},
        {"a,b\n1,2\n3,4\n5,6", 8, 0, {"a,b\n1,2\n", "a,b\n3,4\n", "a,b\n5,6"}},
        {"a,b\r\n1,2\r\n3,4\r\n", 10, 0, {"a,b\r\n1,2\r\n", "a,b\r\n3,4\r\n"}},
        {"\xef\xbb\xbf"
         "a,b\n1,2\n3,4\n",
         8,
         0,
         {"a,b\n1,2\n", "a,b\n3,4\n"}},
        /* no header: numbers in the first row */
        {"1,2\n3,4\n5,6\n", 8, 0, {"1,2\n3,4\n", "5,6\n"}},
        {"x, -1.5e3 \ny,2\n", 4, 0, {"x, -1.5e3 \n", "y,2\n"}},
        {"1,2\n3,4\n5,6\n", 8, SCAN_HEADER_YES, {"1,2\n3,4\n", "1,2\n5,6\n"}},
        {"a,b\n3,4\n5,6\n", 8, SCAN_HEADER_NO, {"a,b\n3,4\n", "5,6\n"}},
        /* a row that is too long is alone */
        {"h\naaaaaaaaaaaaaaaaaaaaaaaa\nb\nc\n",
         6,
         0,
         {"h\naaaaaaaaaaaaaaaaaaaaaaaa\n", "h\nb\nc\n"}},
        /* quotes */
        {"h\n\"x\ny\"\nz\n", 2, 0, {"h\n\"x\ny\"\n", "h\nz\n"}},
        {"h\n\"x\"\"\ny\"\nz\n", 2, 0, {"h\n\"x\"\"\ny\"\n", "h\nz\n"}},
        {"h\n\"\"\nz\n", 2, 0, {"h\n\"\"\n", "h\nz\n"}},
        {"h\n\"\"\"\n\"\nz\n", 2, 0, {"h\n\"\"\"\n\"\n", "h\nz\n"}},
        {"h,i\nw,\"x\ny\"\nz,a\n", 2, 0, {"h,i\nw,\"x\ny\"\n", "h,i\nz,a\n"}},
        {"h\n5\" pipe\n6\" pipe\n", 2, 0, {"h\n5\" pipe\n", "h\n6\" pipe\n"}},
        {"\"h\n1\",i\na,b\nc,d\n", 2, 0, {"\"h\n1\",i\na,b\n", "\"h\n1\",i\nc,d\n"}},
        {"h\n\"never closed\nz\n", 2, 0, {"h\n\"never closed\nz\n"}},
        /* delimiters */
        {"h;i\nw;\"x\ny\"\nz;a\n", 2, 0, {"h;i\nw;\"x\ny\"\n", "h;i\nz;a\n"}},
        {"h|i\nw|\"x\ny\"\n", 2, 0, {"h|i\nw|\"x\ny\"\n"}},
        /* blank lines are no rows */
        {"\n\na,b\n\n1,2\n\n3,4\n\n\n", 100, 0, {"a,b\n\n1,2\n\n3,4\n\n\n"}},
        {"a\n1\n\n\n\n\n\n2\n", 4, 0, {"a\n1\n", "a\n\n\n\n\n\n2\n"}},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        size_t n = 0;

        k.limits.header = cases[i].header;
        assert_int_equal(run("t.csv", cases[i].text, cases[i].bytes), 0);
        for (; cases[i].parts[n] != NULL; n++) {
            if (n >= k.n || strcmp(buf_str(scanning_bytes(&k, n)), cases[i].parts[n]) != 0)
                fail_msg("case %zu part %zu of %zu: %s", i, n, k.n,
                         n >= k.n ? "missing" : buf_str(scanning_bytes(&k, n)));
        }
        assert_int_equal(k.n, n);
    }
    k.limits.header = SCAN_HEADER_AUTO;
}

static void test_names_count_rows(void **state)
{
    (void)state;
    assert_int_equal(run("T.CSV", "a\n1\n2\n\n3\n4\n5\n", 8), 0);
    assert_int_equal(k.n, 2);
    assert_string_equal(k.samples[0].name, "rows 0-1");
    assert_string_equal(k.samples[1].name, "rows 2-4");
}

static void test_tsv(void **state)
{
    (void)state;
    assert_int_equal(run("t.tsv", "a,b,c\td\nx\t\"1\n2\"\ny,\"\tz\n", 2), 0);
    assert_int_equal(k.n, 2);
    scanning_expect(&k, 0, "rows 0-0", "a,b,c\td\nx\t\"1\n2\"\n");
    scanning_expect(&k, 1, "rows 1-1", "a,b,c\td\ny,\"\tz\n");
}

static void test_utf16_is_refused(void **state)
{
    (void)state;
    assert_int_equal(run("t.csv",
                         "\xff\xfe"
                         "a",
                         2),
                     DLC_EINVAL);
    assert_non_null(strstr(k.err.text, "UTF-8"));
}

/* Rows and quotes fall on the borders of what is read at once, wherever those are. */
static void test_borders_of_reads(void **state)
{
    struct buf text = BUF_INIT;
    size_t first = 0, last;

    (void)state;
    for (size_t shift = 0; shift < 12; shift++) {
        buf_clear(&text);
        buf_adds(&text, "id,text\n");
        while (text.len < (64 << 10) - 6 - shift)
            buf_adds(&text, "x");
        for (int i = 0; i < 20000; i++)
            buf_addf(&text, ",\n%d,\"a\"\"\n\"\"b\"\r\n", i);
        k.limits.partition_bytes = 1000;
        assert_int_equal(scanning_run(&k, "t.csv", text.data, text.len), 0);
        for (size_t i = 0; i < k.n; i++) {
            const struct buf *b = scanning_bytes(&k, i);

            assert_true(b->len <= 1000 || i == 0);
            assert_memory_equal(b->data, "id,text\n", 8);
            assert_int_equal(sscanf(k.samples[i].name, "rows %zu-%zu", &first, &last), 2);
        }
        assert_int_equal(last, 39999); /* 20,000 rows that end in ",", and as many of id and text */
    }
    buf_release(&text);
}

/* A source of a gigabyte that has no newline and no memory. */
static int read_endless(struct source *s, uint64_t off, void *buf, size_t len, struct dlc_err *err)
{
    (void)s;
    (void)off;
    (void)err;
    memset(buf, 'a', len);
    return 0;
}

static int none_found(struct scan *s, const struct scan_sample *sample, struct dlc_err *err)
{
    (void)sample;
    (void)err;
    ++*(int *)s->priv;
    return 0;
}

static void test_a_row_without_end(void **state)
{
    struct source source = {.name = "endless.csv", .size = 1 << 30, .read = read_endless};
    struct dlc_err err = DLC_ERR_INIT;
    int n = 0;
    struct scan s = {.source = &source, .found = none_found, .priv = &n};

    (void)state;
    assert_int_equal(scanner_of("endless.csv")->run(&s, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "quote"));
    assert_int_equal(n, 0);
}

static void test_a_long_header(void **state)
{
    struct buf text = BUF_INIT;

    (void)state;
    while (text.len < (1 << 20))
        buf_adds(&text, "column,");
    buf_adds(&text, "last\n1\n2\n");
    k.limits.partition_bytes = 1;
    assert_int_equal(scanning_run(&k, "t.csv", text.data, text.len), 0);
    assert_int_equal(k.n, 3); /* it is a row */
    k.limits.header = SCAN_HEADER_YES;
    assert_int_equal(scanning_run(&k, "t.csv", text.data, text.len), DLC_EINVAL);
    assert_non_null(strstr(k.err.text, "header"));
    k.limits.header = SCAN_HEADER_AUTO;
    buf_release(&text);
}

static void test_reads_are_few_and_failures_pass(void **state)
{
    struct buf text = BUF_INIT;

    (void)state;
    buf_adds(&text, "a,b\n");
    for (int i = 0; i < 100000; i++)
        buf_addf(&text, "%d,%d\n", i, i);
    k.limits.partition_bytes = 300000;
    assert_int_equal(scanning_run(&k, "t.csv", text.data, text.len), 0);
    assert_int_equal(k.n, 4);
    assert_true(k.reads <= 8);
    scanning_fail_everywhere(&k, "t.csv", &text);
    buf_release(&text);
}

static int tear_down(void **state)
{
    (void)state;
    scanning_release(&k);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partitions),
        cmocka_unit_test(test_names_count_rows),
        cmocka_unit_test(test_tsv),
        cmocka_unit_test(test_utf16_is_refused),
        cmocka_unit_test(test_borders_of_reads),
        cmocka_unit_test(test_a_row_without_end),
        cmocka_unit_test(test_a_long_header),
        cmocka_unit_test(test_reads_are_few_and_failures_pass),
    };

    return cmocka_run_group_tests(tests, NULL, tear_down);
}
