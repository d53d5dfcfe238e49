// SPDX-License-Identifier: Apache-2.0
/* `dlcache stat`: statistics of the daemon, once or repeatedly. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/counters.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/table.h"

struct options {
    bool json, counters, dump;
    struct dlc_dur every; /* 0: once */
};

static const char *size_of(const json_t *o, const char *path, char out[static 24])
{
    return str_size(json_u64_at(o, path), out);
}

static const char *share_of(uint64_t part, uint64_t whole, char out[static 24])
{
    snprintf(out, 24, "%.0f %%", whole > 0 ? 100.0 * (double)part / (double)whole : 0.0);
    return out;
}

/* Of all tenants and users, not only the caller's own datasets. */
static bool shows_all(const json_t *s)
{
    return strcmp(json_text_at(s, "scope"), "own") != 0;
}

/* "sandbox  capabilities (none), seccomp (allow-list); not in force: landlock (why)" */
static void print_sandbox(const json_t *parts)
{
    static const char *const groups[] = {"in force: ", "not in force: "};
    const char *name;
    json_t *part;
    bool any = false;

    for (size_t g = 0; g < 2; g++) {
        bool first = true;

        json_object_foreach((json_t *)(uintptr_t)parts, name, part)
        {
            const char *text = json_string_value(part);

            if (text == NULL || !str_starts(text, groups[g]))
                continue;
            if (!any)
                printf("sandbox  ");
            printf("%s%s (%s)",
                   !first   ? ", "
                   : g == 0 ? ""
                   : any    ? "; not in force: "
                            : "not in force: ",
                   name, text + strlen(groups[g]));
            any = true;
            first = false;
        }
    }
    if (any)
        putchar('\n');
}

/* A node of a cluster; a daemon with a manager inside stands alone. */
static bool is_node(const json_t *s)
{
    const char *manager = json_text_at(s, "cluster.manager");

    return manager[0] != '\0' && strcmp(manager, "inside") != 0;
}

static void print_cluster(const json_t *s)
{
    const char *trouble = json_text_at(s, "cluster.trouble");

    printf("manager  %s", json_text_at(s, "cluster.manager"));
    if (json_true_at(s, "cluster.away"))
        printf(" does not answer: what it said before counts");
    else
        printf("; %llu node%s live", (unsigned long long)json_u64_at(s, "cluster.nodes"),
               json_u64_at(s, "cluster.nodes") == 1 ? "" : "s");
    if (trouble[0] != '\0')
        printf("; %s", trouble);
    if (json_text_at(s, "certificate.expires")[0] != '\0')
        printf("; certificate until %s", json_text_at(s, "certificate.expires"));
    putchar('\n');
}

static void print_daemon(const json_t *s)
{
    char up[24], a[24], b[24], c[24], n[32];

    printf("daemon   %s%s, process %d, dlcache %s, up %s, %llu clients\n",
           is_node(s) ? "node " : "stand-alone", is_node(s) ? json_text_at(s, "cluster.name") : "",
           (int)json_u64_at(s, "daemon.pid"), json_text_at(s, "daemon.version"),
           str_dur(dlc_dur_of_seconds(json_number_at(s, "daemon.uptime_s")), up),
           (unsigned long long)json_u64_at(s, "daemon.sessions"));
    printf("         socket %s", json_text_at(s, "daemon.socket"));
    if (shows_all(s))
        printf(", data in %s", json_text_at(s, "daemon.dir"));
    putchar('\n');
    if (is_node(s))
        print_cluster(s);
    if (!shows_all(s))
        return;
    print_sandbox(json_object_get(json_object_get(s, "daemon"), "sandbox"));
    printf("memory   %s in %s samples; may use %s now, %s at most", size_of(s, "memory.used", a),
           table_count(json_u64_at(s, "memory.residents"), n), size_of(s, "memory.ceiling", b),
           size_of(s, "memory.max", c));
    if (json_u64_at(s, "memory.decoded") > 0)
        printf("; %s of it in %s decoded samples", size_of(s, "memory.decoded_bytes", a),
               table_count(json_u64_at(s, "memory.decoded"), n));
    if (json_u64_at(s, "memory.retired") > 0)
        printf("; %s wait for readers", size_of(s, "memory.retired", a));
    putchar('\n');
    if (!json_true_at(s, "disk.enabled")) {
        printf("disk     off\n");
        return;
    }
    printf("disk     %s in %s chunks; %s free there, %s of it stay free%s\n",
           size_of(s, "disk.bytes", a), table_count(json_u64_at(s, "disk.chunks"), n),
           size_of(s, "disk.free", b), size_of(s, "disk.keep_free", c),
           json_true_at(s, "disk.read_only") ? "; READ-ONLY: nothing is stored" : "");
}

static void add_state(struct table *t, const json_t *d)
{
    uint64_t jobs = json_u64_at(d, "jobs");

    if (json_object_get(d, "state") == NULL)
        table_add(t, "-"); /* no disk tier, nothing to be decided */
    else if (jobs > 0)
        table_addf(t, "%s (%llu job%s)", json_text_at(d, "state"), (unsigned long long)jobs,
                   jobs == 1 ? "" : "s");
    else
        table_add(t, json_text_at(d, "state"));
}

static void add_dataset(struct table *t, const json_t *d)
{
    uint64_t hits = json_u64_at(d, "hits"), misses = json_u64_at(d, "misses");
    uint64_t bypasses = json_u64_at(d, "bypasses");
    char a[32], b[24];

    if (json_text_at(d, "name")[0] == '\0')
        table_add(t, json_text_at(d, "url"));
    else if (json_text_at(d, "tenant")[0] == '\0')
        table_add(t, json_text_at(d, "name"));
    else
        table_addf(t, "%s of %s", json_text_at(d, "name"), json_text_at(d, "tenant"));
    table_add(t, json_text_at(d, "snapshot"));
    table_add(t, table_count(json_u64_at(d, "samples"), a));
    table_add(t, size_of(d, "bytes", b));
    table_add(t, share_of(json_u64_at(d, "resident_bytes"), json_u64_at(d, "bytes"), b));
    table_add(t, json_object_get(d, "state") == NULL ? "-" : size_of(d, "disk_bytes", b));
    add_state(t, d);
    table_addf(t, "%llu", (unsigned long long)json_u64_at(d, "sessions"));
    table_add(t, table_count(hits + misses + bypasses, a));
    table_add(t, hits + misses + bypasses > 0 ? share_of(hits, hits + misses + bypasses, b) : "-");
    table_add(t, size_of(d, "read_bytes", b));
    table_addf(t, "%.1f s", json_number_at(d, "stall_s"));
}

/* What became of reads in known orders; nothing where there were none. */
static void print_orders(const json_t *list)
{
    const json_t *d;
    struct table t;
    size_t i;
    bool any = false;

    table_init(&t, "known orders|>reads|>used before|>fetched ahead|>waited for|>from the bucket|"
                   "jobs with weights");
    json_array_foreach(list, i, d)
    {
        uint64_t reuse = json_u64_at(d, "reads.reuse"), ahead = json_u64_at(d, "reads.prefetch");
        uint64_t waited = json_u64_at(d, "reads.waited"), all = reuse + ahead + waited;
        char a[32], b[24];

        if (all == 0)
            continue;
        any = true;
        table_add(&t, json_text_at(d, "url"));
        table_add(&t, table_count(all, a));
        table_add(&t, share_of(reuse, all, b));
        table_add(&t, share_of(ahead, all, b));
        table_add(&t, share_of(waited, all, b));
        table_add(&t, table_count(json_u64_at(d, "fetched"), a));
        table_addf(&t, "%zu", json_array_size(json_object_get(d, "weights")));
    }
    if (any) {
        putchar('\n');
        table_print(&t, stdout);
    }
    table_release(&t);
}

static void print_datasets(const json_t *s)
{
    const json_t *list = json_object_get(s, "datasets"), *d;
    struct table t;
    size_t i;

    if (json_array_size(list) == 0) {
        printf(shows_all(s)
                   ? "\nno dataset is open\n"
                   : "\nno dataset of yours is open here; on a node of a cluster give your "
                     "token with --token-file or DLCACHE_TOKEN\n");
        return;
    }
    table_init(&t, "dataset|snapshot|>samples|>size|>in memory|>on "
                   "disk|state|>clients|>reads|>hits|>read|>stalled");
    json_array_foreach(list, i, d) add_dataset(&t, d);
    putchar('\n');
    table_print(&t, stdout);
    table_release(&t);

    print_orders(list);
    table_init(&t, "bucket|>in flight|>queued|>limit|>p50|>p99|>rate");
    json_array_foreach(list, i, d)
    {
        char rate[24];

        table_add(&t, json_text_at(d, "url"));
        table_addf(&t, "%llu", (unsigned long long)json_u64_at(d, "bucket.in_flight"));
        table_addf(&t, "%llu", (unsigned long long)json_u64_at(d, "bucket.queued"));
        table_addf(&t, "%llu", (unsigned long long)json_u64_at(d, "bucket.limit"));
        table_addf(&t, "%.0f ms", json_number_at(d, "bucket.p50_ms"));
        table_addf(&t, "%.0f ms", json_number_at(d, "bucket.p99_ms"));
        table_addf(&t, "%s/s", str_size((uint64_t)json_number_at(d, "bucket.bytes_per_s"), rate));
    }
    putchar('\n');
    table_print(&t, stdout);
    table_release(&t);
}

/* Why readers waited, and how long. */
static void print_stalls(const json_t *values)
{
    static const struct {
        const char *counter, *what;
    } reasons[] = {
        {"stall_latency_ns", "bucket latency"},
        {"stall_bandwidth_ns", "bucket bandwidth"},
        {"stall_disk_ns", "disk"},
        {"stall_memory_ns", "too little memory"},
        {"stall_client_ns", "no order told"},
    };
    char text[24];
    bool any = false;

    for (size_t i = 0; i < DLC_COUNT(reasons); i++) {
        uint64_t ns = json_u64_at(values, reasons[i].counter);

        if (ns < 1000000)
            continue;
        printf("%s%s %s", any ? ", " : "stalls   ", reasons[i].what,
               str_dur((struct dlc_dur){(int64_t)ns}, text));
        any = true;
    }
    if (any)
        printf("\n");
}

/* All counters with what they mean, or the few that everybody asks for. */
static void print_counters(const json_t *s, bool all)
{
    const json_t *values = json_object_get(s, "counters");
    char n[32], b[24];
    struct table t;

    if (!all) {
        printf("\nbucket   %s requests, %s received, %s retries; estimated price %.4f\n",
               table_count(json_u64_at(values, "bucket_requests"), n),
               str_size(json_u64_at(values, "bucket_bytes"), b),
               table_count(json_u64_at(values, "bucket_retries"), (char[32]){0}),
               (double)json_u64_at(values, "money_nano") / 1e9);
        print_stalls(values);
        return;
    }
    table_init(&t, "counter|>value|unit|meaning");
    for (unsigned i = 0; i < counter_table_len; i++) {
        table_add(&t, counter_table[i].name);
        table_add(&t, table_count(json_u64_at(values, counter_table[i].name), n));
        table_add(&t, counter_table[i].unit);
        table_add(&t, counter_table[i].help);
    }
    putchar('\n');
    table_print(&t, stdout);
    table_release(&t);
}

static void print_answer(const struct options *o, json_t *body)
{
    if (o->json) {
        json_object_del(body, "ok");
        print_json(json_incref(body), o->every.ns == 0);
    } else if (o->dump) {
        fputs(json_text_at(body, "text"), stdout);
    } else {
        print_daemon(body);
        print_datasets(body);
        if (shows_all(body))
            print_counters(body, o->counters);
    }
}

/* Datasets come in pages: add those that the first answer does not have. */
static int add_pages(struct ctl *c, const struct config *config, json_t *body, struct dlc_err *err)
{
    json_t *datasets = json_object_get(body, "datasets");
    json_int_t next = json_int_at(body, "next");
    int rc = 0;

    while (rc == 0 && next > 0) {
        struct msg page = MSG_INIT;

        rc = ctl_call_as(c, config, json_pack("{s:s, s:I}", "op", "stat", "after", next), &page,
                         err);
        if (rc == 0) {
            json_array_extend(datasets, json_object_get(page.body, "datasets"));
            next = json_int_at(page.body, "next");
        }
        msg_release(&page);
    }
    json_object_del(body, "next");
    return rc;
}

/* One look at the daemon. */
static int look(struct ctl *c, const struct config *config, const struct options *o,
                struct dlc_err *err)
{
    struct msg answer = MSG_INIT;
    int rc =
        ctl_call_as(c, config, json_pack("{s:s}", "op", o->dump ? "dump" : "stat"), &answer, err);

    if (rc == 0 && !o->dump)
        rc = add_pages(c, config, answer.body, err);
    if (rc == 0) {
        if (o->every.ns > 0 && !o->json && isatty(STDOUT_FILENO) == 1)
            fputs("\033[H\033[2J", stdout);
        print_answer(o, answer.body);
        if (o->every.ns > 0 && !o->json && isatty(STDOUT_FILENO) != 1)
            putchar('\n');
    }
    msg_release(&answer);
    return rc;
}

/* Look once, or until interrupted or the daemon ends. */
static int watch(const struct config *config, const struct options *o, struct dlc_err *err)
{
    struct ctl c = CTL_INIT;
    int rc = ctl_open(&c, config, false, err);

    while (rc == 0) {
        rc = look(&c, config, o, err);
        if (o->every.ns == 0 || rc < 0 || fflush(stdout) != 0)
            break;
        dlc_sleep(o->every);
    }
    ctl_close(&c);
    return rc;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct options o = {.json = false};
    const char *every = NULL;
    const struct args_option options[] = {
        {"watch", 'w', "TIME", "Look again every TIME, such as 1s.", NULL, &every},
        {"counters", 'c', NULL, "All counters and what they mean.", &o.counters, NULL},
        {"shm", 0, NULL, "Print the memory tier in words, for finding faults.", &o.dump, NULL},
        {"json", 0, NULL, "Print a JSON object (with --watch one per line).", &o.json, NULL},
        {NULL, 0, NULL, NULL, NULL, NULL},
    };
    struct args a = ARGS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int status;

    if (args_parse(&a, cmd, options, argc, argv, &status)) {
        if (every != NULL && (!str_parse_dur(every, &o.every) || o.every.ns < DLC_MS(10).ns)) {
            dlc_err_set(&err, DLC_EINVAL, "--watch: \"%.60s\" is not a time of 10ms or more",
                        every);
            status = cli_fail(cmd, &err);
        } else if (watch(&a.config, &o, &err) < 0) {
            status = cli_fail(cmd, &err);
        } else {
            status = end_output(cmd);
        }
    }
    args_release(&a);
    return status;
}

const struct command cmd_stat = {
    .name = "stat",
    .synopsis = "[--watch TIME] [--counters] [--shm] [--json]",
    .summary = "Show what the daemon holds and does.",
    .details = "Memory and disk in use, the datasets that are open, how often readers found what "
               "they asked\n"
               "for, how long they waited, and how the bucket answers. A node of a cluster shows a "
               "tenant's\n"
               "token that tenant's datasets, and all figures to its own user with a token of "
               "nodes or admins.",
    .examples = "  $ dlcache stat\n"
                "  $ dlcache stat --watch 1s\n"
                "  $ dlcache stat --json | jq .memory.used\n"
                "  $ dlcache stat --counters\n",
    .run = run,
};
