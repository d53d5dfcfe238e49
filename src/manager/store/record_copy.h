// SPDX-License-Identifier: Apache-2.0
/*
 * A manager's own copy of the documents of its store, DIR/manager.copy: with it a store that was
 * emptied is filled again, tenants with their tokens and credentials included. The copy is of one
 * moment, half a second behind the store; documents that were deleted are not in it. They lie
 * there as in the store: authenticated, with sealed secrets.
 *
 * (COPY-1) A store that lost its documents is never copied, also not half of it: the document
 *          STORE_MARK is read last, and must be there.
 */
#ifndef DLC_MANAGER_STORE_RECORD_COPY_H
#define DLC_MANAGER_STORE_RECORD_COPY_H

#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "manager/store/store.h"

#define RECORD_COPY "manager.copy" /* in the manager's directory */

/* Write the copy. Blocks. DLC_ECHANGED: (COPY-1). */
int record_copy_write(struct store *m, const char *path, struct dlc_err *err);
/* {"time_ms", "documents": {KIND: [...]}}. DLC_ENOTFOUND: there is none. Gives *out. */
int record_copy_read(const char *path, json_t **out, struct dlc_err *err);
/* Documents of a kind: an array for store_doc_import(). Borrowed. */
const json_t *record_copy_of(const json_t *copy, enum store_kind kind);
/* Write all that the copy has into a store that was emptied; STORE_MARK last, so that a repair that
 * did not come to its end is repeated. A document that is not authentic ends it. */
int record_copy_restore(struct store *m, const json_t *copy, struct dlc_err *err);

#endif
