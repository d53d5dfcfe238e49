// SPDX-License-Identifier: Apache-2.0
/* Parts that manifest.c and manifest_pod.c share. */
#ifndef DLC_OPERATOR_RECONCILE_MANIFEST_I_H
#define DLC_OPERATOR_RECONCILE_MANIFEST_I_H

#include "operator/reconcile/manifest.h"

const struct spec_job *input_job(const struct build_input *in);
json_t *build_labels(const struct build_input *in); /* gives */
json_t *build_owners(const json_t *object);         /* gives */

#endif
