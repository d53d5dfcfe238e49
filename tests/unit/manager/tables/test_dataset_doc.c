// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <jansson.h>

#include "base/mem.h"
#include "base/address_rules.h"
#include "manager/routes/auth.h"
#include "manager/routes/dataset_fields.h"
#include "manager/tables/dataset_doc.h"

static const struct {
    const char *url, *endpoint;
    int admin, tenant; /* 0: good; else the status of the refusal */
} urls[] = {
    {"s3://bucket/train/", NULL, 0, 0},
    {"s3://bucket/train/?split=train", "https://minio.example:9000", 0, 0},
    {"gs://bucket/a/../b", NULL, 0, 0}, /* a key, taken literally */
    {"https://example.org/data/", NULL, 0, 0},
    {"file:///data/pets", NULL, 0, 403},
    {"file:///etc/../data", NULL, 400, 400},
    {"file://host/data", NULL, 400, 400},
    {"ftp://example.org/", NULL, 400, 400},
    {"bucket/train", NULL, 400, 400},
    {"s3://", NULL, 400, 400},
    {"s3://bucket/?latency=never", NULL, 400, 400},
    /* where machines get their credentials */
    {"http://169.254.169.254/latest/meta-data/", NULL, 0, 400},
    {"http://0xa9fea9fe/latest/", NULL, 0, 400},
    {"http://2852039166/latest/", NULL, 0, 400},
    {"http://0251.0376.0251.0376/", NULL, 0, 400},
    {"http://[::ffff:169.254.169.254]/", NULL, 0, 400},
    {"http://[fe80::1]/", NULL, 0, 400},
    {"http://[fd00:ec2::254]/", NULL, 0, 400},
    {"http://metadata.google.internal/x", NULL, 0, 400},
    {"http://METADATA.google.internal./x", NULL, 0, 400},
    {"s3://bucket/", "http://169.254.169.254", 0, 400},
    {"s3://bucket/", "http://169.254.1.2:80/x", 0, 400},
    {"http://100.100.100.200/", NULL, 0, 400},
    {"http://168.63.129.16/", NULL, 0, 400},
    {"http://169.253.169.254/", NULL, 0, 0},
    /* the node itself and networks that are not public; 10.7.0.0/16 is allowed */
    {"http://127.0.0.1:9000/data/", NULL, 0, 400},
    {"http://localhost:9000/data/", NULL, 0, 400},
    {"http://[::1]/", NULL, 0, 400},
    {"http://192.168.1.1/", NULL, 0, 400},
    {"http://[64:ff9b::127.0.0.1]/", NULL, 0, 400},
    {"s3://bucket/", "http://10.6.0.1:9000", 0, 400},
    {"s3://bucket/", "http://10.7.0.1:9000", 0, 0},
    {"https://10.7.255.255/data/", NULL, 0, 0},
    /* secrets */
    {"http://user:secret@example.org/x", NULL, 400, 400},
    {"https://example.org/x?X-Amz-Signature=abc", NULL, 400, 400},
    {"https://example.org/x?a=b&sig=abc", NULL, 400, 400},
    {"https://example.org/x?design=abc", NULL, 0, 0},
    {"s3://bucket/", "https://user:secret@minio.example", 400, 400},
    {"s3://bucket/", "https://minio.example?token=abc", 400, 400},
    /* endpoints */
    {"s3://bucket/", "minio.example:9000", 400, 400},
    {"s3://bucket/", "file:///etc", 400, 400},
    {"s3://bucket/", "http://", 400, 400},
    {"https://example.org/", "https://minio.example", 400, 400},
};

static void test_urls(void **state)
{
    const struct caller admin = {.role = ROLE_ADMIN}, tenant = {.role = ROLE_TENANT, .tenant = "a"};

    struct address_rules rules = ADDRESS_RULES_INIT;

    (void)state;
    assert_int_equal(address_rules_parse(&rules, "10.7.0.0/16", NULL), 0);
    for (size_t i = 0; i < 2 * unit_count(urls); i++) {
        const struct caller *who = i % 2 == 0 ? &admin : &tenant;
        int want = i % 2 == 0 ? urls[i / 2].admin : urls[i / 2].tenant;
        struct http_reply reply = {0};
        bool ok = dataset_url_ok(who, &rules, urls[i / 2].url, urls[i / 2].endpoint, &reply);

        if (ok != (want == 0) || reply.status != want)
            fail_msg("%s %s as %s: %d, status %d", urls[i / 2].url,
                     urls[i / 2].endpoint != NULL ? urls[i / 2].endpoint : "",
                     i % 2 == 0 ? "admin" : "tenant", ok, reply.status);
        if (!ok) {
            char *text = json_dumps(reply.body, 0);

            assert_null(strstr(text, "secret"));
            assert_null(strstr(text, "abc"));
            free(text);
        }
        json_decref(reply.body);
    }
    address_rules_release(&rules);
}

/* What a node says, and what becomes of it; NULL: refused. */
static const struct {
    const char *result;
    const char *splits; /* [[name, samples, bytes]] */
    json_int_t samples, objects, bytes;
} results[] = {
    {"{\"snapshot\": \"12ab\", \"samples\": 10, \"objects\": 3, \"bytes\": 1000, \"splits\": {}}",
     "[]", 10, 3, 1000},
    {"{\"snapshot\": \"12ab\", \"samples\": 10, \"bytes\": 1000}", "[]", 10, 10, 1000},
    {"{\"snapshot\": \"0\", \"samples\": 10, \"bytes\": 1000, \"splits\": {\"train\": 9, \"test\": "
     "1}}",
     "[[\"train\", 9, 900], [\"test\", 1, 100]]", 10, 10, 1000},
    {"{\"snapshot\": \"0\", \"samples\": 10, \"bytes\": 1000, \"splits\": {\"train\": "
     "{\"samples\": 9, \"bytes\": 17}}}",
     "[[\"train\", 9, 17]]", 10, 10, 1000},
    {"{\"snapshot\": \"0\", \"samples\": 0, \"bytes\": 0, \"splits\": {\"train\": 0}}",
     "[[\"train\", 0, 0]]", 0, 0, 0},
    {"{\"snapshot\": \"0\", \"samples\": 1, \"bytes\": 7, \"splits\": {\"train\": 5}}",
     "[[\"train\", 5, 7]]", 1, 1, 7}, /* says more than there is: not more bytes */
    {"{}", NULL, 0, 0, 0},
    {"{\"snapshot\": \"\", \"samples\": 1, \"bytes\": 1}", NULL, 0, 0, 0},
    {"{\"snapshot\": \"../x\", \"samples\": 1, \"bytes\": 1}", NULL, 0, 0, 0},
    {"{\"snapshot\": 12, \"samples\": 1, \"bytes\": 1}", NULL, 0, 0, 0},
    {"{\"snapshot\": \"1\", \"samples\": -1, \"bytes\": 1}", NULL, 0, 0, 0},
    {"{\"snapshot\": \"1\", \"samples\": 1.5, \"bytes\": 1}", NULL, 0, 0, 0},
    {"{\"snapshot\": \"1\", \"samples\": 1, \"bytes\": 9007199254740993}", NULL, 0, 0, 0},
    {"{\"snapshot\": \"1\", \"samples\": 1, \"bytes\": 1, \"splits\": {\"\": 1}}", NULL, 0, 0, 0},
    {"{\"snapshot\": \"1\", \"samples\": 1, \"bytes\": 1, \"splits\": {\"a\": \"1\"}}", NULL, 0, 0,
     0},
    {"{\"snapshot\": \"1\", \"samples\": 1, \"bytes\": 1, \"splits\": {\"a\": {\"bytes\": 1}}}",
     NULL, 0, 0, 0},
};

static void test_results(void **state)
{
    (void)state;
    for (size_t i = 0; i < unit_count(results); i++) {
        json_t *result = json_loads(results[i].result, 0, NULL), *s, *want;

        assert_non_null(result);
        s = snapshot_of_result(result);
        json_decref(result);
        if ((s != NULL) != (results[i].splits != NULL))
            fail_msg("%s: %s", results[i].result, s != NULL ? "taken" : "refused");
        if (s == NULL)
            continue;
        assert_int_equal(json_integer_value(json_object_get(s, "samples")), results[i].samples);
        assert_int_equal(json_integer_value(json_object_get(s, "objects")), results[i].objects);
        assert_int_equal(json_integer_value(json_object_get(s, "bytes")), results[i].bytes);
        want = json_loads(results[i].splits, 0, NULL);
        assert_int_equal(json_array_size(json_object_get(s, "splits")), json_array_size(want));
        for (size_t k = 0; k < json_array_size(want); k++) {
            const json_t *is = json_array_get(json_object_get(s, "splits"), k);
            const json_t *row = json_array_get(want, k);

            assert_true(json_equal(json_object_get(is, "name"), json_array_get(row, 0)));
            assert_true(json_equal(json_object_get(is, "samples"), json_array_get(row, 1)));
            assert_true(json_equal(json_object_get(is, "bytes"), json_array_get(row, 2)));
        }
        json_decref(want);
        json_decref(s);
    }
}

static void test_bytes_of_splits(void **state)
{
    json_t *s = json_pack("{s:i, s:[{s:s, s:i}, {s:s, s:i}]}", "bytes", 1000, "splits", "name",
                          "train", "bytes", 600, "name", "test", "bytes", 300);
    json_t *some = json_pack("[s]", "test"), *both = json_pack("[ss]", "test", "train");
    json_t *odd = json_pack("[ss]", "test", "valid");
    uint64_t bytes;

    (void)state;
    assert_true(snapshot_bytes(s, NULL, &bytes) && bytes == 1000);
    assert_true(snapshot_bytes(s, some, &bytes) && bytes == 300);
    assert_true(snapshot_bytes(s, both, &bytes) && bytes == 900);
    assert_false(snapshot_bytes(s, odd, &bytes));
    json_decref(s);
    json_decref(some);
    json_decref(both);
    json_decref(odd);
}

/* A name that was freed and taken again is another dataset; one that was changed is not. */
static void test_the_same_dataset(void **state)
{
    struct store_doc was = {(char *)"d", (char *)"ann", json_pack("{s:i}", "created_ms", 5), 1};
    struct store_doc changed = {(char *)"d", (char *)"ann",
                                json_pack("{s:i, s:s}", "created_ms", 5, "error", "x"), 2};
    struct store_doc anew = {(char *)"d", (char *)"ann", json_pack("{s:i}", "created_ms", 6), 1};
    struct store_doc taken = {(char *)"d", (char *)"bob", json_pack("{s:i}", "created_ms", 5), 1};

    (void)state;
    assert_true(dataset_is(&changed, &was));
    assert_false(dataset_is(&anew, &was));
    assert_false(dataset_is(&taken, &was));
    json_decref(was.body);
    json_decref(changed.body);
    json_decref(anew.body);
    json_decref(taken.body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_bytes_of_splits),
        cmocka_unit_test(test_the_same_dataset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
