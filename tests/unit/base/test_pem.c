// SPDX-License-Identifier: Apache-2.0
/* Keys and certificates as text: there and back, and what is not read. */
#include "unit.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/mem.h"
#include "base/pem.h"
#include "base/secret.h"

static void test_key(void **state)
{
    EVP_PKEY *key = EVP_EC_gen("P-256"), *back;
    char *text;

    (void)state;
    assert_non_null(key);
    text = pem_of_key(key);
    assert_int_equal(strncmp(text, "-----BEGIN PRIVATE KEY-----", 27), 0);
    back = pem_read_key(text);
    assert_non_null(back);
    assert_int_equal(EVP_PKEY_eq(key, back), 1);
    EVP_PKEY_free(back);
    EVP_PKEY_free(key);
    secret_free(&text);
}

/* A key with a password is none, and nobody is asked for one: this would wait for a terminal. */
static void test_no_key(void **state)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    BIO *b = BIO_new(BIO_s_mem());
    char *data, *text;
    long len;

    (void)state;
    assert_int_equal(
        PEM_write_bio_PKCS8PrivateKey(b, key, EVP_aes_128_cbc(), "word", 4, NULL, NULL), 1);
    len = BIO_get_mem_data(b, &data);
    text = mem_strn(data, (size_t)len);
    assert_null(pem_read_key(text));
    assert_null(pem_read_key("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"));
    assert_null(pem_read_key(""));
    assert_null(pem_read_key(NULL));
    assert_int_equal(ERR_peek_error(), 0);
    BIO_free(b);
    EVP_PKEY_free(key);
    mem_free(&text);
}

static X509 *certificate(EVP_PKEY *key, long serial)
{
    X509 *x = X509_new();

    assert_int_equal(X509_set_version(x, 2), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(x), serial), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(x), 0));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(x), 60));
    assert_int_equal(X509_set_pubkey(x, key), 1);
    assert_true(x509_add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE"));
    assert_false(x509_add_extension(x, x, NID_basic_constraints, "nonsense"));
    ERR_clear_error();
    assert_true(X509_sign(x, key, EVP_sha256()) > 0);
    return x;
}

/* Of several the first one. */
static void test_certificate(void **state)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *a = certificate(key, 7), *b = certificate(key, 8), *back;
    char *first = pem_of_cert(a), *second = pem_of_cert(b), *both = mem_fmt("%s%s", first, second);

    (void)state;
    back = pem_read_cert(both);
    assert_non_null(back);
    assert_int_equal(X509_cmp(back, a), 0);
    assert_int_equal(X509_check_ca(back), 1);
    assert_null(pem_read_cert("no certificate"));
    assert_null(pem_read_cert(NULL));
    assert_int_equal(ERR_peek_error(), 0);
    X509_free(a);
    X509_free(b);
    X509_free(back);
    EVP_PKEY_free(key);
    mem_free(&first);
    mem_free(&second);
    mem_free(&both);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key),
        cmocka_unit_test(test_no_key),
        cmocka_unit_test(test_certificate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
