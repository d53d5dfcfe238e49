// SPDX-License-Identifier: Apache-2.0
/*
 * Fingerprints of the secrets that all managers of one store must share: the key that seals
 * (tables/key_record.h), and the tokens of admins and nodes. The store has these fingerprints, so that a manager with
 * other secrets reports that when it starts, and not when a node is refused after a fail-over.
 *
 * "tokens" of kind STORE_MANAGER: {"admin", "node"}, of the first token of each file. Beside the token files lies
 * manager.agreed: the fingerprints that this directory and the store last agreed on. It
 * distinguishes a token that was replaced on purpose (its file removed) from one that never
 * belonged to the cluster:
 *
 *     ours as the store's                          go on
 *     ours are new, the store's are second here    the store takes ours: a rotation with overlap
 *     another, and agreed as the store's           replaced here: the store takes ours
 *     another, and agreed as something else        refused: copy the files
 *
 * A store without "tokens" is new. But where this directory agreed with one before, it has lost its records:
 * this manager then writes nothing and does not lead until it was filled again (manager/rebuild.h).
 *
 * (PRINT-1) A fingerprint reveals nothing about its secret.
 * (PRINT-2) A manager that does not agree does not begin to lead.
 */
#ifndef DLC_MANAGER_FINGERPRINTS_H
#define DLC_MANAGER_FINGERPRINTS_H

#include <stdbool.h>

#include "base/err.h"
#include "manager/routes/auth.h"
#include "manager/store/seal.h"
#include "manager/store/store.h"

/* The secrets to compare. All are borrowed. */
struct fingerprints {
    struct store *store;
    struct seal *seal;
    struct auth *auth;
    const char *dir;
};

int fingerprints_agree(const struct fingerprints *f, struct dlc_err *err); /* DLC_EDENIED: no */
/* Has the store lost its records? True: *err says so, and what to do. */
bool fingerprints_lost(const struct fingerprints *f, struct dlc_err *err);
/* Are our tokens still those of the store? False: *err has the remedy. */
bool fingerprints_match(const struct fingerprints *f, struct dlc_err *err);

#endif
