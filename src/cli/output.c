// SPDX-License-Identifier: Apache-2.0
/* Output functions that several commands use. */
#include "cli/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/daemon_client.h"

void print_json(json_t *j, bool pretty)
{
    json_dumpf(j, stdout, pretty ? JSON_INDENT(2) : JSON_COMPACT);
    putchar('\n');
    json_decref(j);
}

void show_progress(const json_t *p, void *priv)
{
    struct progress *bar = priv;
    const char *phase = json_text_at(p, "phase");

    if (strcmp(phase, "listing") == 0)
        progress_update(bar, phase, json_u64_at(p, "objects"), 0, 0, 0);
    else
        progress_update(bar, phase, json_u64_at(p, "done"), json_u64_at(p, "total"),
                        json_u64_at(p, "bytes"), json_u64_at(p, "total_bytes"));
}

int end_output(const struct command *cmd)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (fflush(stdout) == 0 && !ferror(stdout))
        return CLI_OK;
    dlc_err_set(&err, DLC_EIO, "cannot write to standard output: %s", strerror(errno));
    return cli_fail(cmd, &err);
}
