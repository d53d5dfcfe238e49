// SPDX-License-Identifier: Apache-2.0
/*
 * Datasets that were deleted, the newest DELETED_MAX: nodes that were away then still have records of
 * them, from which a rebuild must not make them again. A document of STORE_MANAGER, "deleted":
 * {"items": [[ID, TENANT, CREATED_MS], ...]}.
 */
#ifndef DLC_MANAGER_TABLES_DELETED_DATASETS_H
#define DLC_MANAGER_TABLES_DELETED_DATASETS_H

#include <stdbool.h>

#include <jansson.h>

#include "base/err.h"
#include "manager/store/store.h"

struct tables;

#define DELETED_MAX 1000

/* After it was deleted. Errors are logged. */
void deleted_datasets_add(struct tables *t, const struct store_doc *d);
/* Was one of this name deleted lately? */
bool deleted_datasets_named(struct tables *t, const char *id, struct dlc_err *err);
/* [ID, TENANT, CREATED_MS]. Gives. */
json_t *deleted_datasets_item(const struct store_doc *d);
/* Gives the items; NULL: there are none. */
int deleted_datasets_get(struct tables *t, json_t **out, struct dlc_err *err);
/* Is that dataset among the items? One that was made later with its name is not. */
bool deleted_datasets_has(const json_t *items, const struct store_doc *d);

#endif
