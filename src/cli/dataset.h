// SPDX-License-Identifier: Apache-2.0
/* Parts of `dlcache dataset`. */
#ifndef DLC_CLI_DATASET_H
#define DLC_CLI_DATASET_H

#include "cli/args.h"

extern const struct command cmd_dataset_snapshot, cmd_dataset_warm, cmd_dataset_evict,
    cmd_dataset_move, cmd_dataset_chunks;

#define DATASET_MISSING "the name of a dataset"

/* Parse, check that the first operand can be a name, make "/v1/datasets/NAME" and rest. False: end
 * with *status. Gives *path. */
bool cli_dataset_begin(struct args *a, const struct command *cmd, const struct args_option *options,
                       int argc, char **argv, const char *rest, char **path, int *status);

/* What `dlcache warm NAME` and `dlcache dataset warm NAME` do. split: NULL for all. */
struct dataset_warming {
    const char *name, *split, *tier;
    bool json, background;
};
int cli_dataset_warm(const struct command *cmd, const struct args *a,
                     const struct dataset_warming *w);

#endif
