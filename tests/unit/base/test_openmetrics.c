// SPDX-License-Identifier: Apache-2.0
#include "base/openmetrics.h"

#include "base/check.h"
#include "unit.h"

static void test_formats(void **state)
{
    struct buf b = BUF_INIT;
    struct openmetrics w;

    (void)state;
    for (int old = 0; old <= 1; old++) {
        openmetrics_begin(&w, &b, old);
        openmetrics_family(&w, "x_bytes", OPENMETRICS_COUNTER, "bytes", "Bytes.");
        openmetrics_u64(&w, UINT64_MAX, NULL);
        openmetrics_u64(&w, 7, "tier", "disk", "dataset", "a", NULL);
        openmetrics_family(&w, "y", OPENMETRICS_GAUGE, NULL, "Y.");
        openmetrics_double(&w, 0.25, NULL);
        openmetrics_double(&w, -1.0 / 0.0, "a", "", NULL);
        openmetrics_end(&w);
        assert_string_equal(buf_str(&b),
                            old ? "# TYPE x_bytes_total counter\n# HELP x_bytes_total Bytes.\n"
                                  "x_bytes_total 18446744073709551615\n"
                                  "x_bytes_total{tier=\"disk\",dataset=\"a\"} 7\n"
                                  "# TYPE y gauge\n# HELP y Y.\ny 0.25\ny{a=\"\"} -Inf\n"
                                : "# TYPE x_bytes counter\n# UNIT x_bytes bytes\n"
                                  "# HELP x_bytes Bytes.\n"
                                  "x_bytes_total 18446744073709551615\n"
                                  "x_bytes_total{tier=\"disk\",dataset=\"a\"} 7\n"
                                  "# TYPE y gauge\n# HELP y Y.\ny 0.25\ny{a=\"\"} -Inf\n# EOF\n");
        buf_clear(&b);
    }
    buf_release(&b);
}

static void test_a_histogram(void **state)
{
    static const char *const bounds[] = {"0.5", "1.0"};
    const uint64_t counts[] = {1, 0, 2};
    struct buf b = BUF_INIT;
    struct openmetrics w;

    (void)state;
    openmetrics_begin(&w, &b, true);
    openmetrics_family(&w, "h", OPENMETRICS_HISTOGRAM, NULL, "H.");
    openmetrics_histogram(&w, bounds, 2, counts, 12.5, "a", "b", NULL);
    openmetrics_histogram(&w, bounds, 2, counts, 0, NULL);
    assert_string_equal(buf_str(&b), "# TYPE h histogram\n# HELP h H.\n"
                                     "h_bucket{a=\"b\",le=\"0.5\"} 1\n"
                                     "h_bucket{a=\"b\",le=\"1.0\"} 1\n"
                                     "h_bucket{a=\"b\",le=\"+Inf\"} 3\n"
                                     "h_sum{a=\"b\"} 12.5\nh_count{a=\"b\"} 3\n"
                                     "h_bucket{le=\"0.5\"} 1\nh_bucket{le=\"1.0\"} 1\n"
                                     "h_bucket{le=\"+Inf\"} 3\nh_sum 0\nh_count 3\n");
    buf_release(&b);
}

/* (OPENMETRICS-1), (OPENMETRICS-2) */
static void test_values_from_strangers(void **state)
{
    static const struct {
        const char *value, *text;
    } cases[] = {
        {"a\"} 1\nevil 2", "a\\\"} 1\\nevil 2"},
        {"back\\slash\\", "back\\\\slash\\\\"},
        {"<b>\xe2\x80\xae"
         "RTL\xd7\x90",
         "<b>\xe2\x80\xae"
         "RTL\xd7\x90"},
        {"\xff\xc3", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"}, /* an overlong form */
    };
    char a[402], c[402], line[400];
    struct buf b = BUF_INIT;
    struct openmetrics w;

    (void)state;
    openmetrics_begin(&w, &b, true);
    openmetrics_family(&w, "x", OPENMETRICS_GAUGE, NULL, "X.");
    for (size_t i = 0; i < DLC_COUNT(cases); i++) {
        buf_clear(&b);
        openmetrics_u64(&w, 1, "l", cases[i].value, NULL);
        snprintf(line, sizeof(line), "x{l=\"%s\"} 1\n", cases[i].text);
        assert_string_equal(buf_str(&b), line);
    }
    memset(a, 'k', sizeof(a)); /* longer than a label may be; they differ at the end only */
    memcpy(a + 180, "\xc3\xa9\xc3\xa9\xc3\xa9", 6);
    a[401] = '\0';
    memcpy(c, a, sizeof(c));
    c[400] = 'l';
    buf_clear(&b);
    openmetrics_u64(&w, 1, "l", a, NULL);
    assert_true(b.len < OPENMETRICS_VALUE_MAX + 10);
    snprintf(line, sizeof(line), "%s", buf_str(&b));
    buf_clear(&b);
    openmetrics_u64(&w, 1, "l", c, NULL);
    assert_string_not_equal(buf_str(&b), line);
    assert_true(strstr(buf_str(&b), "\xef\xbf\xbd") == NULL); /* it is not cut in a character */
    buf_release(&b);
}

static void test_what_a_client_accepts(void **state)
{
    (void)state;
    assert_false(openmetrics_accepted(NULL));
    assert_false(openmetrics_accepted("*/*"));
    assert_false(openmetrics_accepted("text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
    assert_true(
        openmetrics_accepted("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_a_histogram),
        cmocka_unit_test(test_values_from_strangers),
        cmocka_unit_test(test_what_a_client_accepts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
