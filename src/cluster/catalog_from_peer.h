// SPDX-License-Identifier: Apache-2.0
/* Downloads a catalog from another node, so that only one node lists the bucket. */
#ifndef DLC_CLUSTER_CATALOG_FROM_PEER_H
#define DLC_CLUSTER_CATALOG_FROM_PEER_H

#include <stdbool.h>
#include <stdint.h>

struct dataset;

/* Get the catalog of this snapshot from a peer; then dataset_catalog_came() is called.
 * False: there is no peer. */
bool catalog_from_peer(struct dataset *ds, uint64_t snapshot);

#endif
