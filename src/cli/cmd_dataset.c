// SPDX-License-Identifier: Apache-2.0
/* `dlcache dataset`: make, list, show, delete. What nodes do with them: cmd_dataset_do.c. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/api.h"
#include "cli/commands.h"
#include "cli/ctl.h"
#include "cli/dataset.h"
#include "cli/table.h"
#include "storage/bucket/url.h"

bool cli_dataset_begin(struct args *a, const struct command *cmd, const struct args_option *options,
                       int argc, char **argv, const char *rest, char **path, int *status)
{
    struct dlc_err err = DLC_ERR_INIT;

    *path = NULL;
    if (!args_parse(a, cmd, options, argc, argv, status))
        return false;
    if (api_name("dataset", a->operands[0], &err) < 0) {
        *status = cli_fail(cmd, &err);
        return false;
    }
    *path = mem_fmt("/v1/datasets/%s%s", a->operands[0], rest);
    return true;
}

/* ---- create ---- */

struct making {
    const char *splits, *tenant, *nodes, *node_count;
};

/* The endpoint that this environment means, where the URL can have one. */
static void set_endpoint(json_t *body, const struct config *c, const char *url)
{
    const char *endpoint = ctl_endpoint(c);

    if (endpoint != NULL && (str_starts(url, "s3://") || str_starts(url, "gs://")))
        api_set(body, "endpoint", endpoint);
}

static int describe(const struct args *a, const struct making *m, json_t **out, struct dlc_err *err)
{
    json_t *body = *out = json_object(), *count = NULL, *list;
    int rc = ctl_check_url(a->operands[1], err);

    if (rc == 0)
        rc = api_number("node-count", m->node_count, 1000, &count, err);
    if (rc == 0 && m->tenant != NULL)
        rc = api_name("tenant", m->tenant, err);
    if (rc < 0)
        return rc;
    api_set(body, "name", a->operands[0]);
    api_set(body, "url", a->operands[1]);
    api_set(body, "tenant", m->tenant);
    set_endpoint(body, &a->config, a->operands[1]);
    if ((list = api_names(m->splits)) != NULL)
        json_object_set_new(body, "splits", list);
    if ((list = api_names(m->nodes)) != NULL)
        json_object_set_new(body, "nodes", list);
    if (count != NULL)
        json_object_set_new(body, "node_count", count);
    return 0;
}

static void say_created(const json_t *d, void *arg)
{
    const char *name = ctl_text(d, "name");

    (void)arg;
    printf("dataset %s is registered: programs open it as dlcache://%s\n", name, name);
}

static int create(const struct command *cmd, int argc, char **argv)
{
    bool json = false;
    struct making m = {NULL, NULL, NULL, NULL};
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

    if (!cli_dataset_begin(&a, cmd, options, argc, argv, "", &path, &status))
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
    const char *tenant = ctl_text(d, "tenant");

    table_add(t, ctl_text(d, "name"));
    table_add(t, tenant[0] != '\0' ? tenant : "-");
    table_add(t, ctl_text(d, "state"));
    table_add(t, snapshot != NULL ? table_count(ctl_u64(snapshot, "samples"), n) : "-");
    table_add(t, snapshot != NULL ? str_size(ctl_u64(snapshot, "bytes"), size) : "-");
    table_add(t, nodes);
    table_add(t, ctl_text(d, "url"));
    mem_free(&nodes);
}

static void print_datasets(const json_t *answer, void *arg)
{
    const json_t *items = json_object_get(answer, "items"), *d;
    struct table t;
    size_t i;

    (void)arg;
    table_init(&t, "dataset|tenant|state|>samples|>size|nodes|url");
    json_array_foreach((json_t *)items, i, d) add_row(&t, d);
    table_print(&t, stdout);
    table_release(&t);
}

static int ls(const struct command *cmd, int argc, char **argv)
{
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

    buf_adds(&path, "/v1/datasets");
    if (args_parse(&a, cmd, options, argc, argv, &status)) {
        api_query(&path, "tenant", tenant);
        status = api_look(cmd, &a, &v, buf_str(&path), true, print_datasets, NULL);
    }
    buf_release(&path);
    args_release(&a);
    return status;
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
    printf("snapshot   %s of %s: %s samples in %s objects, %s\n", ctl_text(s, "id"),
           api_time(s, "time", when), table_count(ctl_u64(s, "samples"), n),
           table_count(ctl_u64(s, "objects"), m), str_size(ctl_u64(s, "bytes"), size));
    json_array_foreach(json_object_get(s, "splits"), i, split)
    {
        printf("split      %s: %s samples, %s\n", ctl_text(split, "name"),
               table_count(ctl_u64(split, "samples"), n), str_size(ctl_u64(split, "bytes"), size));
    }
}

/* Node by node: what is there, and what is under way. */
static void print_places(const json_t *d)
{
    const json_t *there = json_object_get(json_object_get(d, "cached"), "nodes"), *v;
    const json_t *preparing = json_object_get(d, "preparation");
    char n[32], m[32], size[24];
    struct table t;
    size_t i;

    printf("cached     %s\n", str_size(ctl_u64(d, "cached.bytes"), size));
    table_init(&t, "node|>chunks|>size");
    json_array_foreach((json_t *)there, i, v)
    {
        table_add(&t, ctl_text(v, "node"));
        table_add(&t, table_count(ctl_u64(v, "chunks"), n));
        table_add(&t, str_size(ctl_u64(v, "bytes"), size));
    }
    if (json_array_size(there) > 0) {
        putchar('\n');
        table_print(&t, stdout);
    }
    table_release(&t);
    json_array_foreach((json_t *)preparing, i, v)
    {
        printf("%s%s: %s, %s of %s, %s\n", i == 0 ? "\n" : "", ctl_text(v, "node"),
               ctl_text(v, "phase"), table_count(ctl_u64(v, "done"), n),
               table_count(ctl_u64(v, "total"), m), str_size(ctl_u64(v, "bytes"), size));
    }
}

static void print_dataset(const json_t *d, void *arg)
{
    char when[24], *nodes = api_joined(json_object_get(d, "nodes"), "all");
    char *splits = api_joined(json_object_get(d, "splits"), "all");

    (void)arg;
    printf("dataset    %s (dlcache://%s)\n", ctl_text(d, "name"), ctl_text(d, "name"));
    printf("url        %s\n", ctl_text(d, "url"));
    if (json_object_get(d, "endpoint") != NULL)
        printf("endpoint   %s\n", ctl_text(d, "endpoint"));
    if (ctl_text(d, "tenant")[0] != '\0')
        printf("tenant     %s\n", ctl_text(d, "tenant"));
    printf("created    %s\n", api_time(d, "created", when));
    printf("state      %s\n", ctl_text(d, "state"));
    if (json_object_get(d, "error") != NULL)
        printf("error      %s\n", ctl_text(d, "error"));
    printf("splits     %s\n", splits);
    printf("nodes      %s\n", nodes);
    printf("jobs       %llu\n", (unsigned long long)ctl_u64(d, "jobs"));
    print_snapshot(d);
    print_places(d);
    mem_free(&nodes);
    mem_free(&splits);
}

static int show(const struct command *cmd, int argc, char **argv)
{
    struct api_view v = {false, NULL};
    const struct args_option options[] = {API_JSON(&v.json), API_WATCH(&v.every), API_END};
    struct args a = ARGS_INIT;
    char *path;
    int status;

    if (cli_dataset_begin(&a, cmd, options, argc, argv, "", &path, &status))
        status = api_look(cmd, &a, &v, path, false, print_dataset, NULL);
    mem_free(&path);
    args_release(&a);
    return status;
}

static int rm(const struct command *cmd, int argc, char **argv)
{
    bool force = false, json = false;
    const struct args_option options[] = {
        {"force", 'f', NULL, "Also when jobs run on it.", &force, NULL},
        API_JSON(&json),
        API_END,
    };
    struct args a = ARGS_INIT;
    char *path, *full = NULL;
    int status;

    if (cli_dataset_begin(&a, cmd, options, argc, argv, "", &path, &status)) {
        full = mem_fmt("%s%s", path, force ? "?force=1" : "");
        status = api_remove(cmd, &a, json, full);
    }
    mem_free(&full);
    mem_free(&path);
    args_release(&a);
    return status;
}

/* ---- help ---- */

static const struct command sub_create = {
    .name = "dataset create",
    .synopsis = "NAME URL [--split NAMES] [--nodes NAMES | --node-count N]",
    .summary = "Register the dataset at a URL under a name.",
    .details =
        "Programs then open dlcache://NAME, on any node. One of the nodes lists the bucket; "
        "nothing is\n"
        "fetched before somebody reads, or `dlcache warm NAME`. --endpoint (or AWS_ENDPOINT_URL) "
        "goes with\n"
        "it; keys do not: those are the tenant's (`dlcache tenant credentials`).",
    .examples = "  $ dlcache dataset create imagenet s3://my-bucket/imagenet/\n"
                "  $ dlcache dataset create scans gs://lab/scans/ --tenant vision --node-count 4\n",
    .min = 2,
    .max = 2,
    .missing = "a name and a URL (NAME URL)",
    .run = create,
};

static const struct command sub_ls = {
    .name = "dataset ls",
    .synopsis = "[--tenant NAME] [--json] [--watch TIME]",
    .summary = "List datasets.",
    .details = "A tenant sees its own, an admin all.",
    .examples = "  $ dlcache dataset ls\n"
                "  $ dlcache dataset ls --tenant vision --json | jq '.items[].url'\n",
    .run = ls,
};

static const struct command sub_show = {
    .name = "dataset show",
    .synopsis = "NAME [--json] [--watch TIME]",
    .summary = "Show one dataset: its snapshot, where it lies, what is under way.",
    .details = "Cached: what nodes said they have of it. A line for each node that lists, unpacks "
               "or warms it\n"
               "now.",
    .examples = "  $ dlcache dataset show imagenet --watch 1s\n",
    .min = 1,
    .max = 1,
    .missing = DATASET_MISSING,
    .run = show,
};

static const struct command sub_rm = {
    .name = "dataset rm",
    .synopsis = "NAME [--force] [--json]",
    .summary = "Forget a dataset and what nodes have of it.",
    .details = "The bucket is not touched. Refused while jobs run on it, unless --force.",
    .examples = "  $ dlcache dataset rm imagenet\n",
    .min = 1,
    .max = 1,
    .missing = DATASET_MISSING,
    .run = rm,
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
