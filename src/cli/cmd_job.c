// SPDX-License-Identifier: Apache-2.0
/* `dlcache job`: register a training job, show its progress, end it, and look back at it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/manager_commands.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/resource_commands.h"

/* ---- create ---- */

struct asked {
    const char *splits, *mode, *memory_limit, *priority, *epochs, *gpus, *nodes, *node_count;
    bool no_cache, queue, json;
};

static int read_priority(const char *text, json_t *qos, struct dlc_err *err)
{
    const char *digits = text + (text[0] == '-');
    uint64_t n;

    if (!str_parse_u64(digits, &n) || n > 1000)
        return dlc_err_set(err, DLC_EINVAL,
                           "--priority: \"%.60s\" is not a whole number from -1000 to 1000", text);
    json_object_set_new(qos, "priority",
                        json_integer(digits == text ? (json_int_t)n : -(json_int_t)n));
    return 0;
}

static int read_size(const char *text, json_t *qos, struct dlc_err *err)
{
    uint64_t n;

    if (!str_parse_size(text, &n) || n == 0)
        return dlc_err_set(err, DLC_EINVAL, "--memory-limit: \"%.60s\" is not a size, such as 8GB",
                           text);
    json_object_set_new(qos, "memory_limit", json_integer((json_int_t)n));
    return 0;
}

static int describe_qos(const struct asked *o, json_t *qos, struct dlc_err *err)
{
    int rc = api_set_number(qos, "epochs", "epochs", o->epochs, 1000000000, err);

    if (rc == 0 && o->priority != NULL)
        rc = read_priority(o->priority, qos, err);
    if (rc == 0 && o->memory_limit != NULL)
        rc = read_size(o->memory_limit, qos, err);
    if (o->no_cache)
        json_object_set_new(qos, "cache", json_false());
    api_set(qos, "mode", o->mode);
    return rc;
}

static int describe(const struct asked *o, const char *dataset, json_t *body, struct dlc_err *err)
{
    json_t *qos = json_object();
    int rc = api_name("dataset", dataset, err);

    api_set(body, "dataset", dataset);
    json_object_set_new(body, "qos", qos);
    if (rc == 0)
        rc = describe_qos(o, qos, err);
    if (rc == 0)
        rc = api_set_number(body, "gpus", "gpus", o->gpus, 1024, err);
    if (rc == 0)
        rc = api_set_number(body, "node_count", "node-count", o->node_count, 1000, err);
    api_set_names(body, "splits", o->splits);
    api_set_names(body, "nodes", o->nodes);
    if (o->queue)
        json_object_set_new(body, "queue", json_true());
    return rc;
}

/* Its number alone goes to standard output. */
static void say_created(const json_t *j, void *arg)
{
    const char *reason = json_text_at(j, "reason");
    char need[24], room[24];

    (void)arg;
    if (reason[0] != '\0')
        fprintf(stderr, "the job is %s: %s\n", json_text_at(j, "state"), reason);
    else
        fprintf(stderr, "the job is %s: it needs %s, and %s are free or may be evicted\n",
                json_text_at(j, "state"), str_size(json_u64_at(j, "admission.need"), need),
                str_size(json_u64_at(j, "admission.free") + json_u64_at(j, "admission.evictable"),
                         room));
    printf("%s\n", json_text_at(j, "id"));
}

static int create(const struct command *cmd, int argc, char **argv)
{
    struct asked o = {.mode = NULL};
    const struct args_option options[] = {
        {"split", 's', "NAMES", "Splits it reads, with commas. Default: those of the dataset.",
         NULL, &o.splits},
        {"no-cache", 0, NULL, "It reads past the cache: needs no room, leaves nothing.",
         &o.no_cache, NULL},
        {"mode", 'm', "MODE", "lazy (default), or partitioned: a part of the data at a time.", NULL,
         &o.mode},
        {"memory-limit", 0, "SIZE", "Of one part on a node, when partitioned. Default: 1 GiB.",
         NULL, &o.memory_limit},
        {"priority", 'p', "N",
         "-1000 to 1000; larger starts first, its data goes last. Default: 0.", NULL, &o.priority},
        {"epochs", 'e', "N", "How often it will read all.", NULL, &o.epochs},
        {"gpus", 'g', "N", "GPUs it wants on each node.", NULL, &o.gpus},
        {"nodes", 'n', "NAMES", "Nodes it may use, with commas. Default: all.", NULL, &o.nodes},
        {"node-count", 0, "N", "How many of them it wants.", NULL, &o.node_count},
        {"queue", 0, NULL, "Wait for room instead of being refused.", &o.queue, NULL},
        API_JSON(&o.json),
        API_END,
    };
    struct args a = ARGS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    json_t *body = json_object();
    int status;

    if (!args_parse(&a, cmd, options, argc, argv, &status) ||
        (o.mode != NULL && !args_choice(cmd, "mode", o.mode, "lazy|partitioned", &status)))
        goto out;
    if (describe(&o, a.operands[0], body, &err) < 0)
        status = cli_fail(cmd, &err);
    else
        status = api_do(cmd, &a, o.json, "POST", "/v1/jobs", json_incref(body), say_created, NULL);
out:
    json_decref(body);
    args_release(&a);
    return status;
}

/* ---- ls, show ---- */

static const char *qos_text(const json_t *j, char out[static 64])
{
    const json_t *q = json_object_get(j, "qos");
    char size[24];

    if (json_is_false(json_object_get(q, "cache")))
        snprintf(out, 64, "no cache");
    else if (strcmp(json_text_at(q, "mode"), "partitioned") == 0 &&
             json_u64_at(q, "memory_limit") > 0)
        snprintf(out, 64, "partitioned, %s", str_size(json_u64_at(q, "memory_limit"), size));
    else
        snprintf(out, 64, "%s",
                 json_text_at(q, "mode")[0] != '\0' ? json_text_at(q, "mode") : "lazy");
    return out;
}

/* What fits in nothing waits for nothing: such a job waits for the listing of its dataset. */
static const char *needs(const json_t *j, char out[static 24])
{
    uint64_t need = json_u64_at(j, "admission.need");

    if (need == 0 && strcmp(json_text_at(j, "state"), "queued") == 0)
        return "-";
    return str_size(need, out);
}

static void add_row(struct table *t, const json_t *j)
{
    char size[24], when[24], qos[64], *splits = api_joined(json_object_get(j, "splits"), "all");
    const char *tenant = json_text_at(j, "tenant");
    const json_t *p = json_at(j, "qos.priority");

    table_add(t, json_text_at(j, "id"));
    table_add(t, tenant[0] != '\0' ? tenant : "-");
    table_add(t, json_text_at(j, "dataset"));
    table_add(t, splits);
    table_add(t, json_text_at(j, "state"));
    table_add(t, qos_text(j, qos));
    table_addf(t, "%lld", (long long)json_integer_value(p));
    table_add(t, needs(j, size));
    table_add(t, api_time(j, "created", when));
    mem_free(&splits);
}

/* What each node says of it. */
static void print_live(const json_t *j)
{
    json_t *live = json_object_get(j, "live"), *f;
    const char *node;
    char n[32], size[24];
    struct table t;

    if (json_object_size(live) == 0)
        return;
    table_init(&t, "node|>readers|>reads|>hits|>read|>stalled");
    json_object_foreach(live, node, f)
    {
        uint64_t hits = json_u64_at(f, "hits"), reads = hits + json_u64_at(f, "misses");

        table_add(&t, node);
        table_addf(&t, "%llu", (unsigned long long)json_u64_at(f, "readers"));
        table_add(&t, table_count(reads, n));
        table_addf(&t, reads > 0 ? "%.0f %%" : "-",
                   100.0 * (double)hits / (double)(reads + !reads));
        table_add(&t, str_size(json_u64_at(f, "read_bytes"), size));
        table_addf(&t, "%.1f s", json_number_at(f, "stall_s"));
    }
    putchar('\n');
    table_print(&t, stdout);
    table_release(&t);
}

static void print_figures(const json_t *j)
{
    const char *name;
    json_t *v;

    json_object_foreach(json_object_get(j, "figures"), name, v)
    {
        printf("%-10s %.6g\n", name, json_number_value(v));
    }
}

static void print_admission(const json_t *j)
{
    char need[24], room[24], evictable[24], promised[24];

    printf("room       needs %s; %s were free, %s evictable, %s promised to others\n",
           strcmp(needs(j, need), "-") != 0 ? need
                                            : "what its dataset has, which is not listed yet",
           str_size(json_u64_at(j, "admission.free"), room),
           str_size(json_u64_at(j, "admission.evictable"), evictable),
           str_size(json_u64_at(j, "admission.promised"), promised));
}

static void print_placement(const json_t *j)
{
    const json_t *p;
    size_t i;

    json_array_foreach(json_object_get(j, "placement"), i, p)
    {
        printf("%s%s (%.2f)", i == 0 ? "best on    " : ", ", json_text_at(p, "node"),
               json_number_at(p, "weight"));
    }
    if (json_array_size(json_object_get(j, "placement")) > 0)
        putchar('\n');
}

/* It has ended, and nodes may not have reported all that it used. */
static bool is_unsettled(const json_t *j)
{
    return json_is_false(json_object_get(j, "usage_final"));
}

/* What it has used, as the manager accounts it. */
static void print_usage(const json_t *j)
{
    static const struct {
        const char *path, *name;
    } reasons[] = {{"usage.stalled.latency", "bucket latency"},
                   {"usage.stalled.bandwidth", "bucket bandwidth"},
                   {"usage.stalled.disk", "disk"},
                   {"usage.stalled.memory", "too little memory"},
                   {"usage.stalled.order", "no order told"}};
    char a[32], b[32], c[32], d[32], e[32], size[24];

    if (!json_is_object(json_object_get(j, "usage")))
        return;
    printf("read       %s samples, %s: %s from memory, %s disk, %s other nodes, %s bucket\n",
           table_count(json_u64_at(j, "usage.samples"), a),
           str_size(json_u64_at(j, "usage.read_bytes"), size),
           table_count(json_u64_at(j, "usage.hits.memory"), b),
           table_count(json_u64_at(j, "usage.hits.disk"), c),
           table_count(json_u64_at(j, "usage.hits.peer") + json_u64_at(j, "usage.hits.redis"), d),
           table_count(json_u64_at(j, "usage.misses"), e));
    printf("bucket     %s requests, %s received; estimated price %.4f\n",
           table_count(json_u64_at(j, "usage.requests"), a),
           str_size(json_u64_at(j, "usage.bytes"), size), json_number_at(j, "usage.money"));
    printf("stalled    %.1f s", json_number_at(j, "usage.stalled_s"));
    for (size_t i = 0, n = 0; i < DLC_COUNT(reasons); i++)
        if (json_number_at(j, reasons[i].path) >= 0.05)
            printf("%s%s %.1f s", n++ == 0 ? ": " : ", ", reasons[i].name,
                   json_number_at(j, reasons[i].path));
    putchar('\n');
    if (is_unsettled(j))
        printf("so far     nodes report what it read within 20 s of its end\n");
    if (json_text_at(j, "advice")[0] != '\0')
        printf("to do      %s\n", json_text_at(j, "advice"));
}

static void print_times(const json_t *j, bool ended)
{
    char when[24];
    uint64_t epochs = json_u64_at(j, "qos.epochs");

    printf("created    %s\n", api_time(j, "created", when));
    printf("started    %s\n", api_time(j, "started", when));
    if (ended)
        printf("ended      %s\n", api_time(j, "ended", when));
    printf("epochs     %llu done", (unsigned long long)json_u64_at(j, "epochs_done"));
    if (epochs > 0)
        printf(" of %llu", (unsigned long long)epochs);
    putchar('\n');
}

static void print_job(const json_t *j, void *arg)
{
    char qos[64], *splits = api_joined(json_object_get(j, "splits"), "all");
    bool ended = strcmp(json_text_at(j, "state"), "ended") == 0;

    (void)arg;
    printf("job        %s\n", json_text_at(j, "id"));
    if (json_text_at(j, "tenant")[0] != '\0')
        printf("tenant     %s\n", json_text_at(j, "tenant"));
    printf("dataset    %s, splits: %s\n", json_text_at(j, "dataset"), splits);
    if (json_text_at(j, "snapshot")[0] != '\0')
        printf("snapshot   %s, which all its ranks read\n", json_text_at(j, "snapshot"));
    printf("state      %s\n", json_text_at(j, "state"));
    if (json_text_at(j, "reason")[0] != '\0')
        printf("reason     %s\n", json_text_at(j, "reason"));
    printf("qos        %s, priority %lld\n", qos_text(j, qos),
           (long long)json_int_at(j, "qos.priority"));
    print_times(j, ended);
    if (!ended)
        printf("heard      %.1f s ago\n", (double)json_u64_at(j, "silent_ms") / 1000);
    print_admission(j);
    print_placement(j);
    print_usage(j);
    print_figures(j);
    print_live(j);
    mem_free(&splits);
}

/* ---- ls --ended ---- */

static void add_ended_row(struct table *t, const json_t *j)
{
    char size[24], when[24], n[32];
    const char *tenant = json_text_at(j, "tenant");

    table_add(t, json_text_at(j, "id"));
    table_add(t, tenant[0] != '\0' ? tenant : "-");
    table_add(t, json_text_at(j, "dataset"));
    table_add(t, api_time(j, "ended", when));
    table_addf(t, "%s%s", table_count(json_u64_at(j, "usage.samples"), n),
               is_unsettled(j) ? " so far" : "");
    table_add(t, str_size(json_u64_at(j, "usage.bytes"), size));
    table_addf(t, "%.4f", json_number_at(j, "usage.money"));
    table_addf(t, "%.1f s", json_number_at(j, "usage.stalled_s"));
    table_add(t, json_text_at(j, "reason"));
}

static const struct kind ended_jobs = {
    .what = "job",
    .headings = "job|tenant|dataset|ended|>samples|>bucket|>price|>stalled|reason",
    .row = add_ended_row,
};

static int by_end(const void *a, const void *b)
{
    return strcmp(json_text_at(*(json_t *const *)b, "ended"),
                  json_text_at(*(json_t *const *)a, "ended"));
}

/* The latest first. */
static void print_ended(const json_t *answer, void *arg)
{
    const json_t *items = json_object_get(answer, "items");
    size_t n = json_array_size(items);
    json_t **all = mem_zero((n + 1) * sizeof(json_t *)), *sorted = json_array();

    (void)arg;
    for (size_t i = 0; i < n; i++)
        all[i] = json_array_get(items, i);
    qsort(all, n, sizeof(json_t *), by_end);
    for (size_t i = 0; i < n; i++)
        json_array_append(sorted, all[i]);
    sorted = json_pack("{s:o}", "items", sorted);
    kind_print_list(sorted, (void *)(uintptr_t)&ended_jobs);
    json_decref(sorted);
    mem_free(&all);
}

static int list(const struct command *cmd, int argc, char **argv)
{
    struct api_view v = {false, NULL};
    const char *tenant = NULL;
    bool ended = false;
    const struct args_option options[] = {
        {"ended", 'e', NULL, "Those that have ended, the latest first.", &ended, NULL},
        {"tenant", 't', "NAME", "Those of one tenant; for admins.", NULL, &tenant},
        API_JSON(&v.json),
        API_WATCH(&v.every),
        API_END,
    };
    struct args a = ARGS_INIT;
    struct buf path = BUF_INIT;
    int status;

    if (args_parse(&a, cmd, options, argc, argv, &status)) {
        buf_adds(&path, cmd->kind->path);
        api_query(&path, "state", ended ? "ended" : NULL);
        api_query(&path, "tenant", tenant);
        status = api_look(cmd, &a, &v, buf_str(&path), true, ended ? print_ended : kind_print_list,
                          (void *)(uintptr_t)cmd->kind);
    }
    buf_release(&path);
    args_release(&a);
    return status;
}

/* ---- heartbeat ---- */

static void say_state(const json_t *answer, void *arg)
{
    (void)arg;
    printf("%s\n", json_text_at(answer, "state"));
}

static int heartbeat(const struct command *cmd, int argc, char **argv)
{
    bool json = false;
    const char *epochs = NULL;
    const struct args_option options[] = {
        {"epochs-done", 'e', "N", "How many epochs it has finished.", NULL, &epochs},
        API_JSON(&json),
        API_END,
    };
    struct args a = ARGS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    json_t *body = json_object();
    char *path;
    int status;

    if (kind_begin(&a, cmd, options, argc, argv, "/heartbeat", &path, &status)) {
        if (api_set_number(body, "epochs_done", "epochs-done", epochs, 1000000000, &err) < 0)
            status = cli_fail(cmd, &err);
        else
            status = api_do(cmd, &a, json, "POST", path, json_incref(body), say_state, NULL);
    }
    json_decref(body);
    mem_free(&path);
    args_release(&a);
    return status;
}

/* ---- help ---- */

#define ID "the number of a job"

static const struct kind jobs = {
    .what = "job",
    .path = "/v1/jobs",
    .headings = "job|tenant|dataset|splits|state|qos|>priority|>needs|created",
    .row = add_row,
    .print = print_job,
    .owned = true,
    .query = "?ended=1",
};

static const struct command sub_create = {
    .name = "job create",
    .synopsis = "DATASET [--split NAMES] [--mode lazy|partitioned] [--queue] [OPTIONS]",
    .summary = "Register a job and print its number.",
    .details =
        "The job is admitted if free and evictable space holds what it needs: the bytes of its "
        "splits; of\n"
        "one part when partitioned; nothing with --no-cache. Otherwise it is refused with the "
        "numbers\n"
        "(status 1), or waits with --queue. It must be heard of at least every --job-ttl of the "
        "manager\n"
        "(a minute): by nodes it reads from, or `dlcache job heartbeat`.",
    .examples = "  $ job=$(dlcache job create imagenet --split train --epochs 90 --gpus 8)\n"
                "  $ dlcache job create imagenet --mode partitioned --memory-limit 64GB --queue\n",
    ONE_OPERAND("the name of a dataset"),
    .run = create,
};

static const struct command sub_ls = {
    .name = "job ls",
    .synopsis = "[--ended] [--tenant NAME] [--json] [--watch TIME]",
    .summary = "List jobs that run or wait, or that have ended.",
    .details = "A tenant sees its own, an admin all. Ended jobs are kept for --keep-ended of the "
               "manager\n(7 days), 500 of a tenant at most.",
    .examples = "  $ dlcache job ls --watch 2s\n"
                "  $ dlcache job ls --ended\n",
    .run = list,
    .kind = &jobs,
};

static const struct command sub_show = {
    .name = "job show",
    .synopsis = "ID [--json] [--watch TIME]",
    .summary = "Show one job with its figures, also after its end.",
    .details =
        "What it has read and from where, its part of what the bucket was asked for, how "
        "long readers\nwaited and why, and what to do about it. While it runs also what each "
        "node says of it.",
    .examples = "  $ dlcache job show j-0123456789abcdef --watch 1s\n",
    ONE_OPERAND(ID),
    .run = kind_show,
    .kind = &jobs,
};

static const struct command sub_heartbeat = {
    .name = "job heartbeat",
    .synopsis = "ID [--epochs-done N] [--json]",
    .summary = "Say that a job is alive; prints its state.",
    .details =
        "For scripts: nodes say so by themselves while processes read that have its number in\n"
        "DLCACHE_JOB.",
    .examples = "  $ dlcache job heartbeat \"$job\" --epochs-done 3\n",
    ONE_OPERAND(ID),
    .run = heartbeat,
    .kind = &jobs,
};

static const struct command sub_rm = {
    .name = "job rm",
    .synopsis = "ID [--json]",
    .summary = "End a job: its room goes to others.",
    .details = "Processes are not touched; they go on reading, as without a job.",
    .examples = "  $ dlcache job rm \"$job\"\n",
    ONE_OPERAND(ID),
    .run = kind_rm,
    .kind = &jobs,
};

static const struct command *const subs[] = {
    &sub_create, &sub_ls, &sub_show, &sub_heartbeat, &sub_rm, NULL,
};

const struct command cmd_job = {
    .name = "job",
    .synopsis = "SUBCOMMAND ...",
    .summary = "Jobs: register one against real space, watch it, end it.",
    .details =
        "A job reads a dataset for a number of epochs. The manager admits it when there is room, "
        "keeps\n"
        "that room, and spares what running jobs need when something must go.\n"
        "\n"
        "The manager is found by --manager or DLCACHE_MANAGER, else by the socket of the daemon "
        "on this\n"
        "machine; the token by --token-file, DLCACHE_TOKEN or DLCACHE_TOKEN_FILE, else admin.token "
        "in\n"
        "--dir.",
    .examples = "  $ dlcache job create imagenet --split train --epochs 90\n"
                "  $ dlcache job ls\n"
                "  $ dlcache job show j-0123456789abcdef --watch 1s\n",
    .max = -1,
    .run = group_run,
    .subs = subs,
};
