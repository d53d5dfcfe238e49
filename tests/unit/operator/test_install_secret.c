// SPDX-License-Identifier: Apache-2.0
#include "operator/install_secret.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/pem.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/api_token.h"
#include "unit.h"

static const char *const keys[] = {"admin.token", "node.token",   "manager.key", "store",
                                   "redis.conf",  "ca.crt",       "ca.key",      "tls.crt",
                                   "tls.key",     "redis-ca.crt", "redis.crt",   "redis.key"};

/* How many members are made when this one is missing. */
static size_t made_with(const char *key)
{
    if (str_starts(key, "redis") && strcmp(key, "redis.conf") != 0)
        return 3;
    if (strcmp(key, "redis.conf") == 0 || strcmp(key, "ca.key") == 0)
        return 0; /* its Redis is somebody else's; the certificate is there */
    if (strcmp(key, "store") == 0)
        return 2;
    return strstr(key, "crt") != NULL || strstr(key, "tls") != NULL ? 4 : 1;
}

/* As the API server keeps it: stringData becomes data. Takes. */
static json_t *kept(json_t *secret, json_t *made)
{
    json_t *data = json_object_get(secret, "data"), *v;
    const char *key;

    if (data == NULL)
        json_object_set_new(secret, "data", data = json_object());
    json_object_foreach(json_object_get(made, "stringData"), key, v)
    {
        struct buf b = BUF_INIT;

        str_base64(json_string_value(v), json_string_length(v), &b);
        json_object_set_new(data, key, json_string(buf_str(&b)));
        buf_release(&b);
    }
    json_decref(made);
    return secret;
}

static json_t *fresh(void)
{
    json_t *made = bootstrap_secret("sys", NULL);

    assert_string_equal(
        json_string_value(json_object_get(json_object_get(made, "metadata"), "name")),
        "dlcache-manager");
    return kept(json_pack("{s:{s:s}}", "metadata", "resourceVersion", "7"), made);
}

static void test_all_is_made_once(void **state)
{
    json_t *s = fresh(), *other = fresh();

    (void)state;
    for (size_t i = 0; i < unit_count(keys); i++) {
        char *a = bootstrap_text(s, keys[i]), *b = bootstrap_text(other, keys[i]);

        assert_non_null(a);
        assert_string_not_equal(a, b);
        secret_free(&a);
        secret_free(&b);
    }
    assert_null(bootstrap_secret("sys", s));
    json_decref(s);
    json_decref(other);
}

/* What the manager takes: manager/auth.c, manager/seal.c. */
static void test_what_is_made_is_what_the_manager_takes(void **state)
{
    json_t *s = fresh();
    char *admin = bootstrap_text(s, "admin.token"), *node = bootstrap_text(s, "node.token");
    char *key = bootstrap_text(s, "manager.key"), *store = bootstrap_text(s, "store");
    char *conf = bootstrap_text(s, "redis.conf"), *url;

    (void)state;
    assert_int_equal(strlen(admin), 47);
    assert_true(str_starts(admin, "dlc_"));
    assert_int_equal(strspn(admin + 4, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                       "0123456789-_"),
                     43);
    assert_string_not_equal(admin, node);
    assert_int_equal(strspn(key, "0123456789abcdef"), 64);
    assert_true(str_starts(conf, "requirepass "));
    assert_non_null(strstr(conf, "\nport 0\ntls-port 6379\n")); /* TLS and nothing else */
    url = mem_fmt("rediss://:%.64s@dlcache-redis:6379?ca=/etc/dlcache/redis-ca.crt",
                  conf + strlen("requirepass "));
    assert_string_equal(store, url);
    mem_free(&url);
    secret_free(&admin);
    secret_free(&node);
    secret_free(&key);
    secret_free(&store);
    secret_free(&conf);
    json_decref(s);
}

static void test_what_was_taken_out_is_made_anew_and_nothing_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < unit_count(keys); i++) {
        json_t *s = fresh(), *patch;

        json_object_del(json_object_get(s, "data"), keys[i]);
        patch = bootstrap_secret("sys", s);
        if (made_with(keys[i]) == 0) {
            assert_null(patch);
        } else {
            assert_int_equal(json_object_size(json_object_get(patch, "stringData")),
                             made_with(keys[i]));
            assert_non_null(json_object_get(json_object_get(patch, "stringData"), keys[i]));
            assert_string_equal(json_string_value(json_object_get(
                                    json_object_get(patch, "metadata"), "resourceVersion")),
                                "7");
            assert_null(bootstrap_secret("sys", s = kept(s, patch)));
        }
        json_decref(s);
    }
}

static char *member(const json_t *secret, const char *key)
{
    char *text = bootstrap_text(secret, key);

    assert_non_null(text);
    return text;
}

/* For every Service of deploy/, by every name that it has inside a cluster, for years. */
static void test_the_certificate_is_for_the_managers(void **state)
{
    static const char *const hosts[] = {"dlcache-manager", "dlcache-manager-b.sys",
                                        "dlcache-manager-c.sys.svc",
                                        "dlcache-manager.sys.svc.cluster.local", "127.0.0.1"};
    const struct certs_names names = {hosts, unit_count(hosts), 0};
    json_t *s = fresh();
    struct certs c = CERTS_INIT;
    int64_t now = dlc_wall_seconds();

    (void)state;
    bootstrap_certs(s, &c);
    assert_int_equal(certs_check(&c, &names, now, NULL), CERTS_GOOD);
    assert_true(certs_end(c.cert) > now + (int64_t)9 * 365 * CERTS_DAY);
    assert_true(certs_end(c.bundle) >= certs_end(c.cert));
    certs_release(&c);
    json_decref(s);
}

static bool is_valid_for(const char *cert, const char *ca, const char *host)
{
    X509 *x = pem_read_cert(cert), *issuer = pem_read_cert(ca);
    EVP_PKEY *key = X509_get_pubkey(issuer);
    bool good = X509_verify(x, key) == 1 && X509_check_host(x, host, 0, 0, NULL) == 1;

    ERR_clear_error();
    EVP_PKEY_free(key);
    X509_free(x);
    X509_free(issuer);
    return good;
}

/* Of an authority of its own: ca.crt may be the user's. */
static void test_the_certificate_of_redis(void **state)
{
    static const char *const hosts[] = {"dlcache-redis", "dlcache-redis.sys.svc"};
    json_t *s = fresh();
    struct certs managers = CERTS_INIT;
    char *ca = member(s, "redis-ca.crt"), *cert = member(s, "redis.crt");

    (void)state;
    bootstrap_certs(s, &managers);
    for (size_t i = 0; i < unit_count(hosts); i++) {
        assert_true(is_valid_for(cert, ca, hosts[i]));
        assert_false(is_valid_for(cert, managers.bundle, hosts[i]));
    }
    assert_false(is_valid_for(cert, ca, "dlcache-manager"));
    certs_release(&managers);
    mem_free(&ca);
    mem_free(&cert);
    json_decref(s);
}

/* Whoever trusts ca.crt trusts a manager with a new certificate too. */
static void test_a_new_certificate_is_of_the_same_authority(void **state)
{
    json_t *s = fresh();
    char *ca = member(s, "ca.crt"), *cert = member(s, "tls.crt"), *again, *other;

    (void)state;
    json_object_del(json_object_get(s, "data"), "tls.crt");
    s = kept(s, bootstrap_secret("sys", s));
    again = member(s, "ca.crt");
    other = member(s, "tls.crt");
    assert_string_equal(ca, again);
    assert_string_not_equal(cert, other);
    mem_free(&again);
    json_object_del(json_object_get(s, "data"), "ca.key"); /* then nobody can sign by it */
    json_object_del(json_object_get(s, "data"), "tls.key");
    s = kept(s, bootstrap_secret("sys", s));
    again = member(s, "ca.crt");
    assert_string_not_equal(ca, again);
    mem_free(&ca);
    mem_free(&cert);
    mem_free(&again);
    mem_free(&other);
    json_decref(s);
}

static void test_texts_that_are_none(void **state)
{
    json_t *s = json_pack("{s:{s:s, s:i, s:s}}", "data", "a", "****", "b", 7, "c", "AAAA");

    (void)state;
    assert_null(bootstrap_text(s, "a"));
    assert_null(bootstrap_text(s, "b"));
    assert_null(bootstrap_text(s, "c")); /* holds NULs */
    assert_null(bootstrap_text(s, "d"));
    assert_null(bootstrap_text(NULL, "a"));
    json_decref(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_made_once),
        cmocka_unit_test(test_what_is_made_is_what_the_manager_takes),
        cmocka_unit_test(test_what_was_taken_out_is_made_anew_and_nothing_else),
        cmocka_unit_test(test_the_certificate_is_for_the_managers),
        cmocka_unit_test(test_the_certificate_of_redis),
        cmocka_unit_test(test_a_new_certificate_is_of_the_same_authority),
        cmocka_unit_test(test_texts_that_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
