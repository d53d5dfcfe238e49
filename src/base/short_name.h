// SPDX-License-Identifier: Apache-2.0
/*
 * Names of limited length made of longer ones: the first characters, a separator and 16 digits of
 * the SHA-256 of the whole. Two that differ become the same with a chance of 2^-64.
 */
#ifndef DLC_BASE_SHORT_NAME_H
#define DLC_BASE_SHORT_NAME_H

#include <stddef.h>

#define SHORT_NAME_LEN 64 /* with its end: as str_is_name() allows */

/* At most `most` characters (17 to 63). One that fits stays as it is. Returns out. */
const char *short_name(const char *whole, size_t most, char sep, char out[static SHORT_NAME_LEN]);

/* What names of a tenant's datasets have before their dot where TENANT.NAME would be too long: at
 * most 40 characters, with '_' where the tenant's name has more. The operator names datasets so,
 * and the manager keeps such names for the tenant. */
const char *short_tenant(const char *tenant, char out[static SHORT_NAME_LEN]);

#endif
