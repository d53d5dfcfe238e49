// SPDX-License-Identifier: Apache-2.0
/* The az origin: its ways to prove who we are, where secrets may go, its checksums and listings. */
#include "bucket/origins/origin.h"

#include <stdlib.h>

#include "bucket/origin_run.h"
#include "bucket/origins/azure_i.h"
#include "unit.h"

#define NINE "123456789"
#define OK                                                                                         \
    "HTTP/1.1 206 OK\r\nETag: \"0x1\"\r\nContent-Range: bytes 0-8/9\r\nContent-Length: 9\r\n"      \
    "Connection: close\r\n"
#define OK_NINE OK "\r\n" NINE
#define TOKEN(t)                                                                                   \
    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"access_token\": \"" t                          \
    "\", \"expires_in\": \"3599\", \"token_type\": \"Bearer\"}"

static struct script server;
static struct origin_run lane;
static struct bucket_config config;
static char dst[9], endpoint[80];

static int set_up(void **state)
{
    static const char *const names[] = {
        "AZURE_CLIENT_ID",       "AZURE_CLIENT_SECRET",        "AZURE_FEDERATED_TOKEN_FILE",
        "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_KEY",     "AZURE_STORAGE_SAS_TOKEN",    "AZURE_STORAGE_CONNECTION_STRING",
        "AZURE_TENANT_ID"};

    (void)state;
    for (size_t i = 0; i < unit_count(names); i++)
        unsetenv(names[i]);
    script_start(&server);
    setenv("AZURE_AUTHORITY_HOST", server.server.url, 1);
    setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", server.server.url, 1);
    snprintf(endpoint, sizeof(endpoint), "%s/acct", server.server.url);
    config = (struct bucket_config)BUCKET_CONFIG_INIT;
    config.endpoint = endpoint;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    script_stop(&server);
    return 0;
}

static struct attempt get(const char *const *answers)
{
    struct url u = {.scheme = URL_AZ, .bucket = (char *)(uintptr_t) "data"};
    struct attempt a = {
        .op = ATTEMPT_GET, .key = "k 1", .etag = "0x1", .length = 9, .whole = true, .dst = dst};
    struct origin *o = NULL;

    memset(dst, 0, sizeof(dst));
    script_set(&server, answers);
    assert_int_equal(origin_azure_new(&u, &config, 1, &o, NULL), 0);
    origin_run_open(&lane, o);
    origin_run_attempt(&lane, &a);
    origin_run_close(&lane);
    return a;
}

static void expect_good(const char *const *answers)
{
    struct attempt a = get(answers);

    assert_int_equal(a.rc, 0);
    assert_memory_equal(dst, NINE, 9);
}

static void test_anonymous_and_key(void **state)
{
    static const char *const answers[] = {OK_NINE, NULL};

    (void)state;
    config.anonymous = true;
    expect_good(answers);
    assert_true(script_saw(&server, "GET /acct/data/k%201 HTTP/1.1\r\n"));
    assert_true(script_saw(&server, "\r\nx-ms-version: 20"));
    assert_true(script_saw(&server, "\r\nRange: bytes=0-8\r\n"));
    assert_true(script_saw(&server, "\r\nIf-Match: \"0x1\"\r\n"));
    assert_true(script_saw(&server, "\r\nx-ms-range-get-content-crc64: true\r\n"));
    assert_false(script_saw(&server, "authorization"));
    config.anonymous = false;
    setenv("AZURE_STORAGE_KEY", "a2V5", 1);
    expect_good(answers);
    assert_true(script_saw(&server, "\r\nauthorization: SharedKey acct:"));
    assert_true(script_saw(&server, "\r\nx-ms-date: "));
}

static void test_sas(void **state)
{
    static const char *const answers[] = {OK_NINE, NULL};
    struct attempt a;

    (void)state;
    setenv("AZURE_STORAGE_SAS_TOKEN", "?sv=2023&sp=rl&sig=hush%3D", 1);
    expect_good(answers);
    assert_true(script_saw(&server, "GET /acct/data/k%201?sv=2023&sp=rl&sig=hush%3D HTTP/1.1\r\n"));
    assert_false(script_saw(&server, "authorization"));
    setenv("AZURE_STORAGE_SAS_TOKEN", "sp=rl&se=2020-01-31T12%3A00%3A00Z&sig=hush%3D", 1);
    a = get(answers);
    assert_int_equal(a.rc, DLC_EDENIED);
    assert_non_null(strstr(a.err.text, "expired"));
    assert_null(strstr(a.err.text, "hush"));
    assert_int_equal(script_asked(&server), 0);
}

static void test_workload_identity(void **state)
{
    static const char *const answers[] = {TOKEN("eyJ.entra"), OK_NINE, NULL};
    static const char *const refused[] = {
        "HTTP/1.1 400 X\r\nConnection: close\r\n\r\n{\"error\": \"invalid_client\", "
        "\"error_description\": \"AADSTS700016: not found.\\r\\nTrace\"}",
        NULL};
    char path[] = "/tmp/azure-token-XXXXXX";
    int fd = mkstemp(path);
    struct attempt a;

    (void)state;
    assert_int_equal(write(fd, "eyJ.federated\n", 14), 14);
    close(fd);
    setenv("AZURE_FEDERATED_TOKEN_FILE", path, 1);
    a = get(answers);
    assert_int_equal(a.rc, DLC_EINVAL); /* half of what is needed is not passed over */
    setenv("AZURE_CLIENT_ID", "cid", 1);
    setenv("AZURE_TENANT_ID", "tid", 1);
    expect_good(answers);
    assert_true(script_saw(&server, "\r\nauthorization: Bearer eyJ.entra\r\n"));
    a = get(refused);
    assert_int_equal(a.rc, DLC_EDENIED);
    assert_non_null(strstr(a.err.text, "AADSTS700016: not found."));
    assert_non_null(strstr(a.err.text, "workload identity"));
    unlink(path);
}

static void test_managed_identity(void **state)
{
    static const char *const answers[] = {TOKEN("eyJ.machine"), OK_NINE, NULL};
    struct attempt a;

    (void)state;
    expect_good(answers);
    assert_true(script_saw(&server, "\r\nauthorization: Bearer eyJ.machine\r\n"));
    config.no_machine_role = true;
    a = get(answers);
    assert_int_equal(a.rc, DLC_EDENIED);
    assert_non_null(strstr(a.err.text, "not asked for a dataset of a cluster"));
    assert_int_equal(script_asked(&server), 0);
}

/* Who names the endpoint gets signatures of a key, which are worth nothing, and no token. */
static void test_secrets_stay_here(void **state)
{
    static const char *const answers[] = {OK_NINE, NULL};
    struct attempt a;

    (void)state;
    config.foreign_endpoint = true;
    a = get(answers);
    assert_int_equal(a.rc, DLC_EDENIED);
    assert_non_null(strstr(a.err.text, "only for https endpoints of Azure"));
    setenv("AZURE_STORAGE_SAS_TOKEN", "sig=hush", 1);
    a = get(answers);
    assert_int_equal(a.rc, DLC_EDENIED);
    assert_non_null(strstr(a.err.text, "no https endpoint of Azure"));
    assert_int_equal(script_asked(&server), 0);
    setenv("AZURE_STORAGE_KEY", "a2V5", 1);
    expect_good(answers);
    setenv("AZURE_STORAGE_ACCOUNT", "another", 1); /* whose key it then is */
    a = get(answers);
    assert_int_equal(a.rc, DLC_EDENIED);
    assert_int_equal(script_asked(&server), 0);
}

/* A tenant's: the account and its key, or a SAS, which no endpoint of the tenant's gets. */
static void test_given(void **state)
{
    static const char *const answers[] = {OK_NINE, NULL};
    struct bucket_keys *keys = bucket_keys_new();
    struct attempt a;

    (void)state;
    setenv("AZURE_STORAGE_SAS_TOKEN", "sig=of-the-daemon", 1); /* not used */
    config.keys = keys;
    config.foreign_endpoint = true;
    bucket_keys_set(keys, "acct", "a2V5", NULL);
    expect_good(answers);
    assert_true(script_saw(&server, "\r\nauthorization: SharedKey acct:"));
    assert_false(script_saw(&server, "of-the-daemon"));
    bucket_keys_set(keys, "acct", "sv=1&sig=hush", NULL);
    a = get(answers);
    assert_int_equal(a.rc, DLC_EDENIED);
    assert_int_equal(script_asked(&server), 0);
    config.foreign_endpoint = false;
    expect_good(answers);
    assert_true(script_saw(&server, "k%201?sv=1&sig=hush HTTP"));
    bucket_keys_set(keys, "another", "a2V5", NULL);
    a = get(answers);
    assert_int_equal(a.rc, DLC_EDENIED);
    assert_non_null(strstr(a.err.text, "the tenant's credentials"));
    bucket_keys_put(&keys);
}

static void test_checksums(void **state)
{
    static const char *const good[] = {OK
                                       "x-ms-content-crc64: iJh5CoYUi64=\r\nx-ms-blob-content-md5: "
                                       "JfnnlDI7RTiF9RgfG2JNCw==\r\n\r\n" NINE,
                                       NULL};
    static const char *const crc[] = {OK "x-ms-content-crc64: AAAAAAAAAAA=\r\n\r\n" NINE, NULL};
    static const char *const md5[] = {
        OK "x-ms-blob-content-md5: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n" NINE, NULL};
    struct attempt a;

    (void)state;
    config.anonymous = true;
    expect_good(good);
    a = get(crc);
    assert_int_equal(a.rc, DLC_ECORRUPT);
    assert_true(a.retryable);
    assert_non_null(strstr(a.err.text, "cannot read az://data/k 1"));
    a = get(md5);
    assert_int_equal(a.rc, DLC_ECORRUPT);
    assert_non_null(strstr(a.err.text, "MD5"));
}

static const char page[] =
    "\xef\xbb\xbf<?xml version=\"1.0\"?><EnumerationResults "
    "ServiceEndpoint=\"x\"><Prefix>t/</Prefix>"
    "<Blobs><Blob><Name>t/1</Name><Properties><Etag>0x8D1</Etag><Content-Length>7</Content-Length>"
    "<Owner><Etag>no</Etag></Owner></Properties><Metadata><Etag>no</Etag></Metadata></Blob>"
    "<Blob><Name Encoded=\"true\">t/%EF%BF%BE%2B</Name><Properties><Content-Length>0"
    "</Content-Length></Properties></Blob><Blob><Name>t/a+%20</Name><Properties><Content-Length>1"
    "</Content-Length><ResourceType>file</ResourceType></Properties></Blob>"
    "<Blob><Name>t/dir</Name><Properties><ResourceType>directory</ResourceType><Content-Length>0"
    "</Content-Length></Properties></Blob><BlobPrefix><Name>t/sub/</Name></BlobPrefix></Blobs>"
    "<NextMarker>2!abc</NextMarker></EnumerationResults>";

static void test_listing(void **state)
{
    struct attempt a = {.op = ATTEMPT_LIST};

    (void)state;
    assert_int_equal(azure_xml_list(page, strlen(page), &a, NULL), 0);
    assert_int_equal(a.n_objects, 3);
    assert_string_equal(a.objects[0].key, "t/1");
    assert_string_equal(a.objects[0].etag, "0x8D1");
    assert_int_equal(a.objects[0].size, 7);
    assert_string_equal(a.objects[1].key, "t/\xef\xbf\xbe+");
    assert_string_equal(a.objects[2].key, "t/a+%20");
    assert_int_equal(a.n_folders, 1);
    assert_string_equal(a.folders[0], "t/sub/");
    assert_string_equal(a.next, "2!abc");
    attempt_clear(&a);
    for (size_t n = 0; n + 1 < strlen(page); n++) {
        assert_int_equal(azure_xml_list(page, n, &a, NULL), DLC_EPROTO);
        assert_int_equal(a.n_objects, 0);
    }
}

/* A directory is not an object, but what comes after it is. A marker without text is none. */
static void test_directories_and_the_last_page(void **state)
{
    static const char doc[] =
        "<EnumerationResults><Prefix>t/</Prefix><Blobs>"
        "<Blob><Name>t/dir</Name><Properties><ResourceType>directory</ResourceType>"
        "<Content-Length>0</Content-Length></Properties></Blob>"
        "<Blob><Name>t/z</Name><Properties><Content-Length>1</Content-Length></Properties></Blob>"
        "<BlobPrefix><Other>t/no/</Other><Name>t/sub/</Name></BlobPrefix>"
        "<Other><Name>t/no/</Name></Other></Blobs>"
        "<Others><Blob><Name>t/no</Name></Blob></Others><NextMarker/></EnumerationResults>";
    size_t before = 0;

    (void)state;
    for (unsigned i = 0; i < 130; i++) {
        struct attempt a = {.op = ATTEMPT_LIST};

        if (i == 30)
            before = unit_heap();
        assert_int_equal(azure_xml_list(doc, strlen(doc), &a, NULL), 0);
        assert_int_equal(a.n_objects, 1);
        assert_string_equal(a.objects[0].key, "t/z");
        assert_int_equal(a.n_folders, 1);
        assert_string_equal(a.folders[0], "t/sub/");
        assert_null(a.next);
        attempt_clear(&a);
    }
    assert_true(unit_heap() < before + 100 * 16); /* nothing is left behind */
}

static void test_bad_listings(void **state)
{
    static const char *const bad[] = {
        "<ListBucketResult/>",
        "<!DOCTYPE x [<!ENTITY e \"e\">]><EnumerationResults/>",
        "<EnumerationResults><Blobs><Blob><Name>x</Name></Blob></Blobs></EnumerationResults>",
        "<EnumerationResults><Blobs><Blob><Properties><Content-Length>1</Content-Length>"
        "</Properties></Blob></Blobs></EnumerationResults>",
        "<EnumerationResults><Blobs><Blob><Name>x</Name><Properties><Content-Length>-1"
        "</Content-Length></Properties></Blob></Blobs></EnumerationResults>",
        "<EnumerationResults><Blobs><Blob><Name Encoded=\"true\">%00</Name><Properties>"
        "<Content-Length>1</Content-Length></Properties></Blob></Blobs></EnumerationResults>"};
    struct attempt a = {.op = ATTEMPT_LIST};

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++)
        assert_int_equal(azure_xml_list(bad[i], strlen(bad[i]), &a, NULL), DLC_EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_anonymous_and_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sas, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_workload_identity, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_managed_identity, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_secrets_stay_here, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_given, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_checksums, set_up, tear_down),
        cmocka_unit_test(test_listing),
        cmocka_unit_test(test_bad_listings),
        cmocka_unit_test(test_directories_and_the_last_page),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
