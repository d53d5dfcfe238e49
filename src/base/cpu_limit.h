// SPDX-License-Identifier: Apache-2.0
/* Processors that this process may use: its affinity, and the quota of its cgroups (version 2). */
#ifndef DLC_BASE_CPU_LIMIT_H
#define DLC_BASE_CPU_LIMIT_H

unsigned cores_allowed(void); /* at least 1 */
/* From a directory that stands for / (tests); affinity not counted. UINT_MAX: no quota. */
unsigned cores_of_quota(const char *root);

#endif
