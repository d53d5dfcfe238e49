// SPDX-License-Identifier: Apache-2.0
#include "operator/webhook/certs.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/mem.h"
#include "unit.h"

#define NOW INT64_C(1800000000)
#define DAY INT64_C(86400)

static const char *const hosts[] = {"dlcache-operator.dlcache-system.svc", "dlcache-operator",
                                    "127.0.0.1", "::1"};
static const struct certs_names names = {hosts, unit_count(hosts), 0};

static void renew(struct certs *c, int64_t now, bool changes)
{
    struct dlc_err err = DLC_ERR_INIT;
    bool changed = !changes;

    assert_int_equal(certs_renew(c, &names, now, &changed, &err), 0);
    assert_int_equal(changed, changes);
    assert_int_equal(certs_check(c, &names, now, NULL), CERTS_GOOD);
}

static X509 *cert_of(const char *pem)
{
    BIO *b = BIO_new_mem_buf(pem, -1);
    X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);

    assert_non_null(x);
    BIO_free(b);
    return x;
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;

    for (const char *p = text; (p = strstr(p, word)) != NULL; p += strlen(word))
        n++;
    return n;
}

/* Would somebody who has the bundle believe this certificate, at that time, for that host? As
 * OpenSSL's clients decide. */
static bool believed(const char *bundle, const char *cert, int64_t now, const char *host)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    X509 *x = cert_of(cert), *ca;
    BIO *b = BIO_new_mem_buf(bundle, -1);
    bool ok;

    while ((ca = PEM_read_bio_X509(b, NULL, NULL, NULL)) != NULL) {
        X509_STORE_add_cert(store, ca);
        X509_free(ca);
    }
    assert_int_equal(X509_STORE_CTX_init(ctx, store, x, NULL), 1);
    X509_STORE_CTX_set_time(ctx, 0, (time_t)now);
    X509_STORE_CTX_set_purpose(ctx, X509_PURPOSE_SSL_SERVER);
    X509_VERIFY_PARAM_set1_host(X509_STORE_CTX_get0_param(ctx), host, 0);
    X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(ctx), X509_V_FLAG_X509_STRICT);
    ok = X509_verify_cert(ctx) == 1;
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    X509_free(x);
    BIO_free(b);
    return ok;
}

static void test_made_from_nothing(void **state)
{
    struct certs c = CERTS_INIT;
    EVP_PKEY *key;
    X509 *x;

    (void)state;
    assert_int_equal(certs_check(&c, &names, NOW, NULL), CERTS_CA_DUE);
    renew(&c, NOW, true);
    assert_true(believed(c.bundle, c.cert, NOW, hosts[0]));
    assert_true(believed(c.bundle, c.cert, NOW, hosts[1]));
    assert_false(believed(c.bundle, c.cert, NOW, "another.example"));
    assert_false(believed(c.bundle, c.cert, NOW + 100 * DAY, hosts[0]));
    assert_false(believed(c.bundle, c.cert, NOW - 2 * DAY, hosts[0]));
    assert_true(believed(c.bundle, c.cert, NOW - 600, hosts[0])); /* a clock that is behind */
    x = cert_of(c.cert);
    assert_int_equal(X509_check_ip_asc(x, "127.0.0.1", 0), 1);
    assert_int_equal(X509_check_ip_asc(x, "::1", 0), 1);
    assert_int_equal(X509_check_ca(x), 0);
    key = X509_get_pubkey(x);
    assert_int_equal(EVP_PKEY_bits(key), 256);
    EVP_PKEY_free(key);
    X509_free(x);
    assert_int_equal(count(c.bundle, "BEGIN CERTIFICATE"), 1);
    assert_null(strstr(c.bundle, "PRIVATE"));
    assert_null(strstr(c.cert, "PRIVATE"));
    assert_int_equal(certs_end(c.cert), NOW + 90 * DAY);
    assert_true(certs_end(c.bundle) > NOW + 4 * 365 * DAY);
    certs_release(&c);
    assert_null(c.key);
}

static void test_nothing_is_changed_before_its_time(void **state)
{
    struct certs c = CERTS_INIT;
    char *cert, *bundle;

    (void)state;
    renew(&c, NOW, true);
    cert = mem_str(c.cert);
    bundle = mem_str(c.bundle);
    renew(&c, NOW, false);
    renew(&c, NOW + 60 * DAY, false);
    assert_string_equal(c.cert, cert);
    renew(&c, NOW + 60 * DAY + 1, true); /* 30 days before its end */
    assert_string_not_equal(c.cert, cert);
    assert_string_equal(c.bundle, bundle);
    mem_free(&cert);
    mem_free(&bundle);
    certs_release(&c);
}

static void test_a_new_ca_and_the_one_before(void **state)
{
    struct certs c = CERTS_INIT;
    int64_t late = NOW + (CERTS_CA_DAYS - CERTS_CA_RENEW) * DAY + 1;
    char *old_cert, *old_bundle;

    (void)state;
    renew(&c, NOW, true);
    renew(&c, late - 40 * DAY, true);
    old_cert = mem_str(c.cert);
    old_bundle = mem_str(c.bundle);
    assert_int_equal(certs_check(&c, &names, late, NULL), CERTS_CA_DUE);
    renew(&c, late, true);
    assert_int_equal(count(c.bundle, "BEGIN CERTIFICATE"), 2);
    assert_true(believed(c.bundle, c.cert, late, hosts[0]));
    assert_true(believed(c.bundle, old_cert, late, hosts[0])); /* a replica that has not heard */
    assert_false(believed(old_bundle, c.cert, late, hosts[0]));
    /* The next but one forgets the first. */
    renew(&c, late + (CERTS_CA_DAYS - CERTS_CA_RENEW) * DAY + 1, true);
    assert_int_equal(count(c.bundle, "BEGIN CERTIFICATE"), 2);
    /* Long after the end of everything there is nothing to keep. */
    renew(&c, late + 30 * CERTS_CA_DAYS * DAY / 10, true);
    assert_int_equal(count(c.bundle, "BEGIN CERTIFICATE"), 1);
    mem_free(&old_cert);
    mem_free(&old_bundle);
    certs_release(&c);
}

static void test_other_names(void **state)
{
    static const char *const other[] = {"dlcache-operator.elsewhere.svc"};
    const struct certs_names others = {other, 1, 0};
    struct certs c = CERTS_INIT;
    struct dlc_err why = DLC_ERR_INIT;
    bool changed;

    (void)state;
    renew(&c, NOW, true);
    assert_int_equal(certs_check(&c, &others, NOW, &why), CERTS_DUE);
    assert_non_null(strstr(why.text, "names"));
    assert_int_equal(certs_renew(&c, &others, NOW, &changed, &why), 0);
    assert_true(changed);
    assert_true(believed(c.bundle, c.cert, NOW, other[0]));
    assert_false(believed(c.bundle, c.cert, NOW, hosts[0]));
    certs_release(&c);
}

/* Parts of two sets in one: each mixture is seen, and made good. */
static void test_what_does_not_fit_together(void **state)
{
    for (unsigned mask = 1; mask < 15; mask++) {
        struct certs a = CERTS_INIT, b = CERTS_INIT, mixed;

        renew(&a, NOW, true);
        renew(&b, NOW, true);
        mixed = (struct certs){
            mem_str(mask & 1 ? b.bundle : a.bundle), mem_str(mask & 2 ? b.ca_key : a.ca_key),
            mem_str(mask & 4 ? b.cert : a.cert), mem_str(mask & 8 ? b.key : a.key)};
        assert_int_not_equal(certs_check(&mixed, &names, NOW, NULL), CERTS_GOOD);
        renew(&mixed, NOW, true);
        assert_true(believed(mixed.bundle, mixed.cert, NOW, hosts[0]));
        certs_release(&a);
        certs_release(&b);
        certs_release(&mixed);
    }
    (void)state;
}

static void test_texts_that_are_none(void **state)
{
    static const char *const texts[] = {
        "", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"};

    (void)state;
    for (size_t i = 0; i < unit_count(texts); i++) {
        for (int part = 0; part < 4; part++) {
            struct certs c = CERTS_INIT;
            char **at[] = {&c.bundle, &c.ca_key, &c.cert, &c.key};

            renew(&c, NOW, true);
            mem_free(at[part]);
            *at[part] = mem_str(texts[i]);
            renew(&c, NOW, true);
            certs_release(&c);
        }
        assert_int_equal(certs_end(texts[i]), 0);
    }
    assert_int_equal(certs_end(NULL), 0);
}

static void test_a_clock_that_went_back(void **state)
{
    struct certs c = CERTS_INIT;

    (void)state;
    renew(&c, NOW, true);
    assert_int_equal(certs_check(&c, &names, NOW - 10 * DAY, NULL), CERTS_CA_DUE);
    renew(&c, NOW - 10 * DAY, true);
    certs_release(&c);
}

static void test_names_that_are_none(void **state)
{
    static const char *const bad[] = {"", "a b", "a,DNS:b", "a\nb", "x:y"};
    struct certs c = CERTS_INIT;
    struct dlc_err err;
    bool changed = true;

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++) {
        assert_int_equal(certs_renew(&c, &(struct certs_names){&bad[i], 1, 0}, NOW, &changed, &err),
                         DLC_EINVAL);
        assert_false(changed);
        assert_null(c.cert);
    }
    assert_int_equal(certs_renew(&c, &(struct certs_names){bad, 0, 0}, NOW, NULL, &err),
                     DLC_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made_from_nothing),
        cmocka_unit_test(test_nothing_is_changed_before_its_time),
        cmocka_unit_test(test_a_new_ca_and_the_one_before),
        cmocka_unit_test(test_other_names),
        cmocka_unit_test(test_what_does_not_fit_together),
        cmocka_unit_test(test_texts_that_are_none),
        cmocka_unit_test(test_a_clock_that_went_back),
        cmocka_unit_test(test_names_that_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
