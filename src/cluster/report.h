// SPDX-License-Identifier: Apache-2.0
/* Reports this node to the manager: chunks, figures, progress of warm-ups. */
#ifndef DLC_CLUSTER_REPORT_H
#define DLC_CLUSTER_REPORT_H

#include <stdbool.h>

#include <jansson.h>

struct node;
struct node_events;

void report_tick(struct node *n); /* walks over the next slice of chunks */
void report_close(struct node *n);
void report_again(struct node *n); /* the manager knows nothing: report everything */
/* Collect rows for the next heartbeat. False: call it again in another turn of the loop; what there
 * is to look at grows with datasets and objects. */
bool report_collect(struct node *n);
/* What was collected. Rows for the manager: {"put", "gone"}, or NULL if there are none. Gives; they count as reported
 * once report_heard(true) is called. *more: there are others. */
json_t *report_chunks(struct node *n, bool *more);
void report_heard(struct node *n, bool well);
/* For heartbeats; *progress: of listings and warm-ups. Gives both; NULL: call it again in another
 * turn of the loop, there are many datasets. */
json_t *report_figures(struct node *n, json_t **progress);

extern const struct node_events report_events;

#endif
