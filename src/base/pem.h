// SPDX-License-Identifier: Apache-2.0
/*
 * Keys and certificates as PEM text, and extensions of certificates. Reading leaves no error in
 * OpenSSL's queue.
 */
#ifndef DLC_BASE_PEM_H
#define DLC_BASE_PEM_H

#include <stdbool.h>
#include <stdint.h>

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

/* The generation of a node's name (manager/tables/node_revocation.h), as the serialNumber of the
 * subject. 0 is not written, as in certificates from before there were generations. */
bool x509_set_generation(X509 *x, uint32_t generation);
uint32_t x509_generation(const X509 *x); /* 0: it has none, or nonsense */

#endif
