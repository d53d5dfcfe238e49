// SPDX-License-Identifier: Apache-2.0
/* What the policies `importance` and `worth` of the memory tier use of a sample. */
#ifndef DLC_DAEMON_PREFETCH_SAMPLE_VALUE_H
#define DLC_DAEMON_PREFETCH_SAMPLE_VALUE_H

struct node_events;

extern const struct node_events sample_value_events;

#endif
