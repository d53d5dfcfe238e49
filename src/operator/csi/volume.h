// SPDX-License-Identifier: Apache-2.0
/*
 * A volume of the CSI driver: what a pod sees of dlcache. At its target path lies a directory of the
 * volume's own, and in it, at "node", the directory of the node's socket. Both are bind mounts:
 * read-only, without devices, set-uid programs or programs at all. The socket's directory is mounted,
 * not the socket, so that a node that restarts is found again.
 *
 * (VOLUME-1) Publishing what is published changes nothing; unpublishing what is not succeeds.
 * (VOLUME-2) What failed half-way is undone. What a driver that was killed left is completed by the
 *            next call for that target.
 * (VOLUME-3) A volume's own directory has a name that depends on its target path alone, so that a
 *            driver that restarts knows it again without a record.
 */
#ifndef DLC_OPERATOR_CSI_VOLUME_H
#define DLC_OPERATOR_CSI_VOLUME_H

#include <stdbool.h>

#include "base/err.h"

#define VOLUME_NODE_DIR "node" /* in the volume */

struct volume_dirs {
    const char *sockets; /* the directory with the node's socket */
    const char *state;   /* where the directories of volumes lie; of the driver alone */
};

int volume_publish(const struct volume_dirs *dirs, const char *target, struct dlc_err *err);
int volume_unpublish(const struct volume_dirs *dirs, const char *target, struct dlc_err *err);
bool volume_is_published(const char *target);

#endif
