// SPDX-License-Identifier: Apache-2.0
/* What the policies `importance` and `worth` of the memory tier, and the shared tier, use of a
 * sample. */
#ifndef DLC_DAEMON_PREFETCH_SAMPLE_VALUE_H
#define DLC_DAEMON_PREFETCH_SAMPLE_VALUE_H

#include <stdint.h>

struct dataset;
struct node_events;

/* How likely it is read again soon, 0 to 1; 0.5: as any other, or nobody knows. */
double sample_likely(const struct dataset *ds, uint64_t sample);

extern const struct node_events sample_value_events;

#endif
