// SPDX-License-Identifier: Apache-2.0
/* Substitution, the daemon's half (docs/design/0008). */
#ifndef DLC_DAEMON_SUBSTITUTION_H
#define DLC_DAEMON_SUBSTITUTION_H

#include <stdbool.h>
#include <stdint.h>

struct reader_state;
struct session;

/* The session has told an order, in which it may swap or not. */
void substitution_begin(struct session *s, bool may);
#define SUBSTITUTION_NONE UINT64_MAX

/* Take over what it has swapped. After the cursor was loaded, before it is acted upon. Returns
 * where the epoch begins whose swaps are too far ahead as yet; SUBSTITUTION_NONE: that was all. */
uint64_t substitution_look(struct session *s);
uint64_t
substitution_drain(struct session *s); /* the cursor has moved: the rest of what was there */
/* How many samples it will read before the one at position `at`, which is to come. */
double substitution_distance(const struct reader_state *f, uint64_t at);
/* Say how far ahead it should settle what it reads. */
void substitution_tell(struct session *s);

#endif
