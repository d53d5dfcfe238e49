// SPDX-License-Identifier: Apache-2.0
/* Shared key signatures: Microsoft's published text to sign, and signatures made by other code. */
#include "bucket/credentials/azure_i.h"

#include "unit.h"

/* The emulator's, known to everybody. */
#define KEY                                                                                        \
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

/* The example of "Authorize with Shared Key" in Microsoft's documentation. */
static void test_published_text(void **state)
{
    struct azure_request r = {.method = "GET",
                              .path = "/mycontainer",
                              .query = "comp=metadata&restype=container&timeout=20",
                              .if_match = "",
                              .range = "",
                              .x_ms = "x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\n"
                                      "x-ms-version:2015-02-21\n"};
    struct buf text = BUF_INIT, line = BUF_INIT;

    (void)state;
    azure_string_to_sign(&r, "myaccount", &text);
    assert_string_equal(buf_str(&text), "GET\n\n\n\n\n\n\n\n\n\n\n\n"
                                        "x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\n"
                                        "x-ms-version:2015-02-21\n"
                                        "/myaccount/mycontainer\ncomp:metadata\nrestype:container\n"
                                        "timeout:20");
    assert_true(azure_sign(&r, "myaccount", KEY, &line));
    assert_string_equal(buf_str(&line),
                        "SharedKey myaccount:1u9lui2jDxj0+fpbHjQ5m5NnastJRSYM+PSmfi8TXx4=");
    buf_release(&text);
    buf_release(&line);
}

static void test_conditions(void **state)
{
    struct azure_request r = {.method = "GET",
                              .path = "/data/a%20b/%C3%A9",
                              .query = "",
                              .if_match = "\"0x8D1\"",
                              .range = "bytes=0-99",
                              .x_ms = "x-ms-date:Sat, 31 Jan 2026 12:00:00 GMT\n"
                                      "x-ms-version:2023-11-03\n"};
    struct buf line = BUF_INIT;

    (void)state;
    assert_true(azure_sign(&r, "acct", KEY, &line));
    assert_string_equal(buf_str(&line),
                        "SharedKey acct:Wsw73arf/AYoPTyrRy4kCvMJ4qSH+LBNuasP4p8oSLA=");
    buf_clear(&line);
    assert_false(azure_sign(&r, "acct", "?", &line));
    assert_false(azure_sign(&r, "acct", "", &line));
    buf_release(&line);
}

/* Values are signed as they mean, not as they are sent. */
static void test_query_is_decoded(void **state)
{
    struct azure_request r = {.method = "GET",
                              .path = "/c",
                              .query = "comp=list&marker=a%2Fb%3D&prefix=",
                              .if_match = "",
                              .range = "",
                              .x_ms = ""};
    struct buf text = BUF_INIT;

    (void)state;
    azure_string_to_sign(&r, "acct", &text);
    assert_non_null(strstr(buf_str(&text), "/acct/c\ncomp:list\nmarker:a/b=\nprefix:"));
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_text),
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_query_is_decoded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
