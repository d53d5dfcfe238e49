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

/* A certificate for this node. request: PKCS #10, DER in base64. Gives *out. DLC_EINVAL: it is not a request that was
 * signed with its own P-256 key. */
int authority_sign(struct store *store, const struct seal *seal, const char *node,
                   const char *request, struct dlc_dur life, struct authority_certificate *out,
                   struct dlc_err *err);

/* Begin to replace the key (AUTHORITY-2), and forget those that no valid certificate needs.
 * DLC_EBUSY: it is being replaced already; the message says until when. */
int authority_rotate(struct store *store, const struct seal *seal, struct dlc_dur life,
                     struct dlc_err *err);

#endif
