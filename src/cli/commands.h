// SPDX-License-Identifier: Apache-2.0
/* The commands of the program, and functions that several of them use. */
#ifndef DLC_CLI_COMMANDS_H
#define DLC_CLI_COMMANDS_H

#include <jansson.h>

#include "base/buf.h"
#include "cli/args.h"
#include "cli/progress.h"

extern const struct command cmd_serve, cmd_stop, cmd_ls, cmd_cat, cmd_warm, cmd_stat, cmd_top,
    cmd_explain, cmd_evict, cmd_bench, cmd_plan, cmd_sim, cmd_demo, cmd_manager, cmd_node,
    cmd_operator, cmd_csi, cmd_tenant, cmd_dataset, cmd_job, cmd_accounting, cmd_events,
    cmd_rebuild, cmd_version, cmd_config;
extern const struct command *const node_subs[];    /* of cmd_node: those that ask the manager */
extern const struct command *const manager_subs[]; /* of cmd_manager, likewise */

extern const struct command *const commands[]; /* ends with NULL */

/* "--json" prints this: one object on standard output. Takes: j. */
void print_json(json_t *j, bool pretty);

/* A ctl_progress_f that shows the daemon's progress; priv is a struct progress. */
void show_progress(const json_t *p, void *priv);

/* The last thing a command does that printed its result: was all of it written? */
int end_output(const struct command *cmd);

/* `dlcache help [COMMAND | config | man]`, and the overview that --help prints. */
int help_main(int argc, char **argv);
void help_overview(struct buf *out);
/* Say that there is no such command, and which was probably meant. */
int help_unknown(const char *name);

#endif
