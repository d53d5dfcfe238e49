// SPDX-License-Identifier: Apache-2.0
/*
 * Where credentials are looked for, in the order of the AWS tools: environment, web identity of the
 * environment, profile, container, instance metadata. A place that is not configured is skipped
 * with a note why; one that is configured and fails ends the search, so that a broken set-up is
 * reported and not hidden.
 */
#ifndef DLC_BUCKET_CREDENTIALS_CHAIN_I_H
#define DLC_BUCKET_CREDENTIALS_CHAIN_I_H

#include "bucket/credentials/lookup_i.h"

/* Look in all places. 0: *out is filled (generation 0). Otherwise the text lists what was tried. */
int chain_find(struct lookup *l, struct credentials *out, struct dlc_err *err);

#endif
