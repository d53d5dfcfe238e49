// SPDX-License-Identifier: Apache-2.0
/* Loads a stored catalog on a worker into sealed memory. */
#ifndef DLC_DAEMON_CATALOG_LOAD_H
#define DLC_DAEMON_CATALOG_LOAD_H

#include <stdint.h>

struct catalog;
struct dataset;
struct dlc_err;

/* X, blocks: load the stored catalog of this snapshot; 0: of the newest one. */
int load_catalog(const struct dataset *ds, uint64_t snapshot, struct catalog **out,
                 struct dlc_err *err);
/* The same on a worker: of opening.pinned, else the newest unless the manager named another one.
 * done() is called on the loop after ds->catalog (NULL: none) and opening.stored are set. */
void load_start(struct dataset *ds, void (*done)(struct dataset *ds));

#endif
