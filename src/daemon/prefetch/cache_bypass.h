// SPDX-License-Identifier: Apache-2.0
/* Jobs that bypass the cache: what is fetched for them alone leaves once they have read it. */
#ifndef DLC_DAEMON_PREFETCH_CACHE_BYPASS_H
#define DLC_DAEMON_PREFETCH_CACHE_BYPASS_H

#include <stdbool.h>
#include <stdint.h>

struct dataset;
struct node_events;
struct session;

/* What of a dataset is here for such jobs alone. */
struct bypass {
    uint8_t *passing; /* a bit per sample that leaves when it was read; or NULL */
    uint64_t left;    /* of those, the ones before this have left */
};

void bypass_look_up(struct session *s);  /* it begins */
void bypass_changed(struct dataset *ds); /* there is a new view */
/* When no such session is left, some of what came for them leaves. True: there is more. */
bool bypass_leave_some(struct dataset *ds);
/* Such a session has read it, and nobody is known to need it. True: it is gone. */
bool bypass_passed(struct dataset *ds, uint64_t sample);
uint64_t bypass_part(const struct session *s); /* bytes that may be ahead; UINT64_MAX: no limit */

extern const struct node_events bypass_events;

#endif
