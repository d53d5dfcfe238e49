// SPDX-License-Identifier: Apache-2.0
/* Which storage account is meant: by the URL, an endpoint, given keys, or the environment. */
#include "bucket/azure_account.h"

#include "unit.h"

#include "base/mem.h"

#define CLOUD ".blob.core.windows.net"
#define L60   "a23456789-b23456789-c23456789-d23456789-e23456789-f234567890"

static void env_clear(void)
{
    unsetenv("AZURE_STORAGE_CONNECTION_STRING");
    unsetenv("AZURE_STORAGE_SERVICE_ENDPOINT");
    unsetenv("AZURE_STORAGE_ACCOUNT_NAME");
    unsetenv("AZURE_STORAGE_ACCOUNT");
}

static void test_urls(void **state)
{
    static const struct {
        const char *rest, *bucket, *prefix; /* NULL: refused */
    } rows[] = {
        {"data/train/x", "data", "train/x"},
        {"data/", "data", ""},
        {"abc", "abc", ""},
        {"ab", NULL, NULL},
        {L60 "123/x", L60 "123", "x"},
        {L60 "1234/x", NULL, NULL},
        {"-ab", NULL, NULL},
        {"ab-", NULL, NULL},
        {"a_b", NULL, NULL},
        {"$root/x", "$root", "x"},
        {"$rootx/x", NULL, NULL},
        {"acct" CLOUD "/data/a/b", "acct" CLOUD "/data", "a/b"},
        {"acct" CLOUD "/data", "acct" CLOUD "/data", ""},
        {"acct" CLOUD "/Data/x", NULL, NULL},
        {"ACCT.Blob.Core.Windows.Net/data/X", "acct" CLOUD "/data", "X"},
        {"acct.blob.core.chinacloudapi.cn/data/x", "acct.blob.core.chinacloudapi.cn/data", "x"},
        {"acct.blob.core.usgovcloudapi.net/data/x", "acct.blob.core.usgovcloudapi.net/data", "x"},
        {"acct.z01.blob.storage.azure.net/data/x", "acct.z01.blob.storage.azure.net/data", "x"},
        {"ac" CLOUD "/data/x", NULL, NULL},
        {"data@acct.dfs.core.windows.net", "acct" CLOUD "/data", ""},
        {"data@acct" CLOUD "/x/y", "acct" CLOUD "/data", "x/y"},
        {"da@acct" CLOUD "/x", NULL, NULL},
    };

    (void)state;
    for (unsigned i = 0; i < unit_count(rows); i++) {
        struct dlc_err err = DLC_ERR_INIT;
        char *bucket = NULL, *prefix = NULL;
        int rc = azure_url_split(rows[i].rest, &bucket, &prefix, &err);

        if (rc != (rows[i].bucket != NULL ? 0 : DLC_EINVAL))
            fail_msg("%s: %d", rows[i].rest, rc);
        if (rc == 0) {
            assert_string_equal(bucket, rows[i].bucket);
            assert_string_equal(prefix, rows[i].prefix);
        } else {
            assert_null(bucket);
            assert_null(prefix);
        }
        mem_free(&bucket);
        mem_free(&prefix);
    }
}

static void field_is(const char *text, const char *name, const char *expect)
{
    char *value = azure_connection_field(text, name);

    if (expect == NULL)
        assert_null(value);
    else
        assert_string_equal(value, expect);
    mem_free(&value);
}

static void test_connection_fields(void **state)
{
    static const char text[] = "DefaultEndpointsProtocol=http; accountname=acct;AccountKey=a2V5==;"
                               "\n AccountKeyOld=x;;Empty=;One=1";

    (void)state;
    field_is(text, "DefaultEndpointsProtocol", "http");
    field_is(text, "AccountName", "acct");
    field_is(text, "AccountKey", "a2V5==");
    field_is(text, "AccountKeyOld", "x");
    field_is(text, "One", "1"); /* without a semicolon after it */
    field_is(text, "Empty", NULL);
    field_is(text, "Account", NULL);
    field_is(text, "a2V5", NULL);
    field_is("", "One", NULL);
    field_is(NULL, "One", NULL);
    field_is("  ", "One", NULL);
    field_is("; ;One=2; ", "One", "2");
}

static void test_clouds(void **state)
{
    (void)state;
    assert_true(azure_is_cloud("https://acct" CLOUD));
    assert_true(azure_is_cloud("https://acct" CLOUD ":443/x"));
    assert_false(azure_is_cloud("http://acct" CLOUD)); /* a key does not go there in clear */
    assert_false(azure_is_cloud("https://acct" CLOUD "@evil.org"));
    assert_false(azure_is_cloud("https://" CLOUD));
    assert_false(azure_is_cloud("https://evil.org/acct" CLOUD));
    assert_false(azure_is_cloud("https://127.0.0.1:10000/acct"));
}

/* Expects this endpoint and name; NULL: none. */
static void find(const char *url, const char *endpoint, const char *given, const char *expect,
                 const char *name)
{
    struct url u = URL_INIT;
    struct azure_account a;
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    assert_int_equal(url_parse(&u, url, &err), 0);
    rc = azure_account_find(&u, endpoint, given, &a, &err);
    assert_int_equal(rc, expect != NULL ? 0 : DLC_EINVAL);
    if (expect == NULL) {
        assert_null(a.endpoint);
        assert_null(a.name);
    } else {
        assert_string_equal(a.endpoint, expect);
        if (name == NULL)
            assert_null(a.name);
        else
            assert_string_equal(a.name, name);
    }
    azure_account_release(&a);
    url_release(&u);
}

#define OWN "az://own" CLOUD "/data/x"

/* The URL says it, or an endpoint, or the keys that were given. */
static void test_said(void **state)
{
    (void)state;
    env_clear();
    find(OWN, NULL, NULL, "https://own" CLOUD, "own");
    find(OWN, NULL, "keys", "https://own" CLOUD, "own");
    find(OWN, "http://127.0.0.1:10000/own", NULL, "http://127.0.0.1:10000/own", "own");
    find(OWN, "", NULL, "https://own" CLOUD, "own"); /* an empty one is none */
    find("az://own-secondary" CLOUD "/data/x", NULL, NULL, "https://own-secondary" CLOUD, "own");
    find("az://data/x", "https://acct" CLOUD ":443/", NULL, "https://acct" CLOUD ":443/", "acct");
    find("az://data/x", "http://127.0.0.1:10000/dev/", NULL, "http://127.0.0.1:10000/dev/", "dev");
    find("az://data/x", "http://127.0.0.1:10000", "keys", "http://127.0.0.1:10000", "keys");
    find("az://data/x", "http://127.0.0.1:10000/", NULL, "http://127.0.0.1:10000/", NULL);
    find("az://data/x", NULL, "keys", "https://keys" CLOUD, "keys");
    find("az://data/x", NULL, "K_ys", NULL, NULL);
    find("az://data/x", NULL, NULL, NULL, NULL);
}

static void env_is(const char *name, const char *value, const char *endpoint, const char *account)
{
    env_clear();
    setenv(name, value, 1);
    find("az://data/x", NULL, NULL, endpoint, account);
}

static void test_environment(void **state)
{
    struct url u = URL_INIT;
    char *e;

    (void)state;
    env_is("AZURE_STORAGE_ACCOUNT", "acct", "https://acct" CLOUD, "acct");
    env_is("AZURE_STORAGE_ACCOUNT_NAME", "acct", "https://acct" CLOUD, "acct");
    env_is("AZURE_STORAGE_ACCOUNT", "", NULL, NULL);
    env_is("AZURE_STORAGE_SERVICE_ENDPOINT", "http://h/acct", "http://h/acct", "acct");
    env_is("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true",
           "http://127.0.0.1:10000/devstoreaccount1", "devstoreaccount1");
    env_is("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=false", NULL, NULL);
    env_is("AZURE_STORAGE_CONNECTION_STRING", "AccountName=acct", "https://acct" CLOUD, "acct");
    env_is("AZURE_STORAGE_CONNECTION_STRING",
           "AccountName=acct;EndpointSuffix=core.chinacloudapi.cn;DefaultEndpointsProtocol=http",
           "http://acct.blob.core.chinacloudapi.cn", "acct");
    env_is("AZURE_STORAGE_CONNECTION_STRING",
           "AccountName=acct;BlobEndpoint=http://h:1;UseDevelopmentStorage=true", "http://h:1",
           "acct");
    /* the connection string before the endpoint, that before the name, the longer name first */
    setenv("AZURE_STORAGE_SERVICE_ENDPOINT", "http://h:2", 1);
    find("az://data/x", NULL, NULL, "http://h:1", "acct");
    unsetenv("AZURE_STORAGE_CONNECTION_STRING");
    setenv("AZURE_STORAGE_ACCOUNT", "second", 1);
    find("az://data/x", NULL, NULL, "http://h:2", "second");
    setenv("AZURE_STORAGE_ACCOUNT_NAME", "first", 1);
    find("az://data/x", NULL, NULL, "http://h:2", "first");
    find(OWN, NULL, NULL, "https://own" CLOUD, "own");

    assert_int_equal(url_parse(&u, "az://data/x", NULL), 0);
    e = azure_endpoint_of_env(&u);
    assert_string_equal(e, "http://h:2");
    mem_free(&e);
    e = azure_endpoint(&u);
    assert_string_equal(e, "http://h:2");
    mem_free(&e);
    env_clear();
    assert_null(azure_endpoint_of_env(&u));
    e = azure_endpoint(&u);
    assert_string_equal(e, "");
    mem_free(&e);
    url_release(&u);
    setenv("AZURE_STORAGE_ACCOUNT", "acct", 1);
    assert_int_equal(url_parse(&u, OWN, NULL), 0);
    assert_null(azure_endpoint_of_env(&u)); /* the URL's own goes first */
    e = azure_endpoint(&u);
    assert_string_equal(e, "https://own" CLOUD);
    mem_free(&e);
    url_release(&u);
    env_clear();
}

static void test_no_leak(void **state)
{
    enum { ROUNDS = 100 };
    size_t before = 0;

    for (unsigned i = 0; i < 2 + ROUNDS; i++) {
        if (i == 2)
            before = unit_heap();
        test_urls(state);
        test_connection_fields(state);
        test_said(state);
        test_environment(state);
    }
    assert_true(unit_heap() < before + ROUNDS * 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls),        cmocka_unit_test(test_connection_fields),
        cmocka_unit_test(test_clouds),      cmocka_unit_test(test_said),
        cmocka_unit_test(test_environment), cmocka_unit_test(test_no_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
