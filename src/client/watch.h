// SPDX-License-Identifier: Apache-2.0
/*
 * Notices that a daemon is gone while this process makes no call: a thread named dlcache-watch,
 * one per process, sleeps until a connection ends. A process that has never attached has no such
 * thread; nor has a child of fork() until it attaches for itself.
 *
 * (WATCH-1) The thread works only under the process-wide lock, which fork() takes too: a fork finds it
 * asleep or waiting for that lock, and never with a lock of malloc, stdio or the loader.
 * (WATCH-2) It blocks all signals and does not wake while its daemons live. It never ends: the library
 * is not unloaded (-z nodelete).
 */
#ifndef DLC_CLIENT_WATCH_H
#define DLC_CLIENT_WATCH_H

#include <stdint.h>

/* Both are called with the process-wide lock held. */

/*
 * Watch a connection until it is closed here. `gone` is called on the thread, without the lock,
 * when the other end is gone; and with 0 a moment after that, once. A connection is known by a
 * number: its descriptor may be another one's by then. One that cannot be watched is not; who calls
 * next notices.
 */
void watch_add(int sock, uint64_t number, void (*gone)(uint64_t number));
void watch_in_child(void); /* of fork() */

#endif
