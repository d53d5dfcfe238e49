// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs that bypass the cache: samples fetched for them alone are evicted once they have read them.
 */
#ifndef DLC_DAEMON_PREFETCH_CACHE_BYPASS_H
#define DLC_DAEMON_PREFETCH_CACHE_BYPASS_H

#include <stdbool.h>
#include <stdint.h>

struct dataset;
struct node_events;
struct session;

/* Samples of a dataset that are here for such jobs alone. */
struct bypass {
    uint8_t *samples;    /* a bit per sample that is evicted once it was read; or NULL */
    uint64_t evicted_to; /* those before this one were evicted */
};

void bypass_update(struct session *s);   /* which job is it of? */
void bypass_changed(struct dataset *ds); /* there is a new view */
/* When no such session is left, evict some of their samples. True: there are more. */
bool bypass_evict_some(struct dataset *ds);
/* Such a session has read the sample, and no known reader needs it. True: it was evicted. */
bool bypass_evict_read(struct dataset *ds, uint64_t sample);
uint64_t bypass_part(const struct session *s); /* bytes it may prefetch; UINT64_MAX: no limit */

extern const struct node_events bypass_events;

#endif
