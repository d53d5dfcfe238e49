// SPDX-License-Identifier: Apache-2.0
/*
 * Has the kernel freed the memory of a memfd that we have closed? It does when the last descriptor
 * and the last mapping have gone, whoever had them: so this needs no word of a client.
 *
 * A mark of fanotify that the kernel drops together with the inode (FAN_MARK_EVICTABLE, Linux 5.19)
 * keeps nothing alive, and the list of marks (/proc/self/fdinfo) shows which are left. It needs no
 * privilege, and waits for nobody. Older kernels, and containers whose system-call filter refuses
 * fanotify, do not tell.
 */
#ifndef DLC_CACHE_MEMORY_FREED_I_H
#define DLC_CACHE_MEMORY_FREED_I_H

#include <stdbool.h>
#include <stdint.h>

#include "base/u64map.h"

struct freed {
    int group, list; /* of marks; -1: the kernel does not tell */
};

void freed_open(struct freed *f);
void freed_close(struct freed *f);
/* Look at this memfd from now on. Its inode; 0: it cannot be told. */
uint64_t freed_watch(const struct freed *f, int memfd);
/* The inodes that are not freed, as keys. False: it cannot be told now. */
bool freed_read(const struct freed *f, struct map *kept);

#endif
