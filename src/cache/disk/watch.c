// SPDX-License-Identifier: Apache-2.0
/*
 * The watch thread of the disk tier: asks the file system for its free space every second, so that
 * nobody else has to, and probes a disk that is bypassed. If the file system hangs, only this
 * thread hangs.
 */
#include "cache/disk/disk_i.h"

#define LOOK_EVERY DLC_SEC(1)

static bool wait_a_while(struct disk *d)
{
    bool stop;

    disk_lock(d);
    stop = atomic_load_explicit(&d->stop, memory_order_relaxed); /* set under the lock */
    if (!stop)
        dlc_cond_wait_for(&d->stopping, &d->mtx, LOOK_EVERY);
    stop = atomic_load_explicit(&d->stop, memory_order_relaxed); /* set under the lock */
    disk_unlock(d);
    return !stop;
}

void *disk_watch_thread(void *arg)
{
    struct disk *d = disk_check(arg);

    while (wait_a_while(d)) {
        disk_refresh(d);
        breaker_look(d);
    }
    return NULL;
}
