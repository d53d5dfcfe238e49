// SPDX-License-Identifier: Apache-2.0
/*
 * Mappings of files that may fail. Where the file system cannot give or take a page (a device's
 * error, a full disk, a file that was cut), the kernel sends SIGBUS. For a guarded mapping that is
 * not the end of the process: the page is replaced by memory of zeros, the thread goes on, and
 * whoever has the mapping is told that its bytes are not those of the file.
 *
 * A system call that meets such a page fails with EFAULT and is not noticed here.
 * The handler of SIGBUS is installed with the first mapping. X.
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
