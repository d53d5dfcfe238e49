// SPDX-License-Identifier: Apache-2.0
/* `dlcache dataset`: create, list, show, delete. Commands for nodes: cmd_dataset_ops.c. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/manager_commands.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/cmd_dataset.h"

/* ---- create ---- */

struct create_options {
    const char *splits, *tenant, *nodes, *node_count;
};

static int describe(const struct args *a, const struct create_options *m, json_t **out,
                    struct dlc_err *err)
{
    json_t *body = *out = json_object();
    int rc = ctl_check_url(a->operands[1], err);

    api_set(body, "name", a->operands[0]);
    api_set(body, "url", a->operands[1]);
    api_set(body, "tenant", m->tenant);
    api_set_endpoint(body, &a->config, a->operands[1]);
    api_set_names(body, "splits", m->splits);
    api_set_names(body, "nodes", m->nodes);
    if (rc == 0)
        rc = api_set_number(body, "node_count", "node-count", m->node_count, 1000, err);
    if (rc == 0 && m->tenant != NULL)
        rc = api_name("tenant", m->tenant, err);
    return rc;
}

static void say_created(const json_t *d, void *arg)
{
    const char *name = json_text_at(d, "name");

    (void)arg;
    printf("dataset %s is registered: programs open it as dlcache://%s\n", name, name);
}

static int create(const struct command *cmd, int argc, char **argv)
{
    bool json = false;
    struct create_options m = {NULL, NULL, NULL, NULL};
    const struct args_option options[] = {
        {"split", 's', "NAMES", "Splits that matter, with commas: train,validation. Default: all.",
         NULL, &m.splits},
        {"tenant", 't', "NAME", "Whose it is; for admins. Default: your own, or nobody's.", NULL,
         &m.tenant},
        {"nodes", 'n', "NAMES", "Nodes it lies on, with commas. Default: all.", NULL, &m.nodes},
        {"node-count", 0, "N", "Let the manager choose N nodes.", NULL, &m.node_count},
        API_JSON(&json),
        API_END,
    };
    struct args a = ARGS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    json_t *body = NULL;
    char *path;
    int status;

    if (!kind_begin(&a, cmd, options, argc, argv, "", &path, &status))
        goto out;
    if (describe(&a, &m, &body, &err) < 0)
        status = cli_fail(cmd, &err);
    else
        status =
            api_do(cmd, &a, json, "POST", "/v1/datasets", json_incref(body), say_created, NULL);
out:
    json_decref(body);
    mem_free(&path);
    args_release(&a);
    return status;
}

/* ---- ls ---- */

static void add_row(struct table *t, const json_t *d)
{
    const json_t *snapshot = json_object_get(d, "snapshot");
    char n[32], size[24], *nodes = api_joined(json_object_get(d, "nodes"), "all");
    const char *tenant = json_text_at(d, "tenant");

    table_add(t, json_text_at(d, "name"));
    table_add(t, tenant[0] != '\0' ? tenant : "-");
    table_add(t, json_text_at(d, "state"));
    table_add(t, snapshot != NULL ? table_count(json_u64_at(snapshot, "samples"), n) : "-");
    table_add(t, snapshot != NULL ? str_size(json_u64_at(snapshot, "bytes"), size) : "-");
    table_add(t, nodes);
    table_add(t, json_text_at(d, "url"));
    mem_free(&nodes);
}

/* ---- show ---- */

static void print_snapshot(const json_t *d)
{
    const json_t *s = json_object_get(d, "snapshot"), *split;
    char n[32], m[32], size[24], when[24];
    size_t i;

    if (s == NULL) {
        printf("snapshot   none yet: the bucket was not listed\n");
        return;
    }
    printf("snapshot   %s of %s: %s samples in %s objects, %s\n", json_text_at(s, "id"),
           api_time(s, "time", when), table_count(json_u64_at(s, "samples"), n),
           table_count(json_u64_at(s, "objects"), m), str_size(json_u64_at(s, "bytes"), size));
    json_array_foreach(json_object_get(s, "splits"), i, split)
    {
        printf("split      %s: %s samples, %s\n", json_text_at(split, "name"),
               table_count(json_u64_at(split, "samples"), n),
               str_size(json_u64_at(split, "bytes"), size));
    }
}

/* Node by node: what is there, and what is under way. */
static void print_places(const json_t *d)
{
    const json_t *there = json_at(d, "cached.nodes"), *v;
    const json_t *preparing = json_object_get(d, "preparation");
    char n[32], m[32], size[24];
    struct table t;
    size_t i;

    printf("cached     %s\n", str_size(json_u64_at(d, "cached.bytes"), size));
    table_init(&t, "node|>chunks|>size");
    json_array_foreach((json_t *)there, i, v)
    {
        table_add(&t, json_text_at(v, "node"));
        table_add(&t, table_count(json_u64_at(v, "chunks"), n));
        table_add(&t, str_size(json_u64_at(v, "bytes"), size));
    }
    if (json_array_size(there) > 0) {
        putchar('\n');
        table_print(&t, stdout);
    }
    table_release(&t);
    json_array_foreach((json_t *)preparing, i, v)
    {
        printf("%s%s: %s, %s of %s, %s\n", i == 0 ? "\n" : "", json_text_at(v, "node"),
               json_text_at(v, "phase"), table_count(json_u64_at(v, "done"), n),
               table_count(json_u64_at(v, "total"), m), str_size(json_u64_at(v, "bytes"), size));
    }
}

static void print_spent(const json_t *d)
{
    char n[32], size[24];

    if (json_object_get(d, "spent") != NULL) /* nobody knows, or the manager is old */
        printf("spent      %s requests, %s received; estimated price %.4f\n",
               table_count(json_u64_at(d, "spent.requests"), n),
               str_size(json_u64_at(d, "spent.bytes"), size), json_number_at(d, "spent.money"));
}

static void print_dataset(const json_t *d, void *arg)
{
    char when[24], *nodes = api_joined(json_object_get(d, "nodes"), "all");
    char *splits = api_joined(json_object_get(d, "splits"), "all");

    (void)arg;
    printf("dataset    %s (dlcache://%s)\n", json_text_at(d, "name"), json_text_at(d, "name"));
    printf("url        %s\n", json_text_at(d, "url"));
    if (json_object_get(d, "endpoint") != NULL)
        printf("endpoint   %s\n", json_text_at(d, "endpoint"));
    if (json_text_at(d, "tenant")[0] != '\0')
        printf("tenant     %s\n", json_text_at(d, "tenant"));
    printf("created    %s\n", api_time(d, "created", when));
    printf("state      %s\n", json_text_at(d, "state"));
    if (json_object_get(d, "error") != NULL)
        printf("error      %s\n", json_text_at(d, "error"));
    printf("splits     %s\n", splits);
    printf("nodes      %s\n", nodes);
    printf("jobs       %llu\n", (unsigned long long)json_u64_at(d, "jobs"));
    print_snapshot(d);
    print_spent(d);
    print_places(d);
    mem_free(&nodes);
    mem_free(&splits);
}

/* ---- help ---- */

const struct kind kind_dataset = {
    .what = "dataset",
    .path = "/v1/datasets",
    .headings = "dataset|tenant|state|>samples|>size|nodes|url",
    .row = add_row,
    .print = print_dataset,
    .owned = true,
    .force = "Also when jobs run on it.",
};

static const struct command sub_create = {
    .name = "dataset create",
    .synopsis = "NAME URL [--split NAMES] [--nodes NAMES | --node-count N]",
    .summary = "Register the dataset at a URL under a name.",
    .details =
        "Programs then open dlcache://NAME, on any node. One of the nodes lists the bucket; "
        "nothing is\n"
        "fetched before somebody reads, or `dlcache warm NAME`. --endpoint (or AWS_ENDPOINT_URL) "
        "goes with\n"
        "it; keys do not: those are the tenant's (`dlcache tenant credentials`).\n"
        "\n"
        "Names are the tenant's: two may have the same. Admins see TENANT.NAME, and may say NAME\n"
        "where one dataset has it.",
    .examples = "  $ dlcache dataset create imagenet s3://my-bucket/imagenet/\n"
                "  $ dlcache dataset create scans gs://lab/scans/ --tenant vision --node-count 4\n",
    .min = 2,
    .max = 2,
    .missing = "a name and a URL (NAME URL)",
    .run = create,
    .kind = &kind_dataset,
};

static const struct command sub_ls = {
    .name = "dataset ls",
    .synopsis = "[--tenant NAME] [--json] [--watch TIME]",
    .summary = "List datasets.",
    .details = "A tenant sees its own, an admin all.",
    .examples = "  $ dlcache dataset ls\n"
                "  $ dlcache dataset ls --tenant vision --json | jq '.items[].url'\n",
    .run = kind_ls,
    .kind = &kind_dataset,
};

static const struct command sub_show = {
    .name = "dataset show",
    .synopsis = "NAME [--json] [--watch TIME]",
    .summary = "Show one dataset: its snapshot, where it lies, what is under way.",
    .details = "Cached: what nodes said they have of it. A line for each node that lists, unpacks "
               "or warms it\n"
               "now.",
    .examples = "  $ dlcache dataset show imagenet --watch 1s\n",
    ONE_OPERAND(DATASET_MISSING),
    .run = kind_show,
    .kind = &kind_dataset,
};

static const struct command sub_rm = {
    .name = "dataset rm",
    .synopsis = "NAME [--force] [--json]",
    .summary = "Forget a dataset and what nodes have of it.",
    .details = "The bucket is not touched. Refused while jobs run on it, unless --force.",
    .examples = "  $ dlcache dataset rm imagenet\n",
    ONE_OPERAND(DATASET_MISSING),
    .run = kind_rm,
    .kind = &kind_dataset,
};

static const struct command *const subs[] = {
    &sub_create,
    &sub_ls,
    &sub_show,
    &cmd_dataset_snapshot,
    &cmd_dataset_warm,
    &cmd_dataset_move,
    &cmd_dataset_evict,
    &cmd_dataset_chunks,
    &sub_rm,
    NULL,
};

const struct command cmd_dataset = {
    .name = "dataset",
    .synopsis = "SUBCOMMAND ...",
    .summary = "Datasets of the cluster: register, warm, move, evict.",
    .details =
        "A dataset has a name, which stands for its URL on every node and for all programs of its\n"
        "tenant. Each object of it is read from the bucket once, by the node that owns it.\n"
        "\n"
        "The manager is found by --manager or DLCACHE_MANAGER, else by the socket of the daemon "
        "on this\n"
        "machine; the token by --token-file, DLCACHE_TOKEN or DLCACHE_TOKEN_FILE, else admin.token "
        "in\n"
        "--dir.",
    .examples = "  $ dlcache dataset create imagenet s3://my-bucket/imagenet/\n"
                "  $ dlcache dataset warm imagenet --split train\n"
                "  $ dlcache dataset show imagenet\n",
    .max = -1,
    .run = group_run,
    .subs = subs,
};
