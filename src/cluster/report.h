// SPDX-License-Identifier: Apache-2.0
/* Reports this node to the manager: chunks, figures, progress of warm-ups. */
#ifndef DLC_CLUSTER_REPORT_H
#define DLC_CLUSTER_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "cache/memory/memory.h"

struct dataset;
struct mem_session_stats;
struct node;
struct node_events;
struct session;

void report_tick(struct node *n); /* look at some more chunks */
/* A session ends: what it read stays in the figures of its job. */
void report_session_ended(const struct session *s, const struct mem_session_stats *st);
void report_close(struct node *n);
/* What it took to bring this sample in, or to make the derived form of this object. */
void report_cost(struct dataset *ds, uint64_t sample, double cost);
void report_derived_cost(struct dataset *ds, uint64_t object, double cost);
void report_again(struct node *n); /* a manager that knows nothing: tell it all */
/* Rows for the manager: {"put", "gone"}, or NULL when there are none. Gives; they count as told
 * when report_heard(true) is called. *more: there are others. */
json_t *report_chunks(struct node *n, bool *more);
void report_heard(struct node *n, bool well);
json_t *report_figures(struct node *n);  /* of heart-beats. Gives */
json_t *report_progress(struct node *n); /* the same */

extern const struct node_events report_events;

#endif
