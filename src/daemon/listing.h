// SPDX-License-Identifier: Apache-2.0
/* Lists a dataset's bucket and has a worker make its catalog. */
#ifndef DLC_DAEMON_LISTING_H
#define DLC_DAEMON_LISTING_H

#include <jansson.h>

struct dataset;

void listing_start(struct dataset *ds);    /* dataset_listed() is called when it has ended */
void listing_stop(struct dataset *ds);     /* ask it to end soon */
void dataset_progress(struct dataset *ds); /* tell those who wait how far it is */
json_t *listing_progress(const struct dataset *ds); /* how far it is. Gives */

#endif
