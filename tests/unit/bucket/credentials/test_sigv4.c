// SPDX-License-Identifier: Apache-2.0
/*
 * Signatures against known ones: the examples of the Amazon S3 documentation (24 May 2013,
 * examplebucket), and vectors made once with botocore for keys with odd characters.
 */
#include "bucket/credentials/sigv4_i.h"

#include "unit.h"

#include "base/check.h"

#define AWS_EXAMPLE_TIME 1369353600 /* 2013-05-24T00:00:00Z */
#define VECTOR_TIME      1769862896 /* 2026-01-31T12:34:56Z */

static char example_id[] = "AKIAIOSFODNN7EXAMPLE";
static char example_secret[] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
static char vector_id[] = "AKIDODDKEYS";
static char vector_secret[] = "s3cret/Key+With/Odd+Characters=0123456789";
static char vector_token[] = "FwoGZXIvYXdzEDMaDPWKaVEQA+example/token==";

static const struct credentials example = {example_id, example_secret, .generation = 1};
static const struct credentials vector = {vector_id, vector_secret, .generation = 1};
static char other_chars[] = "s3cret/Key+With/Odd+Characters=0123456780";
static const struct credentials other_secret = {vector_id, other_chars, .generation = 1};
static const struct credentials with_token = {vector_id, vector_secret, vector_token,
                                              .generation = 1};

static struct sigv4_signer signer;

static int set_up(void **state)
{
    (void)state;
    sigv4_signer_init(&signer);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sigv4_signer_release(&signer);
    return 0;
}

/* The authorization line must end in these signed headers and this signature. */
static void assert_signed(struct buf *out, const char *headers, const char *signature)
{
    struct buf want = BUF_INIT;
    const char *line = strstr(buf_str(out), "authorization: ");

    assert_non_null(line);
    buf_addf(&want, ", SignedHeaders=%s, Signature=%s\n", headers, signature);
    assert_non_null(strstr(line, ", SignedHeaders="));
    assert_string_equal(strstr(line, ", SignedHeaders="), buf_str(&want));
    buf_release(&want);
    buf_release(out);
}

static void sign_example(const char *method, const char *path, const char *query,
                         const struct sigv4_header *extra, size_t n, const char *hash,
                         struct buf *out)
{
    sigv4_sign(&signer, &example, "us-east-1", "s3", AWS_EXAMPLE_TIME, method,
               "examplebucket.s3.amazonaws.com", path, query, extra, n, hash, out);
}

static void test_documented_get_range(void **state)
{
    struct sigv4_header range = {"range", "bytes=0-9"};
    struct buf out = BUF_INIT;

    (void)state;
    sign_example("GET", "/test.txt", "", &range, 1, NULL, &out);
    assert_string_equal(
        buf_str(&out),
        "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
        "x-amz-date: 20130524T000000Z\n"
        "authorization: AWS4-HMAC-SHA256 "
        "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41\n");
    buf_release(&out);
}

static void test_documented_put(void **state)
{
    struct sigv4_header extra[] = {
        {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
        {"date", "Fri, 24 May 2013 00:00:00 GMT"},
    };
    struct buf out = BUF_INIT;

    (void)state;
    sign_example("PUT", "/test%24file.text", "", extra, 2,
                 "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072", &out);
    assert_signed(&out, "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
                  "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

static void test_documented_lifecycle_and_list(void **state)
{
    struct buf out = BUF_INIT;

    (void)state;
    sign_example("GET", "/", "lifecycle=", NULL, 0, NULL, &out);
    assert_signed(&out, "host;x-amz-content-sha256;x-amz-date",
                  "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    sign_example("GET", "/", "max-keys=2&prefix=J", NULL, 0, NULL, &out);
    assert_signed(&out, "host;x-amz-content-sha256;x-amz-date",
                  "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

struct key_vector {
    const char *path;
    bool token, if_match;
    const char *signature;
};

/* GET from host 127.0.0.1:9000, region eu-central-1, with range bytes=5-99. */
static const struct key_vector key_vectors[] = {
    {"/bucket/plain/a.jpg", 0, 0,
     "d7e4213b2e6a7b4dac6fdbf3888f23039744a12add19580fa28d7771e0d827d6"},
    {"/bucket/plain/a.jpg", 1, 0,
     "37519b09852b9399b2b2f0cb2d21b843445a147bd409b0d5ca0295915e12827b"},
    {"/bucket/with%20space%20and%2Bplus.txt", 0, 1,
     "83eb22365be0a79f42fa43d9e9b8ac579f70014516733c55751a15d278f7858e"},
    {"/bucket/with%20space%20and%2Bplus.txt", 1, 1,
     "46b03aca99dabe64033fd8ec54e4145bdbad32259d03ec24cb9bfb85c70ec690"},
    {"/bucket/100%25/50%2525.bin", 0, 0,
     "40bb9dcb2b0b74403ede0c0089a564e8702822c929074e7c8c6e12ca64acecaf"},
    {"/bucket/100%25/50%2525.bin", 1, 0,
     "ed33e140b7c0d93fd917daa4214179e8029892f3f554e9fe93531df7c7e5fe02"},
    {"/bucket/what%3F.txt", 0, 1,
     "9f4cf005ba5225f91ac1e478de522f76dce839ee99f1a6d6232585c619349f77"},
    {"/bucket/what%3F.txt", 1, 1,
     "1d8405fe90b0a65259fcc8e1af44431ed1e1cc29ab04906394402b371a2e9456"},
    {"/bucket/a%3Db%26c%3Dd%3Be%23f", 0, 0,
     "476546220367540d693f3c7308fabcfd94baa469d53282bdeecd983b3256afa7"},
    {"/bucket/a%3Db%26c%3Dd%3Be%23f", 1, 0,
     "cfb03e5ed272a1bc0f127e757bf867dae85fd3e56f5cfb30e463fb8aa9f2341d"},
    {"/bucket/%C3%BCn%C3%AFcode/%E6%97%A5%E6%9C%AC%E8%AA%9E/%F0%9F%99%82.png", 0, 1,
     "0640935f21b44d54e97ac5e1003dc9ccc4a2ecf7a64bd0ad830780a301d8534f"},
    {"/bucket/%C3%BCn%C3%AFcode/%E6%97%A5%E6%9C%AC%E8%AA%9E/%F0%9F%99%82.png", 1, 1,
     "d7c1fc211fc6129d9c162e3314eeadc3493767121f04deef9d6e7b8670fb63cc"},
    {"/bucket/tilde~%28paren%29%2A%27%21%24%2C%40%3A.x", 0, 0,
     "892884df43caecd090eff794d91d8f1ff88fe40d6a786cfa3c1565a8d385311e"},
    {"/bucket/tilde~%28paren%29%2A%27%21%24%2C%40%3A.x", 1, 0,
     "2cc3f6d74b493905b1ae86f64c69930ed0f0e062d774fa160b49e6bdaea22bf7"},
    {"/bucket/a//b///c", 0, 1, "98d9753821f3193ec25dc6eb491774b9a9b6d146370d26f12fdc6ce763456464"},
    {"/bucket/a//b///c", 1, 1, "6467129dc9d9aa58e4c32ae2b1ca05f9bf235f5b566622808c9081b8c4be08f1"},
    {"/bucket/./../dots/..", 0, 0,
     "ba2e19cc4268bc636520881790ce3eb74c754428d3ceb2ab681c4cd807f09d19"},
    {"/bucket/./../dots/..", 1, 0,
     "6bb74fe10f8bf055aeeb4c07c0c441da3863774dc6bb9c34ba87858b1fe276dd"},
    {"/bucket/back%5Cslash%22quote%22%3C%3E%7C%5E%60%7B%7D", 0, 1,
     "fb4cb019d8523e3706d50ae72c3d7b60195be598ab06751050c0c4420a29913d"},
    {"/bucket/back%5Cslash%22quote%22%3C%3E%7C%5E%60%7B%7D", 1, 1,
     "51203bbd3bf1a603dd45d801132e269f0447271df4e83b4b2cacb2d61394b7e4"},
};

static void test_odd_keys(void **state)
{
    struct sigv4_header extra[] = {{"range", "bytes=5-99"}, {"if-match", "\"abc\""}};
    struct buf out = BUF_INIT, headers = BUF_INIT;

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(key_vectors); i++) {
        const struct key_vector *v = &key_vectors[i];

        buf_clear(&headers);
        buf_addf(&headers, "host;%srange;x-amz-content-sha256;x-amz-date%s",
                 v->if_match ? "if-match;" : "", v->token ? ";x-amz-security-token" : "");
        sigv4_sign(&signer, v->token ? &with_token : &vector, "eu-central-1", "s3", VECTOR_TIME,
                   "GET", "127.0.0.1:9000", v->path, "", extra, v->if_match ? 2 : 1, NULL, &out);
        assert_int_equal(v->token, strstr(buf_str(&out), vector_token) != NULL);
        assert_signed(&out, buf_str(&headers), v->signature);
    }
    buf_release(&headers);
}

static void test_queries(void **state)
{
    const char *host = "bucket.s3.eu-central-1.amazonaws.com";
    const char *names = "host;x-amz-content-sha256;x-amz-date";
    struct buf out = BUF_INIT;

    (void)state;
    sigv4_sign(&signer, &vector, "eu-central-1", "s3", VECTOR_TIME, "GET", host, "/",
               "list-type=2&max-keys=1000&prefix=a%20b%2Bc", NULL, 0, NULL, &out);
    assert_signed(&out, names, "126d1d4a5d7777f222e3ba3858d9f54c9fc209abe954259005417ceeffec889d");
    sigv4_sign(&signer, &vector, "eu-central-1", "s3", VECTOR_TIME, "GET", host, "/",
               "continuation-token=1%2F%2B%3D%3D&delimiter=%2F&encoding-type=url&list-type=2"
               "&prefix=%C3%BC%25",
               NULL, 0, NULL, &out);
    assert_signed(&out, names, "e3ff49ea996a4a2382003f69c8870f6c08dfaaccc8e1bb7ce15ceeafa6587a70");
}

static void test_other_service_and_body(void **state)
{
    struct sigv4_header type = {"content-type", "application/x-www-form-urlencoded; charset=utf-8"};
    struct buf out = BUF_INIT;

    (void)state;
    sigv4_sign(&signer, &vector, "eu-central-1", "sts", VECTOR_TIME, "POST",
               "sts.eu-central-1.amazonaws.com", "/", "", &type, 1,
               "631c458df17718168ee29957bcc43c4352d6e27e8d712bfd53d9ee203671adc3", &out);
    assert_signed(&out, "content-type;host;x-amz-content-sha256;x-amz-date",
                  "6eb10ed4bc318d5e5ea787d3f4a81a16429e70800bf966c8c9b7524000e7749b");
}

static void test_long_secret_and_blanks(void **state)
{
    static char id[] = "AKIDLONG", secret[81];
    struct credentials c = {id, secret, .generation = 1};
    struct sigv4_header meta = {"x-amz-meta-a", "  two   blanks\tinside "};
    struct buf out = BUF_INIT;

    (void)state;
    memset(secret, 'k', 80);
    sigv4_sign(&signer, &c, "us-east-1", "s3", VECTOR_TIME, "GET", "h.example", "/x", "", &meta, 1,
               NULL, &out);
    assert_signed(&out, "host;x-amz-content-sha256;x-amz-date;x-amz-meta-a",
                  "4304c38df47a8560015841dc5a6f506a271354c10650980b72253010e5942588");
}

/* It is derived once for a day, region and service: a request costs one HMAC, not five. */
static void test_key_is_kept(void **state)
{
    struct buf a = BUF_INIT, b = BUF_INIT;

    (void)state;
    sigv4_sign(&signer, &vector, "eu-central-1", "s3", VECTOR_TIME, "GET", "h", "/", "", NULL, 0,
               NULL, &a);
    signer.key[0] ^= 1;
    sigv4_sign(&signer, &vector, "eu-central-1", "s3", VECTOR_TIME, "GET", "h", "/", "", NULL, 0,
               NULL, &b);
    assert_string_not_equal(buf_str(&a), buf_str(&b));
    buf_release(&a);
    buf_release(&b);
}

static void test_signer_is_freed(void **state)
{
    enum { ROUNDS = 100 };
    size_t before = 0;

    (void)state;
    for (unsigned i = 0; i < 20 + ROUNDS; i++) {
        struct buf out = BUF_INIT;
        struct sigv4_signer s;

        if (i == 20)
            before = unit_heap();
        sigv4_signer_init(&s);
        sigv4_sign(&s, &with_token, "eu-central-1", "s3", VECTOR_TIME, "GET", "h", "/", "", NULL, 0,
                   NULL, &out);
        sigv4_signer_release(&s);
        buf_release(&out);
    }
    assert_true(unit_heap() < before + ROUNDS * 16);
}

/* The kept key must never outlive what it was derived from: secret, day, region, service. */
static void test_key_follows_its_inputs(void **state)
{
    static const struct {
        const struct credentials *c;
        const char *region, *service;
        int64_t now;
    } order[] = {
        {&vector, "eu-central-1", "s3", VECTOR_TIME},
        {&vector, "eu-central-1", "s3", VECTOR_TIME + 86400},
        {&vector, "eu-central-1", "s3", VECTOR_TIME},
        {&example, "eu-central-1", "s3", VECTOR_TIME},
        {&vector, "us-east-1", "s3", VECTOR_TIME},
        {&vector, "us-east-1", "sts", VECTOR_TIME},
        {&vector, "us-west-1", "sts", VECTOR_TIME}, /* as long as before, but another one */
        {&vector, "us-west-1", "iam", VECTOR_TIME},
        {&other_secret, "us-west-1", "iam", VECTOR_TIME},
        {&vector, "us-west-", "1iam", VECTOR_TIME},
        {&vector, "eu-central-1", "s3", VECTOR_TIME},
    };
    struct buf kept = BUF_INIT, anew = BUF_INIT, first = BUF_INIT;

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(order); i++) {
        struct sigv4_signer other;

        buf_clear(&kept);
        buf_clear(&anew);
        sigv4_sign(&signer, order[i].c, order[i].region, order[i].service, order[i].now, "GET", "h",
                   "/", "", NULL, 0, NULL, &kept);
        sigv4_signer_init(&other);
        sigv4_sign(&other, order[i].c, order[i].region, order[i].service, order[i].now, "GET", "h",
                   "/", "", NULL, 0, NULL, &anew);
        sigv4_signer_release(&other);
        assert_string_equal(buf_str(&kept), buf_str(&anew));
        if (i == 0)
            buf_adds(&first, buf_str(&kept));
        else if (i == DLC_COUNT(order) - 1)
            assert_string_equal(buf_str(&kept), buf_str(&first));
        else if (i != 2)
            assert_string_not_equal(buf_str(&kept), buf_str(&first));
    }
    buf_release(&kept);
    buf_release(&anew);
    buf_release(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_documented_get_range, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_documented_put, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_documented_lifecycle_and_list, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_odd_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_queries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_service_and_body, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_secret_and_blanks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_key_follows_its_inputs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_key_is_kept, set_up, tear_down),
        cmocka_unit_test(test_signer_is_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
