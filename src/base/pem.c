// SPDX-License-Identifier: Apache-2.0
#include "base/pem.h"

#include <stdio.h>

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"

static int no_password(char *buf, int size, int rw, void *arg)
{
    (void)buf;
    (void)size;
    (void)rw;
    (void)arg;
    return 0;
}

EVP_PKEY *pem_read_key(const char *pem)
{
    BIO *b = pem != NULL ? BIO_new_mem_buf(pem, -1) : NULL;
    EVP_PKEY *k = b != NULL ? PEM_read_bio_PrivateKey(b, NULL, no_password, NULL) : NULL;

    BIO_free(b);
    ERR_clear_error();
    return k;
}

X509 *pem_read_cert(const char *pem)
{
    BIO *b = pem != NULL ? BIO_new_mem_buf(pem, -1) : NULL;
    X509 *x = b != NULL ? PEM_read_bio_X509(b, NULL, NULL, NULL) : NULL;

    BIO_free(b);
    ERR_clear_error();
    return x;
}

/* Gives the text of a memory BIO, which it wipes and frees. */
static char *text_of(BIO *b)
{
    char *data = NULL;
    long len = BIO_get_mem_data(b, &data);
    char *text;

    dlc_check(len > 0);
    text = mem_strn(data, (size_t)len);
    OPENSSL_cleanse(data, (size_t)len);
    BIO_free(b);
    return text;
}

char *pem_of_key(EVP_PKEY *k)
{
    BIO *b = BIO_new(BIO_s_secmem());

    dlc_check(b != NULL && PEM_write_bio_PKCS8PrivateKey(b, k, NULL, NULL, 0, NULL, NULL) == 1);
    return text_of(b);
}

char *pem_of_cert(X509 *x)
{
    BIO *b = BIO_new(BIO_s_mem());

    dlc_check(b != NULL && PEM_write_bio_X509(b, x) == 1);
    return text_of(b);
}

bool x509_add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *e;
    bool ok;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    ok = e != NULL && X509_add_ext(x, e, -1) == 1;
    X509_EXTENSION_free(e);
    return ok;
}

#define GENERATION_MAX 12

bool x509_set_generation(X509 *x, uint32_t generation)
{
    char text[GENERATION_MAX];

    snprintf(text, sizeof(text), "%u", generation);
    return generation == 0 ||
           X509_NAME_add_entry_by_NID(X509_get_subject_name(x), NID_serialNumber, MBSTRING_ASC,
                                      (const unsigned char *)text, -1, -1, 0) == 1;
}

uint32_t x509_generation(const X509 *x)
{
    char text[GENERATION_MAX];
    uint64_t n = 0;

    if (X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_serialNumber, text, sizeof(text)) <=
            0 ||
        !str_parse_u64(text, &n) || n > UINT32_MAX)
        return 0;
    return (uint32_t)n;
}
