// SPDX-License-Identifier: Apache-2.0
/* Listings and error documents: odd keys, both encodings, and documents that are broken. */
#include "bucket/origins/s3_xml_i.h"

#include "base/buf.h"
#include "unit.h"

static int parse(const char *doc, struct attempt *a)
{
    *a = (struct attempt){.op = ATTEMPT_LIST};
    return s3_xml_list(doc, strlen(doc), a, &a->err);
}

static void test_list(void **state)
{
    static const char doc[] =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\n"
        "  <Name>data</Name><Prefix>train/</Prefix><KeyCount>2</KeyCount>\n"
        "  <IsTruncated>true</IsTruncated>\n"
        "  <Contents>\n"
        "    <Key>train/1.jpg</Key><LastModified>2026-01-31T12:00:00.000Z</LastModified>\n"
        "    <ETag>&quot;9bb58f&quot;</ETag><Size>5368709120</Size>\n"
        "    <Owner><ID>x</ID><DisplayName>y</DisplayName></Owner>\n"
        "  </Contents>\n"
        "  <Contents><Size>0</Size><Key>train/</Key></Contents>\n"
        "  <CommonPrefixes><Prefix>train/a/</Prefix></CommonPrefixes>\n"
        "  <CommonPrefixes><Prefix>train/b/</Prefix></CommonPrefixes>\n"
        "  "
        "<NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=</"
        "NextContinuationToken>\n"
        "</ListBucketResult>\n";
    struct attempt a;

    (void)state;
    assert_int_equal(parse(doc, &a), 0);
    assert_int_equal(a.n_objects, 2);
    assert_string_equal(a.objects[0].key, "train/1.jpg");
    assert_true(a.objects[0].size == 5368709120);
    assert_string_equal(a.objects[0].etag, "9bb58f");
    assert_string_equal(a.objects[1].key, "train/");
    assert_int_equal(a.objects[1].size, 0);
    assert_string_equal(a.objects[1].etag, "");
    assert_int_equal(a.n_folders, 2);
    assert_string_equal(a.folders[1], "train/b/");
    assert_string_equal(a.next, "1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=");
    attempt_clear(&a);
}

static void test_empty(void **state)
{
    struct attempt a;

    (void)state;
    assert_int_equal(parse("<ListBucketResult></ListBucketResult>", &a), 0);
    assert_int_equal(a.n_objects, 0);
    assert_null(a.next);
    assert_int_equal(
        parse("<s3:ListBucketResult xmlns:s3=\"x\"><s3:IsTruncated>false</s3:IsTruncated>"
              "<s3:NextContinuationToken>t</s3:NextContinuationToken></s3:ListBucketResult>",
              &a),
        0);
    assert_null(a.next); /* not truncated: the token does not count */
    attempt_clear(&a);
}

static void test_keys(void **state)
{
    static const struct {
        const char *sent;
        bool encoded;
        const char *key;
    } cases[] = {
        {"a+b", true, "a b"},
        {"a%2Bb", true, "a+b"},
        {"a%20b%25", true, "a b%"},
        {"%E6%97%A5%2f", true, "\xe6\x97\xa5/"},
        {"%0A%01", true, "\n\x01"},
        {"a+b%20", false, "a+b%20"},
        {"&lt;&amp;&gt;&quot;&apos;", false, "<&>\"'"},
        {"&#x65E5;&#10;", false, "\xe6\x97\xa5\n"},
        {"<![CDATA[a<b]]>", false, "a<b"},
        {"  spaces  ", false, "  spaces  "},
        {"", false, ""},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct buf doc = BUF_INIT;
        struct attempt a;

        buf_addf(&doc,
                 "<ListBucketResult><Contents><Key>%s</Key><Size>1</Size></Contents>%s"
                 "</ListBucketResult>",
                 cases[i].sent, cases[i].encoded ? "<EncodingType>url</EncodingType>" : "");
        assert_int_equal(parse(buf_str(&doc), &a), 0);
        assert_int_equal(a.n_objects, 1);
        assert_string_equal(a.objects[0].key, cases[i].key);
        attempt_clear(&a);
        buf_release(&doc);
    }
}

static void test_folders(void **state)
{
    static const char doc[] =
        "<ListBucketResult><Filter><Prefix>no/</Prefix></Filter>"
        "<CommonPrefixes><Other>no/</Other><Prefix>a+b%2F/</Prefix></CommonPrefixes>"
        "<CommonPrefixes><Deep><Prefix>no/</Prefix></Deep></CommonPrefixes>"
        "<Owner><Name>no/</Name></Owner>"
        "<CommonPrefixes><Prefix>c%20d/</Prefix></CommonPrefixes>"
        "<EncodingType>url</EncodingType></ListBucketResult>";
    struct attempt a;

    (void)state;
    assert_int_equal(parse(doc, &a), 0);
    assert_int_equal(a.n_objects, 0);
    assert_int_equal(a.n_folders, 2);
    assert_string_equal(a.folders[0], "a b//");
    assert_string_equal(a.folders[1], "c d/");
    attempt_clear(&a);
}

/* Without quotes, strong or weak; one that is too long or has half of its quotes is none. */
static void test_etags(void **state)
{
    static const struct {
        const char *sent, *etag;
    } cases[] = {
        {"&quot;e&quot;", "e"}, {"W/&quot;e&quot;", "e"}, {"e", "e"}, {"&quot;&quot;", ""},
        {"&quot;e", ""},        {"e&quot;", ""},          {"", ""},
    };
    char longest[ETAG_MAX] = "", longer[ETAG_MAX + 1] = "";

    (void)state;
    memset(longest, 'e', ETAG_MAX - 1);
    memset(longer, 'e', ETAG_MAX);
    for (size_t i = 0; i < unit_count(cases) + 2; i++) {
        bool given = i < unit_count(cases);
        const char *sent = given ? cases[i].sent : i == unit_count(cases) ? longest : longer;
        struct buf doc = BUF_INIT;
        struct attempt a;

        buf_addf(&doc,
                 "<ListBucketResult><Contents><Key>k</Key><Size>1</Size><ETag>%s</ETag></Contents>"
                 "</ListBucketResult>",
                 sent);
        assert_int_equal(parse(buf_str(&doc), &a), 0);
        assert_string_equal(a.objects[0].etag, given             ? cases[i].etag
                                               : sent == longest ? longest
                                                                 : "");
        attempt_clear(&a);
        buf_release(&doc);
    }
}

#define ONE "<Contents><Key>k</Key><Size>1</Size></Contents>"

static void test_broken_lists(void **state)
{
    static const char *const bad[] = {
        "",
        "   ",
        "no xml",
        "<ListBucketResult>",
        "<ListBucketResult>" ONE,
        "<ListBucketResult>" ONE "</ListBucketResult",
        "<ListBucketResult>" ONE "</ListBucketResult>trailing",
        "<ListBucketResult>" ONE "<Contents></ListBucketResult>",
        "<html><body>proxy</body></html>",
        "<Error><Code>InternalError</Code></Error>",
        "<ListBucketResult>" ONE "<Contents><Key>k</Key></Contents></ListBucketResult>",
        "<ListBucketResult>" ONE "<Contents><Size>1</Size></Contents></ListBucketResult>",
        "<ListBucketResult>" ONE
        "<Contents><Key>k</Key><Size>x</Size></Contents></ListBucketResult>",
        "<ListBucketResult>" ONE
        "<Contents><Key>k</Key><Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult>" ONE "<IsTruncated>true</IsTruncated></ListBucketResult>",
        "<ListBucketResult>" ONE "<Contents><Key>%</Key><Size>1</Size></Contents>"
        "<EncodingType>url</EncodingType></ListBucketResult>",
        "<ListBucketResult>" ONE "<Contents><Key>%zz</Key><Size>1</Size></Contents>"
        "<EncodingType>url</EncodingType></ListBucketResult>",
        "<ListBucketResult>" ONE "<Contents><Key>a%00b</Key><Size>1</Size></Contents>"
        "<EncodingType>url</EncodingType></ListBucketResult>",
        "<ListBucketResult>" ONE "<CommonPrefixes><Prefix>%4</Prefix></CommonPrefixes>"
        "<EncodingType>url</EncodingType></ListBucketResult>",
        "<!DOCTYPE x [<!ENTITY a \"aaaa\">]><ListBucketResult>" ONE "</ListBucketResult>",
    };

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++) {
        struct attempt a;

        assert_int_equal(parse(bad[i], &a), DLC_EPROTO);
        assert_int_equal(a.n_objects, 0); /* all or nothing */
        assert_int_equal(a.n_folders, 0);
        assert_null(a.next);
        assert_true(a.err.text[0] != '\0');
    }
}

static void test_endless_text(void **state)
{
    struct buf doc = BUF_INIT;
    struct attempt a;

    (void)state;
    buf_adds(&doc, "<ListBucketResult><Contents><Size>1</Size><Key>");
    for (int i = 0; i < 20000; i++)
        buf_addc(&doc, 'x');
    buf_adds(&doc, "</Key></Contents></ListBucketResult>");
    assert_int_equal(parse(buf_str(&doc), &a), DLC_EPROTO);
    buf_release(&doc);
}

static void test_error(void **state)
{
    static const char doc[] = "<?xml version=\"1.0\"?>\n<Error><Code>PermanentRedirect</Code>"
                              "<Message>use\n another</Message><Region>eu-west-1</Region>"
                              "<Details><Code>Inner</Code></Details></Error>";
    struct s3_error e;

    (void)state;
    assert_true(s3_xml_error(doc, strlen(doc), &e));
    assert_string_equal(e.code, "PermanentRedirect");
    assert_string_equal(e.message, "use? another");
    assert_string_equal(e.region, "eu-west-1");
}

static void test_no_error(void **state)
{
    static const char *const bad[] = {"", "<html/>", "<Error><Code>X</Code>", "gibberish",
                                      "<Error><Code>X</Error>"};
    struct s3_error e;

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++) {
        assert_false(s3_xml_error(bad[i], strlen(bad[i]), &e));
        assert_string_equal(e.code, "");
        assert_string_equal(e.message, "");
    }
}

static void test_long_error(void **state)
{
    struct buf doc = BUF_INIT;
    struct s3_error e;

    (void)state;
    buf_adds(&doc, "<Error><Code>");
    for (int i = 0; i < 500; i++)
        buf_addc(&doc, 'C');
    buf_adds(&doc, "</Code></Error>");
    assert_true(s3_xml_error(doc.data, doc.len, &e));
    assert_int_equal(strlen(e.code), sizeof(e.code) - 1);
    buf_release(&doc);
}

static void test_no_leak(void **state)
{
    enum { ROUNDS = 50 };
    size_t before = 0;

    for (unsigned i = 0; i < 2 + ROUNDS; i++) {
        if (i == 2)
            before = unit_heap();
        test_list(state);
        test_folders(state);
        test_broken_lists(state);
        test_error(state);
        test_no_error(state);
    }
    assert_true(unit_heap() < before + ROUNDS * 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),         cmocka_unit_test(test_empty),
        cmocka_unit_test(test_keys),         cmocka_unit_test(test_broken_lists),
        cmocka_unit_test(test_endless_text), cmocka_unit_test(test_error),
        cmocka_unit_test(test_no_error),     cmocka_unit_test(test_long_error),
        cmocka_unit_test(test_folders),      cmocka_unit_test(test_etags),
        cmocka_unit_test(test_no_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
