// SPDX-License-Identifier: Apache-2.0
/* Process-wide state: the lock on state that fork() must find consistent, and the open datasets. */
#ifndef DLC_CLIENT_PROCESS_H
#define DLC_CLIENT_PROCESS_H

#include "base/list.h"

/* The process-wide lock, for state that fork() must find consistent. Hold it only briefly. */
void client_lock(void);
void client_unlock(void);

extern struct dlc_list client_datasets; /* their `link`. G: the process-wide lock */

#endif
