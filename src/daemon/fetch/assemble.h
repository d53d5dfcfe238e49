// SPDX-License-Identifier: Apache-2.0
/* Assembles a sample from byte ranges of objects and archives (docs/design/0003). */
#ifndef DLC_DAEMON_FETCH_ASSEMBLE_H
#define DLC_DAEMON_FETCH_ASSEMBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/work.h"

struct dataset;
struct dlc_err;
struct node_events;

/* checksum: XXH3 of the sample's bytes; NULL: not computed. */
typedef void assemble_done_f(void *arg, int rc, const struct dlc_err *err, bool from_disk,
                             const uint64_t *checksum);
/* Write the pieces of a sample into dst; done() is called on the loop, possibly before this
 * returns. reads: the work class of its disk reads. */
void assemble_read(struct dataset *ds, uint64_t sample, enum work_class reads, void *dst,
                   assemble_done_f *done, void *arg);

extern const struct node_events assemble_events;

#endif
