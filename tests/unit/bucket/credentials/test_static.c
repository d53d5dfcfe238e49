// SPDX-License-Identifier: Apache-2.0
/* Keys that are given, not looked for; what can be sent of any credentials; whose endpoint it is. */
#include "bucket/credentials/chain_i.h"
#include "bucket/credentials/credentials_i.h"
#include "bucket/credentials/google_i.h"

#include "unit.h"

#include "base/mem.h"

static void keys_are(struct bucket_keys *k, const char *access, const char *secret,
                     const char *token)
{
    struct credentials c;

    bucket_keys_read(k, &c);
    if (access == NULL) {
        assert_null(c.access_key);
        assert_null(c.secret_key);
    } else {
        assert_string_equal(c.access_key, access);
        assert_string_equal(c.secret_key, secret);
    }
    if (token == NULL)
        assert_null(c.session_token);
    else
        assert_string_equal(c.session_token, token);
    assert_null(c.bearer);
    assert_null(c.sas);
    assert_int_equal(c.expires, 0);
    credentials_release(&c);
    assert_null(c.access_key);
}

/* Setting says whether anything is new, whichever of the three it is. */
static void test_given_keys(void **state)
{
    struct bucket_keys *k = bucket_keys_new(), *other, *third;

    (void)state;
    keys_are(k, NULL, NULL, NULL);
    assert_true(bucket_keys_set(k, "a", "s", NULL));
    keys_are(k, "a", "s", NULL);
    assert_false(bucket_keys_set(k, "a", "s", NULL));
    assert_true(bucket_keys_set(k, "a", "s", "t"));
    keys_are(k, "a", "s", "t");
    assert_false(bucket_keys_set(k, "a", "s", "t"));
    assert_true(bucket_keys_set(k, "a", "s2", "t"));
    assert_true(bucket_keys_set(k, "a2", "s2", "t"));
    assert_true(bucket_keys_set(k, "a2", "s2", "t2"));
    assert_true(bucket_keys_set(k, "a2", "s2", NULL));
    other = bucket_keys_get(k);
    third = bucket_keys_get(k);
    bucket_keys_put(&k);
    assert_null(k);
    bucket_keys_put(&third);
    keys_are(other, "a2", "s2", NULL); /* the last one holds it */
    bucket_keys_put(&other);
    bucket_keys_put(&other); /* of none */
}

static void test_given_keys_are_freed(void **state)
{
    enum { ROUNDS = 100 };
    struct credentials c;
    size_t before = 0;

    for (unsigned i = 0; i < 20 + ROUNDS; i++) {
        if (i == 20)
            before = unit_heap();
        c = (struct credentials){.access_key = mem_str("a"),
                                 .secret_key = mem_str("s"),
                                 .session_token = mem_str("t"),
                                 .bearer = mem_str("b"),
                                 .sas = mem_str("sas")};
        credentials_release(&c);
        test_given_keys(state);
    }
    assert_true(unit_heap() < before + ROUNDS * 16);
}

static int check(const char *access, const char *secret, const char *session, const char *bearer,
                 const char *sas)
{
    const struct credentials c = {.access_key = (char *)access,
                                  .secret_key = (char *)secret,
                                  .session_token = (char *)session,
                                  .bearer = (char *)bearer,
                                  .sas = (char *)sas};
    struct dlc_err err = DLC_ERR_INIT;
    int rc = credentials_check(&c, &err);

    assert_int_equal(err.code, rc);
    return rc;
}

/* Both keys or a token, and nothing that could end a header line. */
static void test_what_can_be_sent(void **state)
{
    static const char *const odd[] = {"a b", "a\n", "\ra", "a\x7f", "\xc3\xa9", "\t"};

    (void)state;
    assert_int_equal(check("a", "s", NULL, NULL, NULL), 0);
    assert_int_equal(check("a!~", "s", "t", NULL, NULL), 0);
    assert_int_equal(check(NULL, NULL, NULL, "b", NULL), 0);
    assert_int_equal(check(NULL, NULL, NULL, NULL, "s"), 0);
    assert_int_equal(check("a", NULL, NULL, NULL, NULL), DLC_EDENIED);
    assert_int_equal(check(NULL, "s", NULL, NULL, NULL), DLC_EDENIED);
    assert_int_equal(check(NULL, NULL, NULL, NULL, NULL), DLC_EDENIED);
    for (unsigned i = 0; i < unit_count(odd); i++) {
        assert_int_equal(check(odd[i], "s", NULL, NULL, NULL), DLC_EINVAL);
        assert_int_equal(check("a", odd[i], NULL, NULL, NULL), DLC_EINVAL);
        assert_int_equal(check("a", "s", odd[i], NULL, NULL), DLC_EINVAL);
        assert_int_equal(check("a", "s", NULL, odd[i], NULL), DLC_EINVAL);
        assert_int_equal(check("a", "s", NULL, "b", odd[i]), DLC_EINVAL);
    }
}

/* ---- a chain of places ---- */

static int find_nothing(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    (void)out, (void)err;
    return lookup_elsewhere(l, "%s", "a reason that fills its share of what a message can hold");
}

static int find_keys(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    (void)l, (void)err;
    *out = (struct credentials){.access_key = mem_str("a"), .secret_key = mem_str("s")};
    return 0;
}

static int find_broken(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    (void)l, (void)out;
    return dlc_err_set(err, DLC_EINVAL, "broken");
}

static int run_chain(const struct chain_step *steps, size_t n, struct credentials *out,
                     struct dlc_err *err)
{
    const struct chain c = {"nothing: ", ". The remedy", steps, n};
    struct lookup l = {.now = 1000};

    *err = (struct dlc_err)DLC_ERR_INIT;
    memset(out, 0x55, sizeof(*out));
    return chain_run(&c, &l, out, err);
}

/* The first place that has some ends the search, as one that is broken does. */
static void test_chain(void **state)
{
    static const struct chain_step steps[] = {{"first", find_nothing, false},
                                              {"second", find_keys, false},
                                              {"third", find_broken, false}};
    struct credentials c;
    struct dlc_err err;

    (void)state;
    assert_int_equal(run_chain(steps, 3, &c, &err), 0);
    assert_string_equal(c.access_key, "a");
    assert_int_equal(err.code, 0);
    assert_string_equal(err.text, ""); /* what the first one said is not an error */
    credentials_release(&c);
    assert_int_equal(run_chain(steps + 2, 1, &c, &err), DLC_EINVAL);
    assert_string_equal(err.text, "credentials from third: broken");
    assert_null(c.access_key);
    assert_int_equal(run_chain(steps, 1, &c, &err), DLC_EDENIED);
    assert_non_null(strstr(err.text, "nothing: first (a reason"));
    assert_null(c.access_key);
    assert_null(c.bearer);
}

/* However much was tried, the remedy is said. */
static void test_long_chain(void **state)
{
    static const char end[] = ". The remedy";
    struct chain_step steps[20];
    struct credentials c;
    struct dlc_err err;

    (void)state;
    for (unsigned i = 0; i < unit_count(steps); i++)
        steps[i] = (struct chain_step){"a place", find_nothing, false};
    assert_int_equal(run_chain(steps, unit_count(steps), &c, &err), DLC_EDENIED);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_string_equal(err.text + strlen(err.text) - strlen(end), end);
}

static void test_endpoints_of_google(void **state)
{
    (void)state;
    assert_true(google_is_own("https://storage.googleapis.com"));
    assert_true(google_is_own("https://Storage.GoogleAPIs.com:443/x"));
    assert_false(google_is_own("http://storage.googleapis.com"));
    assert_false(google_is_own("https://.googleapis.com"));
    assert_false(google_is_own("https://googleapis.com"));
    assert_false(google_is_own("https://storage.googleapis.com.evil.org"));
    assert_false(google_is_own("https://evil.org/storage.googleapis.com"));
    assert_false(google_is_own("https://storage.googleapis.com:x@evil.org"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_given_keys),
        cmocka_unit_test(test_given_keys_are_freed),
        cmocka_unit_test(test_what_can_be_sent),
        cmocka_unit_test(test_endpoints_of_google),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_long_chain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
