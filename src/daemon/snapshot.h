// SPDX-License-Identifier: Apache-2.0
/* Finds, stores and prunes catalogs by snapshot. */
#ifndef DLC_DAEMON_SNAPSHOT_H
#define DLC_DAEMON_SNAPSHOT_H

#include <stdint.h>

struct dataset;
struct dlc_err;

/* 0, or DLC_ECHANGED when `wanted` is not 0 and not that of the dataset. */
int snapshot_check(const struct dataset *ds, uint64_t wanted, struct dlc_err *err);
int snapshot_refuse(const char *shown, uint64_t have, uint64_t wanted, struct dlc_err *err);
/* The client named none: ranks of its job read `wanted`. */
int snapshot_refuse_job(const char *shown, uint64_t have, uint64_t wanted, const char *job,
                        struct dlc_err *err);
/* X, blocks: a new catalog is in `file`. */
int snapshot_install(const struct dataset *ds, const char *file, struct dlc_err *err);
void snapshot_prune(struct dataset *ds); /* deletes old catalogs, on a worker */

#endif
