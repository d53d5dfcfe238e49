// SPDX-License-Identifier: Apache-2.0
/* Lists a dataset's bucket and has a worker make its catalog. */
#ifndef DLC_DAEMON_LISTING_H
#define DLC_DAEMON_LISTING_H

#include <jansson.h>

struct catalog;
struct dataset;
struct dlc_err;
struct node_events;

/* Called at the end; takes *catalog. It is NULL on failure: see rc and err. */
typedef void listing_done_f(struct dataset *ds, int rc, struct catalog **catalog,
                            struct dlc_err *err);
void listing_start(struct dataset *ds, listing_done_f *done);
void dataset_progress(struct dataset *ds);          /* sends the progress to all that wait */
json_t *listing_progress(const struct dataset *ds); /* how far it is. Gives */

extern const struct node_events listing_events;

#endif
