// SPDX-License-Identifier: Apache-2.0
/* The program: finds the command and runs it. Exit status: 0 good, 1 failed, 2 wrong usage or
 * configuration. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"

const struct command *const commands[] = {
    &cmd_serve,    &cmd_stop,    &cmd_ls,    &cmd_cat,        &cmd_warm,   &cmd_stat,
    &cmd_top,      &cmd_explain, &cmd_evict, &cmd_bench,      &cmd_plan,   &cmd_sim,
    &cmd_demo,
#ifdef DLC_MANAGER
    &cmd_manager,  &cmd_node,
#endif
#ifdef DLC_OPERATOR
    &cmd_operator, &cmd_csi,
#endif
    &cmd_tenant,   &cmd_dataset, &cmd_job,   &cmd_accounting, &cmd_events, &cmd_rebuild,
    &cmd_config,   &cmd_version, NULL,
};

/* A daemon that the library starts for us is this very program. */
static void name_program(void)
{
    char *self = realpath("/proc/self/exe", NULL);

    if (self != NULL)
        setenv("DLCACHE_PROGRAM", self, 0);
    free(self);
}

static void print_overview(FILE *f)
{
    struct buf page = BUF_INIT;

    help_overview(&page);
    fputs(buf_str(&page), f);
    buf_release(&page);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;

    if (name == NULL) {
        print_overview(stderr);
        return CLI_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_overview(stdout);
        return CLI_OK;
    }
    if (strcmp(name, "help") == 0)
        return help_main(argc - 1, argv + 1);
    if (strcmp(name, "--version") == 0)
        name = "version";
    name_program();
    for (const struct command *const *c = commands; *c != NULL; c++)
        if (strcmp((*c)->name, name) == 0)
            return command_run(*c, argc - 1, argv + 1);
    return help_unknown(name);
}
