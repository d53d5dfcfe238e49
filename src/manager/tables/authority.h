// SPDX-License-Identifier: Apache-2.0
/*
 * The certificate authority of the cluster: it signs certificates of nodes, with the key of purpose
 * CLUSTER_KEY_AUTHORITY. Nothing is cached: each call reads the keys from the store, so that all
 * managers agree; nodes ask a few times a day. Any thread; calls block.
 *
 * (AUTHORITY-1) A certificate names one node and no other host, whatever its request says: of the
 *               request only the public key is used.
 * (AUTHORITY-2) A key that is not the only one signs when it is as old as a certificate lives: by
 *               then every node has been told to trust it.
 */
#ifndef DLC_MANAGER_TABLES_AUTHORITY_H
#define DLC_MANAGER_TABLES_AUTHORITY_H

#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mutex.h"
#include "manager/store/seal.h"
#include "manager/store/store.h"

#define AUTHORITY_DOMAIN      ".node.dlcache.internal" /* as TLS_NODE_DOMAIN of net/tls_identity.h */
#define AUTHORITY_REQUEST_MAX 4096                     /* bytes of a request */

struct authority_certificate {
    char *cert;        /* PEM */
    char *authorities; /* PEM: whom to trust; the one that signed is among them */
    int64_t not_after; /* Unix time */
};
void authority_certificate_release(struct authority_certificate *c); /* zeroed is allowed */

/* A certificate for this node, in this generation of its name (node_revocation.h). request: PKCS #10, DER in base64. Gives *out. DLC_EINVAL: it is not a request that was
 * signed with its own P-256 key. */
struct authority_subject {
    const char *node;
    uint32_t generation;
};
int authority_sign(struct store *store, const struct seal *seal,
                   const struct authority_subject *who, const char *request, struct dlc_dur life,
                   struct authority_certificate *out, struct dlc_err *err);

/* The authorities that are trusted, PEM. Gives *out. */
int authority_list(struct store *store, const struct seal *seal, char **out, struct dlc_err *err);

/* Whom a manager trusts: the authorities, read again when TRUST_LIFE has passed. */
struct authority_trust {
    struct store *store; /* borrowed, as the seal */
    const struct seal *seal;
    struct dlc_mtx mtx;            /* rank LCK_authority */
    struct x509_store_st *trusted; /* G: mtx; NULL: not read yet */
    struct dlc_mono read_at;       /* G: mtx */
};
void authority_trust_init(struct authority_trust *t, struct store *store, const struct seal *seal);
void authority_trust_release(struct authority_trust *t); /* zeroed is allowed */
/* The node that a certificate (DER) is for, and the generation; "" if it is not valid now, or not of
 * the cluster. */
void authority_identify(struct authority_trust *t, const void *der, size_t len,
                        char node[static NAME_MAX_LEN + 1], uint32_t *generation);

/* Begin to replace the key (AUTHORITY-2), and forget those that no valid certificate needs.
 * DLC_EBUSY: it is being replaced already; the message says until when. */
int authority_rotate(struct store *store, const struct seal *seal, struct dlc_dur life,
                     struct dlc_err *err);

#endif
