// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/json.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"

static void print_result(const json_t *answer, bool json)
{
    uint64_t memory = json_u64_at(answer, "memory_bytes"), disk = json_u64_at(answer, "disk_bytes");
    char m[24], d[24];

    if (json)
        print_json(json_pack("{s:I, s:I}", "memory_bytes", (json_int_t)memory, "disk_bytes",
                             (json_int_t)disk),
                   false);
    else
        printf("evicted %s from memory, %s from disk\n", str_size(memory, m), str_size(disk, d));
}

static int run(const struct command *cmd, int argc, char **argv)
{
    const char *tier = "all";
    bool json = false, all = false;
    const struct args_option options[] = {
        {"all", 'a', NULL, "Everything, of every dataset.", &all, NULL},
        {"tier", 't', "TIER", "From where: memory, disk or all (default).", NULL, &tier},
        {"json", 0, NULL, "Print a JSON object.", &json, NULL},
        {NULL, 0, NULL, NULL, NULL, NULL},
    };
    struct args a = ARGS_INIT;
    struct msg answer = MSG_INIT;
    struct progress bar;
    struct dlc_err err = DLC_ERR_INIT;
    int status, rc;

    if (!args_parse(&a, cmd, options, argc, argv, &status) ||
        !args_choice(cmd, "tier", tier, "memory|disk|all", &status))
        goto out;
    if (all == (a.n == 1)) {
        dlc_err_set(&err, DLC_EINVAL, "give the URL of a dataset, or --all%s",
                    all ? ", not both" : "");
        status = cli_fail(cmd, &err);
        goto out;
    }
    progress_init(&bar, "samples", a.quiet || json);
    rc = ctl_evict(&a.config, all ? NULL : a.operands[0], tier, show_progress, &bar, &answer, &err);
    progress_end(&bar);
    if (rc < 0) {
        status = cli_fail(cmd, &err);
        goto out;
    }
    print_result(answer.body, json);
    status = end_output(cmd);
out:
    msg_release(&answer);
    args_release(&a);
    return status;
}

const struct command cmd_evict = {
    .name = "evict",
    .synopsis = "(URL | dlcache://NAME | --all) [--tier memory|disk|all] [--json]",
    .summary = "Forget what is cached.",
    .details = "Gives back the memory and disk space of one dataset, or of all. Samples that a "
               "program is\n"
               "reading stay until it lets go of them. The bucket is not touched. On a node of a "
               "cluster a\n"
               "tenant's token evicts that tenant's datasets; --all needs the node's own user and "
               "a token of\n"
               "nodes or admins.",
    .examples = "  $ dlcache evict s3://my-bucket/train/\n"
                "  $ dlcache evict --tier memory s3://my-bucket/train/\n"
                "  $ dlcache evict dlcache://imagenet\n"
                "  $ dlcache evict --all\n",
    .max = 1,
    .run = run,
};
