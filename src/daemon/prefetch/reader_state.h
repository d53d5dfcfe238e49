// SPDX-License-Identifier: Apache-2.0
/* Which reader a session reads for. */
#ifndef DLC_DAEMON_PREFETCH_READER_STATE_H
#define DLC_DAEMON_PREFETCH_READER_STATE_H

struct reader_state;
struct session;

/* The order that a sample of this session is fetched by: its own, or that of the leader whose
 * worker it is. NULL: none was announced. */
const struct reader_state *reader_state_of(const struct session *s);

#endif
