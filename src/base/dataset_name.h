// SPDX-License-Identifier: Apache-2.0
/*
 * Names and ids of datasets.
 *
 * A name belongs to its tenant: two tenants may both have `birds`. Inside the cluster (store, views,
 * chunks, tickets, notes on disks) a dataset has an id, which is unique and a name by str_is_name():
 *
 *     TENANT.NAME          as a rule
 *     SHORT_TENANT.NAME    where that is longer than 63 (base/short_name.h): as the operator names
 *                          datasets of a namespace
 *     TENANT-NAME_HASH     where both are longer, the tenant's name has a dot, or another tenant has
 *                          the id: 30 characters without dots, 32 digits of a SHA-256 of both
 *     NAME                 of a dataset without a tenant, and of those that tenants registered
 *                          before names were theirs
 *
 * docs/design/0018-dataset-names.md has the reasons. Pure.
 *
 * (DATASET-NAME-1) An id follows from tenant and name. Different pairs have different ids of the
 *                  first kind, because there the tenant has no dot, and of the third, but for
 *                  collisions of the hash.
 * (DATASET-NAME-2) The short name of an id of the first two kinds follows from id and tenant. The
 *                  document of a dataset with one of the third kind has its name.
 */
#ifndef DLC_BASE_DATASET_NAME_H
#define DLC_BASE_DATASET_NAME_H

#include <stdbool.h>
#include <stddef.h>

#define DATASET_ID_LEN 64 /* with its end */
#define DATASET_IDS    5

struct dataset_ids {
    char v[DATASET_IDS][DATASET_ID_LEN];
    size_t n;     /* in all: where a dataset of this name may be */
    size_t n_new; /* the first of them may be given to a new dataset, in this order; at least 1 */
};

/* tenant "": of nobody. name: as dataset_short_name() gives it. */
void dataset_ids(const char *tenant, const char *name, struct dataset_ids *out);
/* What the tenant calls it: without "TENANT." or "SHORT_TENANT." before it. A part of name. */
const char *dataset_short_name(const char *name, const char *tenant);
/* Is it of the third kind? */
bool dataset_id_is_hashed(const char *id);

#endif
