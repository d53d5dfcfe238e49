// SPDX-License-Identifier: Apache-2.0
/* `dlcache explain`: why a job waits, in a paragraph. */
#include <stdio.h>

#include "base/buf.h"
#include "cli/commands.h"
#include "cli/figures_client.h"
#include "cli/figures_view.h"
#include "net/json_client.h"

static int explain(const struct config *config, const char *at, const char *job,
                   struct dlc_err *err)
{
    struct http_client *c = NULL;
    struct buf out = BUF_INIT;
    json_t *figures = NULL;
    int rc = figures_client_open(config, at, &c, err);

    if (rc == 0)
        rc = figures_fetch_recent(c, &figures, err);
    if (rc == 0 && !explain_render(figures, job, &out))
        rc = dlc_err_set(
            err, DLC_ENOTFOUND,
            job[0] != '\0'
                ? "no job \"%.80s\" has read at this daemon; `dlcache top` lists those that have"
                : "all readers at this daemon%s belong to named jobs, or there are none: "
                  "name one that `dlcache top` lists",
            job);
    if (rc == 0)
        fputs(buf_str(&out), stdout);
    buf_release(&out);
    json_decref(figures);
    http_client_close(&c);
    return rc;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    const char *at = NULL;
    const struct args_option options[] = {
        {"at", 0, "ADDRESS", "The daemon's --http address: http://HOST:PORT or unix:PATH.", NULL,
         &at},
        {NULL, 0, NULL, NULL, NULL, NULL},
    };
    struct args a = ARGS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int status;

    if (args_parse(&a, cmd, options, argc, argv, &status))
        status = explain(&a.config, at, a.n > 0 ? a.operands[0] : "", &err) < 0
                     ? cli_fail(cmd, &err)
                     : end_output(cmd);
    args_release(&a);
    return status;
}

const struct command cmd_explain = {
    .name = "explain",
    .synopsis = "[JOB] [--at ADDRESS]",
    .summary = "Say why a job waits for data, and what would help.",
    .details = "Of the last minute: the share of its readers' time that they waited, for what, and "
               "one piece of\n"
               "advice. Without JOB: the readers that named none (DLCACHE_JOB is not set).",
    .examples = "  $ dlcache explain\n"
                "  $ dlcache explain resnet-7\n",
    .min = 0,
    .max = 1,
    .run = run,
};
