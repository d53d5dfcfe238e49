// SPDX-License-Identifier: Apache-2.0
/* The gs origin: its ways to prove who we are, and its checksums. */
#include "bucket/origins/origin.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdlib.h>

#include "bucket/origin_run.h"
#include "unit.h"

#define NINE    "123456789"
#define OK      "HTTP/1.1 200 OK\r\nETag: \"e1\"\r\nConnection: close\r\nContent-Length: 9\r\n"
#define OK_NINE OK "\r\n" NINE
#define TOKEN(t)                                                                                   \
    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"                                                 \
    "{\"access_token\": \"" t "\", \"expires_in\": 3599, \"token_type\": \"Bearer\"}"

static struct script server;
static struct origin_run lane;
static char dst[9];

static int set_up(void **state)
{
    static const char *const names[] = {"GS_ACCESS_KEY_ID", "GS_SECRET_ACCESS_KEY",
                                        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
                                        "GOOGLE_OAUTH_ACCESS_TOKEN"};

    (void)state;
    for (size_t i = 0; i < unit_count(names); i++)
        unsetenv(names[i]);
    script_start(&server);
    setenv("GCE_METADATA_HOST", strstr(server.server.url, "127."), 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    script_stop(&server);
    return 0;
}

static void open_lane(bool anonymous)
{
    struct bucket_config c = BUCKET_CONFIG_INIT;
    struct url u = {.scheme = URL_GS, .bucket = (char *)(uintptr_t) "my_data"};
    struct origin *o = NULL;

    c.endpoint = server.server.url;
    c.anonymous = anonymous;
    assert_int_equal(origin_gs_new(&u, &c, 1, &o, NULL), 0);
    origin_run_open(&lane, o);
}

static struct attempt get(void)
{
    struct attempt a = {
        .op = ATTEMPT_GET, .key = "k", .etag = "e1", .length = 9, .whole = true, .dst = dst};

    memset(dst, 0, sizeof(dst));
    origin_run_attempt(&lane, &a);
    return a;
}

static void expect_good(void)
{
    struct attempt a = get();

    assert_int_equal(a.rc, 0);
    assert_memory_equal(dst, NINE, 9);
}

static void test_anonymous(void **state)
{
    static const char *const answers[] = {OK_NINE, NULL};

    (void)state;
    setenv("GS_ACCESS_KEY_ID", "GOOGID", 1);
    setenv("GS_SECRET_ACCESS_KEY", "secret", 1);
    open_lane(true);
    script_set(&server, answers);
    expect_good();
    assert_true(script_saw(&server, "GET /my_data/k HTTP/1.1\r\n"));
    assert_true(script_saw(&server, "\r\nAccept-Encoding: gzip\r\n"));
    assert_true(script_saw(&server, "\r\nIf-Match: \"e1\"\r\n"));
    assert_false(script_saw(&server, "authorization"));
    origin_run_close(&lane);
}

static void test_hmac(void **state)
{
    static const char *const answers[] = {OK_NINE, NULL};

    (void)state;
    setenv("GS_ACCESS_KEY_ID", "GOOGID", 1);
    setenv("GS_SECRET_ACCESS_KEY", "secret", 1);
    open_lane(false);
    script_set(&server, answers);
    expect_good();
    assert_true(script_saw(&server, "Credential=GOOGID/"));
    assert_true(script_saw(&server, "/auto/s3/aws4_request"));
    origin_run_close(&lane);
}

static void test_bearer(void **state)
{
    static const char *const answers[] = {OK_NINE, NULL};

    (void)state;
    setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "ya29.given", 1);
    open_lane(false);
    script_set(&server, answers);
    expect_good();
    assert_true(script_saw(&server, "\r\nauthorization: Bearer ya29.given\r\n"));
    origin_run_close(&lane);
}

/* Tokens of Entra and of federated accounts have some thousand bytes. */
static void test_a_long_bearer(void **state)
{
    static const char *const answers[] = {OK_NINE, NULL};
    char token[4001], line[4100];

    (void)state;
    memset(token, 'x', sizeof(token) - 1);
    token[sizeof(token) - 1] = '\0';
    setenv("GOOGLE_OAUTH_ACCESS_TOKEN", token, 1);
    open_lane(false);
    script_set(&server, answers);
    expect_good();
    snprintf(line, sizeof(line), "\r\nauthorization: Bearer %s\r\n", token);
    assert_true(script_saw(&server, line));
    origin_run_close(&lane);
}

/* One token serves many requests; one that was refused is replaced. */
static void test_metadata(void **state)
{
    static const char *const answers[] = {
        TOKEN("first"), OK_NINE, OK_NINE, "HTTP/1.1 401 X\r\nConnection: close\r\n\r\n",
        TOKEN("next"),  OK_NINE, NULL};
    struct attempt a;

    (void)state;
    open_lane(false);
    script_set(&server, answers);
    expect_good();
    assert_true(script_saw(&server, "\r\nauthorization: Bearer first\r\n"));
    expect_good();
    assert_int_equal(script_asked(&server), 3);
    a = get();
    assert_int_equal(a.rc, DLC_EDENIED);
    assert_true(a.retryable);
    assert_null(strstr(a.err.text, "first"));
    expect_good();
    assert_true(script_saw(&server, "\r\nauthorization: Bearer next\r\n"));
    assert_int_equal(script_asked(&server), 6);
    origin_run_close(&lane);
}

static void test_metadata_fails(void **state)
{
    static const char *const answers[] = {"HTTP/1.1 404 X\r\nConnection: close\r\n\r\n", NULL};
    struct attempt a;

    (void)state;
    open_lane(false);
    script_set(&server, answers);
    a = get();
    assert_int_equal(a.rc, DLC_EDENIED);
    assert_false(a.retryable);
    assert_non_null(strstr(a.err.text, "GOOGLE_OAUTH_ACCESS_TOKEN not set"));
    assert_non_null(strstr(a.err.text, "gives no token"));
    assert_non_null(strstr(a.err.text, "--anonymous"));
    a = get(); /* the failure is remembered for a while */
    assert_int_equal(a.rc, DLC_EDENIED);
    assert_int_equal(script_asked(&server), 1);
    origin_run_close(&lane);
}

/* A token goes neither to an endpoint that somebody else names nor from the machine to its guests.
 */
static void test_tokens_stay_here(void **state)
{
    struct bucket_config c = BUCKET_CONFIG_INIT;
    struct url u = {.scheme = URL_GS, .bucket = (char *)(uintptr_t) "my_data"};
    static const char *const answers[] = {OK_NINE, NULL};
    struct origin *o = NULL;
    struct attempt a;

    (void)state;
    script_set(&server, answers);
    c.endpoint = server.server.url;
    for (int i = 0; i < 3; i++) {
        if (i == 1)
            setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "ya29.given", 1);
        else
            unsetenv("GOOGLE_OAUTH_ACCESS_TOKEN");
        c.foreign_endpoint = i < 2;
        c.no_machine_role = i == 2;
        assert_int_equal(origin_gs_new(&u, &c, 1, &o, NULL), 0);
        origin_run_open(&lane, o);
        a = get();
        assert_int_equal(a.rc, DLC_EDENIED);
        assert_non_null(strstr(a.err.text, i < 2 ? "no endpoint of Google" : "not asked for"));
        assert_int_equal(script_asked(&server), 0);
        origin_run_close(&lane);
    }
}

/* The file of a service account, with a key made for the test. Gives. */
static char *account_json(const char *token_uri)
{
    EVP_PKEY *key = EVP_RSA_gen(2048);
    BIO *bio = BIO_new(BIO_s_mem());
    char *pem, *text;
    json_t *doc;
    long n;

    assert_int_equal(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), 1);
    n = BIO_get_mem_data(bio, &pem);
    doc = json_pack("{s:s, s:s, s:s%, s:s}", "type", "service_account", "client_email", "a@b",
                    "private_key", pem, (size_t)n, "token_uri", token_uri);
    text = json_dumps(doc, JSON_COMPACT);
    json_decref(doc);
    BIO_free(bio);
    EVP_PKEY_free(key);
    return text;
}

/* A tenant's service account: its token, until the tenant has another; never sent where the file
 * alone says. */
static void test_given_account(void **state)
{
    static const char *const answers[] = {TOKEN("one"), OK_NINE, OK_NINE,
                                          TOKEN("two"), OK_NINE, NULL};
    struct bucket_config c = BUCKET_CONFIG_INIT;
    struct url u = {.scheme = URL_GS, .bucket = (char *)(uintptr_t) "my_data"};
    char *first = account_json(server.server.url), *second = account_json(server.server.url);
    struct origin *o = NULL;
    struct attempt a;

    (void)state;
    c.endpoint = server.server.url;
    c.keys = bucket_keys_new();
    bucket_keys_set(c.keys, "a@b", first, NULL);
    script_set(&server, answers);
    assert_int_equal(origin_gs_new(&u, &c, 1, &o, NULL), 0);
    origin_run_open(&lane, o);
    a = get();
    assert_int_equal(a.rc, DLC_EDENIED);
    assert_non_null(strstr(a.err.text, "no https host of Google"));
    assert_int_equal(script_asked(&server), 0);
    origin_run_close(&lane);
    setenv("CLOUDSDK_AUTH_TOKEN_HOST", server.server.url, 1);
    assert_int_equal(origin_gs_new(&u, &c, 1, &o, NULL), 0);
    origin_run_open(&lane, o);
    expect_good();
    expect_good();
    assert_true(script_saw(&server, "\r\nauthorization: Bearer one\r\n"));
    assert_int_equal(script_asked(&server), 3);
    bucket_keys_set(c.keys, "a@b", second, NULL);
    expect_good();
    assert_true(script_saw(&server, "\r\nauthorization: Bearer two\r\n"));
    origin_run_close(&lane);
    unsetenv("CLOUDSDK_AUTH_TOKEN_HOST");
    bucket_keys_put(&c.keys);
    free(first);
    free(second);
}

static void test_cancel_while_asking(void **state)
{
    static const char *const answers[] = {"", NULL};
    struct attempt a = {.op = ATTEMPT_GET, .key = "k", .length = 9, .whole = true, .dst = dst};

    (void)state;
    open_lane(false);
    script_set(&server, answers);
    origin_run_cancelled(&lane, &a);
    assert_int_equal(a.rc, DLC_ECANCELED);
    origin_run_close(&lane);
}

static void test_checksum(void **state)
{
    static const char *const answers[] = {
        OK "x-goog-hash: crc32c=4waSgw==,md5=JfnnlDI7RThiF9RgfG2JNw==\r\n\r\n" NINE,
        OK "x-goog-hash: crc32c=AAAAAA==\r\n\r\n" NINE, NULL};
    struct attempt a;

    (void)state;
    open_lane(true);
    script_set(&server, answers);
    expect_good();
    a = get();
    assert_int_equal(a.rc, DLC_ECORRUPT);
    assert_true(a.retryable);
    assert_non_null(strstr(a.err.text, "cannot read gs://my_data/k"));
    origin_run_close(&lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_anonymous, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hmac, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_long_bearer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bearer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_metadata, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_metadata_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tokens_stay_here, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_given_account, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cancel_while_asking, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_checksum, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
