// SPDX-License-Identifier: Apache-2.0
/* "Did you mean": the nearest known name, for errors about names that do not exist. */
#ifndef DLC_BASE_SUGGEST_H
#define DLC_BASE_SUGGEST_H

#include <stddef.h>

/* The one of n names that is a few typing errors away from `name`, or NULL when none is near. */
const char *nearest_name(const char *name, const char *const *names, size_t n);

#endif
