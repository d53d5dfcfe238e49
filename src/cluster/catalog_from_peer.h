// SPDX-License-Identifier: Apache-2.0
/* Downloads a catalog from another node, so that only one node lists the bucket. */
#ifndef DLC_CLUSTER_CATALOG_FROM_PEER_H
#define DLC_CLUSTER_CATALOG_FROM_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/cluster_ops.h"

struct dataset;

/* cluster_ops.borrow_catalog */
bool catalog_from_peer(struct dataset *ds, uint64_t snapshot, borrowed_f *done);

#endif
