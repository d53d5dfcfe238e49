// SPDX-License-Identifier: Apache-2.0
/*
 * The identity of a node in TLS: its certificate, its private key, and the authorities that it
 * trusts, as PEM texts. It never changes and is counted, so that threads share it: a new
 * certificate is a new identity, and connections keep the one they began with.
 *
 * A certificate of the cluster names one node: NAME.node.dlcache.internal as its DNS name, and the
 * name as its subject. Peers verify that name, whatever the address.
 *
 * (TLS-IDENTITY-1) The private key is in memory only, and wiped with the last reference.
 */
#ifndef DLC_NET_TLS_IDENTITY_H
#define DLC_NET_TLS_IDENTITY_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

#define TLS_NODE_DOMAIN   ".node.dlcache.internal"
#define TLS_NODE_HOST_MAX 128
#define TLS_NAME_MAX      64

struct tls_identity {
    uint32_t tag;
    _Atomic unsigned refs;
    char *cert, *key, *authorities; /* PEM */
    char name[TLS_NAME_MAX];        /* of the node */
    int64_t not_after;              /* Unix time */
};

/* A new key pair, and a request for a certificate of this node. Gives the key as PEM, to be wiped
 * by secret_free(), and the request (PKCS #10, DER) in base64. */
int tls_request_new(const char *node, char **key, char **request, struct dlc_err *err);

/* From what a manager gave. Borrows the texts. DLC_EPROTO: the certificate is not of this key, not
 * of one of the authorities, or names another node. */
int tls_identity_new(const char *node, const char *cert, const char *key, const char *authorities,
                     struct tls_identity **out, struct dlc_err *err);
struct tls_identity *tls_identity_get(struct tls_identity *id); /* one more reference; NULL: NULL */
void tls_identity_put(struct tls_identity **idp);

/* "NAME.node.dlcache.internal" */
void tls_node_host(const char *node, char out[static TLS_NODE_HOST_MAX]);

#endif
