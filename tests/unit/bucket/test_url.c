// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "bucket/url.h"

struct good {
    const char *text;
    enum url_scheme scheme;
    const char *bucket, *prefix, *canonical;
};

static const struct good goods[] = {
    {"s3://my-bucket", URL_S3, "my-bucket", "", "s3://my-bucket/"},
    {"s3://my-bucket/", URL_S3, "my-bucket", "", "s3://my-bucket/"},
    {"S3://b.u-c_k/a/b c+%20?d/", URL_S3, "b.u-c_k", "a/b c+%20?d/", "s3://b.u-c_k/a/b c+%20?d/"},
    {"s3://bkt//x", URL_S3, "bkt", "/x", "s3://bkt//x"},
    {"s3://bkt/a?b?latency=1s", URL_S3, "bkt", "a?b", "s3://bkt/a?b"},
    {"s3://bkt/a?=x", URL_S3, "bkt", "a?=x", "s3://bkt/a?=x"},
    {"s3://bkt/a?latency=1s&x", URL_S3, "bkt", "a?latency=1s&x", "s3://bkt/a?latency=1s&x"},
    {"gs://bkt/\xc3\xa9", URL_GS, "bkt", "\xc3\xa9", "gs://bkt/\xc3\xa9"},
    {"file:///data", URL_FILE, "", "/data", "file:///data"},
    {"file:///data//a/./b/", URL_FILE, "", "/data/a/b", "file:///data/a/b"},
    {"file:///", URL_FILE, "", "/", "file:///"},
    {"file://localhost/x", URL_FILE, "", "/x", "file:///x"},
    {"file:///a?b", URL_FILE, "", "/a?b", "file:///a?b"},
    {"file:///data?latency=30ms", URL_FILE, "", "/data", "file:///data"},
    {"file:///d?layout=folders&seed=1&group=no", URL_FILE, "", "/d",
     "file:///d?layout=folders&group=no"},
    {"s3://bkt/a/?split=val&manifest=m/x.csv?latency=1s", URL_S3, "bkt", "a/",
     "s3://bkt/a/?manifest=m/x.csv&split=val"},
    {"s3://bkt/a?partition=1MB", URL_S3, "bkt", "a", "s3://bkt/a?partition=1000000"},
    {"http://h/p?x=1&dlcache-layout=flat&y", URL_HTTP, "h", "/p?x=1&y",
     "http://h/p?x=1&y&dlcache-layout=flat"},
    {"http://h/p?dlcache-layout=flat&dlcache-group=1", URL_HTTP, "h", "/p",
     "http://h/p?dlcache-layout=flat&dlcache-group=yes"},
    {"http://Host", URL_HTTP, "host", "/", "http://host/"},
    {"http://host:80/a", URL_HTTP, "host", "/a", "http://host/a"},
    {"https://host:443/a", URL_HTTPS, "host", "/a", "https://host/a"},
    {"https://host:080/a", URL_HTTPS, "host:80", "/a", "https://host:80/a"},
    {"http://[::1]:9000/a#frag", URL_HTTP, "[::1]:9000", "/a", "http://[::1]:9000/a"},
    {"http://[::1]/", URL_HTTP, "[::1]", "/", "http://[::1]/"},
    {"http://h/p?x=1&dlcache-latency=2s&y", URL_HTTP, "h", "/p?x=1&y", "http://h/p?x=1&y"},
    {"http://h/p?dlcache-seed=2", URL_HTTP, "h", "/p", "http://h/p"},
    {"http://h?q=1", URL_HTTP, "h", "/?q=1", "http://h/?q=1"},
    {"http://h/p?latency=3", URL_HTTP, "h", "/p?latency=3", "http://h/p?latency=3"},
};

static void test_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < DLC_COUNT(goods); i++) {
        const struct good *g = &goods[i];
        struct dlc_err err = DLC_ERR_INIT;
        struct url u = URL_INIT, again = URL_INIT;

        if (url_parse(&u, g->text, &err) < 0)
            fail_msg("%s: %s", g->text, err.text);
        assert_int_equal(u.scheme, g->scheme);
        assert_string_equal(u.bucket, g->bucket);
        assert_string_equal(u.prefix, g->prefix);
        assert_string_equal(u.text, g->canonical);
        assert_int_equal(url_parse(&again, u.text, &err), 0); /* (URL-2) */
        assert_string_equal(again.text, u.text);
        assert_false(again.shape.active);
        url_release(&again);
        url_release(&u);
        assert_null(u.text);
    }
}

static const struct {
    const char *text, *says;
} bads[] = {
    {"", "empty"},
    {"data", "no scheme"},
    {"/data/x", "write file:///data/x"},
    {"ftp://host/x", "'ftp' is unknown; a dataset is named s3://"},
    {"://x", "no scheme"},
    {"s3://", "names no bucket; write s3://bucket"},
    {"s3:///key", "names no bucket"},
    {"gs://", "names no bucket; write gs://bucket"},
    {"s3://ab", "'ab' is not a bucket name"},
    {"s3://-abc", "not a bucket name"},
    {"s3://abc.", "not a bucket name"},
    {"s3://a..b", "not a bucket name"},
    {"s3://a b c/x", "not a bucket name"},
    {"s3://b\xc3\xa9t/x", "not a bucket name"},
    {"s3://0123456789012345678901234567890123456789012345678901234567890123", "3 to 63"},
    {"file://", "names no path; write file:///path"},
    {"file://data/x", "not an absolute path; write file:///path"},
    {"file:///a/../b", "'..'"},
    {"file:///a?latency=x", "option latency has the value 'x'; write a time such as 30ms"},
    {"file:///a?latency=", "option latency"},
    {"file:///a?jitter=-1s", "option jitter"},
    {"file:///a?bandwidth=0", "option bandwidth"},
    {"file:///a?bandwidth=fast", "bytes per second such as 200MB"},
    {"file:///a?errors=2", "a share from 0 to 1"},
    {"file:///a?errors=nan", "a share from 0 to 1"},
    {"file:///a?seed=-1", "option seed"},
    {"file:///a?colour=red", "'colour' is unknown; the options are layout=folders"},
    {"file:///a?layout=tar", "layout has the value 'tar'; write folders"},
    {"file:///a?manifest=", "write a key"},
    {"file:///a?split=", "write a name"},
    {"file:///a?partition=0", "write a size such as 64MB"},
    {"file:///a?group=maybe", "write yes or no"},
    {"file:///a?y=1?latency=1s", "'y' is unknown"},
    {"s3://bkt/x?part=3", "'part' is unknown"},
    {"http://", "names no host"},
    {"http:///x", "names no host"},
    {"http://h:0/", "not a port"},
    {"http://h:65536/", "not a port"},
    {"http://h:x/", "not a port"},
    {"http://h ost/", "not a host name"},
    {"http://h/a b", "space"},
    {"http://h/a\nb", "control character"},
    {"http://h/?dlcache-colour=red", "'colour' is unknown"},
    {"http://h/?dlcache-errors=x", "option errors"},
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < DLC_COUNT(bads); i++) {
        struct dlc_err err = DLC_ERR_INIT;
        struct url u = URL_INIT;

        if (url_parse(&u, bads[i].text, &err) != DLC_EINVAL)
            fail_msg("%s was taken", bads[i].text);
        assert_int_equal(err.code, DLC_EINVAL);
        if (strstr(err.text, bads[i].says) == NULL)
            fail_msg("%s: says '%s', not '%s'", bads[i].text, err.text, bads[i].says);
        assert_null(u.text); /* (URL-1) */
        assert_null(u.bucket);
    }
}

static void test_secrets_stay_out(void **state)
{
    static const char *const texts[] = {
        "http://user:hunter2@host/x",
        "https://host/x y?X-Amz-Signature=hunter2",
        "https://host/x?X-Amz-Signature=hunter2&dlcache-bad=1",
    };

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(texts); i++) {
        struct dlc_err err = DLC_ERR_INIT;
        struct url u = URL_INIT;

        assert_int_equal(url_parse(&u, texts[i], &err), DLC_EINVAL);
        assert_null(strstr(err.text, "hunter2"));
    }
}

static void test_shape(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct url u = URL_INIT;

    (void)state;
    assert_int_equal(
        url_parse(&u, "file:///d?latency=30ms&jitter=1.5ms&bandwidth=200MB&errors=0.01&seed=7",
                  &err),
        0);
    assert_true(u.shape.active);
    assert_int_equal(u.shape.latency.ns, 30000000);
    assert_int_equal(u.shape.jitter.ns, 1500000);
    assert_int_equal(u.shape.bandwidth, 200000000);
    assert_true(u.shape.errors == 0.01);
    assert_int_equal(u.shape.seed, 7);
    url_release(&u);

    assert_int_equal(url_parse(&u, "https://h/p?dlcache-latency=1s", &err), 0);
    assert_true(u.shape.active);
    assert_int_equal(u.shape.latency.ns, 1000000000);
    url_release(&u);

    assert_int_equal(url_parse(&u, "s3://bkt/p", &err), 0);
    assert_false(u.shape.active);
    url_release(&u);
}

static void test_long(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct url u = URL_INIT;
    char *text = mem_alloc(10000);

    (void)state;
    memset(text, 'a', 9999);
    text[9999] = '\0';
    memcpy(text, "s3://bkt/", 9);
    assert_int_equal(url_parse(&u, text, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "9999 bytes"));
    text[9 + 1025] = '\0';
    assert_int_equal(url_parse(&u, text, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "at most 1024"));
    text[9 + 1024] = '\0';
    assert_int_equal(url_parse(&u, text, &err), 0);
    url_release(&u);
    assert_int_equal(url_parse(&u, text, NULL), 0); /* err is optional */
    url_release(&u);
    assert_int_equal(url_parse(&u, "nonsense", NULL), DLC_EINVAL);
    mem_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),  cmocka_unit_test(test_bad),
        cmocka_unit_test(test_shape), cmocka_unit_test(test_secrets_stay_out),
        cmocka_unit_test(test_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
