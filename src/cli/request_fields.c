// SPDX-License-Identifier: Apache-2.0
#include "cli/request_fields.h"

#include <string.h>

#include "base/check.h"
#include "base/str.h"

/* The first row that fits. A field that no command sends has none. */
static const struct {
    const char *field, *typed;
    const char *path; /* only of requests whose path ends so; NULL: of all */
} rows[] = {
    {"node_count", "--count", "/move"},
    {"nodes", "NODE", "/move"},
    {"name", "TENANT", "/v1/tenants"},
    {"name", "NAME", NULL},
    {"url", "URL", NULL},
    {"dataset", "DATASET", NULL},
    {"endpoint", "--endpoint", NULL},
    {"tenant", "--tenant", NULL},
    {"splits", "--split", NULL},
    {"split", "--split", NULL},
    {"tier", "--tier", NULL},
    {"force", "--force", NULL},
    {"nodes", "--nodes", NULL},
    {"node_count", "--node-count", NULL},
    {"gpus", "--gpus", NULL},
    {"queue", "--queue", NULL},
    {"qos.cache", "--no-cache", NULL},
    {"qos.mode", "--mode", NULL},
    {"qos.memory_limit", "--memory-limit", NULL},
    {"qos.priority", "--priority", NULL},
    {"qos.epochs", "--epochs", NULL},
    {"epochs_done", "--epochs-done", NULL},
    {"life_s", "--life", NULL},
    {"grace_s", "--grace", NULL},
    {"access_key", "the access key", NULL},
    {"secret_key", "the secret key", NULL},
    {"session_token", "the session token", NULL},
    {"anonymous", "--anonymous", NULL},
    {"since", "--since", NULL},
    {"by", "--by", NULL},
    {"node", "--node", NULL},
    {"state", "--state", NULL},
    {"prefix", "--prefix", NULL},
    {"after", "--after", NULL},
    {"limit", "--limit", NULL},
    {"follow", "--follow", NULL},
};

static bool ends_with(const char *path, const char *end)
{
    size_t len = strcspn(path, "?"), n = strlen(end);

    return len >= n && strncmp(path + len - n, end, n) == 0;
}

void request_fields_show(const char *path, struct dlc_err *err)
{
    for (size_t i = 0; i < DLC_COUNT(rows); i++) {
        size_t len = strlen(rows[i].field);
        struct dlc_err said = *err;

        if (!str_starts(said.text, rows[i].field) || !str_starts(said.text + len, ": ") ||
            (rows[i].path != NULL && !ends_with(path, rows[i].path)))
            continue;
        dlc_err_set(err, said.code, "%s%s", rows[i].typed, said.text + len);
        return;
    }
}
