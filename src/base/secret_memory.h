// SPDX-License-Identifier: Apache-2.0
/*
 * Memory for keys that live as long as the process: whole pages that are not swapped out, are in no
 * core file, and are wiped when they are given back.
 *
 * Each call maps at least a page, since a lock is of pages: for few, small things. RLIMIT_MEMLOCK
 * may be 64 kB. Memory that cannot be locked is used all the same, with a warning: a manager
 * without its key is worth less than one whose key may be swapped.
 */
#ifndef DLC_BASE_SECRET_MEMORY_H
#define DLC_BASE_SECRET_MEMORY_H

#include <stddef.h>

/* Zeroed. Never NULL. */
void *secret_map(size_t len);
/* Wipe and unmap; *p becomes NULL. len as it was mapped; NULL is allowed. */
void secret_unmap(void **p, size_t len);

#endif
