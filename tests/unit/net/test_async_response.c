// SPDX-License-Identifier: Apache-2.0
/* Heads of answers: what is picked from them, and whether an answer is the one asked for. */
#include "net/async_client.h"

#include "unit.h"

static struct engine_answer answer_to(const char *const *lines)
{
    struct engine_answer a;

    memset(&a, 0x55, sizeof(a)); /* a status line must reset all of it */
    for (; *lines != NULL; lines++)
        engine_answer_line(&a, *lines, strlen(*lines));
    return a;
}

static void test_object(void **state)
{
    static const char *const lines[] = {
        "HTTP/1.1 206 Partial Content\r\n",
        "Date: Sat, 31 Jan 2026 12:00:00 GMT\r\n",
        "ETag: \"9bb58f26192e4ba00f01e2e7b136bbd8\"\r\n",
        "content-length: 100\r\n",
        "CONTENT-RANGE: bytes 200-299/5000000000\r\n",
        "Content-Type: application/octet-stream; charset=x\r\n",
        "x-amz-bucket-region: eu-west-1\r\n",
        "x-amz-checksum-crc32: y/Q5Jg==\r\n",
        "x-amz-checksum-crc64nvme:rosUhgp5mIg=\r\n",
        "x-amz-checksum-type: FULL_OBJECT\r\n",
        "Retry-After: 7\r\n",
        "\r\n",
        NULL,
    };
    struct engine_answer a = answer_to(lines);

    (void)state;
    assert_int_equal(a.status, 206);
    assert_int_equal(a.length, 100);
    assert_int_equal(a.first, 200);
    assert_true(a.total == 5000000000u);
    assert_int_equal(a.retry_after, 7);
    assert_string_equal(a.date, "Sat, 31 Jan 2026 12:00:00 GMT");
    assert_string_equal(a.etag, "9bb58f26192e4ba00f01e2e7b136bbd8");
    assert_string_equal(a.type, "application/octet-stream");
    assert_string_equal(a.region, "eu-west-1");
    assert_string_equal(a.sums[SUM_CRC32], "y/Q5Jg==");
    assert_string_equal(a.sums[SUM_CRC64NVME], "rosUhgp5mIg=");
    assert_string_equal(a.sums[SUM_CRC32C], "");
}

static void test_checksum_of_a_peer(void **state)
{
    static const struct {
        const char *line;
        bool has;
    } table[] = {
        {"Dlcache-Checksum: 0123456789abcdef\r\n", true},
        {"DLCACHE-CHECKSUM:0123456789ABCDEF\r\n", true},
        {"Dlcache-Checksum: 123456789abcdef\r\n", false},
        {"Dlcache-Checksum: 00123456789abcdef\r\n", false},
        {"Dlcache-Checksum: 0123456789abcdeg\r\n", false},
        {"Dlcache-Checksum: \r\n", false},
        {"Dlcache-Checksums: 0123456789abcdef\r\n", false},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(table); i++) {
        const char *lines[] = {"HTTP/1.1 200 OK\r\n", table[i].line, NULL};
        struct engine_answer a = answer_to(lines);

        assert_int_equal(a.has_checksum, table[i].has);
        if (a.has_checksum)
            assert_true(a.checksum == 0x0123456789abcdefu);
    }
}

static void test_bare(void **state)
{
    static const char *const lines[] = {"HTTP/1.1 200 OK\r\n", "Server: x\r\n", NULL};
    struct engine_answer a = answer_to(lines);

    (void)state;
    assert_int_equal(a.status, 200);
    assert_true(a.length == ENGINE_UNKNOWN && a.first == ENGINE_UNKNOWN &&
                a.total == ENGINE_UNKNOWN);
    assert_int_equal(a.retry_after, 0);
    assert_string_equal(a.etag, "");
    assert_string_equal(a.region, "");
    assert_false(a.has_checksum);
    for (int i = 0; i < ENGINE_SUMS; i++)
        assert_string_equal(a.sums[i], "");
}

/* An interim answer must leave nothing behind. */
static void test_second_status_resets(void **state)
{
    static const char *const lines[] = {"HTTP/1.1 100 Continue\r\n", "ETag: \"old\"\r\n", "\r\n",
                                        "HTTP/1.1 404 Not Found\r\n", NULL};
    struct engine_answer a = answer_to(lines);

    (void)state;
    assert_int_equal(a.status, 404);
    assert_string_equal(a.etag, "");
}

static void test_goog_hash(void **state)
{
    static const char *const one[] = {
        "HTTP/1.1 200 OK\r\n", "x-goog-hash: md5=Ojk9c3dhfxgoKVVHYwFbHQ==, crc32c=n03x6A==\r\n",
        NULL};
    static const char *const two[] = {"HTTP/1.1 200 OK\r\n", "x-goog-hash: crc32c=n03x6A==\r\n",
                                      "x-goog-hash: md5=Ojk9c3dhfxgoKVVHYwFbHQ==\r\n", NULL};

    (void)state;
    assert_string_equal(answer_to(one).sums[SUM_CRC32C], "n03x6A==");
    assert_string_equal(answer_to(two).sums[SUM_CRC32C], "n03x6A==");
}

static void test_odd_lines(void **state)
{
    static const struct {
        const char *line, *etag;
    } etags[] = {
        {"ETag: W/\"weak\"\r\n", "weak"},
        {"ETag: bare\r\n", "bare"},
        {"etag:\"tight\"\n", "tight"},
        {"ETag: \t \"spaced\"  \r\n", "spaced"},
        {"ETag: \"\r\n", "\""},
        {"ETag:\r\n", ""},
        {"ETag\r\n", ""},
        {"ETagg: \"no\"\r\n", ""},
    };
    char endless[1000] = "ETag: ";

    (void)state;
    for (size_t i = 0; i < unit_count(etags); i++) {
        const char *const lines[] = {"HTTP/1.1 200 OK", etags[i].line, NULL};

        assert_string_equal(answer_to(lines).etag, etags[i].etag);
    }
    memset(endless + 6, 'x', sizeof(endless) - 7);
    const char *const lines[] = {"HTTP/1.1 200 OK", endless, NULL};
    assert_string_equal(answer_to(lines).etag, "");
}

static void test_odd_numbers(void **state)
{
    static const char *const lines[] = {"HTTP/1.1 416 x", "Content-Length: 99999999999999999999999",
                                        "Content-Range: bytes */1234",
                                        "Retry-After: Sat, 31 Jan 2026 12:00:00 GMT", NULL};
    static const char *const broken[] = {"HTTP/1.1 206 x", "Content-Range: bytes 5/1234", NULL};
    struct engine_answer a = answer_to(lines);

    (void)state;
    assert_true(a.length == ENGINE_UNKNOWN);
    assert_true(a.first == ENGINE_UNKNOWN);
    assert_int_equal(a.total, 1234);
    assert_int_equal(a.retry_after, 0);
    assert_true(answer_to(broken).first == ENGINE_UNKNOWN);
    assert_int_equal(answer_to((const char *const[]){"HTTP/1.1 abc", NULL}).status, 0);
}

/* (ASYNC-CLIENT-2) */
static void test_expected(void **state)
{
    static const struct {
        bool ranged;
        int status;
        uint64_t first, length;
        bool want;
    } cases[] = {
        {false, 200, ENGINE_UNKNOWN, 100, true},
        {false, 200, ENGINE_UNKNOWN, ENGINE_UNKNOWN, true},
        {false, 200, ENGINE_UNKNOWN, 99, false},
        {false, 206, 0, 100, false},
        {true, 206, 50, 100, true},
        {true, 206, 51, 100, false},
        {true, 206, ENGINE_UNKNOWN, 100, false},
        {true, 206, 50, 101, false},
        {true, 200, ENGINE_UNKNOWN, 100, false},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct engine_request r = {.ranged = cases[i].ranged, .offset = 50, .dst_len = 100};

        r.answer.status = cases[i].status;
        r.answer.first = cases[i].first;
        r.answer.length = cases[i].length;
        assert_int_equal(engine_expected(&r), cases[i].want);
    }
}

static void test_judge(void **state)
{
    static const struct {
        CURLcode code;
        int rc;
        bool retryable;
        const char *word;
    } cases[] = {
        {CURLE_COULDNT_RESOLVE_HOST, DLC_EBUCKET, true, "resolved"},
        {CURLE_COULDNT_CONNECT, DLC_EBUCKET, true, "no connection"},
        {CURLE_OPERATION_TIMEDOUT, DLC_ETIMEDOUT, true, "in time"},
        {CURLE_PEER_FAILED_VERIFICATION, DLC_EDENIED, false, "AWS_CA_BUNDLE"},
        {CURLE_PARTIAL_FILE, DLC_ECORRUPT, true, "cut short"},
        {CURLE_RECV_ERROR, DLC_EBUCKET, true, "broke"},
        {CURLE_GOT_NOTHING, DLC_EBUCKET, true, "broke"},
        {CURLE_URL_MALFORMAT, DLC_EINVAL, false, "malformed"},
        {CURLE_WEIRD_SERVER_REPLY, DLC_EBUCKET, true, "eird"},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct engine_request r = {.curl_error = "detail"};

        engine_judge(&r, cases[i].code);
        assert_int_equal(r.rc, cases[i].rc);
        assert_int_equal(r.retryable, cases[i].retryable);
        assert_non_null(strstr(r.why, cases[i].word));
        assert_non_null(strstr(r.why, "(detail)"));
    }
}

static void test_judge_length(void **state)
{
    char dst[10];
    struct engine_request r = {.dst = dst, .dst_len = 10, .got = 10};

    (void)state;
    engine_answer_line(&r.answer, "HTTP/1.1 200 OK", 15);
    engine_judge(&r, CURLE_OK);
    assert_int_equal(r.rc, 0);
    r.got = 9; /* no Content-Length, and the connection closed early */
    engine_judge(&r, CURLE_OK);
    assert_int_equal(r.rc, DLC_ECORRUPT);
    assert_true(r.retryable);
    r.answer.length = 11;
    engine_judge(&r, CURLE_OK);
    assert_int_equal(r.rc, DLC_ECHANGED);
    assert_false(r.retryable);
    r.answer.status = 404; /* whatever its length */
    engine_judge(&r, CURLE_OK);
    assert_int_equal(r.rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_object),      cmocka_unit_test(test_checksum_of_a_peer),
        cmocka_unit_test(test_bare),        cmocka_unit_test(test_second_status_resets),
        cmocka_unit_test(test_goog_hash),   cmocka_unit_test(test_odd_lines),
        cmocka_unit_test(test_odd_numbers), cmocka_unit_test(test_expected),
        cmocka_unit_test(test_judge),       cmocka_unit_test(test_judge_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
