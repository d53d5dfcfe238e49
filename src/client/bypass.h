// SPDX-License-Identifier: Apache-2.0
/* Reads samples from the bucket, past the daemon. */
#ifndef DLC_CLIENT_BYPASS_H
#define DLC_CLIENT_BYPASS_H

#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "bucket/bucket.h"
#include "dlcache.h"

/* Configuration for reading the bucket from this process. Borrows from ds. */
struct bucket_config direct_config(const struct dlc_dataset *ds);
/* Read from the bucket into private memory. DLC_ETIMEDOUT: the deadline passed. */
int direct_get(struct dlc_dataset *ds, uint64_t sample, struct dlc_mono deadline,
               struct dlc_view *out, struct dlc_err *err);

#endif
