// SPDX-License-Identifier: Apache-2.0
/* The methods that the kubelet calls. Their context is a const struct csi_config. */
#ifndef DLC_OPERATOR_CSI_CSI_SERVICES_I_H
#define DLC_OPERATOR_CSI_CSI_SERVICES_I_H

#include "operator/csi/grpc_server.h"

extern const struct grpc_method csi_methods[];          /* csi.v1.Identity, csi.v1.Node */
extern const struct grpc_method controller_methods[];   /* csi.v1.Controller */
extern const struct grpc_method registration_methods[]; /* pluginregistration.Registration */

#endif
