// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "cli/manager_commands.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/cmd_dataset.h"
#include "cli/resource_name.h"
#include "cli/table.h"

/* Open the dataset, then warm it on the same connection. */
static int warm(const struct args *a, const char *tier, struct progress *bar, struct msg *answer,
                struct dlc_err *err)
{
    struct ctl c = CTL_INIT;
    struct msg opened = MSG_INIT;
    int rc = ctl_check_url(a->operands[0], err);

    if (rc == 0)
        rc = ctl_open(&c, &a->config, true, err);
    if (rc == 0)
        rc = ctl_open_dataset(&c, &a->config, a->operands[0], false, show_progress, bar, &opened,
                              err);
    if (rc == 0)
        rc = ctl_call(&c, json_pack("{s:s, s:s}", "op", "warm", "tier", tier), show_progress, bar,
                      answer, err);
    msg_release(&opened);
    ctl_close(&c);
    return rc;
}

static void print_result(const json_t *answer, const char *tier, double seconds, bool json)
{
    uint64_t bytes = json_u64_at(answer, "bytes");
    char n[32], total[32], size[24], rate[24];

    if (json) {
        print_json(json_pack("{s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:f}", "samples",
                             (json_int_t)json_u64_at(answer, "samples"), "total",
                             (json_int_t)json_u64_at(answer, "total"), "bytes", (json_int_t)bytes,
                             "failed", (json_int_t)json_u64_at(answer, "failed"), "left",
                             (json_int_t)json_u64_at(answer, "left"), "error",
                             json_text_at(answer, "error"), "tier", tier, "seconds", seconds),
                   false);
        return;
    }
    printf("%s of %s samples are %s; %s fetched in %.1f s",
           table_count(json_u64_at(answer, "samples"), n),
           table_count(json_u64_at(answer, "total"), total),
           strcmp(tier, "disk") == 0 ? "in the disk tier" : "cached", str_size(bytes, size),
           seconds);
    if (bytes > 0 && seconds > 0)
        printf(", %s/s", str_size((uint64_t)((double)bytes / seconds), rate));
    putchar('\n');
}

/* The name of a registered dataset: NAME or dlcache://NAME, where there is a manager to ask. NULL:
 * it is, or should be, a URL. */
static const char *name_in(const struct args *a)
{
    const char *s = a->operands[0], *name = str_starts(s, "dlcache://") ? s + 10 : s;

    return name_is_ok(name) && api_is_known(&a->config) ? name : NULL;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    const char *tier = "memory";
    bool json = false;
    struct dataset_warming whole = {.name = NULL};
    const struct args_option options[] = {
        {"tier", 't', "TIER", "Where to: memory (default) or disk.", NULL, &tier},
        {"split", 's', "NAME", "One split only, of a registered dataset.", NULL, &whole.split},
        {"background", 'b', NULL, "Do not wait for the nodes of a registered dataset.",
         &whole.background, NULL},
        {"json", 0, NULL, "Print a JSON object.", &json, NULL},
        {NULL, 0, NULL, NULL, NULL, NULL},
    };
    struct args a = ARGS_INIT;
    struct msg answer = MSG_INIT;
    struct progress bar;
    struct dlc_err err = DLC_ERR_INIT;
    struct dlc_mono start = dlc_mono_now();
    int status, rc;

    if (!args_parse(&a, cmd, options, argc, argv, &status) ||
        !args_choice(cmd, "tier", tier, "memory|disk", &status))
        goto out;
    whole.name = name_in(&a);
    if (whole.name != NULL) {
        whole.tier = tier;
        whole.json = json;
        status = cli_dataset_warm(cmd, &a, &whole);
        goto out;
    }
    if (whole.split != NULL || whole.background) {
        dlc_err_set(&err, DLC_EINVAL, "--split and --background are for registered datasets");
        status = cli_fail(cmd, &err);
        goto out;
    }
    progress_init(&bar, "samples", a.quiet || json);
    rc = warm(&a, tier, &bar, &answer, &err);
    progress_end(&bar);
    if (rc < 0) {
        status = cli_fail(cmd, &err);
        goto out;
    }
    print_result(answer.body, tier, dlc_dur_seconds(dlc_mono_since(start)), json);
    status = end_output(cmd);
    if (json_u64_at(answer.body, "failed") + json_u64_at(answer.body, "left") > 0) {
        dlc_err_set(&err, DLC_ENOSPACE, "%s", json_text_at(answer.body, "error"));
        status = cli_fail(cmd, &err);
    }
out:
    msg_release(&answer);
    args_release(&a);
    return status;
}

const struct command cmd_warm = {
    .name = "warm",
    .synopsis = "URL | NAME [--tier memory|disk] [--split NAME] [--background] [--json]",
    .summary = "Bring a whole dataset into the cache.",
    .details = "Fetches every sample of the dataset that is not cached yet, and waits for it. What "
               "does not\n"
               "fit into memory goes to the disk tier. Samples that cannot be had are counted and "
               "the first\n"
               "of their errors is printed; the exit status is then 1.\n"
               "\n"
               "The name of a registered dataset instead of a URL warms it on all nodes of the "
               "cluster, each\n"
               "its own part, with one bar for all (`dlcache dataset warm`).",
    .examples = "  $ dlcache warm s3://my-bucket/train/\n"
                "  $ dlcache warm --tier disk gs://my-bucket/video/\n"
                "  $ dlcache warm --anonymous --json s3://public-bucket/images/\n"
                "  $ dlcache warm imagenet --split train\n",
    ONE_OPERAND("the URL or name of a dataset"),
    .run = run,
};
