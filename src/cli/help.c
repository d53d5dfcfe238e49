// SPDX-License-Identifier: Apache-2.0
/*
 * Help texts: the overview, one page for each command, the reference of settings, and the man page,
 * which is made of all of them.
 */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/suggest.h"
#include "cli/commands.h"

void help_overview(struct buf *out)
{
    buf_adds(out, "dlcache: samples of a dataset in a cloud bucket, at the speed of memory.\n"
                  "\n"
                  "Usage: dlcache COMMAND [OPTIONS]\n"
                  "\n"
                  "Commands:\n");
    for (const struct command *const *c = commands; *c != NULL; c++)
        buf_addf(out, "  %-9s%s\n", (*c)->name, (*c)->summary);
    buf_adds(out, "  help     Explain a command (`dlcache help warm`) or all settings "
                  "(`dlcache help config`).\n"
                  "\n"
                  "First steps:\n"
                  "  $ dlcache ls s3://my-bucket/train/          what is there; starts a daemon\n"
                  "  $ dlcache warm s3://my-bucket/train/        bring it here\n"
                  "  $ dlcache stat                              see what is cached\n"
                  "  $ dlcache bench s3://my-bucket/train/       how fast is it?\n"
                  "\n"
                  "URLs: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, "
                  "http(s)://HOST/PATH,\n"
                  "      file:///PATH\n"
                  "Exit status: 0 good, 1 failed, 2 wrong usage or configuration.\n");
}

int help_unknown(const char *name)
{
    const char *names[32], *near;
    size_t n = 0;

    for (const struct command *const *c = commands; *c != NULL; c++)
        names[n++] = (*c)->name;
    names[n++] = "help";
    dlc_check(n <= DLC_COUNT(names));
    near = nearest_name(name, names, n);
    fprintf(stderr, "dlcache: no command \"%.60s\"", name);
    if (near != NULL)
        fprintf(stderr, "; did you mean \"%s\"?\n", near);
    else
        fprintf(stderr, "\nTry `dlcache --help`.\n");
    return CLI_USAGE;
}

/* ---- the man page ---- */

/* Text in troff: a backslash is written \e, a minus \-, and no line begins with a dot or quote. */
static void troff(struct buf *out, const char *s)
{
    bool start = true;

    for (; *s != '\0'; s++) {
        if (start && (*s == '.' || *s == '\''))
            buf_adds(out, "\\&");
        if (*s == '\\')
            buf_adds(out, "\\e");
        else if (*s == '-')
            buf_adds(out, "\\-");
        else
            buf_addc(out, *s);
        start = *s == '\n';
    }
}

static void man_command(struct buf *out, const struct command *c)
{
    buf_addf(out, ".SS \"dlcache %s\"\n", c->name);
    troff(out, c->details);
    buf_adds(out, "\n.PP\n.nf\n.B ");
    buf_addf(out, "dlcache %s ", c->name);
    troff(out, c->synopsis);
    buf_adds(out, "\n.fi\n");
    for (const struct command *const *s = c->subs; s != NULL && *s != NULL; s++) {
        buf_addf(out, ".TP\n.B dlcache %s ", (*s)->name);
        troff(out, (*s)->synopsis);
        buf_adds(out, "\n");
        troff(out, (*s)->summary);
        buf_adds(out, "\n");
    }
    buf_adds(out, ".PP\n.nf\n");
    troff(out, c->examples);
    buf_adds(out, ".fi\n");
}

static void man_page(struct buf *out)
{
    struct buf settings = BUF_INIT;

    buf_adds(out,
             ".\\\" Made by tools/gen-docs; edit src/cli, not this page.\n"
             ".TH DLCACHE 1\n"
             ".SH NAME\n"
             "dlcache \\- samples of a dataset in a cloud bucket, at the speed of memory\n"
             ".SH SYNOPSIS\n"
             ".B dlcache\n"
             ".I COMMAND\n"
             "[\\fIOPTIONS\\fR]\n"
             ".SH DESCRIPTION\n"
             "A daemon keeps samples in shared memory and on disk; programs read them through\n"
             "libdlcache without a copy or a system call. These commands start and stop the\n"
             "daemon, look into it, and fill and empty it. Most of them start a daemon when none\n"
             "answers.\n"
             ".PP\n"
             "\\fBdlcache\\fR \\fICOMMAND\\fR \\fB\\-\\-help\\fR lists the options of a command.\n"
             ".SH COMMANDS\n");
    for (const struct command *const *c = commands; *c != NULL; c++)
        man_command(out, *c);
    buf_adds(out,
             ".SH SETTINGS\n"
             "By flag, environment variable (DLCACHE_ and the name in capitals, with _ for \\-)\n"
             "or configuration file (\\-\\-config, DLCACHE_CONFIG, ~/.config/dlcache.conf,\n"
             "/etc/dlcache.conf; lines of \"name = value\"), in that order.\n"
             ".PP\n.nf\n");
    config_help(&settings, 0);
    troff(out, buf_str(&settings));
    buf_adds(out, ".fi\n"
                  ".SH \"EXIT STATUS\"\n"
                  "0: good. 1: failed. 2: wrong usage or configuration.\n");
    buf_release(&settings);
}

int help_main(int argc, char **argv)
{
    const char *topic = argc > 1 ? argv[1] : "";
    char dash_h[] = "--help";
    char *page_argv[] = {argv[1], argc > 2 ? argv[2] : dash_h, dash_h, NULL};
    struct buf page = BUF_INIT;

    for (const struct command *const *c = commands; *c != NULL; c++)
        if (strcmp((*c)->name, topic) == 0 && *c != &cmd_config) /* all settings are that topic */
            return command_run(*c, argc > 2 ? 3 : 2, page_argv);
    if (strcmp(topic, "config") == 0)
        config_reference(&page);
    else if (strcmp(topic, "man") == 0)
        man_page(&page);
    else if (topic[0] == '\0' || topic[0] == '-')
        help_overview(&page);
    else
        return help_unknown(topic);
    fputs(buf_str(&page), stdout);
    buf_release(&page);
    return CLI_OK;
}
