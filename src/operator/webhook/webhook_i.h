// SPDX-License-Identifier: Apache-2.0
#ifndef DLC_OPERATOR_WEBHOOK_WEBHOOK_I_H
#define DLC_OPERATOR_WEBHOOK_WEBHOOK_I_H

#include <stdbool.h>

#include <jansson.h>

#define REQUIRED "requiredDuringSchedulingIgnoredDuringExecution" /* of a node affinity */

/* Has the pod containers, and are its lists and affinity such as a patch expects? */
bool webhook_pod_ok(const json_t *pod);

#endif
