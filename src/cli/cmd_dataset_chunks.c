// SPDX-License-Identifier: Apache-2.0
/* `dlcache dataset chunks`: there may be millions, so they are printed page by page. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/manager_commands.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/cmd_dataset.h"
#include "cli/table.h"

struct listing {
    bool json;
    uint64_t n, bytes;
};

static void json_page(const json_t *items, void *arg)
{
    struct listing *l = arg;
    const json_t *k;
    size_t i;

    json_array_foreach((json_t *)items, i, k)
    {
        fputs(l->n++ > 0 ? ",\n" : "\n", stdout);
        json_dumpf(k, stdout, JSON_COMPACT);
    }
}

static void table_page(const json_t *items, void *arg)
{
    struct listing *l = arg;
    char size[24], when[24];
    struct table t;
    const json_t *k;
    size_t i;

    table_init(&t, l->n == 0 ? "node|state|>size|>cost|>samples|changed|key" : "||>|>|>||");
    json_array_foreach((json_t *)items, i, k)
    {
        table_add(&t, json_text_at(k, "node"));
        table_add(&t, json_text_at(k, "state"));
        table_add(&t, str_size(json_u64_at(k, "size"), size));
        table_addf(&t, "%.4g", json_number_at(k, "cost"));
        table_addf(&t, "%llu", (unsigned long long)json_u64_at(k, "references"));
        table_add(&t, api_time(k, "changed", when));
        table_add(&t, json_text_at(k, "key"));
        l->bytes += json_u64_at(k, "size");
    }
    l->n += json_array_size(items);
    table_print(&t, stdout);
    table_release(&t);
}

static int list(const struct args *a, const char *path, struct listing *l, struct dlc_err *err)
{
    struct api api = API_INIT;
    char n[32], size[24];
    int rc = api_open(&api, &a->config, err);

    if (rc == 0 && l->json)
        fputs("{\"items\": [", stdout);
    if (rc == 0)
        rc = api_pages(&api, path, l->json ? json_page : table_page, l, err);
    api_close(&api);
    if (rc == 0 && l->json)
        fputs("\n]}\n", stdout);
    else if (rc == 0)
        printf("%s chunks, %s\n", table_count(l->n, n), str_size(l->bytes, size));
    return rc;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct listing l = {false, 0, 0};
    const char *node = NULL, *state = NULL, *prefix = NULL;
    const struct args_option options[] = {
        {"node", 'n', "NAME", "Those on one node.", NULL, &node},
        {"state", 's', "STATE", "PREPARE, PENDING, ACTIVE, COOL_DOWN or INACTIVE.", NULL, &state},
        {"prefix", 'p', "TEXT", "Those whose keys begin so.", NULL, &prefix},
        API_JSON(&l.json),
        API_END,
    };
    struct args a = ARGS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct buf full = BUF_INIT;
    char *path;
    int status;

    if (kind_begin(&a, cmd, options, argc, argv, "/chunks", &path, &status)) {
        buf_adds(&full, path);
        api_query(&full, "node", node);
        api_query(&full, "state", state);
        api_query(&full, "prefix", prefix);
        status = list(&a, buf_str(&full), &l, &err) < 0 ? cli_fail(cmd, &err) : end_output(cmd);
    }
    buf_release(&full);
    mem_free(&path);
    args_release(&a);
    return status;
}

const struct command cmd_dataset_chunks = {
    .name = "dataset chunks",
    .synopsis = "NAME [--node NAME] [--state STATE] [--prefix TEXT] [--json]",
    .summary = "List its chunks that are cached, and where.",
    .details = "A chunk is an object of the bucket. Cost: seconds it took to fetch. Samples: how "
               "many were cut\n"
               "from it. All pages are fetched, one at a time.",
    .examples = "  $ dlcache dataset chunks imagenet --node gpu7 --prefix train/n01\n",
    ONE_OPERAND(DATASET_MISSING),
    .kind = &kind_dataset,
    .run = run,
};
