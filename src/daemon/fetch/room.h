// SPDX-License-Identifier: Apache-2.0
/*
 * Fetches that wait for room in memory: with many sessions the daemon needs several turns to look at
 * all pins (pin_scan.c), and until then nobody knows what can be evicted. All functions are L.
 */
#ifndef DLC_DAEMON_FETCH_ROOM_H
#define DLC_DAEMON_FETCH_ROOM_H

#include <stdbool.h>

struct fetch;
struct node;
struct tenant_memory;

/* Does a fetch have to wait behind others? */
bool room_is_awaited(const struct tenant_memory *t);
/* `again` is called when f may have room; it returns false if f waits again. False: f has waited for
 * too long, or others have. */
bool room_wait(struct fetch *f, bool (*again)(struct fetch *f));
void room_hurry(struct fetch *f); /* a reader waits for it now */
/* Some of those that wait try again. True: there are others. */
bool room_try(struct node *n);

#endif
