// SPDX-License-Identifier: Apache-2.0
/* Wall-clock times in milliseconds, for storage and display. Threads: any. */
#ifndef DLC_MANAGER_STORE_WALL_TIME_H
#define DLC_MANAGER_STORE_WALL_TIME_H

#include <stdint.h>

int64_t wall_ms(void);
char *wall_time_text(int64_t ms); /* gives "2026-01-31T12:00:00.000Z" */

#endif
