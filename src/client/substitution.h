// SPDX-License-Identifier: Apache-2.0
/* Substitution, the client's half. */
#ifndef DLC_CLIENT_SUBSTITUTION_H
#define DLC_CLIENT_SUBSTITUTION_H

#include <stddef.h>

#include "dlcache.h"

/* Decide what is read at the positions that come near, and in any case at the next n that will be
 * dealt. */
void swap_settle(struct dlc_dataset *ds, size_t n);

#endif
