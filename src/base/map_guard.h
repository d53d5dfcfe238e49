// SPDX-License-Identifier: Apache-2.0
/*
 * Guarded mappings of files. If the file system cannot read or write a page (a device error, a full
 * disk, a truncated file), the kernel sends SIGBUS. In a guarded mapping the handler replaces the
 * page by zeros, the thread goes on, and the owner of the mapping is told that its bytes are not
 * those of the file.
 *
 * A system call on such a page fails with EFAULT and is not noticed here. The handler of SIGBUS is
 * installed with the first mapping. X.
 */
#ifndef DLC_BASE_MAP_GUARD_H
#define DLC_BASE_MAP_GUARD_H

#include <stdbool.h>
#include <stddef.h>

struct map_guard;

/* Map len bytes of a file, shared and writable. NULL with errno. */
struct map_guard *map_guard_new(int fd, size_t len);
void *map_guard_data(const struct map_guard *g);
bool map_guard_failed(const struct map_guard *g);
void map_guard_free(struct map_guard **gp); /* unmaps; NULL is allowed */

#endif
