// SPDX-License-Identifier: Apache-2.0
/* The cluster's authority: certificates of nodes, and how its key is replaced. */
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/check.h"
#include "base/secret.h"
#include "base/syscalls.h"
#include "manager/store/each_store.h"
#include "manager/store/seal.h"
#include "manager/store/wall_time.h"
#include "manager/tables/authority.h"
#include "manager/tables/cluster_keys.h"
#include "net/tls_identity.h"

#define DAY    DLC_SEC(86400)
#define DAY_MS (86400 * 1000LL)

static struct seal *seal;

static int open_seal(void)
{
    char dir[256];

    unit_path("seal", dir);
    assert_int_equal(os_mkdirs(dir, 0700), 0);
    return seal_open(dir, &seal, &err);
}

/* `asks`: whom the request names. NULL: it was refused. */
static struct tls_identity *certificate(struct store *m, const char *node, const char *asks,
                                        struct dlc_dur life)
{
    struct authority_certificate c;
    struct tls_identity *id = NULL;
    char *key = NULL, *request = NULL;

    ok(tls_request_new(asks, &key, &request, &err));
    ok(authority_sign(m, seal, &(struct authority_subject){node, 0}, request, life, &c, &err));
    if (tls_identity_new(node, c.cert, key, c.authorities, &id, &err) < 0)
        fail_msg("%s", err.text);
    authority_certificate_release(&c);
    secret_free(&key);
    mem_free(&request);
    return id;
}

static X509 *first_cert(const char *pem)
{
    BIO *b = BIO_new_mem_buf(pem, -1);
    X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);

    BIO_free(b);
    assert_non_null(x);
    return x;
}

static size_t count_certs(const char *pem)
{
    size_t n = 0;

    while ((pem = strstr(pem, "-----BEGIN CERTIFICATE-----")) != NULL) {
        pem++;
        n++;
    }
    return n;
}

/* (AUTHORITY-1) */
static void test_a_certificate_names_its_node_alone(void **state)
{
    struct tls_identity *id = certificate(store_of(state), "gpu1.rack-2", "gpu7", DAY);
    X509 *x = first_cert(id->cert);
    char name[64];

    assert_int_equal(X509_check_host(x, "gpu1.rack-2.node.dlcache.internal", 0, 0, NULL), 1);
    assert_int_equal(X509_check_host(x, "gpu7.node.dlcache.internal", 0, 0, NULL), 0);
    assert_int_equal(
        X509_check_host(x, "gpu1.rack-2", 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL), 0);
    assert_true(X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, name, 64) > 0);
    assert_string_equal(name, "gpu1.rack-2");
    assert_int_equal(X509_check_ca(x), 0);
    assert_in_range(id->not_after - wall_ms() / 1000, 86390, 86401);
    X509_free(x);
    tls_identity_put(&id);
}

static void test_what_is_not_a_request(void **state)
{
    static const char *const texts[] = {"", "x", "MAA=", "AAAA"};
    struct authority_certificate c;
    char *key = NULL, *request = NULL, *middle;

    for (size_t i = 0; i < unit_count(texts); i++) {
        assert_int_equal(authority_sign(store_of(state), seal, &(struct authority_subject){"a", 0},
                                        texts[i], DAY, &c, &err),
                         DLC_EINVAL);
        assert_null(c.cert);
    }
    ok(tls_request_new("a", &key, &request, &err)); /* its signature is wrong */
    middle = request + strlen(request) - 40;
    *middle = *middle == 'A' ? 'B' : 'A';
    assert_int_equal(authority_sign(store_of(state), seal, &(struct authority_subject){"a", 0},
                                    request, DAY, &c, &err),
                     DLC_EINVAL);
    secret_free(&key);
    mem_free(&request);
}

/* Of the node's name (node_revocation.h). */
static void test_a_certificate_holds_its_generation(void **state)
{
    struct store *m = store_of(state);
    uint32_t generations[] = {0, 1, INT32_MAX}, got;
    struct authority_trust trust;
    char name[NAME_MAX_LEN + 1];

    authority_trust_init(&trust, m, seal);
    for (size_t i = 0; i < DLC_COUNT(generations); i++) {
        const struct authority_subject who = {"a", generations[i]};
        struct authority_certificate c;
        char *key, *request;
        unsigned char *der = NULL;
        X509 *x;
        int len;

        ok(tls_request_new("a", &key, &request, &err));
        ok(authority_sign(m, seal, &who, request, DAY, &c, &err));
        x = first_cert(c.cert);
        len = i2d_X509(x, &der);
        authority_identify(&trust, der, (size_t)len, name, &got);
        assert_string_equal(name, "a");
        assert_int_equal(got, generations[i]);
        OPENSSL_free(der);
        X509_free(x);
        authority_certificate_release(&c);
        secret_free(&key);
        mem_free(&request);
    }
    authority_trust_release(&trust);
}

/* Make the newest keys look so much older. */
static void age(struct store *m, size_t from, int64_t ms)
{
    struct store_doc d = STORE_DOC_INIT;
    json_t *list, *item;
    size_t i;

    ok(store_get(m, STORE_MANAGER, "cluster_key.authority", &d, &err));
    list = json_object_get(d.body, "keys");
    json_array_foreach(list, i, item)
    {
        int64_t made = json_integer_value(json_object_get(item, "made_ms"));

        if (i >= from)
            json_object_set_new(item, "made_ms", json_integer(made - ms));
    }
    ok(store_put(m, STORE_MANAGER, &d, d.version, &err));
    store_doc_release(&d);
}

static bool same_issuer(const struct tls_identity *a, const struct tls_identity *b)
{
    X509 *x = first_cert(a->cert), *y = first_cert(b->cert);
    bool same = X509_NAME_cmp(X509_get_issuer_name(x), X509_get_issuer_name(y)) == 0;

    X509_free(x);
    X509_free(y);
    return same;
}

/* (AUTHORITY-2) */
static void test_a_new_key_is_trusted_before_it_signs(void **state)
{
    struct store *m = store_of(state);
    struct tls_identity *first = certificate(m, "a", "a", DAY), *second, *third;

    assert_int_equal(count_certs(first->authorities), 1);
    ok(authority_rotate(m, seal, DAY, &err));
    second = certificate(m, "a", "a", DAY);
    assert_int_equal(count_certs(second->authorities), 2);
    assert_true(same_issuer(first, second));
    assert_int_equal(authority_rotate(m, seal, DAY, &err), DLC_EBUSY);
    assert_non_null(strstr(err.text, "try again then"));
    age(m, 0, DAY_MS + 1000);
    third = certificate(m, "a", "a", DAY);
    assert_int_equal(count_certs(third->authorities), 2);
    assert_false(same_issuer(second, third));
    tls_identity_put(&third);
    age(m, 0, DAY_MS + 1000); /* the first key's certificates have all expired */
    ok(authority_rotate(m, seal, DAY, &err));
    third = certificate(m, "a", "a", DAY);
    assert_int_equal(count_certs(third->authorities), 2);
    tls_identity_put(&first);
    tls_identity_put(&second);
    tls_identity_put(&third);
}

int main(void)
{
    const struct each_case cases[] = {
        {"a certificate names its node alone", test_a_certificate_names_its_node_alone},
        {"a certificate holds its generation", test_a_certificate_holds_its_generation},
        {"what is not a request", test_what_is_not_a_request},
        {"a new key is trusted before it signs", test_a_new_key_is_trusted_before_it_signs},
    };
    int failed;

    if (open_seal() != 0)
        return 1;
    failed = each_store(cases, unit_count(cases));
    seal_close(&seal);
    return failed;
}
