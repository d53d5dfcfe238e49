// SPDX-License-Identifier: Apache-2.0
/* `dlcache tenant`: teams, their tokens. The credentials of their buckets:
 * cmd_tenant_credentials.c. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/manager_commands.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/cmd_tenant.h"

/* ---- tokens ---- */

/* The token alone goes to standard output, so that it can go to a file. */
static void print_token(const json_t *answer, void *arg)
{
    const char *name = json_text_at(answer, "name");

    (void)arg;
    fprintf(stderr,
            "the token of tenant %s, which is shown this once; programs take it from "
            "DLCACHE_TOKEN or --token-file:\n",
            name);
    printf("%s\n", json_text_at(answer, "token"));
}

static int create(const struct command *cmd, int argc, char **argv)
{
    bool json = false;
    const struct args_option options[] = {API_JSON(&json), API_END};
    struct args a = ARGS_INIT;
    char *path;
    int status;

    if (kind_begin(&a, cmd, options, argc, argv, "", &path, &status))
        status = api_do(cmd, &a, json, "POST", "/v1/tenants",
                        json_pack("{s:s}", "name", a.operands[0]), print_token, NULL);
    mem_free(&path);
    args_release(&a);
    return status;
}

static int token(const struct command *cmd, int argc, char **argv)
{
    bool json = false;
    const char *grace = NULL;
    const struct args_option options[] = {
        {"grace", 'g', "TIME", "How long older tokens stay good. Default: 0, not at all.", NULL,
         &grace},
        API_JSON(&json),
        API_END,
    };
    struct args a = ARGS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct dlc_dur d = {0};
    char *path;
    int status;

    if (!kind_begin(&a, cmd, options, argc, argv, "/token", &path, &status))
        goto out;
    if (grace != NULL && (!str_parse_dur(grace, &d) || d.ns < 0)) {
        dlc_err_set(&err, DLC_EINVAL, "--grace: \"%.60s\" is not a time, such as 1h", grace);
        status = cli_fail(cmd, &err);
        goto out;
    }
    status =
        api_do(cmd, &a, json, "POST", path,
               json_pack("{s:I}", "grace_s", (json_int_t)(d.ns / 1000000000)), print_token, NULL);
out:
    mem_free(&path);
    args_release(&a);
    return status;
}

/* ---- looking ---- */

static const char *credentials_of(const json_t *t)
{
    const json_t *c = json_object_get(t, "credentials");

    return !json_is_object(c) ? "none" : json_true_at(c, "anonymous") ? "anonymous" : "set";
}

static void add_row(struct table *table, const json_t *t)
{
    char when[24];

    table_add(table, json_text_at(t, "name"));
    table_addf(table, "%llu", (unsigned long long)json_u64_at(t, "tokens"));
    table_add(table, credentials_of(t));
    table_add(table, api_time(t, "created", when));
}

static void print_tenant(const json_t *t, void *arg)
{
    char when[24];

    (void)arg;
    printf("tenant       %s\n", json_text_at(t, "name"));
    printf("created      %s\n", api_time(t, "created", when));
    printf("tokens       %llu\n", (unsigned long long)json_u64_at(t, "tokens"));
    printf("credentials  %s", credentials_of(t));
    if (json_is_object(json_object_get(t, "credentials")))
        printf(" since %s", api_time(json_object_get(t, "credentials"), "set", when));
    putchar('\n');
}

/* ---- help ---- */

#define NAME "the name of a tenant"

const struct kind kind_tenant = {
    .what = "tenant",
    .path = "/v1/tenants",
    .headings = "tenant|>tokens|credentials|created",
    .row = add_row,
    .print = print_tenant,
};

static const struct command sub_create = {
    .name = "tenant create",
    .synopsis = "NAME [--json]",
    .summary = "Make a tenant and print its token, once.",
    .details = "Only the token goes to standard output. The manager keeps a hash of it: whoever "
               "loses it asks\n"
               "for another with `dlcache tenant token`.",
    .examples = "  $ (umask 077; dlcache tenant create vision > vision.token)\n",
    ONE_OPERAND(NAME),
    .run = create,
    .kind = &kind_tenant,
};

static const struct command sub_ls = {
    .name = "tenant ls",
    .synopsis = "[--json] [--watch TIME]",
    .summary = "List all tenants.",
    .details = "Tokens: how many are good now. Credentials: whether a key for buckets was set.",
    .examples = "  $ dlcache tenant ls\n"
                "  $ dlcache tenant ls --json | jq -r '.items[].name'\n",
    .run = kind_ls,
    .kind = &kind_tenant,
};

static const struct command sub_show = {
    .name = "tenant show",
    .synopsis = "NAME [--json] [--watch TIME]",
    .summary = "Show one tenant.",
    .details = "Neither tokens nor credentials are ever shown, only that they are there.",
    .examples = "  $ dlcache tenant show vision\n",
    ONE_OPERAND(NAME),
    .run = kind_show,
    .kind = &kind_tenant,
};

static const struct command sub_rm = {
    .name = "tenant rm",
    .synopsis = "NAME [--json]",
    .summary = "Delete a tenant that has no datasets and jobs.",
    .details = "Its tokens are good for nothing from now on, and its credentials are forgotten.",
    .examples = "  $ dlcache tenant rm vision\n",
    ONE_OPERAND(NAME),
    .run = kind_rm,
    .kind = &kind_tenant,
};

static const struct command sub_token = {
    .name = "tenant token",
    .synopsis = "NAME [--grace TIME] [--json]",
    .summary = "Give a tenant another token and print it, once.",
    .details = "Older ones end at once, or after --grace: long enough for all jobs to get the new "
               "one. A tenant\n"
               "may do this with its own token.",
    .examples = "  $ dlcache tenant token vision --grace 1h > vision.token\n",
    ONE_OPERAND(NAME),
    .run = token,
    .kind = &kind_tenant,
};

static const struct command *const subs[] = {
    &sub_create, &sub_ls, &sub_show, &sub_rm, &sub_token, &cmd_tenant_credentials, NULL,
};

const struct command cmd_tenant = {
    .name = "tenant",
    .synopsis = "SUBCOMMAND ...",
    .summary = "Teams: their tokens and the credentials of their buckets.",
    .details =
        "A tenant sees and reads its own datasets and jobs only. It shows who it is with a token;\n"
        "the manager gives its credentials to nodes, and to nobody else. For admins.\n"
        "\n"
        "The manager is found by --manager or DLCACHE_MANAGER, else by the socket of the daemon "
        "on this\n"
        "machine; the token by --token-file, DLCACHE_TOKEN or DLCACHE_TOKEN_FILE, else admin.token "
        "in\n"
        "--dir.",
    .examples = "  $ dlcache tenant create vision > vision.token\n"
                "  $ dlcache tenant credentials vision --from-env\n"
                "  $ dlcache tenant ls --manager http://10.0.0.1:7070 --token-file admin.token\n",
    .max = -1,
    .run = group_run,
    .subs = subs,
};
