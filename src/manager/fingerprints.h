// SPDX-License-Identifier: Apache-2.0
/*
 * What all managers of one store must have in common: the key of its secrets, and the tokens of
 * admins and nodes. The store has fingerprints of them, so that a manager that has others says so
 * when it starts, and not when a node is refused after a fail-over.
 *
 * "key" of kind STORE_MANAGER: {"id"}; "tokens": {"admin", "node"}. Beside the tokens' files lies
 * manager.agreed: the fingerprints that this directory and the store last agreed on. With it a
 * token that was replaced on purpose (its file removed) is told from one that was never the
 * cluster's:
 *
 *     ours as the store's                          go on
 *     another, and agreed as the store's           replaced here: the store takes ours
 *     another, and agreed as something else        refused: copy the files
 *
 * (PRINT-1) Fingerprints tell nothing of what they are of.
 * (PRINT-2) A manager that does not agree does not begin to lead.
 */
#ifndef DLC_MANAGER_FINGERPRINTS_H
#define DLC_MANAGER_FINGERPRINTS_H

#include <stdbool.h>

#include "base/err.h"
#include "manager/routes/auth.h"
#include "manager/store/seal.h"
#include "manager/store/store.h"

/* What is compared. All are borrowed. */
struct fingerprints {
    struct store *store;
    const struct seal *seal;
    const struct auth *auth;
    const char *dir;
};

int fingerprints_agree(const struct fingerprints *f, struct dlc_err *err); /* DLC_EDENIED: no */
/* Are our tokens still those of the store? False: *err says what to do. */
bool fingerprints_match(const struct fingerprints *f, struct dlc_err *err);

#endif
