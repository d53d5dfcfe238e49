// SPDX-License-Identifier: Apache-2.0
/*
 * Reverse index: which DLTPods and CachedDatasets refer to a dataset of the manager or to a Secret,
 * so that a change of one does not need a scan of all objects.
 *
 * (REFERENCES-1) Objects that are being deleted refer to nothing. A finished DLTPod refers to no
 *                Secret, and not to data that it has released.
 * (REFERENCES-2) users_changed() reads the cache itself: calls for one object may come in any
 *                order, and the last one finds the last state.
 */
#ifndef DLC_OPERATOR_RECONCILE_REFERENCES_H
#define DLC_OPERATOR_RECONCILE_REFERENCES_H

#include <stdbool.h>

#include <jansson.h>

#include "operator/kube/object_cache.h"

struct users;

struct users *users_new(struct objects *objects); /* borrowed */
void users_free(struct users **up);

/* Any thread. */
void users_changed(struct users *u, enum kube_kind kind, const char *ns, const char *name);
/* Does another object than `key` name this dataset ("NAMESPACE.NAME")? */
bool users_others(struct users *u, const char *dataset, const char *key);
/* Names of the DLTPods that have a job on it, sorted. Gives an array. */
json_t *users_of(struct users *u, const char *dataset);
/* Does another object than `key` name this Secret? */
bool users_of_secret(struct users *u, const char *ns, const char *secret, const char *key);
/* Keys of all DLTPods that name this dataset, ended or not. Gives an array. */
json_t *users_keys(struct users *u, const char *dataset);

#endif
