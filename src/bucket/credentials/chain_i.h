// SPDX-License-Identifier: Apache-2.0
/*
 * Where credentials are looked for, in the order of the cloud's own tools; for AWS: environment, web
 * identity of the environment, profile, container, instance metadata. A place that is not configured
 * is skipped with a note why; one that is configured and fails ends the search, so that a broken
 * set-up is reported and not hidden.
 */
#ifndef DLC_BUCKET_CREDENTIALS_CHAIN_I_H
#define DLC_BUCKET_CREDENTIALS_CHAIN_I_H

#include "bucket/credentials/lookup_i.h"

struct chain_step {
    const char *name;
    int (*find)(struct lookup *l, struct credentials *out, struct dlc_err *err);
    bool of_environment; /* passed over when the user named a profile for this bucket */
};

struct chain {
    const char *nothing, *remedy; /* "no AWS credentials found: " what was tried ". Set ..." */
    const struct chain_step *steps;
    size_t n_steps;
};

int chain_run(const struct chain *c, struct lookup *l, struct credentials *out,
              struct dlc_err *err);

/* Amazon's: look in all places. 0: *out is filled (generation 0). Otherwise the text lists what was tried. */
int chain_find(struct lookup *l, struct credentials *out, struct dlc_err *err);

#endif
