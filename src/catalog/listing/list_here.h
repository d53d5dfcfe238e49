// SPDX-License-Identifier: Apache-2.0
/* Lists a bucket and makes the catalog of a dataset in this process, without a daemon. Blocks. */
#ifndef DLC_CATALOG_LISTING_LIST_HERE_H
#define DLC_CATALOG_LISTING_LIST_HERE_H

#include <stdint.h>

#include "bucket/bucket.h"
#include "catalog/catalog.h"

/*
 * The catalog that a daemon would make of the same bucket; an empty one if there are no objects.
 * Archives that need an unpacked copy are refused: there is no disk tier to keep it. `seen`, unless
 * NULL, is called with the number of listed objects. Gives *out.
 */
int list_here(const struct url *u, const struct bucket_config *bc,
              void (*seen)(void *priv, uint64_t objects), void *priv, struct catalog **out,
              struct dlc_err *err);

#endif
