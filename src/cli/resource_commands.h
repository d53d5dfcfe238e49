// SPDX-License-Identifier: Apache-2.0
/*
 * Subcommands that `dlcache tenant`, `dataset`, `job` and `node` share: list the manager's
 * resources of a kind, show one, delete one. `.kind` of a subcommand names the kind.
 */
#ifndef DLC_CLI_RESOURCE_COMMANDS_H
#define DLC_CLI_RESOURCE_COMMANDS_H

#include "cli/manager_commands.h"
#include "cli/table.h"

struct kind {
    const char *what;     /* "tenant" */
    const char *path;     /* "/v1/tenants" */
    const char *headings; /* of the table, as table_init() takes them */
    void (*row)(struct table *t, const json_t *item);
    api_print_f *print; /* one of them */
    bool owned;         /* by tenants: `ls` takes --tenant */
    const char *query;  /* `show` asks with it: "?ended=1"; NULL: nothing */
    const char *force;  /* `rm` takes --force, and this is its help; NULL: it does not */
};

/* Parse, check that the first operand can be a name, make the path of what it names, and rest.
 * False: end with *status. Gives *path. */
bool kind_begin(struct args *a, const struct command *cmd, const struct args_option *options,
                int argc, char **argv, const char *rest, char **path, int *status);

/* Print {"items"} as the table of a kind. An api_print_f; arg: the kind. */
void kind_print_list(const json_t *answer, void *arg);

/* For command.run. */
int kind_ls(const struct command *cmd, int argc, char **argv);
int kind_show(const struct command *cmd, int argc, char **argv);
int kind_rm(const struct command *cmd, int argc, char **argv);

#endif
