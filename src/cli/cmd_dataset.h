// SPDX-License-Identifier: Apache-2.0
/* Parts of `dlcache dataset`. */
#ifndef DLC_CLI_CMD_DATASET_H
#define DLC_CLI_CMD_DATASET_H

#include "cli/resource_commands.h"

extern const struct kind kind_dataset;
extern const struct command cmd_dataset_snapshot, cmd_dataset_warm, cmd_dataset_evict,
    cmd_dataset_move, cmd_dataset_chunks;

#define DATASET_MISSING "the name of a dataset"

/* What `dlcache warm NAME` and `dlcache dataset warm NAME` do. split: NULL for all. */
struct dataset_warming {
    const char *name, *split, *tier;
    bool json, background;
};
int cli_dataset_warm(const struct command *cmd, const struct args *a,
                     const struct dataset_warming *w);

#endif
