// SPDX-License-Identifier: Apache-2.0
/* The table of options as text: --help and docs/configuration.md. */
#include "base/config_i.h"

#include <string.h>

#define HELP_COLUMN 29
#define HELP_WIDTH  96

static const char reloads[] = " SIGHUP reads it again.";

/* What stands for the value in "--memory SIZE". */
static const char *placeholder(const struct config_option *o)
{
    static const struct {
        const char *flag, *text;
    } texts[] = {
        {"socket", "PATH"},        {"dir", "DIR"},
        {"endpoint", "URL"},       {"region", "NAME"},
        {"profile", "NAME"},       {"path-style", "CHOICE"},
        {"allow-uid", "UID,..."},  {"allow-path", "DIR,..."},
        {"store-file", "PATH"},    {"shared-file", "PATH"},
        {"log-level", "LEVEL"},    {"log-file", "PATH"},
        {"log-format", "FORMAT"},  {"tenant-networks", "CIDR,..."},
        {"tenant-proxy", "URL"},   {"name", "NAME"},
        {"kubeconfig", "FILE"},    {"context", "NAME"},
        {"namespace", "NAME"},     {"webhook", "HOST:PORT"},
        {"listen", "HOST:PORT"},   {"http", "HOST:PORT"},
        {"driver-socket", "PATH"}, {"kubelet-socket", "PATH"},
        {"registration", "DIR"},   {"volume-dir", "DIR"},
    };
    static const char *const by_type[] = {
        [TYPE_text] = "TEXT", [TYPE_size] = "SIZE",  [TYPE_dur] = "TIME",
        [TYPE_number] = "N",  [TYPE_real] = "PRICE", [TYPE_flag] = "",
    };

    for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (strcmp(texts[i].flag, o->flag) == 0)
            return texts[i].text;
    return by_type[o->type];
}

/* Words of s, broken so that no line passes HELP_WIDTH; the cursor stands at HELP_COLUMN. */
static void add_wrapped(struct buf *out, const char *s)
{
    size_t column = HELP_COLUMN;

    while (*s != '\0') {
        size_t n = strcspn(s, " ");

        if (column > HELP_COLUMN && column + 1 + n > HELP_WIDTH) {
            buf_addf(out, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
            buf_addc(out, ' ');
            column++;
        }
        buf_add(out, s, n);
        column += n;
        s += n + (s[n] == ' ');
    }
    buf_addc(out, '\n');
}

void config_help(struct buf *out, unsigned roles)
{
    struct buf text = BUF_INIT;

    for (unsigned i = 0; i < config_n_options; i++) {
        const struct config_option *o = &config_options[i];
        size_t start = out->len, used;

        if (roles != 0 && (o->roles & roles) == 0)
            continue;
        buf_clear(&text);
        buf_adds(&text, o->help);
        if ((o->roles & CONFIG_RELOAD) != 0)
            buf_adds(&text, reloads);
        if (roles == 0) {
            buf_adds(&text, " (");
            config_role_names(o->roles, &text);
            buf_addc(&text, ')');
        }
        buf_addf(out, "  --%s%s%s", o->flag, o->type == TYPE_flag ? "" : " ", placeholder(o));
        used = out->len - start;
        if (used + 2 > HELP_COLUMN)
            buf_addf(out, "\n%*s", HELP_COLUMN, "");
        else
            buf_addf(out, "%*s", (int)(HELP_COLUMN - used), "");
        add_wrapped(out, buf_str(&text));
    }
    buf_release(&text);
}

static const char *const preamble =
    "<!-- Made from src/base/tbl/options.def by tools/gen-docs; edit the table, not this page. "
    "-->\n"
    "# Configuration\n"
    "\n"
    "Every setting can be given in three ways. The first of these that has it wins:\n"
    "\n"
    "1. a flag: `dlcache serve --memory 8GB`\n"
    "2. an environment variable: `DLCACHE_MEMORY=8GB`\n"
    "3. a line of a configuration file: `memory = 8GB`\n"
    "\n"
    "The configuration file is the one named by `--config FILE`, else by `DLCACHE_CONFIG`, else\n"
    "`~/.config/dlcache.conf`, else `/etc/dlcache.conf`: the first that exists, and only that "
    "one.\n"
    "Its lines are `name = value`; `#` begins a comment. An unknown name is an error.\n"
    "\n"
    "    # ~/.config/dlcache.conf\n"
    "    memory = 8GB\n"
    "    disk = 200GB           # 0: no disk tier\n"
    "    endpoint = http://127.0.0.1:9000\n"
    "\n"
    "Settings of the daemon (memory, disk, the bucket's endpoint and credentials) are read when "
    "it\n"
    "starts. A daemon that the library starts inherits the environment of the program that started "
    "it.\n"
    "\n"
    "## Roles\n"
    "\n"
    "Each setting is read by some roles only: by commands (and programs that use the library),\n"
    "`serve`, `node`, `manager` or `operator`. A flag of another role is an error, and so is a\n"
    "line of the file that `--config` gives to a server: `dlcache node --tls-cert cert.pem`\n"
    "would run without the TLS that it seems to have. Variables of the environment and the two\n"
    "usual files are shared by all that runs on a machine, so a server takes no offence at a\n"
    "setting of another server there; it logs a warning and goes on. Commands take the settings\n"
    "of `serve` too: they may start a daemon.\n"
    "\n"
    "## SIGHUP\n"
    "\n"
    "SIGHUP never ends a server. It opens `log-file` again, reads the configuration file again\n"
    "with the flags and environment of the start, and takes the settings whose meaning says so.\n"
    "`memory` grows up to what it was at the start, and `allow-uid` changes from one list to\n"
    "another, not from or to none. Of any other setting that differs the log says that it waits\n"
    "for the next start; after a mistake in the file nothing is changed. Token files,\n"
    "certificates and the audit log need no signal: they are looked at when they are used.\n"
    "\n"
    "## Values\n"
    "\n"
    "| kind | written as |\n"
    "| --- | --- |\n"
    "| SIZE | `1500`, `200MB`, `1.5GiB`: decimal for k, M, G, T and kB to TB; binary for KiB to "
    "TiB |\n"
    "| TIME | `250ms`, `30s`, `5m`, `2h`; a bare number is seconds |\n"
    "| yes/no | `true` or `false`; `yes`, `no`, `on`, `off`, `1` and `0` will do. As a flag, "
    "`--hedge` "
    "alone is true and `--no-hedge` is false |\n"
    "\n"
    "## All settings\n"
    "\n";

/* Help text in a table cell: a bar would end the cell, and markup characters mean themselves. */
static void add_cell(struct buf *out, const char *s)
{
    for (; *s != '\0'; s++) {
        if (strchr("|<>*_~", *s) != NULL)
            buf_addc(out, '\\');
        buf_addc(out, *s);
    }
}

void config_reference(struct buf *out)
{
    buf_adds(out, preamble);
    buf_adds(out, "| flag and name | environment | roles | value | default | meaning |\n"
                  "| --- | --- | --- | --- | --- | --- |\n");
    for (unsigned i = 0; i < config_n_options; i++) {
        const struct config_option *o = &config_options[i];

        buf_addf(out, "| `--%s` | `%s` | ", o->flag, o->env);
        config_role_names(o->roles, out);
        buf_addf(out, " | %s | ", o->type == TYPE_flag ? "yes/no" : placeholder(o));
        if (o->def[0] != '\0')
            buf_addf(out, "`%s`", o->def);
        buf_adds(out, " | ");
        add_cell(out, o->help);
        if ((o->roles & CONFIG_RELOAD) != 0)
            buf_adds(out, reloads);
        buf_adds(out, " |\n");
    }
}
