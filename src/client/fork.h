// SPDX-License-Identifier: Apache-2.0
/* Support for fork(): the child continues with the datasets of its parent. */
#ifndef DLC_CLIENT_FORK_H
#define DLC_CLIENT_FORK_H

void client_init(void); /* before the first descriptor that a child must not have */

#endif
