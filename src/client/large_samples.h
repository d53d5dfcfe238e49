// SPDX-License-Identifier: Apache-2.0
/* Samples that lie in files of the disk tier. */
#ifndef DLC_CLIENT_LARGE_SAMPLES_H
#define DLC_CLIENT_LARGE_SAMPLES_H

#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/attachment.h"
#include "dlcache.h"

/* A view of a sample that lies in a file of the disk tier. Returns as attach_call(); DLC_ECORRUPT:
 * the daemon has dropped that file. DLC_EBYPASS: it cannot be read from here. */
int miss_map(struct attachment *a, uint64_t sample, struct dlc_mono deadline, struct dlc_view *out,
             struct dlc_err *err);
void large_free(void *p, uint64_t len); /* of VIEW_MAPPED */

#endif
