// SPDX-License-Identifier: Apache-2.0
/*
 * Keys and certificates as PEM text, and extensions of certificates. Reading leaves no error in
 * OpenSSL's queue.
 */
#ifndef DLC_BASE_PEM_H
#define DLC_BASE_PEM_H

#include <stdbool.h>

#include <openssl/evp.h>
#include <openssl/x509.h>

/* Each gives, NULL: there is none in the text, which may be NULL. Nobody is asked for a password:
 * an encrypted key is none. */
EVP_PKEY *pem_read_key(const char *pem);
X509 *pem_read_cert(const char *pem); /* the first one */

char *pem_of_key(EVP_PKEY *k); /* gives; return it with secret_free() */
char *pem_of_cert(X509 *x);    /* gives */

/* value: as in openssl-x509v3_config. False: OpenSSL refuses it. */
bool x509_add_extension(X509 *x, X509 *issuer, int nid, const char *value);

#endif
