// SPDX-License-Identifier: Apache-2.0
/* Parts of `dlcache tenant`. */
#ifndef DLC_CLI_CMD_TENANT_H
#define DLC_CLI_CMD_TENANT_H

#include "cli/resource_commands.h"

extern const struct kind kind_tenant;
extern const struct command cmd_tenant_credentials;

#endif
