// SPDX-License-Identifier: Apache-2.0
/* The subcommands of `dlcache node`, which ask the manager; to run a node: cmd_node_run.c. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/manager_commands.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/node_drain.h"
#include "cli/progress.h"
#include "cli/resource_commands.h"

/* ---- ls, show ---- */

/* "-" where a tenant may not look, or the node has not said it yet. */
static void add_size(struct table *t, const json_t *n, const char *path, const char *top)
{
    char size[24];

    table_add(t, json_object_get(n, top) != NULL && !json_is_null(json_object_get(n, top))
                     ? str_size(json_u64_at(n, path), size)
                     : "-");
}

static void add_row(struct table *t, const json_t *n)
{
    bool all = json_object_get(n, "capacity") != NULL;
    char state[32];

    node_drain_short(n, state, sizeof(state));
    table_add(t, json_text_at(n, "name"));
    table_add(t, state);
    add_size(t, n, "capacity", "capacity");
    add_size(t, n, "figures.memory_used", "figures");
    add_size(t, n, "figures.disk_used", "figures");
    add_size(t, n, "figures.disk_limit", "figures");
    table_addf(t, all ? "%llu" : "-", (unsigned long long)json_u64_at(n, "gpus"));
    table_addf(t, all ? "%zu" : "-", json_array_size(json_object_get(n, "commands")));
    table_addf(t, json_object_get(n, "silent_s") != NULL ? "%.1f s ago" : "-",
               json_number_at(n, "silent_s"));
    table_add(t, json_text_at(n, "address"));
}

static void print_datasets(const json_t *n)
{
    json_t *all = json_at(n, "figures.datasets"), *d;
    const char *id;
    char a[24], b[24], c[24], hits[32], served[32];
    struct table t;

    if (json_object_size(all) == 0)
        return;
    table_init(&t, "dataset|>in memory|>on disk|>readers|>hits|>from peers|>for peers|>bucket");
    json_object_foreach(all, id, d)
    {
        table_add(&t, id);
        table_add(&t, str_size(json_u64_at(d, "memory_bytes"), a));
        table_add(&t, str_size(json_u64_at(d, "disk_bytes"), b));
        table_addf(&t, "%llu", (unsigned long long)json_u64_at(d, "readers"));
        table_add(&t, table_count(json_u64_at(d, "hits"), hits));
        table_add(&t, table_count(json_u64_at(d, "peer_hits"), served));
        table_add(&t, table_count(json_u64_at(d, "served"), hits));
        table_add(&t, str_size(json_u64_at(d, "bucket_bytes"), c));
    }
    putchar('\n');
    table_print(&t, stdout);
    table_release(&t);
}

static void print_work(const json_t *n)
{
    json_t *p, *o;
    const char *id;
    char done[32], total[32];
    size_t i;

    json_object_foreach(json_object_get(n, "progress"), id, p)
    {
        printf("doing      %s of %s: %s of %s\n", json_text_at(p, "phase"), id,
               table_count(json_u64_at(p, "done"), done),
               table_count(json_u64_at(p, "total"), total));
    }
    json_array_foreach(json_object_get(n, "commands"), i, o)
    {
        printf("command    %s of %s\n", json_text_at(o, "op"), json_text_at(o, "dataset"));
    }
}

static void print_node(const json_t *n, void *arg)
{
    struct buf state = BUF_INIT;
    char a[24], b[24], c[24];

    (void)arg;
    printf("node       %s\n", json_text_at(n, "name"));
    node_drain_text(n, &state);
    printf("state      %s\n", buf_str(&state));
    buf_release(&state);
    if (json_object_get(n, "capacity") == NULL)
        return; /* a tenant sees no more */
    printf("address    %s\n", json_text_at(n, "address"));
    if (json_object_get(n, "silent_s") != NULL)
        printf("heard      %.1f s ago\n", json_number_at(n, "silent_s"));
    printf("capacity   %s, memory %s, %llu GPUs\n", str_size(json_u64_at(n, "capacity"), a),
           str_size(json_u64_at(n, "memory"), b), (unsigned long long)json_u64_at(n, "gpus"));
    if (json_is_object(json_object_get(n, "figures")))
        printf("used       %s of memory, %s of disk, whose limit is %s\n",
               str_size(json_u64_at(n, "figures.memory_used"), a),
               str_size(json_u64_at(n, "figures.disk_used"), b),
               str_size(json_u64_at(n, "figures.disk_limit"), c));
    print_work(n);
    print_datasets(n);
}

/* ---- drain ---- */

static void say_state(const json_t *n, void *arg)
{
    struct buf text = BUF_INIT;

    (void)arg;
    node_drain_text(n, &text);
    printf("node %s is %s\n", json_text_at(n, "name"), buf_str(&text));
    buf_release(&text);
}

static int undrain(const struct command *cmd, int argc, char **argv)
{
    bool json = false;
    const struct args_option options[] = {API_JSON(&json), API_END};
    struct args a = ARGS_INIT;
    char *path;
    int status;

    if (kind_begin(&a, cmd, options, argc, argv, "/drain", &path, &status))
        status =
            api_do(cmd, &a, json, "POST", path, json_pack("{s:b}", "drain", 0), say_state, NULL);
    mem_free(&path);
    args_release(&a);
    return status;
}

/* Begin the drain and wait for its end. */
static int drain_and_wait(const struct command *cmd, const struct args *a, const char *path,
                          bool json)
{
    char *drain_path = mem_fmt("%s/drain", path);
    struct dlc_err err = DLC_ERR_INIT;
    struct api api = API_INIT;
    json_t *node = NULL;
    struct progress bar;
    int rc = api_open(&api, &a->config, &err);

    progress_init(&bar, "samples", a->quiet || json);
    if (rc == 0)
        rc = api_call(&api, "POST", drain_path, json_pack("{s:b}", "drain", 1), &node, &err);
    json_decref(node);
    if (rc == 0)
        rc = node_drain_wait(&api, path, &bar, &node, &err);
    progress_end(&bar);
    api_close(&api);
    mem_free(&drain_path);
    if (rc < 0)
        return cli_fail(cmd, &err);
    if (json)
        print_json(node, true);
    else
        say_state(node, NULL);
    if (!json)
        json_decref(node);
    return end_output(cmd);
}

static int drain(const struct command *cmd, int argc, char **argv)
{
    bool json = false, wait = false;
    const struct args_option options[] = {
        {"wait", 'w', NULL, "Wait until the new owners have its copies, and show how far it is.",
         &wait, NULL},
        API_JSON(&json),
        API_END,
    };
    struct args a = ARGS_INIT;
    char *path;
    int status;

    if (kind_begin(&a, cmd, options, argc, argv, "", &path, &status)) {
        char *drain_path = mem_fmt("%s/drain", path);

        status = wait ? drain_and_wait(cmd, &a, path, json)
                      : api_do(cmd, &a, json, "POST", drain_path, json_pack("{s:b}", "drain", 1),
                               say_state, NULL);
        mem_free(&drain_path);
    }
    mem_free(&path);
    args_release(&a);
    return status;
}

/* ---- join-token ---- */

/* The token alone goes to standard output, so that it can go to a file. */
static void print_join_token(const json_t *answer, void *arg)
{
    (void)arg;
    fprintf(
        stderr,
        "a token with which one process joins as node %s, within %llu s; it is shown this once. "
        "Start the node with --token-file:\n",
        json_text_at(answer, "name"), (unsigned long long)json_u64_at(answer, "life_s"));
    printf("%s\n", json_text_at(answer, "token"));
}

static int join_token(const struct command *cmd, int argc, char **argv)
{
    bool json = false;
    const char *life = NULL;
    const struct args_option options[] = {
        {"life", 'l', "TIME", "How long it may be used. Default: 1h.", NULL, &life},
        API_JSON(&json),
        API_END,
    };
    struct dlc_err err = DLC_ERR_INIT;
    struct args a = ARGS_INIT;
    struct dlc_dur d = DLC_SEC(3600);
    char *path;
    int status;

    if (!kind_begin(&a, cmd, options, argc, argv, "/join-token", &path, &status)) {
        args_release(&a);
        return status;
    }
    if (life != NULL && (!str_parse_dur(life, &d) || d.ns < DLC_SEC(1).ns)) {
        dlc_err_set(&err, DLC_EINVAL, "--life %s: a time such as 30m or 1h is needed", life);
        status = cli_fail(cmd, &err);
    } else {
        status = api_do(cmd, &a, json, "POST", path,
                        json_pack("{s:I}", "life_s", (json_int_t)(d.ns / DLC_SEC(1).ns)),
                        print_join_token, NULL);
    }
    mem_free(&path);
    args_release(&a);
    return status;
}

/* ---- revoke ---- */

static void say_revoked(const json_t *n, void *arg)
{
    (void)arg;
    printf(
        json_true_at(n, "revoked")
            ? "node %s is revoked: managers refuse it now, other nodes with their next heartbeat\n"
            : "node %s may join again with the token of nodes\n",
        json_text_at(n, "name"));
}

static int set_revoke(const struct command *cmd, int argc, char **argv, bool on)
{
    bool json = false;
    const struct args_option options[] = {API_JSON(&json), API_END};
    struct args a = ARGS_INIT;
    char *path;
    int status;

    if (kind_begin(&a, cmd, options, argc, argv, "/revoke", &path, &status))
        status = api_do(cmd, &a, json, "POST", path, json_pack("{s:b}", "revoke", on), say_revoked,
                        NULL);
    mem_free(&path);
    args_release(&a);
    return status;
}

static int revoke_node(const struct command *cmd, int argc, char **argv)
{
    return set_revoke(cmd, argc, argv, true);
}

static int unrevoke_node(const struct command *cmd, int argc, char **argv)
{
    return set_revoke(cmd, argc, argv, false);
}

/* ---- help ---- */

#define NAME "the name of a node"

static const struct kind nodes = {
    .what = "node",
    .path = "/v1/nodes",
    .headings =
        "node|state|>capacity|>in memory|>on disk|>disk limit|>gpus|>commands|>heard|address",
    .row = add_row,
    .print = print_node,
};

static const struct command sub_ls = {
    .name = "node ls",
    .synopsis = "[--json] [--watch TIME]",
    .summary = "List the nodes of the cluster.",
    .details = "A tenant sees their names and states only.",
    .examples = "  $ dlcache node ls --watch 1s\n",
    .run = kind_ls,
    .kind = &nodes,
};

static const struct command sub_show = {
    .name = "node show",
    .synopsis = "NAME [--json] [--watch TIME]",
    .summary = "Show one node: what it has, does, and was told to do.",
    .details = "From peers: samples it got from other nodes. For peers: samples it gave to them.",
    .examples = "  $ dlcache node show gpu7\n",
    ONE_OPERAND(NAME),
    .run = kind_show,
    .kind = &nodes,
};

static const struct command sub_drain = {
    .name = "node drain",
    .synopsis = "NAME [--wait] [--json]",
    .summary = "Give a node's chunks other owners, before it is taken away.",
    .details =
        "It owns nothing from now on, and hands its copies over to the nodes that own them then: "
        "the\n"
        "bucket is not read for them again. Until they have them it serves them itself. Programs "
        "on\n"
        "it go on. When all are handed over its state is \"drained\": it can be removed. That is\n"
        "remembered until `dlcache node undrain` or `dlcache node leave`. With --wait the status "
        "is 1\n"
        "if copies are left, because no other node has room for them or one does not answer.",
    .examples = "  $ dlcache node drain gpu7 --wait\n",
    ONE_OPERAND(NAME),
    .run = drain,
    .kind = &nodes,
};

static const struct command sub_undrain = {
    .name = "node undrain",
    .synopsis = "NAME [--json]",
    .summary = "Let it own chunks again.",
    .details = "The opposite of `dlcache node drain`.",
    .examples = "  $ dlcache node undrain gpu7\n",
    ONE_OPERAND(NAME),
    .run = undrain,
    .kind = &nodes,
};

static const struct command sub_leave = {
    .name = "node leave",
    .synopsis = "NAME [--json]",
    .summary = "Forget a node that is not coming back.",
    .details = "One that still runs joins again by itself: end it first.",
    .examples = "  $ dlcache node leave gpu7\n",
    ONE_OPERAND(NAME),
    .run = kind_rm,
    .kind = &nodes,
};

static const struct command sub_join_token = {
    .name = "node join-token",
    .synopsis = "NAME [--life TIME] [--json]",
    .summary = "Make a token with which one machine joins as NAME, once.",
    .details =
        "Only the token goes to standard output; the manager keeps a hash of it. The node that\n"
        "joins with it gets a credential of its own, which it keeps in --dir (node.credential)\n"
        "and which speaks for no other node. So no machine needs the token that all nodes\n"
        "share (node.token), and a manager with --no-shared-node-token does not accept that.",
    .examples = "  $ (umask 077; dlcache node join-token gpu7 > gpu7.token)\n",
    ONE_OPERAND(NAME),
    .run = join_token,
    .kind = &nodes,
};

static const struct command sub_revoke = {
    .name = "node revoke",
    .synopsis = "NAME [--json]",
    .summary = "End a node's access to the cluster at once, and forget it.",
    .details =
        "For a machine that was taken over or lost. Its certificates, credentials and tickets\n"
        "are refused, also on connections that are open. If it may have read the token that\n"
        "all nodes share, replace that too: with it a process can join under another name.",
    .examples = "  $ dlcache node revoke gpu7\n",
    ONE_OPERAND(NAME),
    .run = revoke_node,
    .kind = &nodes,
};

static const struct command sub_unrevoke = {
    .name = "node unrevoke",
    .synopsis = "NAME [--json]",
    .summary = "Let the name join with the shared token of nodes again.",
    .details = "What was revoked stays so: the node gets a new certificate.",
    .examples = "  $ dlcache node unrevoke gpu7\n",
    ONE_OPERAND(NAME),
    .run = unrevoke_node,
    .kind = &nodes,
};

const struct command *const node_subs[] = {
    &sub_ls,         &sub_show,   &sub_drain,    &sub_undrain, &sub_leave,
    &sub_join_token, &sub_revoke, &sub_unrevoke, NULL,
};
