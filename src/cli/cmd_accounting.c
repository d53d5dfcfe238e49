// SPDX-License-Identifier: Apache-2.0
/* `dlcache accounting`: what tenants, datasets and jobs have used. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/manager_commands.h"
#include "cli/table.h"

enum column_kind { COLUMN_TEXT, COLUMN_COUNT, COLUMN_SIZE, COLUMN_MONEY, COLUMN_HOURS };

/* Columns of --csv, in this order; those with a heading are in the table too. */
static const struct column {
    const char *name, *path, *heading;
    enum column_kind kind;
} columns[] = {
    {"tenant", "tenant", "tenant", COLUMN_TEXT},
    {"dataset", "dataset", "dataset", COLUMN_TEXT},
    {"job", "job", "job", COLUMN_TEXT},
    {"samples", "samples", ">samples", COLUMN_COUNT},
    {"memory_hits", "hits.memory", NULL, COLUMN_COUNT},
    {"disk_hits", "hits.disk", NULL, COLUMN_COUNT},
    {"peer_hits", "hits.peer", NULL, COLUMN_COUNT},
    {"redis_hits", "hits.redis", NULL, COLUMN_COUNT},
    {"misses", "misses", NULL, COLUMN_COUNT},
    {"read_bytes", "read_bytes", ">read", COLUMN_SIZE},
    {"requests", "requests", ">requests", COLUMN_COUNT},
    {"bytes", "bytes", ">from bucket", COLUMN_SIZE},
    {"money", "money", ">price", COLUMN_MONEY},
    {"stalled_hours", "stalled_s", ">hours stalled", COLUMN_HOURS},
    {"latency_hours", "stalled.latency", NULL, COLUMN_HOURS},
    {"bandwidth_hours", "stalled.bandwidth", NULL, COLUMN_HOURS},
    {"disk_hours", "stalled.disk", NULL, COLUMN_HOURS},
    {"memory_hours", "stalled.memory", NULL, COLUMN_HOURS},
    {"order_hours", "stalled.order", NULL, COLUMN_HOURS},
};

/* Which of the first three are there: --by tenant, dataset, job. */
static bool is_shown(const struct column *c, int by)
{
    return c->kind != COLUMN_TEXT || c - columns <= by;
}

/* ---- as a table ---- */

static void add_cell(struct table *t, const struct column *c, const json_t *row)
{
    const char *text = json_text_at(row, c->path);
    char n[32], size[24];

    switch (c->kind) {
    case COLUMN_TEXT: table_add(t, text[0] != '\0' ? text : "-"); break;
    case COLUMN_COUNT: table_add(t, table_count(json_u64_at(row, c->path), n)); break;
    case COLUMN_SIZE: table_add(t, str_size(json_u64_at(row, c->path), size)); break;
    case COLUMN_MONEY: table_addf(t, "%.4f", json_number_at(row, c->path)); break;
    case COLUMN_HOURS: table_addf(t, "%.2f", json_number_at(row, c->path) / 3600); break;
    }
}

static void print_table(const json_t *answer, void *arg)
{
    int by = *(const int *)arg;
    struct buf headings = BUF_INIT;
    const json_t *row;
    struct table t;
    size_t i;

    for (size_t k = 0; k < DLC_COUNT(columns); k++)
        if (columns[k].heading != NULL && is_shown(&columns[k], by))
            buf_addf(&headings, "%s%s", headings.len > 0 ? "|" : "", columns[k].heading);
    table_init(&t, buf_str(&headings));
    json_array_foreach(json_object_get(answer, "items"), i, row)
    {
        for (size_t k = 0; k < DLC_COUNT(columns); k++)
            if (columns[k].heading != NULL && is_shown(&columns[k], by))
                add_cell(&t, &columns[k], row);
    }
    table_print(&t, stdout);
    table_release(&t);
    buf_release(&headings);
}

/* ---- as CSV: RFC 4180; no name has a comma or a quote ---- */

static void print_csv_cell(const struct column *c, const json_t *row)
{
    if (c->kind == COLUMN_TEXT)
        printf("%s", json_text_at(row, c->path));
    else if (c->kind == COLUMN_MONEY)
        printf("%.9f", json_number_at(row, c->path));
    else if (c->kind == COLUMN_HOURS)
        printf("%.9f", json_number_at(row, c->path) / 3600);
    else
        printf("%llu", (unsigned long long)json_u64_at(row, c->path));
}

static void print_csv(const json_t *answer, void *arg)
{
    int by = *(const int *)arg;
    const json_t *row;
    size_t i;

    for (size_t k = 0, n = 0; k < DLC_COUNT(columns); k++)
        if (is_shown(&columns[k], by))
            printf("%s%s", n++ > 0 ? "," : "", columns[k].name);
    printf("\r\n");
    json_array_foreach(json_object_get(answer, "items"), i, row)
    {
        for (size_t k = 0, n = 0; k < DLC_COUNT(columns); k++)
            if (is_shown(&columns[k], by)) {
                printf("%s", n++ > 0 ? "," : "");
                print_csv_cell(&columns[k], row);
            }
        printf("\r\n");
    }
}

/* ---- the command ---- */

static int by_number(const char *by)
{
    return strcmp(by, "tenant") == 0 ? 0 : strcmp(by, "dataset") == 0 ? 1 : 2;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct api_view v = {false, NULL};
    const char *since = NULL, *by = "dataset", *tenant = NULL;
    bool csv = false;
    const struct args_option options[] = {
        {"since", 's', "TIME",
         "A day, such as 2026-11-01, or so long ago, such as 7d. Default: 30d.", NULL, &since},
        {"by", 'b', "WHAT", "tenant, dataset (default) or job.", NULL, &by},
        {"tenant", 't', "NAME", "Those of one tenant; for admins.", NULL, &tenant},
        {"csv", 0, NULL, "Print comma-separated values, with a line of names.", &csv, NULL},
        API_JSON(&v.json),
        API_END,
    };
    struct args a = ARGS_INIT;
    struct buf path = BUF_INIT;
    int status, n;

    if (!args_parse(&a, cmd, options, argc, argv, &status) ||
        !args_choice(cmd, "by", by, "tenant|dataset|job", &status))
        goto out;
    n = by_number(by);
    buf_adds(&path, "/v1/accounting");
    api_query(&path, "by", by);
    api_query(&path, "since", since);
    api_query(&path, "tenant", tenant);
    status = api_look(cmd, &a, &v, buf_str(&path), true, csv ? print_csv : print_table, &n);
out:
    buf_release(&path);
    args_release(&a);
    return status;
}

const struct command cmd_accounting = {
    .name = "accounting",
    .synopsis = "[--since TIME] [--by tenant|dataset|job] [--tenant NAME] [--csv | --json]",
    .summary = "What tenants, datasets and jobs have used.",
    .details =
        "Samples and bytes that readers got, requests and bytes of the bucket with their "
        "estimated\n"
        "price, and hours that readers waited, since the beginning of a day (UTC). What the "
        "bucket\n"
        "was asked for is divided evenly among the jobs that read the dataset at that time; a row\n"
        "without a job has the rest: warm-ups, listings, readers without a job. Restarts of nodes\n"
        "and managers lose nothing. A tenant sees its own, an admin all; NAME~ is a tenant that "
        "was\n"
        "deleted.",
    .examples = "  $ dlcache accounting --since 7d --by tenant\n"
                "  $ dlcache accounting --since 2026-11-01 --by job --csv > november.csv\n",
    .run = run,
};
