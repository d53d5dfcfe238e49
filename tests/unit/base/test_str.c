// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/rng.h"
#include "base/str.h"

static void test_sizes_people_write(void **state)
{
    static const struct {
        const char *text;
        uint64_t want;
    } good[] = {
        {"0", 0},
        {"1500", 1500},
        {"1500b", 1500},
        {"4k", 4000},
        {"4kB", 4000},
        {"4KiB", 4096},
        {"4Ki", 4096},
        {"200MB", 200000000},
        {"200 MB", 200000000},
        {"1.5GiB", 1610612736},
        {".5k", 500},
        {"1e3", 1000},
        {"2T", 2000000000000},
        {"2tib", 2ull << 40},
    };
    static const char *const bad[] = {"",           "k",     "-1",   "+1",  "1x",    "1 k b",
                                      "0x10",       "1e999", "nan",  "inf", " 1",    "1MBs",
                                      "99999999TB", "..5",   "auto", "1,5", "1.5.2", "1k1"};
    uint64_t v;

    (void)state;
    for (size_t i = 0; i < unit_count(good); i++) {
        v = ~0ull;
        assert_true(str_parse_size(good[i].text, &v));
        assert_int_equal(v, good[i].want);
    }
    for (size_t i = 0; i < unit_count(bad); i++)
        assert_false(str_parse_size(bad[i], &v));
}

static void test_times_people_write(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {
        {"30ms", 30000000}, {"1.5s", 1500000000},   {"2m", 120000000000},    {"1h", 3600000000000},
        {"250us", 250000},  {"7", 7000000000},      {"5 min", 300000000000}, {"0", 0},
        {"3ns", 3},         {"1d", 86400000000000},
    };
    static const char *const bad[] = {"", "s", "-1s", "1 fortnight", "1e12", "1m30s", "0x1s"};
    struct dlc_dur d;

    (void)state;
    for (size_t i = 0; i < unit_count(good); i++) {
        assert_true(str_parse_dur(good[i].text, &d));
        assert_int_equal(d.ns, good[i].ns);
    }
    for (size_t i = 0; i < unit_count(bad); i++)
        assert_false(str_parse_dur(bad[i], &d));
}

static void test_plain_numbers(void **state)
{
    uint64_t u;
    double d;
    bool b;

    (void)state;
    assert_true(str_parse_u64("18446744073709551615", &u));
    assert_true(u == UINT64_MAX);
    assert_false(str_parse_u64("18446744073709551616", &u));
    assert_false(str_parse_u64("-1", &u));
    assert_false(str_parse_u64("", &u));
    assert_false(str_parse_u64("1 ", &u));
    assert_true(str_parse_double("-2.5e3", &d) && d < -2499.9 && d > -2500.1);
    assert_false(str_parse_double("2.5x", &d));
    assert_false(str_parse_double("nan", &d));
    assert_false(str_parse_double("", &d));
    assert_true(str_parse_bool("Yes", &b) && b);
    assert_true(str_parse_bool("off", &b) && !b);
    assert_true(str_parse_bool("1", &b) && b);
    assert_true(str_parse_bool("FALSE", &b) && !b);
    assert_false(str_parse_bool("maybe", &b));
    assert_false(str_parse_bool("", &b));
}

static void test_sizes_people_read(void **state)
{
    char t[24];

    (void)state;
    assert_string_equal(str_size(0, t), "0 B");
    assert_string_equal(str_size(512, t), "512 B");
    assert_string_equal(str_size(999, t), "999 B");
    assert_string_equal(str_size(1000, t), "1.0 kB");
    assert_string_equal(str_size(90000, t), "90.0 kB");
    assert_string_equal(str_size(999960, t), "1.0 MB");
    assert_string_equal(str_size(1500000000, t), "1.5 GB");
    assert_string_equal(str_size(UINT64_MAX, t), "18446.7 PB");
}

static void test_times_people_read(void **state)
{
    static const struct {
        double s;
        const char *want;
    } cases[] = {
        {0, "0 ns"},      {500e-9, "500 ns"}, {999.9e-6, "1 ms"}, {30e-6, "30 us"},
        {30e-3, "30 ms"}, {0.9999, "1.0 s"},  {1.5, "1.5 s"},     {59.97, "1m00s"},
        {125, "2m05s"},   {3599.7, "1h00m"},  {3725, "1h02m"},    {90000, "25h00m"},
    };
    char t[24];

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++)
        assert_string_equal(str_dur(dlc_dur_of_seconds(cases[i].s), t), cases[i].want);
}

static void test_hex(void **state)
{
    const unsigned char raw[] = {0x00, 0x7f, 0x80, 0xff};
    unsigned char back[4];
    uint64_t v = 0;
    char t[9];

    (void)state;
    str_hex(raw, sizeof(raw), t);
    assert_string_equal(t, "007f80ff");
    assert_true(str_unhex("007F80ff", 8, back));
    assert_memory_equal(back, raw, 4);
    assert_false(str_unhex("0g", 2, back));
    assert_false(str_unhex("abc", 3, back));
    assert_true(str_unhex("", 0, back));
    assert_true(str_parse_hex64("0123456789abcDEF", &v) && v == 0x0123456789abcdef);
    assert_false(str_parse_hex64("0123456789abcde", &v) || str_parse_hex64(NULL, &v) ||
                 str_parse_hex64("0123456789abcdef0", &v) ||
                 str_parse_hex64("0x23456789abcdef", &v));
}

static void test_base64(void **state)
{
    static const char *const rfc[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    static const char *const bad[] = {"Zg=a", "Z g=", "Zg==\n", "-_==", "Z", "Zm9vY"};
    struct buf b = BUF_INIT, c = BUF_INIT;

    (void)state;
    for (size_t i = 0; i < unit_count(rfc); i++) {
        buf_clear(&b);
        buf_clear(&c);
        str_base64(rfc[i][0], strlen(rfc[i][0]), &b);
        assert_string_equal(buf_str(&b), rfc[i][1]);
        assert_true(str_unbase64(rfc[i][1], &c));
        assert_string_equal(buf_str(&c), rfc[i][0]);
    }
    for (size_t i = 0; i < unit_count(bad); i++)
        assert_false(str_unbase64(bad[i], &c));
    buf_release(&b);
    buf_release(&c);
}

static void test_base64_there_and_back(void **state)
{
    struct rng r = {1};
    struct buf b = BUF_INIT, c = BUF_INIT;
    unsigned char raw[100];

    (void)state;
    for (size_t len = 0; len < sizeof(raw); len++) {
        for (size_t i = 0; i < len; i++)
            raw[i] = (unsigned char)rng_next(&r);
        buf_clear(&b);
        buf_clear(&c);
        str_base64(raw, len, &b);
        assert_int_equal(b.len, (len + 2) / 3 * 4);
        assert_true(str_unbase64(buf_str(&b), &c));
        assert_int_equal(c.len, len);
        if (len > 0)
            assert_memory_equal(c.data, raw, len);
    }
    buf_release(&b);
    buf_release(&c);
}

static void test_uri_encoding(void **state)
{
    struct buf b = BUF_INIT;

    (void)state;
    str_uri_encode("a b+c%d?e/f~_-.\xc3\xa9", 17, true, &b);
    assert_string_equal(buf_str(&b), "a%20b%2Bc%25d%3Fe/f~_-.%C3%A9");
    buf_clear(&b);
    str_uri_encode("a/b", 3, false, &b);
    assert_string_equal(buf_str(&b), "a%2Fb");
    buf_release(&b);
}

static void test_uri_every_byte_there_and_back(void **state)
{
    struct buf b = BUF_INIT, c = BUF_INIT;
    char all[256];

    (void)state;
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    str_uri_encode(all, sizeof(all), false, &b);
    assert_true(str_uri_decode(buf_str(&b), b.len, &c));
    assert_int_equal(c.len, 256);
    assert_memory_equal(c.data, all, 256);
    buf_release(&b);
    buf_release(&c);
}

static void test_uri_decoding_refuses_broken_escapes(void **state)
{
    struct buf b = BUF_INIT;

    (void)state;
    assert_false(str_uri_decode("%", 1, &b));
    assert_false(str_uri_decode("a%4", 3, &b));
    assert_false(str_uri_decode("%zz", 3, &b));
    assert_false(str_uri_decode("%4142", 2, &b)); /* the length counts, not the NUL */
    buf_clear(&b);
    assert_true(str_uri_decode("%41+", 4, &b));
    assert_string_equal(buf_str(&b), "A+");
    buf_release(&b);
}

static void test_ends_of_strings(void **state)
{
    char t[] = " \t two words \n", blank[] = "  ";

    (void)state;
    assert_true(str_starts("s3://x", "s3://"));
    assert_false(str_starts("s3", "s3://"));
    assert_true(str_starts("x", ""));
    assert_true(str_ends("a.tar", ".tar"));
    assert_false(str_ends("tar", ".tar"));
    assert_true(str_ends("x", ""));
    assert_string_equal(str_trim(t), "two words");
    assert_string_equal(str_trim(blank), "");
}

static void test_utf8(void **state)
{
    static const char *const good[] = {"",
                                       "plain",
                                       "\xc3\xa9",
                                       "\xe2\x82\xac",
                                       "\xf0\x9f\x98\x80",
                                       "\xf4\x8f\xbf\xbf",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80"};
    static const char *const bad[] = {"\x80",
                                      "\xc3",
                                      "\xc0\xaf",
                                      "\xe0\x80\xaf",
                                      "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xe2\x82",
                                      "\xf0\x80\x80\xaf",
                                      "a\xff"};

    (void)state;
    for (size_t i = 0; i < unit_count(good); i++)
        assert_true(str_is_utf8(good[i], strlen(good[i])));
    for (size_t i = 0; i < unit_count(bad); i++)
        assert_false(str_is_utf8(bad[i], strlen(bad[i])));
    assert_false(str_is_utf8("\xe2\x82\xac", 2)); /* cut within a character */
}

static void test_printable(void **state)
{
    struct buf b = BUF_INIT;

    (void)state;
    str_printable("a\nb\x1b[1m\xff\xc3\xa9\x7f", 11, &b);
    assert_string_equal(buf_str(&b), "a?b?[1m?\xc3\xa9?");
    assert_true(str_is_utf8(buf_str(&b), b.len));
    buf_release(&b);
}

static void test_names(void **state)
{
    static const char *const good[] = {"a", "train-7", "0.1_b", "a..", "7-_."};
    static const char *const bad[] = {"",   "A",  "a b", "a/b", "a\n", "\xc3\xa9",
                                      "..", "_a", ".a",  "-a",  "."};
    char longest[65] = {0};

    (void)state;
    for (unsigned k = 0; k < unit_count(good); k++)
        assert_true(str_is_name(good[k]));
    for (unsigned k = 0; k < unit_count(bad); k++)
        assert_false(str_is_name(bad[k]));
    memset(longest, 'x', 63);
    assert_true(str_is_name(longest));
    longest[63] = 'x';
    assert_false(str_is_name(longest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_people_write),
        cmocka_unit_test(test_times_people_write),
        cmocka_unit_test(test_plain_numbers),
        cmocka_unit_test(test_sizes_people_read),
        cmocka_unit_test(test_times_people_read),
        cmocka_unit_test(test_hex),
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_base64_there_and_back),
        cmocka_unit_test(test_uri_encoding),
        cmocka_unit_test(test_uri_every_byte_there_and_back),
        cmocka_unit_test(test_uri_decoding_refuses_broken_escapes),
        cmocka_unit_test(test_ends_of_strings),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_printable),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
