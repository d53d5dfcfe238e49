// SPDX-License-Identifier: Apache-2.0
/* Follows readers' cursors and fetches a window of samples ahead of each. */
#ifndef DLC_DAEMON_PREFETCH_PREFETCH_H
#define DLC_DAEMON_PREFETCH_PREFETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/list.h"

struct dlc_err;
struct session;
struct schedule;
struct schedule_list;

/* Statistics of a dataset's readers. */
struct prefetch_state {
    struct hist latency;  /* of fetches, in microseconds */
    struct dlc_list link; /* in node.following, while n_following > 0 */
    unsigned n_following; /* sessions that announced their order */
    unsigned n_reading;   /* of those, not idle; tenant_memory.n_reading is the sum */
    unsigned n_waiting;   /* sessions whose readers wait */
};

/* From now on the session reads in this order, from position pos on. Takes t. */
void prefetch_start(struct session *s, struct schedule *t, uint64_t pos, bool swapping);
/* Append a list to the session's explicit order; takes *l on success. Returns: as schedule_give().
 */
bool prefetch_reads_lists(const struct session *s);
int prefetch_append_list(struct session *s, struct schedule_list **l, struct dlc_err *err);
void prefetch_stop(struct session *s); /* no-op without an announced order */
void prefetch_poll(struct session *s); /* reads its cursor now; no-op without an order */
/* Readers of the session start, or stop, waiting. */
void prefetch_waits(struct session *s, bool waits);
#define PREFETCH_IDLE_AFTER DLC_SEC(1)

#endif
