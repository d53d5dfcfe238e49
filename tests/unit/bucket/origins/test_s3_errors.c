// SPDX-License-Identifier: Apache-2.0
/* What answers mean: codes, statuses, advice, checksums; and that no message shows what it must
 * not. */
#include "bucket/origins/s3_i.h"

#include "base/mem.h"
#include "unit.h"

#define NOW 1769860800 /* Sat, 31 Jan 2026 12:00:00 GMT */

static struct engine_request *answer(int status, const char *code, const char *message)
{
    struct engine_request *r = mem_new(struct engine_request);

    engine_answer_clear(&r->answer);
    r->answer.status = status;
    if (code != NULL)
        buf_addf(&r->body,
                 "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>%s</Message></Error>", code,
                 message);
    return r;
}

static void answer_free(struct engine_request *r)
{
    buf_release(&r->body);
    mem_free(&r);
}

static const struct {
    int status;
    const char *code; /* NULL: no document, as for HEAD */
    int rc;
    bool retryable, throttled;
    enum s3_verdict verdict;
    const char *word; /* of the advice */
} cases[] = {
    {404, "NoSuchKey", DLC_ENOTFOUND, false, false, S3_FAILED, "no such object"},
    {404, "NoSuchBucket", DLC_ENOTFOUND, false, false, S3_FAILED, "check its name"},
    {404, NULL, DLC_ENOTFOUND, false, false, S3_FAILED, "HTTP 404; "},
    {403, "AccessDenied", DLC_EDENIED, false, false, S3_FAILED, "s3:GetObject"},
    {403, NULL, DLC_EDENIED, false, false, S3_FAILED, "s3:GetObject"},
    {403, "InvalidAccessKeyId", DLC_EDENIED, false, false, S3_FAILED, "access key"},
    {403, "SignatureDoesNotMatch", DLC_EDENIED, false, false, S3_FAILED, "secret key"},
    {403, "InvalidObjectState", DLC_EDENIED, false, false, S3_FAILED, "restore"},
    {403, "SomethingNew", DLC_EDENIED, false, false, S3_FAILED, "SomethingNew"},
    {400, "ExpiredToken", DLC_EDENIED, false, false, S3_EXPIRED, "renew"},
    {403, "ExpiredToken", DLC_EDENIED, false, false, S3_EXPIRED, "renew"},
    {400, "InvalidToken", DLC_EDENIED, false, false, S3_EXPIRED, "renew"},
    {401, NULL, DLC_EDENIED, false, false, S3_EXPIRED, "renew"},
    {400, NULL, DLC_EBUCKET, false, false, S3_EXPIRED, "gave no reason"},
    {403, "RequestTimeTooSkewed", DLC_EDENIED, false, false, S3_FAILED, "clock"},
    {412, "PreconditionFailed", DLC_ECHANGED, false, false, S3_FAILED, "no longer"},
    {412, NULL, DLC_ECHANGED, false, false, S3_FAILED, "no longer"},
    {416, "InvalidRange", DLC_ECHANGED, false, false, S3_FAILED, "no longer"},
    {403, "SecondLevelDomainForbidden", DLC_EDENIED, false, false, S3_FAILED, "--path-style"},
    {403, "SecurityTokenExpired", DLC_EDENIED, false, false, S3_EXPIRED, "renew"},
    {400, "InvalidRegionName", DLC_EDENIED, false, false, S3_FAILED, "auto for R2"},
    {404, "BlobNotFound", DLC_ENOTFOUND, false, false, S3_FAILED, "no such object"},
    {404, "ContainerNotFound", DLC_ENOTFOUND, false, false, S3_FAILED, "storage account"},
    {403, "AuthenticationFailed", DLC_EDENIED, false, false, S3_EXPIRED, "check or renew"},
    {401, "InvalidAuthenticationInfo", DLC_EDENIED, false, false, S3_EXPIRED, "renew"},
    {409, "PublicAccessNotPermitted", DLC_EDENIED, false, false, S3_FAILED, "anonymous"},
    {409, "BlobArchived", DLC_EDENIED, false, false, S3_FAILED, "rehydrate"},
    {412, "ConditionNotMet", DLC_ECHANGED, false, false, S3_FAILED, "no longer"},
    {503, "ServerBusy", DLC_EBUCKET, true, true, S3_FAILED, "overloaded"},
    {500, "OperationTimedOut", DLC_EBUCKET, true, false, S3_FAILED, "failed"},
    {503, "SlowDown", DLC_EBUCKET, true, true, S3_FAILED, "overloaded"},
    {503, NULL, DLC_EBUCKET, true, true, S3_FAILED, "overloaded"},
    {429, NULL, DLC_EBUCKET, true, true, S3_FAILED, "overloaded"},
    {500, "InternalError", DLC_EBUCKET, true, false, S3_FAILED, "failed"},
    {502, NULL, DLC_EBUCKET, true, false, S3_FAILED, "failed"},
    {504, NULL, DLC_EBUCKET, true, false, S3_FAILED, "failed"},
    {501, "NotImplemented", DLC_EBUCKET, false, false, S3_FAILED, "S3 endpoint"},
    {400, "RequestTimeout", DLC_EBUCKET, true, false, S3_FAILED, "waiting"},
    {307, "TemporaryRedirect", DLC_EBUCKET, true, false, S3_FAILED, "--region"},
    {301, "PermanentRedirect", DLC_EBUCKET, false, false, S3_FAILED, "--region"},
    {302, NULL, DLC_EBUCKET, false, false, S3_FAILED, "endpoint"},
    {304, NULL, DLC_EBUCKET, false, false, S3_FAILED, "endpoint"},
    {299, NULL, DLC_EBUCKET, false, false, S3_FAILED, "not expected"},
};

static void test_outcomes(void **state)
{
    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct engine_request *r = answer(cases[i].status, cases[i].code, "words of the server");
        struct attempt a = {.op = ATTEMPT_GET, .key = "k/1", .retryable = true, .throttled = true};
        struct s3_error e;

        assert_int_equal(s3_answer_failed("s3", "b", r, NOW, &a, &e), cases[i].verdict);
        assert_int_equal(a.rc, cases[i].rc);
        assert_int_equal(a.err.code, cases[i].rc);
        assert_int_equal(a.retryable, cases[i].retryable);
        assert_int_equal(a.throttled, cases[i].throttled);
        assert_non_null(strstr(a.err.text, "cannot read s3://b/k/1: HTTP "));
        assert_non_null(strstr(a.err.text, cases[i].word));
        if (cases[i].code != NULL)
            assert_non_null(strstr(a.err.text, "(words of the server)"));
        answer_free(r);
    }
}

/* The region comes by header or in the document, and must look like one. */
static void test_region(void **state)
{
    static const char doc[] = "<Error><Code>AuthorizationHeaderMalformed</Code>"
                              "<Region>eu-west-1</Region></Error>";
    struct engine_request *r = answer(400, NULL, NULL);
    struct attempt a = {.op = ATTEMPT_GET, .key = "k"};
    struct s3_error e;

    (void)state;
    buf_adds(&r->body, doc);
    assert_int_equal(s3_answer_failed("s3", "b", r, NOW, &a, &e), S3_OTHER_REGION);
    assert_string_equal(e.region, "eu-west-1");

    buf_clear(&r->body); /* HEAD */
    memcpy(r->answer.region, "ap-south-1", sizeof("ap-south-1"));
    assert_int_equal(s3_answer_failed("s3", "b", r, NOW, &a, &e), S3_OTHER_REGION);
    assert_string_equal(e.region, "ap-south-1");
    r->answer.status = 301;
    assert_int_equal(s3_answer_failed("s3", "b", r, NOW, &a, &e), S3_OTHER_REGION);

    memcpy(r->answer.region, "evil.host/", sizeof("evil.host/"));
    assert_int_equal(s3_answer_failed("s3", "b", r, NOW, &a, &e), S3_FAILED);
    answer_free(r);
}

static void test_skew_says_how_much(void **state)
{
    struct engine_request *r = answer(403, "RequestTimeTooSkewed", "x");
    struct attempt a = {.op = ATTEMPT_GET, .key = "k"};
    struct s3_error e;

    (void)state;
    snprintf(r->answer.date, sizeof(r->answer.date), "Sat, 31 Jan 2026 12:00:00 GMT");
    s3_answer_failed("s3", "b", r, NOW - 3600, &a, &e);
    assert_non_null(strstr(a.err.text, "3600 s behind the server's"));
    s3_answer_failed("s3", "b", r, NOW + 1000, &a, &e);
    assert_non_null(strstr(a.err.text, "1000 s ahead of the server's"));
    answer_free(r);
}

static void test_changed_names_both(void **state)
{
    struct engine_request *r = answer(412, NULL, NULL);
    struct attempt a = {.op = ATTEMPT_GET, .key = "k", .etag = "old-etag"};
    struct s3_error e;

    (void)state;
    snprintf(r->answer.etag, sizeof(r->answer.etag), "new-etag");
    s3_answer_failed("s3", "b", r, NOW, &a, &e);
    assert_non_null(strstr(a.err.text, "old-etag"));
    assert_non_null(strstr(a.err.text, "new-etag"));
    answer_free(r);
}

static void test_list_and_gs_words(void **state)
{
    struct engine_request *r = answer(403, "AccessDenied", "x");
    struct attempt a = {.op = ATTEMPT_LIST, .prefix = "p/"};
    struct s3_error e;

    (void)state;
    s3_answer_failed("s3", "b", r, NOW, &a, &e);
    assert_non_null(strstr(a.err.text, "cannot list s3://b/p/: "));
    assert_non_null(strstr(a.err.text, "s3:ListBucket"));
    s3_answer_failed("gs", "b", r, NOW, &a, &e);
    assert_non_null(strstr(a.err.text, "storage.objects.list"));
    answer_free(r);
}

static void test_retry_after(void **state)
{
    struct engine_request *r = answer(503, NULL, NULL);
    struct attempt a = {.op = ATTEMPT_GET, .key = "k"};
    struct s3_error e;

    (void)state;
    r->answer.retry_after = 3;
    s3_answer_failed("s3", "b", r, NOW, &a, &e);
    assert_int_equal(a.retry_after.ns, DLC_SEC(3).ns);
    r->answer.retry_after = 999999999999;
    s3_answer_failed("s3", "b", r, NOW, &a, &e);
    assert_int_equal(a.retry_after.ns, DLC_SEC(3600).ns);
    answer_free(r);
}

/* A key as long as keys get, and not printable, must leave room for the advice. */
static void test_long_key(void **state)
{
    struct engine_request *r = answer(404, "NoSuchKey", "x");
    char key[1025];
    struct attempt a = {.op = ATTEMPT_GET, .key = key};
    struct s3_error e;

    (void)state;
    memset(key, '\n', 1024);
    key[1024] = '\0';
    key[0] = '<';
    key[1023] = '>';
    s3_answer_failed("s3", "b", r, NOW, &a, &e);
    assert_non_null(strstr(a.err.text, "s3://b/<??"));
    assert_non_null(strstr(a.err.text, "...??"));
    assert_non_null(strstr(a.err.text, "there is no such object"));
    assert_null(strchr(a.err.text, '\n'));
    answer_free(r);
}

static void test_broken(void **state)
{
    struct engine_request *r = answer(0, NULL, NULL);
    struct attempt a = {.op = ATTEMPT_GET, .key = "k"};

    (void)state;
    r->rc = DLC_ECORRUPT;
    r->retryable = true;
    snprintf(r->why, sizeof(r->why), "the body was cut short");
    s3_answer_broken("s3", "b", r, &a);
    assert_int_equal(a.rc, DLC_ECORRUPT);
    assert_true(a.retryable);
    assert_string_equal(a.err.text, "cannot read s3://b/k: the body was cut short");
    answer_free(r);
}

/* Checksums of "123456789". */
static void test_verify(void **state)
{
    static const struct {
        enum engine_sum kind;
        const char *right, *wrong;
    } sums[] = {
        {SUM_CRC64NVME, "rosUhgp5mIg=", "rosUhgp5mIk="},
        {SUM_CRC32C, "4waSgw==", "4waShA=="},
        {SUM_CRC32, "y/Q5Jg==", "y/Q5Jw=="},
        {SUM_SHA256, "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=",
         "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiY="},
    };
    char data[] = "123456789";

    (void)state;
    for (size_t i = 0; i < unit_count(sums); i++) {
        struct engine_request *r = answer(200, NULL, NULL);
        struct attempt a = {.op = ATTEMPT_GET, .key = "k", .whole = true, .length = 9, .dst = data};
        char *given = r->answer.sums[sums[i].kind];

        assert_int_equal(s3_answer_verify("s3", "b", r, &a), 0);
        snprintf(given, sizeof(r->answer.sums[0]), "%s", sums[i].right);
        assert_int_equal(s3_answer_verify("s3", "b", r, &a), 0);
        snprintf(given, sizeof(r->answer.sums[0]), "%s-3", sums[i].wrong);
        assert_int_equal(s3_answer_verify("s3", "b", r, &a), 0); /* of parts: says nothing */
        snprintf(given, sizeof(r->answer.sums[0]), "%s", sums[i].wrong);
        assert_int_equal(s3_answer_verify("s3", "b", r, &a), DLC_ECORRUPT);
        assert_true(a.retryable);
        a.whole = false;
        assert_int_equal(s3_answer_verify("s3", "b", r, &a), 0);
        answer_free(r);
    }
}

static void sum_is(enum engine_sum header, const char *given, enum checksum_kind kind,
                   uint64_t value)
{
    struct engine_request *r = answer(200, NULL, NULL);
    struct object_checksum sum;

    snprintf(r->answer.sums[header], sizeof(r->answer.sums[0]), "%s", given);
    s3_answer_sum(r, &sum);
    assert_int_equal(sum.kind, kind);
    assert_true(sum.value == value);
    answer_free(r);
}

/* The checksum of a whole object that is read in parts: one that is of its bytes, or none. */
static void test_sum_of_an_object(void **state)
{
    struct engine_request *r = answer(200, NULL, NULL);
    struct object_checksum sum;

    (void)state;
    sum_is(SUM_CRC64NVME, "rosUhgp5mIg=", CHECKSUM_CRC64NVME, 0xae8b14860a799888);
    sum_is(SUM_CRC32C, "4waSgw==", CHECKSUM_CRC32C, 0xe3069283);
    sum_is(SUM_CRC32, "y/Q5Jg==", CHECKSUM_CRC32, 0xcbf43926);
    sum_is(SUM_CRC32, "", CHECKSUM_NONE, 0);
    sum_is(SUM_CRC32, "y/Q5Jg==-3", CHECKSUM_NONE, 0); /* of the parts' checksums */
    sum_is(SUM_CRC32, "y/Q5Jg-=", CHECKSUM_NONE, 0);
    sum_is(SUM_CRC32, "y/Q5J", CHECKSUM_NONE, 0);
    sum_is(SUM_CRC32, "rosUhgp5mIg=", CHECKSUM_NONE, 0); /* too long */
    sum_is(SUM_CRC64NVME, "4waSgw==", CHECKSUM_NONE, 0);
    sum_is(SUM_SHA256, "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=", CHECKSUM_NONE, 0);
    snprintf(r->answer.sums[SUM_CRC64NVME], sizeof(r->answer.sums[0]), "odd");
    snprintf(r->answer.sums[SUM_CRC32C], sizeof(r->answer.sums[0]), "4waSgw==");
    snprintf(r->answer.sums[SUM_CRC32], sizeof(r->answer.sums[0]), "y/Q5Jg==");
    s3_answer_sum(r, &sum); /* the first that can be used */
    assert_int_equal(sum.kind, CHECKSUM_CRC32C);
    assert_true(sum.value == 0xe3069283);
    answer_free(r);
}

/* A server that does not know If-Match. (ONE-NODE-5) */
static void test_verify_version(void **state)
{
    struct engine_request *r = answer(200, NULL, NULL);
    struct attempt a = {.op = ATTEMPT_GET, .key = "k", .etag = "old"};

    (void)state;
    snprintf(r->answer.etag, sizeof(r->answer.etag), "old");
    assert_int_equal(s3_answer_verify("s3", "b", r, &a), 0);
    snprintf(r->answer.etag, sizeof(r->answer.etag), "new");
    assert_int_equal(s3_answer_verify("s3", "b", r, &a), DLC_ECHANGED);
    assert_non_null(strstr(a.err.text, "ETag old, now new"));
    answer_free(r);
}

static void test_no_leak(void **state)
{
    enum { ROUNDS = 50 };
    size_t before = 0;

    for (unsigned i = 0; i < 30 + ROUNDS; i++) {
        if (i == 30) /* what malloc() keeps for itself is there by now */
            before = unit_heap();
        test_changed_names_both(state);
        test_broken(state);
        test_verify(state);
        test_verify_version(state);
        test_sum_of_an_object(state);
    }
    assert_true(unit_heap() < before + ROUNDS * 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outcomes),
        cmocka_unit_test(test_region),
        cmocka_unit_test(test_skew_says_how_much),
        cmocka_unit_test(test_changed_names_both),
        cmocka_unit_test(test_list_and_gs_words),
        cmocka_unit_test(test_retry_after),
        cmocka_unit_test(test_long_key),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_verify),
        cmocka_unit_test(test_verify_version),
        cmocka_unit_test(test_sum_of_an_object),
        cmocka_unit_test(test_no_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
