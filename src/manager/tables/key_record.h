// SPDX-License-Identifier: Apache-2.0
/*
 * The record of the store that names the key that seals: "key" of kind STORE_MANAGER, {"id"}. All
 * managers follow it, whatever the order of the keys in their rings.
 *
 * (KEY-1) A manager whose ring lacks that key neither starts nor begins to lead.
 */
#ifndef DLC_MANAGER_TABLES_KEY_RECORD_H
#define DLC_MANAGER_TABLES_KEY_RECORD_H

#include "base/err.h"
#include "manager/store/seal.h"
#include "manager/store/store.h"

/* Seal with the key that the store names; a store without a record gets one with the key that seals
 * here. DLC_EDENIED: the ring lacks it, *err has the remedy. */
int key_record_follow(struct store *store, struct seal *seal, struct dlc_err *err);
/* From now on all managers seal with this key of the ring. */
int key_record_set(struct store *store, struct seal *seal, const char *id, struct dlc_err *err);

#endif
