// SPDX-License-Identifier: Apache-2.0
/* The library over fork(): the child goes on with the datasets of its parent. */
#ifndef DLC_CLIENT_FORK_H
#define DLC_CLIENT_FORK_H

void client_init(void); /* before the first descriptor that a child must not have */

#endif
