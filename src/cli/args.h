// SPDX-License-Identifier: Apache-2.0
/*
 * The command line: options of the command, settings of the table (base/config.h), and operands, in
 * any order. "--name value", "--name=value", "-n value", "-nvalue", "--no-name" for booleans of the
 * table; "--" ends the options. Settings given as flags are also put into the environment, so that
 * the library and a daemon that it starts see them.
 */
#ifndef DLC_CLI_ARGS_H
#define DLC_CLI_ARGS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/config.h"

enum cli_status { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

struct kind;

/* A command of the program. Texts are for --help, docs and the man page. */
struct command {
    const char *name;
    const char *synopsis; /* what follows the name: "URL [KEY | #N ...]" */
    const char *summary;  /* one line */
    const char *details;  /* paragraphs */
    const char *examples; /* lines of "  $ dlcache ..." */
    int min, max;         /* operands; max -1: any number */
    const char *missing;  /* what to say when there are fewer than min: "a URL" */
    int (*run)(const struct command *cmd, int argc, char **argv);
    const struct command *const *subs; /* NULL: none; ends with NULL; names are "tenant create" */
    unsigned roles; /* whose settings it takes (base/config.h); 0: those of commands, and of the
                       daemon that a command may start */
    const struct kind *kind; /* cli/resource_commands.h; for those that say what they are about */
};

/* In a struct command: exactly one operand, which is said to be missing as `what`. */
#define ONE_OPERAND(what) .min = 1, .max = 1, .missing = (what)

/*
 * Run cmd with argv[0] its name: the subcommand that argv[1] names, if there is one, else its own
 * run(). That of a command which is nothing but its subcommands is group_run().
 */
int command_run(const struct command *cmd, int argc, char **argv);
int group_run(const struct command *cmd, int argc, char **argv);
/* Say that a subcommand is missing (given: NULL), or that there is none of that name. */
int group_which(const struct command *cmd, const char *given, struct dlc_err *err);
const char *command_word(const struct command *cmd); /* the last word of its name */

/* An option of one command. The array ends with a NULL name. */
struct args_option {
    const char *name;
    char letter;       /* 0: none */
    const char *value; /* what stands for its value in --help; NULL: it takes none */
    const char *help;
    bool *on;          /* set to true when the option is there */
    const char **text; /* set to its value; borrowed from argv */
};

struct args {
    struct config config;
    const char **operands; /* texts are borrowed from argv */
    int n;
    bool quiet;
};

#define ARGS_INIT                                                                                  \
    {                                                                                              \
        CONFIG_INIT, NULL, 0, false                                                                \
    }

/*
 * Parse argv[1..] for cmd. False: the command must end with *status; help or an error was printed.
 * Gives: *a; return it with args_release(), also after false.
 */
bool args_parse(struct args *a, const struct command *cmd, const struct args_option *options,
                int argc, char **argv, int *status);
void args_release(struct args *a);

/* A value that must be one of those named in `choices` ("memory|disk"). */
bool args_choice(const struct command *cmd, const char *option, const char *value,
                 const char *choices, int *status);

/* Print "dlcache NAME: text" to standard error and return the exit status that the code means. */
int cli_fail(const struct command *cmd, const struct dlc_err *err);

#endif
