// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include <curl/curl.h>

#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "dlcache/core.h"

static int run(const struct command *cmd, int argc, char **argv)
{
    bool json = false;
    const struct args_option options[] = {
        {"json", 0, NULL, "Print a JSON object.", &json, NULL},
        {NULL, 0, NULL, NULL, NULL, NULL},
    };
    const curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);
    struct args a = ARGS_INIT;
    int status;

    if (args_parse(&a, cmd, options, argc, argv, &status)) {
        if (json)
            print_json(json_pack("{s:s, s:i, s:s, s:s}", "version", dlc_version(), "protocol",
                                 CTL_VERSION, "curl", curl->version, "tls", curl->ssl_version),
                       false);
        else
            printf("dlcache %s (protocol %d; libcurl %s, %s)\n", dlc_version(), CTL_VERSION,
                   curl->version, curl->ssl_version);
        status = end_output(cmd);
    }
    args_release(&a);
    return status;
}

const struct command cmd_version = {
    .name = "version",
    .synopsis = "[--json]",
    .summary = "Print the version.",
    .details =
        "The version of this program, of the protocol it speaks with the daemon, and of the\n"
        "libraries that fetch. The daemon's own version is in `dlcache stat`.",
    .examples = "  $ dlcache version\n"
                "  $ dlcache version --json\n",
    .run = run,
};
