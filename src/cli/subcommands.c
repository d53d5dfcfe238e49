// SPDX-License-Identifier: Apache-2.0
/* Dispatch of commands that have subcommands. */
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/suggest.h"
#include "cli/args.h"

#define SUBS_MAX 16

const char *command_word(const struct command *cmd)
{
    const char *blank = strrchr(cmd->name, ' ');

    return blank != NULL ? blank + 1 : cmd->name;
}

int command_run(const struct command *cmd, int argc, char **argv)
{
    for (const struct command *const *s = cmd->subs; s != NULL && *s != NULL && argc > 1; s++)
        if (strcmp(command_word(*s), argv[1]) == 0)
            return (*s)->run(*s, argc - 1, argv + 1);
    return cmd->run(cmd, argc, argv);
}

int group_which(const struct command *cmd, const char *given, struct dlc_err *err)
{
    const char *names[SUBS_MAX], *near;
    struct buf all = BUF_INIT;
    size_t n = 0;

    for (const struct command *const *s = cmd->subs; *s != NULL; s++) {
        dlc_check(n < SUBS_MAX);
        buf_addf(&all, "%s%s", n > 0 ? ", " : "", command_word(*s));
        names[n++] = command_word(*s);
    }
    near = given != NULL ? nearest_name(given, names, n) : NULL;
    if (given == NULL)
        dlc_err_set(err, DLC_EINVAL, "a subcommand is missing; one of %s", buf_str(&all));
    else if (near != NULL)
        dlc_err_set(err, DLC_EINVAL, "no subcommand \"%.60s\"; did you mean \"%s\"?", given, near);
    else
        dlc_err_set(err, DLC_EINVAL, "no subcommand \"%.60s\"; there are %s", given, buf_str(&all));
    buf_release(&all);
    return DLC_EINVAL;
}

/* None of the subcommands was named: --help, or a mistake. */
int group_run(const struct command *cmd, int argc, char **argv)
{
    struct args a = ARGS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int status;

    if (args_parse(&a, cmd, NULL, argc, argv, &status)) {
        group_which(cmd, a.n > 0 ? a.operands[0] : NULL, &err);
        status = cli_fail(cmd, &err);
    }
    args_release(&a);
    return status;
}
