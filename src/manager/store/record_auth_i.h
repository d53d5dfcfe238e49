// SPDX-License-Identifier: Apache-2.0
/*
 * Authentication of documents: who can write to the store, but has no key of the ring, cannot make a
 * document that a manager believes.
 *
 * What lies in the store is "dlc1:KEY:MAC:JSON": the id of the key, and HMAC-SHA-256 over kind, id,
 * tenant, version and JSON in hexadecimal. The key of the MAC is derived from the ring's by HKDF.
 *
 * (RECORD-1) A document under another name, kind, tenant or version is as wrong as a changed one.
 * (RECORD-2) Not prevented: putting back a document as it was at an earlier version under its own
 *            name (rollback), and removing one. Both need a counter that the store does not hold.
 */
#ifndef DLC_MANAGER_STORE_RECORD_AUTH_I_H
#define DLC_MANAGER_STORE_RECORD_AUTH_I_H

#include "base/err.h"
#include "manager/store/seal.h"
#include "manager/store/store_common_i.h"

/* The text to store for r->body as the version that comes next. Gives. */
char *record_seal(const struct seal *seal, enum store_kind kind, const struct store_raw *r,
                  uint64_t version, size_t *len);
/* Verify r and cut its body to the JSON. DLC_ECORRUPT: it is not authentic; DLC_EDENIED: by a key
 * that is not in the ring. */
int record_open(const struct seal *seal, enum store_kind kind, struct store_raw *r,
                char key[static SEAL_KEY_ID_LEN + 1], struct dlc_err *err);

#endif
