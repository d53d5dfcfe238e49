// SPDX-License-Identifier: Apache-2.0
/* Where requests go: endpoints, styles, regions, and the exact encoding of keys and queries. */
#include "bucket/origins/s3_i.h"

#include "base/mem.h"
#include "bucket/s3_dialect_i.h"
#include "unit.h"

#define AWS "https://s3.%.amazonaws.com"

static struct s3_place *place(const char *endpoint, const char *region, const char *bucket,
                              int style)
{
    struct s3_place_config c = {endpoint, AWS, region, bucket, style};
    struct s3_place *p = NULL;
    struct dlc_err err = DLC_ERR_INIT;

    assert_int_equal(s3_place_new(&c, &p, &err), 0);
    return p;
}

static void test_places(void **state)
{
    static const struct {
        const char *endpoint, *region, *bucket;
        int style;
        const char *base, *host, *path;
    } cases[] = {
        {NULL, "us-east-1", "data", -1, "https://data.s3.us-east-1.amazonaws.com",
         "data.s3.us-east-1.amazonaws.com", ""},
        {NULL, "eu-west-1", "data", 1, "https://s3.eu-west-1.amazonaws.com",
         "s3.eu-west-1.amazonaws.com", "/data"},
        {NULL, "cn-north-1", "data", 1, "https://s3.cn-north-1.amazonaws.com.cn",
         "s3.cn-north-1.amazonaws.com.cn", "/data"},
        {NULL, "us-east-1", "my.data", -1, "https://s3.us-east-1.amazonaws.com",
         "s3.us-east-1.amazonaws.com", "/my.data"},
        {NULL, "us-east-1", "Old_Name", 0, "https://s3.us-east-1.amazonaws.com",
         "s3.us-east-1.amazonaws.com", "/Old_Name"},
        {"http://127.0.0.1:9000", "us-east-1", "data", -1, "http://127.0.0.1:9000",
         "127.0.0.1:9000", "/data"},
        {"http://127.0.0.1:9000/", "us-east-1", "data", -1, "http://127.0.0.1:9000",
         "127.0.0.1:9000", "/data"},
        {"http://minio:80", "x", "data", -1, "http://minio", "minio", "/data"},
        {"https://minio:443", "x", "data", 1, "https://minio", "minio", "/data"},
        {"https://minio:80", "x", "data", 1, "https://minio:80", "minio:80", "/data"},
        {"http://minio:9000", "x", "data", 0, "http://data.minio:9000", "data.minio:9000", ""},
        {"http://minio", "x", "my.data", 0, "http://my.data.minio", "my.data.minio", ""},
        {"https://host/gate/way/", "x", "data", 1, "https://host", "host", "/gate/way/data"},
        {"https://[::1]:9000", "x", "data", -1, "https://[::1]:9000", "[::1]:9000", "/data"},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct s3_place *p =
            place(cases[i].endpoint, cases[i].region, cases[i].bucket, cases[i].style);

        assert_string_equal(p->base, cases[i].base);
        assert_string_equal(p->host, cases[i].host);
        assert_string_equal(p->path, cases[i].path);
        assert_string_equal(p->region, cases[i].region);
        s3_place_free(&p);
        assert_null(p);
    }
}

static void test_bad_endpoints(void **state)
{
    static const char *const bad[] = {"",           "localhost:9000", "ftp://x",     "http://",
                                      "http:///x",  "http://a@b",     "http://x/?y", "http://:9000",
                                      "http://a b", "https://x/a#b"};

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++) {
        struct s3_place_config c = {bad[i], AWS, "us-east-1", "data", -1};
        struct s3_place *p = NULL;
        struct dlc_err err = DLC_ERR_INIT;

        assert_int_equal(s3_place_new(&c, &p, &err), DLC_EINVAL);
        assert_null(p);
        assert_non_null(strstr(err.text, "http://host[:port]"));
    }
}

static void test_regions(void **state)
{
    struct s3_place_config c = {NULL, AWS, "evil.example/", "data", -1};
    struct s3_place *p = NULL;

    (void)state;
    assert_true(s3_region_ok("us-east-1"));
    assert_true(s3_region_ok("RegionOne"));
    assert_false(s3_region_ok(""));
    assert_false(s3_region_ok("a.b"));
    assert_false(s3_region_ok("a/b"));
    assert_false(s3_region_ok("a\nb"));
    assert_true(s3_region_ok("a-name-that-is-as-long-as-30-b"));
    assert_false(s3_region_ok("a-name-that-is-as-long-as-31-by"));
    assert_int_equal(s3_place_new(&c, &p, NULL), DLC_EINVAL);
}

static void test_object_paths(void **state)
{
    static const struct {
        const char *key, *path;
    } cases[] = {
        {"plain.jpg", "/b/plain.jpg"},
        {"a/b/c", "/b/a/b/c"},
        {"/leading", "/b//leading"},
        {"a//b", "/b/a//b"},
        {"a/../b/./c", "/b/a/../b/./c"},
        {"a b", "/b/a%20b"},
        {"a+b", "/b/a%2Bb"},
        {"100%", "/b/100%25"},
        {"%2F", "/b/%252F"},
        {"q?x=1&y#z", "/b/q%3Fx%3D1%26y%23z"},
        {"\xc3\xa9", "/b/%C3%A9"},
        {"~-._", "/b/~-._"},
        {"!*'();:@,[]\"", "/b/%21%2A%27%28%29%3B%3A%40%2C%5B%5D%22"},
        {"\x01\x7f", "/b/%01%7F"},
    };
    struct s3_place *p = place("http://x:1", "r", "b", -1);

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct buf out = BUF_INIT;

        s3_object_path(p, cases[i].key, &out);
        assert_string_equal(buf_str(&out), cases[i].path);
        buf_release(&out);
    }
    s3_place_free(&p);
}

/* Clouds with endpoints of their own. */
static void test_dialects(void **state)
{
    static const struct {
        const char *endpoint, *region;
        bool host;
    } cases[] = {
        {"https://oss-cn-hangzhou.aliyuncs.com", "cn-hangzhou", true},
        {"https://oss-cn-hangzhou-internal.aliyuncs.com:443/", "cn-hangzhou", true},
        {"https://s3.oss-eu-central-1.ALIYUNCS.com", "eu-central-1", true},
        {"https://oss-accelerate.aliyuncs.com", NULL, true},
        {"https://cdn.aliyuncs.com", NULL, true},
        {"https://x.r2.cloudflarestorage.com", "auto", false},
        {"https://x.eu.r2.cloudflarestorage.com/", "auto", false},
        {"https://aliyuncs.com.evil.org", NULL, false},
        {"http://127.0.0.1:9000/.aliyuncs.com", NULL, false},
        {"", NULL, false},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        char *region = s3_dialect_region(cases[i].endpoint);

        if (cases[i].region == NULL)
            assert_null(region);
        else
            assert_string_equal(region, cases[i].region);
        assert_int_equal(s3_dialect_wants_host(cases[i].endpoint), cases[i].host);
        mem_free(&region);
    }
}

static void test_list(void **state)
{
    struct attempt a = {.op = ATTEMPT_LIST, .prefix = "a b/\xc3\xa9&"};
    struct s3_place *p = place("http://x:1", "r", "b", -1), *v = place(NULL, "r", "bbb", 0);
    struct buf out = BUF_INIT;

    (void)state;
    s3_list_path(p, &out);
    assert_string_equal(buf_str(&out), "/b");
    buf_clear(&out);
    s3_list_path(v, &out);
    assert_string_equal(buf_str(&out), "/");
    buf_clear(&out);
    s3_list_query(&a, &out);
    assert_string_equal(buf_str(&out), "encoding-type=url&list-type=2&prefix=a%20b%2F%C3%A9%26");
    buf_clear(&out);
    a.by_folder = true;
    a.continuation = "x/+=";
    s3_list_query(&a, &out);
    assert_string_equal(buf_str(&out), "continuation-token=x%2F%2B%3D&delimiter=%2F&"
                                       "encoding-type=url&list-type=2&prefix=a%20b%2F%C3%A9%26");
    buf_release(&out);
    s3_place_free(&p);
    s3_place_free(&v);
}

static void test_no_leak(void **state)
{
    enum { ROUNDS = 50 };
    size_t before = 0;

    for (unsigned i = 0; i < 2 + ROUNDS; i++) {
        if (i == 2)
            before = unit_heap();
        test_places(state);
        test_bad_endpoints(state);
        test_regions(state);
        test_dialects(state);
    }
    assert_true(unit_heap() < before + ROUNDS * 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),   cmocka_unit_test(test_bad_endpoints),
        cmocka_unit_test(test_regions),  cmocka_unit_test(test_object_paths),
        cmocka_unit_test(test_dialects), cmocka_unit_test(test_list),
        cmocka_unit_test(test_no_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
