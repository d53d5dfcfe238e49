// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
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
    {"az://data", URL_AZ, "data", "", "az://data/"},
    {"AZ://data/a/b c+%20", URL_AZ, "data", "a/b c+%20", "az://data/a/b c+%20"},
    {"az://data/a?latency=1s", URL_AZ, "data", "a", "az://data/a"},
    {"az://$web/x", URL_AZ, "$web", "x", "az://$web/x"},
    {"az://acct.blob.core.windows.net/data/a/", URL_AZ, "acct.blob.core.windows.net/data", "a/",
     "az://acct.blob.core.windows.net/data/a/"},
    {"az://data@acct.dfs.core.windows.net/a@b", URL_AZ, "acct.blob.core.windows.net/data", "a@b",
     "az://acct.blob.core.windows.net/data/a@b"},
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
    {"s3://bkt/a/?split=test&samples-train=x/&samples-train=y*&targets-train=z", URL_S3, "bkt",
     "a/", "s3://bkt/a/?samples-train=x/&samples-train=y*&targets-train=z&split=test"},
    {"http://h/a/?q=1&dlcache-manifest-test=t.csv&dlcache-samples=x", URL_HTTP, "h", "/a/?q=1",
     "http://h/a/?q=1&dlcache-manifest-test=t.csv&dlcache-samples=x"},
    {"s3://bkt/a?partition=1MB", URL_S3, "bkt", "a", "s3://bkt/a?partition=1000000"},
    {"http://h/p?x=1&dlcache-layout=flat&y", URL_HTTP, "h", "/p?x=1&y",
     "http://h/p?x=1&y&dlcache-layout=flat"},
    {"http://h/p?dlcache-layout=flat&dlcache-group=1", URL_HTTP, "h", "/p",
     "http://h/p?dlcache-layout=flat&dlcache-group=yes"},
    {"http://HosT", URL_HTTP, "host", "/", "http://host/"},
    {"http://host:80/a", URL_HTTP, "host", "/a", "http://host/a"},
    {"https://host:443/a", URL_HTTPS, "host", "/a", "https://host/a"},
    {"https://host:080/a", URL_HTTPS, "host:80", "/a", "https://host:80/a"},
    {"http://[::1]:9000/a#frag", URL_HTTP, "[::1]:9000", "/a", "http://[::1]:9000/a"},
    {"http://[::1]/", URL_HTTP, "[::1]", "/", "http://[::1]/"},
    {"http://h/p?x=1&dlcache-latency=2s&y", URL_HTTP, "h", "/p?x=1&y", "http://h/p?x=1&y"},
    {"http://h/p?dlcache-seed=2", URL_HTTP, "h", "/p", "http://h/p"},
    {"http://h?q=1", URL_HTTP, "h", "/?q=1", "http://h/?q=1"},
    {"http://h/p?latency=3", URL_HTTP, "h", "/p?latency=3", "http://h/p?latency=3"},
    {"http://h:1/", URL_HTTP, "h:1", "/", "http://h:1/"},
    {"http://h:65535/", URL_HTTP, "h:65535", "/", "http://h:65535/"},
    {"http://[::]/", URL_HTTP, "[::]", "/", "http://[::]/"},
    {"http://[::ffff:1.2.3.4]:80/", URL_HTTP, "[::ffff:1.2.3.4]", "/", "http://[::ffff:1.2.3.4]/"},
    {"http://h/p?&&x", URL_HTTP, "h", "/p?x", "http://h/p?x"},
    {"http://h/!~", URL_HTTP, "h", "/!~", "http://h/!~"},
    {"http://h/p?dlcache-x", URL_HTTP, "h", "/p?dlcache-x", "http://h/p?dlcache-x"},
    {"s3://abc", URL_S3, "abc", "", "s3://abc/"},
    {"s3://9-_.z/k", URL_S3, "9-_.z", "k", "s3://9-_.z/k"},
    {"file:///...", URL_FILE, "", "/...", "file:///..."},
    {"file:///.a/a./b..", URL_FILE, "", "/.a/a./b..", "file:///.a/a./b.."},
    {"file:///a?1x=2", URL_FILE, "", "/a?1x=2", "file:///a?1x=2"},
    {"file:///d?errors=0", URL_FILE, "", "/d", "file:///d"},
    {"file:///d?errors=1&bandwidth=1", URL_FILE, "", "/d", "file:///d"},
    {"file:///d?partition=1", URL_FILE, "", "/d", "file:///d?partition=1"},
    {"file:///d?split=a&split=b&layout=flat&layout=pairs", URL_FILE, "", "/d",
     "file:///d?layout=pairs&split=b"},
    {"dlcache://a", URL_NAMED, "a", "", "dlcache://a"},
    {"dlcache://0a._-/", URL_NAMED, "0a._-", "", "dlcache://0a._-"},
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
    {"az://", "names no container; write az://CONTAINER"},
    {"az:///x", "names no container; write az://CONTAINER"},
    {"az://Data/x", "names no container of Azure"},
    {"az://a.b/x", "names no container of Azure"},
    {"az://acct.blob.core.windows.net/", "names no container of Azure"},
    {"az://.blob.core.windows.net/data/x", "names no container of Azure"},
    {"az://acct.blob.core.windows.net.evil.org/data/x", "names no container of Azure"},
    {"az://data@evil.org/x", "names no container of Azure"},
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
    {"file:///a?samples-train=/x", "write a prefix below the URL"},
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
    {"http://[::g]/", "not a host name"},
    {"http://[]/", "not a host name"},
    {"http://[:]/", "not a host name"},
    {"http://[::1/", "not a host name"},
    {"http://h/\x7f", "control character"},
    {"file:///a?errors=-0.1", "a share from 0 to 1"},
    {"file:///a?errors=1.1", "a share from 0 to 1"},
    {"file:///a?errors=2&colour=red", "a share from 0 to 1"},
    {"file:///a?colour=red&latency=1s", "'colour' is unknown"},
    {"dlcache://", "not the name of a dataset"},
    {"dlcache:///", "not the name of a dataset"},
    {"dlcache://a//", "not the name of a dataset"},
    {"dlcache://A", "1 to 63"},
    {"dlcache://-a", "not the name of a dataset"},
    {"dlcache://a b", "not the name of a dataset"},
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

/* People see the URL without what may be a secret. */
static void test_shown(void **state)
{
    static const char *const texts[][2] = {
        {"https://h/p?token=hunter2", "https://h/p"},
        {"http://h:81/p", "http://h:81/p"},
        {"s3://bkt/a?b", "s3://bkt/a?b"},
    };

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(texts); i++) {
        struct url u = URL_INIT;

        assert_int_equal(url_parse(&u, texts[i][0], NULL), 0);
        assert_true(str_starts(u.shown, texts[i][1]));
        assert_null(strstr(u.shown, "hunter2"));
        url_release(&u);
    }
}

/* The layout that is said, and what says nothing. */
static void test_layout(void **state)
{
    struct url u = URL_INIT;

    (void)state;
    assert_int_equal(url_parse(&u, "file:///d", NULL), 0);
    assert_null(u.layout.layout);
    assert_int_equal(u.layout.partition, 0);
    assert_int_equal(u.layout.group, -1);
    url_release(&u);
    assert_int_equal(
        url_parse(&u, "file:///d?group=yes&manifest=m&split=s&partition=2&layout=table", NULL), 0);
    assert_string_equal(u.layout.layout, "table");
    assert_int_equal(u.layout.parts.n, 1);
    assert_int_equal(u.layout.parts.v[0].kind, URL_MANIFEST);
    assert_string_equal(u.layout.parts.v[0].prefix, "m");
    assert_string_equal(u.layout.split, "s");
    assert_int_equal(u.layout.partition, 2);
    assert_int_equal(u.layout.group, 1);
    assert_false(u.shape.active);
    url_release(&u);
    assert_int_equal(url_parse(&u, "file:///d?group=no", NULL), 0);
    assert_int_equal(u.layout.group, 0);
    url_release(&u);
}

/* before, n letters, after. */
static bool takes(const char *before, size_t n, const char *after)
{
    char *letters = mem_zero(n + 1), *text;
    struct url u = URL_INIT;
    int rc;

    memset(letters, 'a', n);
    text = mem_fmt("%s%s%s", before, letters, after);
    rc = url_parse(&u, text, NULL);
    assert_int_equal(rc == 0, u.text != NULL);
    url_release(&u);
    mem_free(&letters);
    mem_free(&text);
    return rc == 0;
}

static void test_lengths(void **state)
{
    static const struct {
        const char *before, *after;
        size_t least, most;
    } table[] = {
        {"s3://", "/k", 3, 63},   {"gs://", "/k", 3, 222},    {"gs://bkt/", "", 0, 1024},
        {"http://", "/", 1, 253}, {"dlcache://", "/", 1, 63}, {"http://h/", "", 0, 8183},
    };

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(table); i++) {
        assert_true(takes(table[i].before, table[i].least, table[i].after));
        assert_true(takes(table[i].before, table[i].most, table[i].after));
        assert_false(takes(table[i].before, table[i].most + 1, table[i].after));
        if (table[i].least > 0)
            assert_false(takes(table[i].before, table[i].least - 1, table[i].after));
    }
}

static void parse_all(void)
{
    for (size_t i = 0; i < DLC_COUNT(goods); i++) {
        struct url u = URL_INIT;

        assert_int_equal(url_parse(&u, goods[i].text, NULL), 0);
        url_release(&u);
    }
    for (size_t i = 0; i < DLC_COUNT(bads); i++) {
        struct url u = URL_INIT;

        assert_int_equal(url_parse(&u, bads[i].text, NULL), DLC_EINVAL); /* nothing to release */
    }
}

static void test_no_leak(void **state)
{
    enum { ROUNDS = 100 };
    size_t before;

    (void)state;
    parse_all();
    before = unit_heap();
    for (unsigned i = 0; i < ROUNDS; i++)
        parse_all();
    assert_true(unit_heap() < before + ROUNDS * 16);
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

/* Is any part of this kind, wherever it stands? */
static void test_kinds_of_parts(void **state)
{
    struct url_parts parts = {.n = 0};
    struct url_part samples, targets;

    (void)state;
    assert_true(url_part_named("samples", &samples));
    assert_true(url_part_named("targets", &targets));
    assert_false(url_parts_have(&parts, URL_SAMPLES));
    url_parts_add(&parts, samples, "a");
    assert_true(url_parts_have(&parts, URL_SAMPLES));
    assert_false(url_parts_have(&parts, URL_TARGETS));
    url_parts_add(&parts, targets, "b");
    assert_true(url_parts_have(&parts, URL_SAMPLES));
    assert_true(url_parts_have(&parts, URL_TARGETS));
    assert_false(url_parts_have(&parts, URL_MANIFEST));
    url_parts_release(&parts);
}

static void test_parts(void **state)
{
    static const struct {
        const char *prefix, *key;
        bool has;
    } rows[] = {
        {"a", "a", true},           {"a", "a/b", true},       {"a", "ab", false},
        {"a/", "a/b", true},        {"a/", "a", false},       {"a*", "ab", true},
        {"a*", "b", false},         {"a/b*", "a/bc/d", true}, {"a/b.c", "a/b.c", true},
        {"a/b.c", "a/b.cd", false},
    };

    (void)state;
    for (unsigned i = 0; i < DLC_COUNT(rows); i++) {
        struct url_parts parts = {.n = 0};
        struct url_part part;

        assert_true(url_part_named("samples", &part));
        url_parts_add(&parts, part, rows[i].prefix);
        assert_int_equal(url_part_has(&parts.v[0], rows[i].key), rows[i].has);
        url_parts_release(&parts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shown),          cmocka_unit_test(test_layout),
        cmocka_unit_test(test_lengths),        cmocka_unit_test(test_no_leak),
        cmocka_unit_test(test_good),           cmocka_unit_test(test_bad),
        cmocka_unit_test(test_shape),          cmocka_unit_test(test_secrets_stay_out),
        cmocka_unit_test(test_kinds_of_parts), cmocka_unit_test(test_parts),
        cmocka_unit_test(test_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
