// SPDX-License-Identifier: Apache-2.0
#include "cli/args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "base/str.h"

#define HELP_COLUMN 29

/* A setting given as a flag; assigned after the configuration file, whose name may come later. */
struct setting {
    char *flag;
    const char *value;
};

struct parser {
    struct args *args;
    const struct args_option *options; /* of the command */
    struct setting *settings;
    unsigned n, cap;
    const char *config_file;
    bool help, only_operands;
    struct dlc_err err;
};

/* Options that every command has. */
static void common_options(struct parser *p, struct args_option out[static 4])
{
    out[0] = (struct args_option){"config",       0, "FILE", "Read settings from FILE.", NULL,
                                  &p->config_file};
    out[1] = (struct args_option){"quiet", 'q', NULL, "Print no progress.", &p->args->quiet, NULL};
    out[2] = (struct args_option){"help", 'h', NULL, "Print this page.", &p->help, NULL};
    out[3] = (struct args_option){NULL, 0, NULL, NULL, NULL, NULL};
}

/* ---- help ---- */

static void help_option(struct buf *out, const struct args_option *o)
{
    size_t start = out->len, used;

    buf_addf(out, "  ");
    if (o->letter != 0)
        buf_addf(out, "-%c, ", o->letter);
    buf_addf(out, "--%s%s%s", o->name, o->value != NULL ? " " : "",
             o->value != NULL ? o->value : "");
    used = out->len - start;
    buf_addf(out, "%*s%s\n", (int)(used < HELP_COLUMN ? HELP_COLUMN - used : 2), "", o->help);
}

/* The page that --help prints. */
static void args_help(const struct command *cmd, const struct args_option *options, struct buf *out)
{
    struct args unused = ARGS_INIT;
    struct parser p = {.args = &unused};
    struct args_option common[4];

    common_options(&p, common);
    buf_addf(out, "dlcache %s: %s\n\nUsage: dlcache %s %s\n\n%s\n", cmd->name, cmd->summary,
             cmd->name, cmd->synopsis, cmd->details);
    if (cmd->subs != NULL)
        buf_adds(out, "\nSubcommands:\n");
    for (const struct command *const *s = cmd->subs; s != NULL && *s != NULL; s++)
        buf_addf(out, "  %-16s %s\n", command_word(*s), (*s)->summary);
    buf_addf(out, "\nExamples:\n%s\nOptions:\n", cmd->examples);
    for (; options != NULL && options->name != NULL; options++)
        help_option(out, options);
    for (unsigned i = 0; common[i].name != NULL; i++)
        help_option(out, &common[i]);
    if ((cmd->roles & ROLE_SERVERS) != 0 && (cmd->roles & ROLE_COMMAND) == 0) {
        buf_adds(out, "\nSettings (also by environment and file; `dlcache help config`):\n");
        config_help(out, cmd->roles);
    } else {
        buf_adds(out, "\nAll settings (--socket, --endpoint, --anonymous ...) are options too: "
                      "`dlcache help config`.\n");
    }
}

int cli_fail(const struct command *cmd, const struct dlc_err *err)
{
    struct buf text = BUF_INIT;
    size_t n = strlen(cmd->name);
    const char *said = err->text;

    if (strncmp(said, cmd->name, n) == 0 && strncmp(said + n, ": ", 2) == 0)
        said += n + 2; /* a daemon names the request that it refuses */
    str_printable(said, strlen(said), &text);
    fprintf(stderr, "dlcache %s: %s\n", cmd->name, buf_str(&text));
    buf_release(&text);
    return err->code == DLC_EINVAL ? CLI_USAGE : CLI_FAILED;
}

static int usage(const struct command *cmd, const struct dlc_err *err)
{
    cli_fail(cmd, err);
    fprintf(stderr, "Try `dlcache %s --help`.\n", cmd->name);
    return CLI_USAGE;
}

/* ---- parsing ---- */

static const struct args_option *find(const struct args_option *o, const char *name, size_t len,
                                      char letter)
{
    for (; o != NULL && o->name != NULL; o++)
        if (letter != 0 ? o->letter == letter
                        : strlen(o->name) == len && memcmp(o->name, name, len) == 0)
            return o;
    return NULL;
}

/* Neither ours nor in the table: say what was probably meant. */
static int unknown(struct parser *p, const struct args_option *common, const char *name)
{
    const char *names[128], *near;
    size_t n = 0;

    for (const struct args_option *o = p->options; o != NULL && o->name != NULL; o++)
        names[n++] = o->name;
    for (const struct args_option *o = common; o->name != NULL; o++)
        names[n++] = o->name;
#define OPTION(field, type, def, flag, env, roles, help) names[n++] = flag;
#include "base/tbl/options.def"
#undef OPTION
    dlc_check(n <= DLC_COUNT(names));
    near = nearest_name(name, names, n);
    if (near != NULL)
        return dlc_err_set(&p->err, DLC_EINVAL, "no option --%.60s; did you mean --%s?", name,
                           near);
    return dlc_err_set(&p->err, DLC_EINVAL, "no option --%.60s", name);
}

static void add_setting(struct parser *p, const char *flag, size_t len, const char *value)
{
    mem_reserve(p->settings, p->n, p->cap);
    p->settings[p->n++] = (struct setting){mem_strn(flag, len), value};
}

/* Store option o. *i moves on when the value is the next argument. */
static int store(struct parser *p, const struct args_option *o, const char *value, int argc,
                 char **argv, int *i)
{
    if (o->value == NULL && value != NULL)
        return dlc_err_set(&p->err, DLC_EINVAL, "--%s takes no value", o->name);
    if (o->value != NULL && value == NULL) {
        if (*i + 1 >= argc)
            return dlc_err_set(&p->err, DLC_EINVAL, "--%s needs a value: %s", o->name, o->value);
        value = argv[++*i];
    }
    if (o->value != NULL)
        *o->text = value;
    else
        *o->on = true;
    return 0;
}

static int long_option(struct parser *p, const struct args_option *common, int argc, char **argv,
                       int *i)
{
    const char *name = argv[*i] + 2, *eq = strchr(name, '=');
    size_t len = eq != NULL ? (size_t)(eq - name) : strlen(name);
    const struct args_option *o = find(p->options, name, len, 0);
    char *copy = mem_strn(name, len);
    bool boolean = false;
    int rc = 0;

    if (o == NULL)
        o = find(common, name, len, 0);
    if (o != NULL) {
        rc = store(p, o, eq != NULL ? eq + 1 : NULL, argc, argv, i);
    } else if (config_has(copy, &boolean)) {
        if (eq == NULL && !boolean && *i + 1 >= argc)
            rc = dlc_err_set(&p->err, DLC_EINVAL, "--%s needs a value", copy);
        else
            add_setting(p, name, len, eq != NULL ? eq + 1 : boolean ? "true" : argv[++*i]);
    } else if (eq == NULL && str_starts(copy, "no-") && config_has(copy + 3, &boolean) && boolean) {
        add_setting(p, name + 3, len - 3, "false");
    } else {
        rc = unknown(p, common, copy);
    }
    mem_free(&copy);
    return rc;
}

/* "-lq", "-n5", "-n 5": letters until one that takes a value. */
static int short_options(struct parser *p, const struct args_option *common, int argc, char **argv,
                         int *i)
{
    int rc = 0;

    for (const char *s = argv[*i] + 1; *s != '\0' && rc == 0; s++) {
        const struct args_option *o = find(p->options, NULL, 0, *s);

        if (o == NULL)
            o = find(common, NULL, 0, *s);
        if (o == NULL)
            return dlc_err_set(&p->err, DLC_EINVAL, "no option -%c", *s);
        rc = store(p, o, o->value != NULL && s[1] != '\0' ? s + 1 : NULL, argc, argv, i);
        if (o->value != NULL)
            break;
    }
    return rc;
}

static int parse_all(struct parser *p, int argc, char **argv)
{
    struct args *a = p->args;
    struct args_option common[4];
    int rc = 0;

    common_options(p, common);
    for (int i = 1; i < argc && rc == 0 && !p->help; i++) {
        const char *s = argv[i];

        if (p->only_operands || s[0] != '-' || s[1] == '\0')
            a->operands[a->n++] = s;
        else if (strcmp(s, "--") == 0)
            p->only_operands = true;
        else if (s[1] == '-')
            rc = long_option(p, common, argc, argv, &i);
        else
            rc = short_options(p, common, argc, argv, &i);
    }
    return rc;
}

/* The configuration, then the flags over it; all that was given goes into the environment. */
static int apply_settings(struct parser *p, const struct command *cmd)
{
    unsigned roles = cmd->roles != 0 ? cmd->roles : ROLE_COMMAND | ROLE_SERVE;
    struct config *c = &p->args->config;
    int rc = config_load(c, p->config_file, &p->err);

    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < p->n && rc == 0; i++) {
        rc = config_set(c, p->settings[i].flag, p->settings[i].value, &p->err);
        if (rc == 0)
            setenv(config_env(p->settings[i].flag), p->settings[i].value, 1);
        if (strcmp(p->settings[i].flag, "token-file") == 0)
            unsetenv("DLCACHE_TOKEN"); /* a flag goes before all of the environment */
    }
    if (rc == 0)
        rc = config_check_roles(c, roles, cmd->name, &p->err);
    if (rc == 0) { /* the daemon may start in another directory */
        char *path = p->config_file != NULL ? realpath(p->config_file, NULL) : NULL;

        setenv(config_env("socket"), c->socket, 1);
        setenv(config_env("dir"), c->dir, 1);
        if (path != NULL)
            setenv("DLCACHE_CONFIG", path, 1);
        free(path);
    }
    return rc;
}

static int check_operands(const struct command *cmd, struct parser *p)
{
    const struct args *a = p->args;

    if (a->n < cmd->min)
        return dlc_err_set(&p->err, DLC_EINVAL, "%s is missing", cmd->missing);
    if (cmd->subs != NULL && cmd->max == 0 && a->n > 0)
        return group_which(cmd, a->operands[0], &p->err);
    if (cmd->max >= 0 && a->n > cmd->max)
        return dlc_err_set(&p->err, DLC_EINVAL, "\"%.100s\" is one argument too many",
                           a->operands[cmd->max]);
    return 0;
}

bool args_parse(struct args *a, const struct command *cmd, const struct args_option *options,
                int argc, char **argv, int *status)
{
    struct parser p = {.args = a, .options = options};
    struct buf page = BUF_INIT;
    bool go = false;
    int rc;

    a->operands = mem_zero(((size_t)argc + 1) * sizeof(*a->operands));
    rc = parse_all(&p, argc, argv);
    if (rc == 0 && p.help) {
        args_help(cmd, options, &page);
        fputs(buf_str(&page), stdout);
        *status = CLI_OK;
        goto out;
    }
    if (rc == 0)
        rc = check_operands(cmd, &p);
    if (rc < 0) {
        *status = usage(cmd, &p.err);
        goto out;
    }
    rc = apply_settings(&p, cmd);
    if (rc < 0) {
        cli_fail(cmd, &p.err);
        *status = CLI_USAGE; /* also when a file that was named does not exist */
    }
    go = rc == 0;
out:
    buf_release(&page);
    for (unsigned i = 0; i < p.n; i++)
        mem_free(&p.settings[i].flag);
    mem_free(&p.settings);
    return go;
}

void args_release(struct args *a)
{
    config_release(&a->config);
    mem_free(&a->operands);
    a->n = 0;
}

bool args_choice(const struct command *cmd, const char *option, const char *value,
                 const char *choices, int *status)
{
    struct dlc_err err = DLC_ERR_INIT;
    size_t len = strlen(value), n;

    for (const char *s = choices; *s != '\0'; s += n + (s[n] == '|')) {
        n = strcspn(s, "|");
        if (n == len && memcmp(s, value, n) == 0)
            return true;
    }
    dlc_err_set(&err, DLC_EINVAL, "--%s: \"%.60s\" is not one of %s", option, value, choices);
    *status = usage(cmd, &err);
    return false;
}
