// SPDX-License-Identifier: Apache-2.0
/*
 * Key pairs of the cluster: what all managers of one store sign with. Each purpose has its own.
 * The private keys lie in the store, encrypted with the manager's key (seal.h), as document
 * "cluster_key.PURPOSE" of kind STORE_MANAGER: {"keys": [{"made_ms", "private": SEALED}, ...]},
 * oldest first. A purpose may have several keys while one replaces another: the last one signs,
 * signatures of all count.
 *
 * (CLUSTER-KEYS-1) The first manager that asks for a purpose makes its key. All managers of the
 *                  store get the same one, however many ask at once.
 * (CLUSTER-KEYS-2) A private key is in the store only as a sealed text, which opens for its own
 *                  purpose alone. No message contains one.
 */
#ifndef DLC_MANAGER_TABLES_CLUSTER_KEYS_H
#define DLC_MANAGER_TABLES_CLUSTER_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include <openssl/evp.h>

#include "base/err.h"
#include "manager/store/seal.h"
#include "manager/store/store.h"

#define CLUSTER_KEYS_MAX 4 /* of one purpose */

enum cluster_key_purpose {
    CLUSTER_KEY_AUTHORITY, /* P-256: signs the certificates of nodes */
    CLUSTER_KEY_TICKETS,   /* Ed25519: signs tickets */
    CLUSTER_KEY_PURPOSES
};

struct cluster_key {
    EVP_PKEY *pair;
    int64_t made_ms; /* Unix time */
};

struct cluster_keys {
    struct cluster_key v[CLUSTER_KEYS_MAX]; /* oldest first */
    size_t n;
};

/*
 * The keys of a purpose, at least one; the first call makes it. Gives *out. DLC_EDENIED: sealed
 * with another manager's key; DLC_ECORRUPT: it is not a key; DLC_EBUCKET and others: the store
 * cannot be read or written. The message says what to do.
 */
int cluster_keys_get(struct store *store, const struct seal *seal, enum cluster_key_purpose purpose,
                     struct cluster_keys *out, struct dlc_err *err);
/* Add a new key to those that there are, and drop the oldest `drop` of them. DLC_EBUSY: another
 * manager changed them at the same time; DLC_ENOTFOUND: there is none yet. */
int cluster_keys_add(struct store *store, const struct seal *seal, enum cluster_key_purpose purpose,
                     size_t drop, struct dlc_err *err);
void cluster_keys_release(struct cluster_keys *k); /* wipes; zeroed is allowed */
/* The one that signs: the newest. Borrowed from *k. */
const struct cluster_key *cluster_keys_signer(const struct cluster_keys *k);

#endif
