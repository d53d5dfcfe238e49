// SPDX-License-Identifier: Apache-2.0
/*
 * The key ring of a cluster: encryption and authentication of what lies in the store.
 *
 * A ring has 1 to SEAL_KEYS_MAX keys. One of them seals, all of them open. Managers of one store
 * agree on the one that seals by a record of the store (fingerprints.h), not by the order of their
 * files, so that rings that merely overlap work together while a key is replaced.
 *
 * (SEAL-1) A text sealed for one owner cannot be opened for another: the owner's name is
 *          authenticated.
 * (SEAL-2) Keys and opened texts are wiped when they are given back.
 * (SEAL-3) No message contains any of them.
 * (SEAL-4) The key that seals stays in the ring: a file without it is not taken over.
 *
 * Threads: any.
 */
#ifndef DLC_MANAGER_STORE_SEAL_H
#define DLC_MANAGER_STORE_SEAL_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/err.h"

#define SEAL_KEYS_MAX   8
#define SEAL_KEY_ID_LEN 16 /* hexadecimal digits; they reveal nothing about the key */
#define SEAL_MAC_LEN    32

struct seal;

/*
 * The keys of DLCACHE_MANAGER_KEY, separated by blanks or commas, or of DIR/manager.key, one a line;
 * the file is created if it is missing. The first one seals until seal_use() names another.
 */
int seal_open(const char *dir, struct seal **out, struct dlc_err *err);
void seal_close(struct seal **sp);
/* Read the file again if it changed. 1: it did, and the ring is the file's. On failure the ring
 * stays as it was. */
int seal_reload(struct seal *s, struct dlc_err *err);
const char *seal_source(const struct seal *s); /* where the keys came from, for messages */

/* The key that seals, and the first one of the source: the one that shall. */
void seal_key_id(const struct seal *s, char out[static SEAL_KEY_ID_LEN + 1]);
void seal_first_id(const struct seal *s, char out[static SEAL_KEY_ID_LEN + 1]);
/* The ids of all keys, in the order of the source. Returns how many. */
size_t seal_key_ids(const struct seal *s, char out[static SEAL_KEYS_MAX][SEAL_KEY_ID_LEN + 1]);
/* Seal with this key from now on. False: it is not in the ring. */
bool seal_use(struct seal *s, const char *id);

/* Gives {"key": ID, "owner": OWNER, "sealed": BASE64}. */
json_t *seal_text(const struct seal *s, const char *owner, const char *text);
/* Gives *out; return it with secret_wipe(). DLC_EDENIED: another key; DLC_ECORRUPT. */
int unseal_text(const struct seal *s, const char *owner, const json_t *sealed, char **out,
                struct dlc_err *err);
/* Seal every sealed text in a JSON value again that another key sealed, in place. Returns how many,
 * or as unseal_text(). */
int seal_again(const struct seal *s, json_t *value, struct dlc_err *err);
/* Call each() with the id of the key of every sealed text in a JSON value. */
void seal_each_key(const json_t *value, void (*each)(const char *id, void *arg), void *arg);

/* Authenticate bytes with the key that seals; key: its id. */
void seal_mac(const struct seal *s, const void *data, size_t len,
              char key[static SEAL_KEY_ID_LEN + 1], unsigned char mac[static SEAL_MAC_LEN]);
/* DLC_EDENIED: that key is not in the ring; DLC_ECORRUPT: the MAC is not of these bytes. */
int seal_check_mac(const struct seal *s, const void *data, size_t len, const char *key,
                   const unsigned char mac[static SEAL_MAC_LEN]);

void secret_wipe(char **text); /* overwrites, frees, sets to NULL */
/* Overwrite the texts of a JSON value, then drop the reference: it must be the only one. */
void secret_wipe_json(json_t **j);

#endif
