// SPDX-License-Identifier: Apache-2.0
/* What belongs to the process: the lock on what fork() must find whole, and the open datasets. */
#ifndef DLC_CLIENT_PROCESS_H
#define DLC_CLIENT_PROCESS_H

#include "base/list.h"

/* The process-wide lock, for what fork() must find whole: for moments. */
void client_lock(void);
void client_unlock(void);

extern struct dlc_list client_datasets; /* their `link`. G: the process-wide lock */

#endif
