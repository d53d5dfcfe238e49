// SPDX-License-Identifier: Apache-2.0
/*
 * The watch thread: notices that a daemon is gone while this process makes no call. A thread named
 * dlcache-watch, one per process, sleeps until a connection ends. A process that has never attached
 * does not have this thread; nor does a child of fork() until it attaches for itself.
 *
 * (WATCH-1) The thread works only under the process-wide lock, which fork() takes too: a fork finds
 *           it asleep or waiting for that lock, and never with a lock of malloc, stdio or the
 *           loader.
 * (WATCH-2) It blocks all signals and does not wake while its daemons live and keep the memory that
 *           they have. It ends when nothing is attached any more. The library is not unloaded under
 *           it (-z nodelete).
 */
#ifndef DLC_CLIENT_WATCH_H
#define DLC_CLIENT_WATCH_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Watch a connection until watch_remove(), with the process-wide lock held. `gone` is called on the
 * thread, without the lock, when the other end is gone; and with 0 a moment after that, once.
 * `channel` is called when something has come over that socket, unless it is negative. A connection
 * is identified by a number: its descriptor may have been reused by then. False: it cannot be
 * watched; the next call notices. The calls are the same for all.
 */
struct watch_calls {
    void (*gone)(uint64_t number);
    void (*channel)(uint64_t number);
};
bool watch_add(int sock, int channel, uint64_t number, const struct watch_calls *calls);
void watch_remove(int channel); /* one of those that were added is closed, or will be at once */
void watch_in_child(void);      /* of fork(), with the lock held: nothing is watched there */

#endif
