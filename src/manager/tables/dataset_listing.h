// SPDX-License-Identifier: Apache-2.0
/*
 * Listing a dataset's bucket: which node lists it, and the result. A listing is a command to one
 * node.
 */
#ifndef DLC_MANAGER_TABLES_DATASET_LISTING_H
#define DLC_MANAGER_TABLES_DATASET_LISTING_H

#include <stdbool.h>

#include <jansson.h>

#include "base/err.h"
#include "manager/store/store.h"

struct tables;

/* Have one of the dataset's nodes list it. The node's name is put into `node` (may be NULL): "" if
 * no node is available; the first job asks again. */
int dataset_have_listed(struct tables *t, const struct store_doc *d, char node[NAME_MAX_LEN + 1],
                        struct dlc_err *err);
/* The same for a dataset that a job waits for. Errors are logged. */
void dataset_list_for_job(struct tables *t, const char *name);
/* The node that should list it is gone: choose another. False: there is no other. */
bool dataset_list_elsewhere(struct tables *t, const char *dataset, const char *node);
/* A node has listed it (error NULL), or failed. May be called again for the same result. */
int dataset_listing_done(struct tables *t, const char *node, const char *name,
                         const json_t *command, const json_t *result, const char *error,
                         struct dlc_err *err);

#endif
