// SPDX-License-Identifier: Apache-2.0
/*
 * Changes to documents of the store, with the updates that follow from each write: every change of
 * a dataset updates the index of datasets (INDEX-1).
 */
#ifndef DLC_MANAGER_TABLES_DOCUMENTS_H
#define DLC_MANAGER_TABLES_DOCUMENTS_H

#include <stdint.h>

#include "base/err.h"
#include "manager/store/store.h"

struct tables;

/*
 * Read a document, let f change it, write it. If another write came between and expect is
 * STORE_ANY, repeat all of it. f returns 0, or a code that ends the change with nothing written; 1:
 * nothing to change. Gives *out (may be NULL): the current document.
 */
typedef int change_f(struct store_doc *d, void *arg, struct dlc_err *err);
int document_change(struct tables *t, enum store_kind kind, const char *id, uint64_t expect,
                    change_f *f, void *arg, struct store_doc *out, struct dlc_err *err);

#endif
