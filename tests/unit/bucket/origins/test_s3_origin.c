// SPDX-License-Identifier: Apache-2.0
/* The s3 origin against scripted answers: what it asks for, what it accepts, what it mends. */
#include "bucket/origins/origin.h"

#include "base/mem.h"
#include "bucket/aws_home.h"
#include "bucket/origin_run.h"
#include "unit.h"

#define NINE    "123456789"
#define OK_HEAD "HTTP/1.1 200 OK\r\nETag: \"e1\"\r\nConnection: close\r\n"

static struct script server;
static struct origin_run lane;
static char dst[32];

static int set_up_with(bool anonymous)
{
    struct bucket_config c = BUCKET_CONFIG_INIT;
    struct url u = {.scheme = URL_S3, .bucket = (char *)(uintptr_t) "data"};
    struct origin *o = NULL;

    script_start(&server);
    c.endpoint = server.server.url;
    c.anonymous = anonymous;
    assert_int_equal(origin_s3_new(&u, &c, 1, &o, NULL), 0);
    origin_run_open(&lane, o);
    memset(dst, '.', sizeof(dst));
    return 0;
}

static int set_up(void **state)
{
    aws_home_set_up(state);
    setenv("AWS_ACCESS_KEY_ID", "AKIDTEST", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "very-secret", 1);
    return set_up_with(false);
}

static int set_up_session(void **state)
{
    aws_home_set_up(state);
    setenv("AWS_ACCESS_KEY_ID", "AKIDTEST", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "very-secret", 1);
    setenv("AWS_SESSION_TOKEN", "old-token", 1);
    return set_up_with(false);
}

static int set_up_anonymous(void **state)
{
    aws_home_set_up(state);
    return set_up_with(true);
}

static int set_up_nobody(void **state)
{
    aws_home_set_up(state);
    return set_up_with(false);
}

static int tear_down(void **state)
{
    origin_run_close(&lane);
    script_stop(&server);
    return aws_home_tear_down(state);
}

static struct attempt get(bool whole)
{
    return (struct attempt){.op = ATTEMPT_GET,
                            .key = "a b/+1.jpg",
                            .etag = "e1",
                            .offset = whole ? 0 : 5,
                            .length = 9,
                            .whole = whole,
                            .dst = dst};
}

static struct attempt run_get(bool whole, const char *answer)
{
    const char *answers[] = {answer, NULL};
    struct attempt a = get(whole);

    script_set(&server, answers);
    origin_run_attempt(&lane, &a);
    return a;
}

/* dst holds these bytes, and nothing was written behind them. */
static void assert_dst(const char *bytes)
{
    size_t n = strlen(bytes);

    assert_memory_equal(dst, bytes, n);
    for (size_t i = n; i < sizeof(dst); i++)
        assert_int_equal(dst[i], '.');
}

static void test_whole(void **state)
{
    struct attempt a = run_get(true, OK_HEAD "Content-Length: 9\r\n"
                                             "x-amz-checksum-crc32: y/Q5Jg==\r\n\r\n" NINE);

    (void)state;
    assert_int_equal(a.rc, 0);
    assert_dst(NINE);
    assert_int_equal(a.received, 9);
    assert_true(a.first_byte.ns > 0);
    assert_string_equal(a.etag_seen, "e1");
    assert_true(script_saw(&server, "GET /data/a%20b/%2B1.jpg HTTP/1.1\r\n"));
    assert_true(script_saw(&server, "\r\nIf-Match: \"e1\"\r\n"));
    assert_true(script_saw(&server, "\r\nx-amz-checksum-mode: ENABLED\r\n"));
    assert_true(script_saw(&server, "Credential=AKIDTEST/"));
    assert_true(script_saw(&server, "/us-east-1/s3/aws4_request"));
    assert_false(script_saw(&server, "\r\nRange:"));
    assert_false(script_saw(&server, "very-secret"));
}

static void test_range(void **state)
{
    struct attempt a = run_get(false, "HTTP/1.1 206 Partial\r\nContent-Range: bytes 5-13/100\r\n"
                                      "Content-Length: 9\r\nx-amz-checksum-crc32: AAAAAA==\r\n"
                                      "Connection: close\r\n\r\n" NINE);

    (void)state;
    assert_int_equal(a.rc, 0); /* the checksum is the whole object's: not looked at */
    assert_dst(NINE);
    assert_true(script_saw(&server, "\r\nRange: bytes=5-13\r\n"));
    assert_false(script_saw(&server, "checksum-mode"));
}

static void test_chunked(void **state)
{
    struct attempt a = run_get(true, OK_HEAD "Transfer-Encoding: chunked\r\n\r\n"
                                             "4\r\n1234\r\n5\r\n56789\r\n0\r\n\r\n");

    (void)state;
    assert_int_equal(a.rc, 0);
    assert_dst(NINE);
}

static void test_empty_object(void **state)
{
    static const char *const answers[] = {OK_HEAD "Content-Length: 0\r\n\r\n", NULL};
    struct attempt a = {.op = ATTEMPT_GET, .key = "empty", .whole = true};

    (void)state;
    script_set(&server, answers);
    origin_run_attempt(&lane, &a);
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.received, 0);
}

/* Answers that must not pass: the code, whether it is worth another try, and a word of the text. */
static void test_bad_answers(void **state)
{
    static const struct {
        bool whole;
        const char *answer;
        int rc;
        bool retryable;
        const char *word;
    } cases[] = {
        {true, OK_HEAD "Content-Length: 9\r\n\r\n1234", DLC_ECORRUPT, true, "cut short"},
        {true, OK_HEAD "\r\n1234", DLC_ECORRUPT, true, "cut short"},
        {true, OK_HEAD "Content-Length: 10\r\n\r\n1234567890", DLC_ECHANGED, false, "length"},
        {true, OK_HEAD "Content-Length: 8\r\n\r\n12345678", DLC_ECHANGED, false, "length"},
        {true, OK_HEAD "Content-Length: 0\r\n\r\n", DLC_ECHANGED, false, "length"},
        {true, OK_HEAD "\r\n1234567890", DLC_ECHANGED, false, "length"},
        {true, "HTTP/1.1 206 P\r\nContent-Range: bytes 0-8/9\r\nContent-Length: 9\r\n\r\n" NINE,
         DLC_ECHANGED, false, "length"},
        {false, OK_HEAD "Content-Length: 9\r\n\r\n" NINE, DLC_EBUCKET, false, "Range"},
        {false, "HTTP/1.1 206 P\r\nContent-Range: bytes 6-14/99\r\nContent-Length: 9\r\n\r\n" NINE,
         DLC_EPROTO, false, "another range"},
        {true, OK_HEAD "Content-Length: 9\r\nx-amz-checksum-crc32c: AAAAAA==\r\n\r\n" NINE,
         DLC_ECORRUPT, true, "CRC32C"},
        {true, "HTTP/1.1 200 OK\r\nETag: \"e2\"\r\nContent-Length: 9\r\n\r\n" NINE, DLC_ECHANGED,
         false, "ETag e1, now e2"},
        {true, "HTTP/1.1 412 X\r\nETag: \"e2\"\r\nContent-Length: 0\r\n\r\n", DLC_ECHANGED, false,
         "ETag e1, now e2"},
        {true, "nonsense", DLC_EBUCKET, true, "no HTTP"},
        {true, "HTTP/1.1 503 Slow\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n", DLC_EBUCKET,
         true, "overloaded"},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct attempt a = run_get(cases[i].whole, cases[i].answer);

        assert_int_equal(a.rc, cases[i].rc);
        assert_int_equal(a.retryable, cases[i].retryable);
        assert_non_null(strstr(a.err.text, "cannot read s3://data/a b/+1.jpg: "));
        assert_non_null(strstr(a.err.text, cases[i].word));
        for (size_t k = 9; k < sizeof(dst); k++)
            assert_int_equal(dst[k], '.');
    }
}

/* The error document of a 403 may repeat the request; messages must not. */
static void test_no_secrets_in_messages(void **state)
{
    struct attempt a =
        run_get(true, "HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n"
                      "<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message>"
                      "<StringToSign>AWS4 very-secret</StringToSign></Error>");

    (void)state;
    assert_int_equal(a.rc, DLC_EDENIED);
    assert_non_null(strstr(a.err.text, "HTTP 403 SignatureDoesNotMatch (no); "));
    assert_null(strstr(a.err.text, "very-secret"));
}

static void test_nobody_listens(void **state)
{
    struct attempt a = get(true);

    (void)state;
    tiny_http_stop(&server.server);
    origin_run_attempt(&lane, &a);
    assert_int_equal(a.rc, DLC_EBUCKET);
    assert_true(a.retryable);
    assert_non_null(strstr(a.err.text, "no connection"));
    assert_string_equal(a.etag_seen, "");
    tiny_http_start(&server.server);
}

static void test_cancel(void **state)
{
    struct attempt a = get(true), b;

    (void)state;
    for (int i = 0; i < 3; i++) {
        a = get(true);
        origin_run_cancelled(&lane, &a);
        assert_int_equal(a.rc, DLC_ECANCELED);
        assert_false(a.retryable);
    }
    b = run_get(true, OK_HEAD "Content-Length: 9\r\n\r\n" NINE); /* the lane still works */
    assert_int_equal(b.rc, 0);
}

static void test_stat(void **state)
{
    static const char *const answers[] = {OK_HEAD "Content-Length: 5000000000\r\n\r\n",
                                          OK_HEAD "\r\n",
                                          "HTTP/1.1 404 X\r\nConnection: close\r\n\r\n", NULL};
    struct attempt a = {.op = ATTEMPT_STAT, .key = "k"};

    (void)state;
    script_set(&server, answers);
    origin_run_attempt(&lane, &a);
    assert_int_equal(a.rc, 0);
    assert_true(a.size == 5000000000);
    assert_string_equal(a.etag_seen, "e1");
    assert_true(script_saw(&server, "HEAD /data/k HTTP/1.1\r\n"));
    origin_run_attempt(&lane, &a);
    assert_int_equal(a.rc, DLC_EPROTO);
    origin_run_attempt(&lane, &a);
    assert_int_equal(a.rc, DLC_ENOTFOUND);
}

static struct object_checksum stat_sum(const char *headers)
{
    char *answer = mem_fmt(OK_HEAD "Content-Length: 9\r\n%s\r\n", headers);
    const char *answers[] = {answer, NULL};
    struct attempt a = {.op = ATTEMPT_STAT, .key = "k", .etag = "e1", .want_sum = true};

    script_set(&server, answers);
    origin_run_attempt(&lane, &a);
    assert_int_equal(a.rc, 0);
    assert_true(script_saw(&server, "\r\nIf-Match: \"e1\"\r\n"));
    assert_true(script_saw(&server, "\r\nx-amz-checksum-mode: ENABLED\r\n"));
    mem_free(&answer);
    return a.sum;
}

/* The checksum of a whole object, the strongest that can be put together from parts. */
static void test_stat_checksum(void **state)
{
    struct object_checksum sum = stat_sum("x-amz-checksum-crc32: y/Q5Jg==\r\n");

    (void)state;
    assert_int_equal(sum.kind, CHECKSUM_CRC32);
    assert_int_equal(sum.value, 0xcbf43926);
    sum = stat_sum("x-goog-hash: crc32c=4waSgw==,md5=JfnnlDI7RTiF9RgfG2JNCw==\r\n"
                   "x-amz-checksum-crc32: y/Q5Jg==\r\n");
    assert_int_equal(sum.kind, CHECKSUM_CRC32C);
    assert_int_equal(sum.value, 0xe3069283);
    sum = stat_sum("x-amz-checksum-crc64nvme: rosUhgp5n4U=\r\n");
    assert_int_equal(sum.kind, CHECKSUM_CRC64NVME);
    assert_true(sum.value == 0xae8b14860a799f85);
    /* of the parts of an upload; of other kinds; too short; nonsense */
    assert_int_equal(stat_sum("x-amz-checksum-crc32c: 4waSgw==-3\r\n").kind, CHECKSUM_NONE);
    assert_int_equal(stat_sum("x-amz-checksum-sha256: y/Q5Jg==\r\n").kind, CHECKSUM_NONE);
    assert_int_equal(stat_sum("x-amz-checksum-crc32: y/Q5\r\n").kind, CHECKSUM_NONE);
    assert_int_equal(stat_sum("x-amz-checksum-crc32: ????\r\n").kind, CHECKSUM_NONE);
    assert_int_equal(stat_sum("").kind, CHECKSUM_NONE);
}

static void test_list(void **state)
{
    static const char *const answers[] = {
        OK_HEAD "\r\n<ListBucketResult><IsTruncated>true</IsTruncated>"
                "<NextContinuationToken>t/1=</NextContinuationToken>"
                "<Contents><Key>p/a+b</Key><Size>3</Size><ETag>&quot;x&quot;</ETag></Contents>"
                "<CommonPrefixes><Prefix>p/%C3%A9/</Prefix></CommonPrefixes>"
                "<EncodingType>url</EncodingType></ListBucketResult>",
        OK_HEAD "\r\n<ListBucketResult/>", OK_HEAD "\r\n<html>", NULL};
    struct attempt a = {.op = ATTEMPT_LIST, .prefix = "p/", .by_folder = true};

    (void)state;
    script_set(&server, answers);
    origin_run_attempt(&lane, &a);
    assert_int_equal(a.rc, 0);
    assert_true(script_saw(&server, "GET /data?delimiter=%2F&encoding-type=url&list-type=2"
                                    "&prefix=p%2F HTTP/1.1\r\n"));
    assert_int_equal(a.n_objects, 1);
    assert_string_equal(a.objects[0].key, "p/a b");
    assert_string_equal(a.objects[0].etag, "x");
    assert_int_equal(a.n_folders, 1);
    assert_string_equal(a.folders[0], "p/\xc3\xa9/");
    assert_string_equal(a.next, "t/1=");
    attempt_clear(&a);
    a.continuation = "t/1=";
    origin_run_attempt(&lane, &a);
    assert_int_equal(a.rc, 0);
    assert_true(script_saw(&server, "continuation-token=t%2F1%3D&"));
    assert_null(a.next);
    attempt_clear(&a);
    origin_run_attempt(&lane, &a);
    assert_int_equal(a.rc, DLC_EPROTO);
    assert_non_null(strstr(a.err.text, "cannot list s3://data/p/: "));
    attempt_clear(&a);
}

#define WRONG_REGION(r)                                                                            \
    "HTTP/1.1 400 Bad\r\nConnection: close\r\n\r\n"                                                \
    "<Error><Code>AuthorizationHeaderMalformed</Code><Region>" r "</Region></Error>"

static void test_region_is_corrected(void **state)
{
    static const char *const answers[] = {WRONG_REGION("eu-west-1"),
                                          OK_HEAD "Content-Length: 9\r\n\r\n" NINE, NULL};
    struct attempt a = get(true);

    (void)state;
    script_set(&server, answers);
    origin_run_attempt(&lane, &a);
    assert_int_equal(a.rc, DLC_EDENIED);
    assert_true(a.retryable);
    assert_false(a.throttled);
    origin_run_attempt(&lane, &a);
    assert_int_equal(a.rc, 0);
    assert_true(script_saw(&server, "/eu-west-1/s3/aws4_request"));
}

/* A server that always names another region, and one that names ours: neither is asked for ever. */
static void test_region_correction_ends(void **state)
{
    static const char *const circle[] = {WRONG_REGION("r1"), WRONG_REGION("r2"),
                                         WRONG_REGION("r3"), WRONG_REGION("r4"),
                                         WRONG_REGION("r5"), WRONG_REGION("r6"),
                                         WRONG_REGION("r7"), WRONG_REGION("r8"),
                                         WRONG_REGION("r9"), NULL};
    struct attempt a = run_get(true, WRONG_REGION("us-east-1"));

    (void)state;
    assert_false(a.retryable);
    script_set(&server, circle);
    for (int i = 0; i < 9; i++) {
        a = get(true);
        origin_run_attempt(&lane, &a);
        assert_int_equal(a.retryable, i < 8);
    }
}

#define EXPIRED                                                                                    \
    "HTTP/1.1 400 Bad\r\nConnection: close\r\n\r\n<Error><Code>ExpiredToken</Code></Error>"

static void test_expired_token(void **state)
{
    struct attempt a = run_get(true, EXPIRED);

    (void)state;
    assert_true(script_saw(&server, "\r\nx-amz-security-token: old-token\r\n"));
    assert_int_equal(a.rc, DLC_EDENIED);
    assert_true(a.retryable); /* perhaps there are newer ones by now */
    a = run_get(true, EXPIRED);
    assert_false(a.retryable); /* there were none */
    assert_non_null(strstr(a.err.text, "renew the credentials"));
    assert_null(strstr(a.err.text, "old-token"));
}

static void test_anonymous(void **state)
{
    struct attempt a = run_get(true, OK_HEAD "Content-Length: 9\r\n\r\n" NINE);

    (void)state;
    assert_int_equal(a.rc, 0);
    assert_false(script_saw(&server, "authorization"));
}

static void test_no_credentials(void **state)
{
    struct attempt a = run_get(true, "");

    (void)state;
    assert_int_equal(a.rc, DLC_EDENIED);
    assert_false(a.retryable);
    assert_non_null(strstr(a.err.text, "AWS_ACCESS_KEY_ID"));
    assert_int_equal(script_asked(&server), 0);
    a = get(true);
    origin_run_cancelled(&lane, &a);
    assert_int_equal(a.rc, DLC_ECANCELED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_range, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_chunked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_empty_object, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_secrets_in_messages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nobody_listens, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cancel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stat, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stat_checksum, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_list, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_region_is_corrected, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_region_correction_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_expired_token, set_up_session, tear_down),
        cmocka_unit_test_setup_teardown(test_anonymous, set_up_anonymous, tear_down),
        cmocka_unit_test_setup_teardown(test_no_credentials, set_up_nobody, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
