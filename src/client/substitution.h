// SPDX-License-Identifier: Apache-2.0
/* Substitution, the client's half. */
#ifndef DLC_CLIENT_SUBSTITUTION_H
#define DLC_CLIENT_SUBSTITUTION_H

#include <stddef.h>

#include "dlcache.h"

/* Settle the upcoming positions, and in any case the next n that will be dealt. */
void swap_settle(struct dlc_dataset *ds, size_t n);

#endif
