// SPDX-License-Identifier: Apache-2.0
/*
 * The CSI driver csi.dlcache.io: puts the socket of this machine's node into pods. The kubelet finds
 * it by its registration socket and calls it; there is no controller, since a volume holds no data of
 * its own. Runs beside the node, as root with the right to mount; the node itself needs neither.
 */
#ifndef DLC_OPERATOR_CSI_CSI_DRIVER_H
#define DLC_OPERATOR_CSI_CSI_DRIVER_H

#include "base/err.h"
#include "operator/csi/volume.h"

#define CSI_DRIVER_NAME "csi.dlcache.io"

struct csi_config {
    const char *socket;         /* where the driver answers; as the kubelet sees it below */
    const char *kubelet_socket; /* the same file in the kubelet's file system */
    const char *registration;   /* the directory of registration sockets; NULL: none */
    const char *node_id;
    struct volume_dirs dirs;
};

struct csi_driver;

/* config is borrowed. */
int csi_driver_start(const struct csi_config *config, struct csi_driver **out, struct dlc_err *err);
void csi_driver_stop(struct csi_driver **dp);

#endif
