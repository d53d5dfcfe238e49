// SPDX-License-Identifier: Apache-2.0
/* Parts of `dlcache tenant`. */
#ifndef DLC_CLI_TENANT_H
#define DLC_CLI_TENANT_H

#include "cli/args.h"

extern const struct command cmd_tenant_credentials;

/* Parse, check that the first operand can be a name, make "/v1/tenants/NAME" and rest. False: end
 * with *status. Gives *path. */
bool cli_tenant_begin(struct args *a, const struct command *cmd, const struct args_option *options,
                      int argc, char **argv, const char *rest, char **path, int *status);

#endif
