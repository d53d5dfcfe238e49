// SPDX-License-Identifier: Apache-2.0
/* Names of jobs. The manager numbers those that are registered; programs may use others of their own,
 * by which they share weights and snapshots. Pure. */
#ifndef DLC_BASE_JOB_ID_H
#define DLC_BASE_JOB_ID_H

#include <stdbool.h>
#include <string.h>

/* Is it a number as the manager gives it, "j-" and 16 hexadecimal digits? */
static inline bool job_id_is_registered(const char *job)
{
    return strncmp(job, "j-", 2) == 0 && strlen(job) == 18 &&
           strspn(job + 2, "0123456789abcdef") == 16;
}

#endif
