// SPDX-License-Identifier: Apache-2.0
/* Asks the daemon for samples that are not resident. */
#ifndef DLC_CLIENT_MISS_H
#define DLC_CLIENT_MISS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/attachment.h"

/* Ask for one sample and wait. DLC_ENODAEMON: the daemon was lost. DLC_EBYPASS: also, unless
 * patient, that it hangs. */
int miss_wait(struct attachment *a, uint64_t sample, struct dlc_mono deadline, bool patient,
              struct dlc_err *err);
/* Ask for one sample and do not wait; nothing happens when all cells are in use. */
void miss_ask(struct attachment *a, uint64_t sample);
int miss_prefetch(struct attachment *a, const uint64_t *idx, size_t n);
/* The cell is filled: hand it to the daemon. */
void miss_submit(struct attachment *a, int cell);

#endif
