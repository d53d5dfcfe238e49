// SPDX-License-Identifier: Apache-2.0
/* `dlcache config`: the settings that a role would run with here, and where each comes from. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "cli/commands.h"
#include "cli/table.h"

static const struct role {
    const char *name;
    unsigned roles;
} role_table[] = {
    {"commands", ROLE_COMMAND | ROLE_SERVE},
    {"serve", ROLE_SERVE},
    {"node", ROLE_NODE},
    {"manager", ROLE_MANAGER},
    {"operator", ROLE_OPERATOR},
    {"csi", ROLE_CSI},
};

static int find_role(const char *name, const struct role **out, struct dlc_err *err)
{
    for (size_t i = 0; i < DLC_COUNT(role_table); i++) {
        if (strcmp(role_table[i].name, name) == 0) {
            *out = &role_table[i];
            return 0;
        }
    }
    return dlc_err_set(
        err, DLC_EINVAL,
        "no role \"%.60s\"; there are commands, serve, node, manager, operator and csi", name);
}

static void print_text(const struct config *c, unsigned roles, bool changed)
{
    struct config_shown s = CONFIG_SHOWN_INIT;
    struct table t;

    printf("file: %s\n\n", c->file != NULL ? c->file : "none");
    table_init(&t, "setting|value|from");
    for (unsigned i = 0; i < CONFIG_N_OPTIONS; i++) {
        if (!config_show(c, i, roles, &s) || (changed && !s.changed))
            continue;
        table_add(&t, s.flag);
        table_add(&t, buf_str(&s.value));
        table_add(&t, buf_str(&s.source));
    }
    table_print(&t, stdout);
    table_release(&t);
    config_shown_release(&s);
}

static void print_object(const struct config *c, unsigned roles, bool changed)
{
    struct config_shown s = CONFIG_SHOWN_INIT;
    json_t *all = json_object();

    for (unsigned i = 0; i < CONFIG_N_OPTIONS; i++) {
        if (config_show(c, i, roles, &s) && (!changed || s.changed))
            json_object_set_new(
                all, s.flag,
                json_pack("{s:s, s:s}", "value", buf_str(&s.value), "from", buf_str(&s.source)));
    }
    print_json(json_pack("{s:s?, s:o}", "file", c->file, "settings", all), true);
    config_shown_release(&s);
}

static int run(const struct command *cmd, int argc, char **argv)
{
    bool json = false, changed = false;
    const struct args_option options[] = {
        {"changed", 0, NULL, "Only what differs in source from the default.", &changed, NULL},
        {"json", 0, NULL, "Print a JSON object.", &json, NULL},
        {NULL, 0, NULL, NULL, NULL, NULL},
    };
    const struct role *role = &role_table[0];
    struct args a = ARGS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int status;

    if (args_parse(&a, cmd, options, argc, argv, &status)) {
        if ((a.n > 0 && find_role(a.operands[0], &role, &err) < 0) ||
            config_check_roles(&a.config, role->roles, role->name, &err) < 0) {
            status = cli_fail(cmd, &err);
        } else {
            (json ? print_object : print_text)(&a.config, role->roles, changed);
            status = end_output(cmd);
        }
    }
    args_release(&a);
    return status;
}

const struct command cmd_config = {
    .name = "config",
    .synopsis = "[ROLE] [--changed] [--json] [SETTINGS]",
    .summary = "Show the settings in force and where each comes from.",
    .details =
        "ROLE is serve, node, manager or operator; without one, what commands and programs read, "
        "and\n"
        "the daemon that they would start. Takes the same flags, environment and --config FILE as "
        "the\n"
        "role, and checks them as the role would: exit status 2 if it would not start. It does not "
        "ask\n"
        "a running daemon. Passwords in URLs are hidden. `dlcache help config` explains each "
        "setting.",
    .examples = "  $ dlcache config\n"
                "  $ dlcache config node --config /etc/dlcache/node.conf --changed\n"
                "  $ dlcache config manager --json\n",
    .max = 1,
    .run = run,
    .roles = ROLE_COMMAND | ROLE_SERVERS,
};
