// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/parse_i.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/check.h"

typedef int parse_f(const char *text, size_t len, struct credentials *out, struct dlc_err *err);

static void expect(parse_f *parse, const char *text, const char *token, int64_t expires)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct credentials c;

    parse(text, strlen(text), &c, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(c.access_key, "AK");
    assert_string_equal(c.secret_key, "hush");
    if (token == NULL)
        assert_null(c.session_token);
    else
        assert_string_equal(c.session_token, token);
    assert_int_equal(c.expires, expires);
    credentials_release(&c);
}

static void expect_error(parse_f *parse, const char *text, int code, const char *words)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct credentials c;

    assert_int_equal(parse(text, strlen(text), &c, &err), code);
    if (strstr(err.text, words) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", err.text, words);
    assert_null(strstr(err.text, "hush"));
    assert_null(c.access_key);
    assert_null(c.secret_key);
    assert_null(c.session_token);
}

static void test_time(void **state)
{
    static const struct {
        const char *text;
        int64_t t; /* -1: none */
    } cases[] = {
        {"2026-01-31T12:34:56Z", 1769862896},
        {"2026-01-31T12:34:56.789Z", 1769862896},
        {"2026-01-31T13:34:56+01:00", 1769862896},
        {"2026-01-31T07:04:56-05:30", 1769862896},
        {"1970-01-01T00:00:00Z", 0},
        {"2024-02-29T23:59:60Z", 1709251200},
        {"2026-01-31T12:34:56", -1},
        {"2026-01-31 12:34:56Z", -1},
        {"2026-13-31T12:34:56Z", -1},
        {"2026-01-00T12:34:56Z", -1},
        {"2026-01-31T24:00:00Z", -1},
        {"2026-01-31T12:34:56ZZ", -1},
        {"2026-01-31T12:34:56+1:00", -1},
        {"2026-01-31T12:34", -1},
        {"tomorrow", -1},
        {"", -1},
    };

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(cases); i++) {
        int64_t t = -1;

        assert_int_equal(answer_time(cases[i].text, &t), cases[i].t != -1);
        if (cases[i].t != -1)
            assert_int_equal(t, cases[i].t);
    }
}

static void test_json(void **state)
{
    (void)state;
    expect(answer_json,
           "{\"Code\": \"Success\", \"AccessKeyId\": \"AK\", \"SecretAccessKey\": \"hush\","
           " \"Token\": \"tk\", \"Expiration\": \"2026-01-31T12:34:56Z\", \"Type\": \"AWS-HMAC\"}",
           "tk", 1769862896);
    expect(answer_json,
           "{\"Version\": 1, \"AccessKeyId\": \"AK\", \"SecretAccessKey\": \"hush\","
           " \"SessionToken\": \"st\"}",
           "st", 0);
    expect(answer_json,
           "{\"AccessKeyId\": \"AK\", \"SecretAccessKey\": \"hush\", \"Token\": null,"
           " \"Expiration\": \"\"}",
           NULL, 0);
}

static void test_json_errors(void **state)
{
    (void)state;
    expect_error(answer_json, "", DLC_EPROTO, "not a JSON object");
    expect_error(answer_json, "<html>hush</html>", DLC_EPROTO, "not a JSON object");
    expect_error(answer_json, "[\"hush\"]", DLC_EPROTO, "not a JSON object");
    expect_error(answer_json, "{\"AccessKeyId\": \"hush\"}", DLC_EPROTO, "no SecretAccessKey");
    expect_error(answer_json, "{\"AccessKeyId\": 7, \"SecretAccessKey\": \"hush\"}", DLC_EPROTO,
                 "no AccessKeyId");
    expect_error(answer_json,
                 "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"hush\", \"Expiration\": \"x\"}",
                 DLC_EPROTO, "Expiration");
    expect_error(answer_json, "{\"Code\": \"Failed\", \"Message\": \"no\\nrole\"}", DLC_EDENIED,
                 "Failed: no?role");
    expect_error(answer_json, "{\"code\": \"Throttled\"}", DLC_EDENIED, "Throttled: no message");
}

static void test_sts(void **state)
{
    (void)state;
    expect(answer_sts,
           "<?xml version=\"1.0\"?>\n"
           "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n"
           "<AssumeRoleResult><AssumedRoleUser><Arn>arn:x</Arn></AssumedRoleUser><Credentials>"
           "<AccessKeyId>AK</AccessKeyId> <SecretAccessKey>hu&#115;h</SecretAccessKey>\n"
           "<SessionToken>a&amp;b</SessionToken><Expiration>2026-01-31T12:34:56Z</Expiration>"
           "</Credentials></AssumeRoleResult></AssumeRoleResponse>",
           "a&b", 1769862896);
}

static void test_sts_errors(void **state)
{
    struct buf long_value = BUF_INIT;

    (void)state;
    expect_error(answer_sts,
                 "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>"
                 "<Message>not authorized</Message></Error></ErrorResponse>",
                 DLC_EDENIED, "AccessDenied: not authorized");
    expect_error(answer_sts, "", DLC_EPROTO, "not XML");
    expect_error(answer_sts, "{\"hush\": 1}", DLC_EPROTO, "not XML");
    expect_error(answer_sts, "<a><AccessKeyId>AK</AccessKeyId>", DLC_EPROTO, "not XML");
    expect_error(answer_sts, "<a><AccessKeyId>AK</AccessKeyId></a>", DLC_EPROTO,
                 "no SecretAccessKey");
    expect_error(answer_sts,
                 "<!DOCTYPE a [<!ENTITY e \"hush\">]><a><AccessKeyId>&e;</AccessKeyId></a>",
                 DLC_EPROTO, "not XML");
    buf_adds(&long_value, "<a><AccessKeyId>");
    for (int i = 0; i < 20000; i++)
        buf_addc(&long_value, 'x');
    buf_adds(&long_value, "</AccessKeyId></a>");
    expect_error(answer_sts, buf_str(&long_value), DLC_EPROTO, "not XML");
    buf_release(&long_value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time),        cmocka_unit_test(test_json),
        cmocka_unit_test(test_json_errors), cmocka_unit_test(test_sts),
        cmocka_unit_test(test_sts_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
