// SPDX-License-Identifier: Apache-2.0
/* Substitution, the daemon's half (docs/design/0008). */
#ifndef DLC_DAEMON_SUBSTITUTION_H
#define DLC_DAEMON_SUBSTITUTION_H

#include <stdbool.h>
#include <stdint.h>

struct reader_state;
struct session;

/* The session has announced an order, in which it may swap or not. */
void substitution_begin(struct session *s, bool may);
#define SUBSTITUTION_NONE UINT64_MAX

/* Apply the client's swaps, after the cursor was loaded and before it is acted upon. Returns the
 * beginning of the epoch whose swaps are too far ahead as yet; SUBSTITUTION_NONE: all were applied.
 */
uint64_t substitution_look(struct session *s);
uint64_t
substitution_drain(struct session *s); /* the cursor has moved: apply the rest of the swaps */
/* How many samples the client reads before the one at position `at`, which is still to come. */
double substitution_distance(const struct reader_state *f, uint64_t at);
/* Tell the client how far ahead it should settle. */
void substitution_tell(struct session *s);

#endif
