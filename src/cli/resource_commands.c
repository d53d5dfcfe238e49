// SPDX-License-Identifier: Apache-2.0
#include "cli/resource_commands.h"

#include <stdio.h>

#include "base/mem.h"

bool kind_begin(struct args *a, const struct command *cmd, const struct args_option *options,
                int argc, char **argv, const char *rest, char **path, int *status)
{
    struct dlc_err err = DLC_ERR_INIT;

    *path = NULL;
    if (!args_parse(a, cmd, options, argc, argv, status))
        return false;
    if (api_name(cmd->kind->what, a->operands[0], &err) < 0) {
        *status = cli_fail(cmd, &err);
        return false;
    }
    *path = mem_fmt("%s/%s%s", cmd->kind->path, a->operands[0], rest);
    return true;
}

void kind_print_list(const json_t *answer, void *arg)
{
    const struct kind *k = arg;
    const json_t *item;
    struct table t;
    size_t i;

    table_init(&t, k->headings);
    json_array_foreach(json_object_get(answer, "items"), i, item) k->row(&t, item);
    table_print(&t, stdout);
    table_release(&t);
}

int kind_ls(const struct command *cmd, int argc, char **argv)
{
    const struct kind *k = cmd->kind;
    struct api_view v = {false, NULL};
    const char *tenant = NULL;
    const struct args_option options[] = {
        {"tenant", 't', "NAME", "Those of one tenant; for admins.", NULL, &tenant},
        API_JSON(&v.json),
        API_WATCH(&v.every),
        API_END,
    };
    struct args a = ARGS_INIT;
    struct buf path = BUF_INIT;
    int status;

    if (args_parse(&a, cmd, options + !k->owned, argc, argv, &status)) {
        buf_adds(&path, k->path);
        api_query(&path, "tenant", tenant);
        status = api_look(cmd, &a, &v, buf_str(&path), true, kind_print_list, (void *)(uintptr_t)k);
    }
    buf_release(&path);
    args_release(&a);
    return status;
}

int kind_show(const struct command *cmd, int argc, char **argv)
{
    struct api_view v = {false, NULL};
    const struct args_option options[] = {API_JSON(&v.json), API_WATCH(&v.every), API_END};
    struct args a = ARGS_INIT;
    char *path;
    int status;

    if (kind_begin(&a, cmd, options, argc, argv, cmd->kind->query != NULL ? cmd->kind->query : "",
                   &path, &status))
        status = api_look(cmd, &a, &v, path, false, cmd->kind->print, NULL);
    mem_free(&path);
    args_release(&a);
    return status;
}

int kind_rm(const struct command *cmd, int argc, char **argv)
{
    const struct kind *k = cmd->kind;
    bool force = false, json = false;
    const struct args_option options[] = {
        {"force", 'f', NULL, k->force, &force, NULL},
        API_JSON(&json),
        API_END,
    };
    struct args a = ARGS_INIT;
    char *path;
    int status;

    if (kind_begin(&a, cmd, options + (k->force == NULL), argc, argv, "", &path, &status))
        status = api_remove(cmd, &a, json, path, force);
    mem_free(&path);
    args_release(&a);
    return status;
}
