// SPDX-License-Identifier: Apache-2.0
/*
 * Encryption of secrets in the store: AES-256-GCM with one key per cluster.
 *
 * (SEAL-1) A text sealed for one owner cannot be opened for another: the owner's name is
 *          authenticated.
 * (SEAL-2) Keys and opened texts are wiped when they are given back.
 * (SEAL-3) No message contains any of them.
 */
#ifndef DLC_MANAGER_STORE_SEAL_H
#define DLC_MANAGER_STORE_SEAL_H

#include <stddef.h>

#include <jansson.h>

#include "base/err.h"

struct seal;

/* The key of DLCACHE_MANAGER_KEY, or of DIR/manager.key, which is created if it is missing. */
int seal_open(const char *dir, struct seal **out, struct dlc_err *err);
void seal_close(struct seal **sp);
const char *seal_key_id(const struct seal *s); /* 16 hex digits; reveals nothing about the key */
const char *seal_source(const struct seal *s); /* where the key came from, for messages */

/* Gives {"key": ID, "sealed": BASE64}. */
json_t *seal_text(const struct seal *s, const char *owner, const char *text);
/* Gives *out; return it with secret_wipe(). DLC_EDENIED: another key; DLC_ECORRUPT. */
int unseal_text(const struct seal *s, const char *owner, const json_t *sealed, char **out,
                struct dlc_err *err);
void secret_wipe(char **text); /* overwrites, frees, sets to NULL */
/* Overwrite the texts of a JSON value, then drop the reference: it must be the only one. */
void secret_wipe_json(json_t **j);

#endif
