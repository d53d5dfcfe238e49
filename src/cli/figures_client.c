// SPDX-License-Identifier: Apache-2.0
#include "cli/figures_client.h"

#include "base/api_token.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/secret.h"
#include "cli/daemon_client.h"
#include "net/json_client.h"

#define SETTLED 0.9 /* seconds of a reader's time */

int figures_client_open(const struct config *config, const char *at, struct http_client **out,
                        struct dlc_err *err)
{
    char *base = at != NULL ? mem_str(at) : mem_fmt("unix:%s.http", config->socket);
    char *token = NULL;
    struct ctl daemon = CTL_INIT;
    int rc = 0;

    if (at == NULL) { /* its words for a daemon that is not there are better than a socket's */
        rc = ctl_open(&daemon, config, false, err);
        ctl_close(&daemon);
    }
    if (rc == 0)
        rc = token_load(config, NULL, &token, err);
    if (rc == 0) {
        const struct http_client_config c = {.base = base, .token = token, .timeout = DLC_SEC(10)};

        rc = http_client_open(&c, out, err);
    }
    secret_free(&token);
    mem_free(&base);
    return rc;
}

int figures_fetch(struct http_client *c, json_t **out, struct dlc_err *err)
{
    int rc = http_json(c, "GET", "/v1/figures", NULL, out, NULL, err);

    if (rc < 0)
        dlc_err_prefix(err, "%s gives no figures (--at names another address)", http_client_at(c));
    return rc;
}

static bool is_new(const json_t *figures)
{
    const json_t *job;
    size_t i;

    json_array_foreach(json_object_get(figures, "jobs"), i, job)
    {
        if (json_u64_at(job, "readers.sessions") > 0 &&
            json_number_at(job, "recent.seconds") < SETTLED)
            return true;
    }
    return false;
}

int figures_fetch_recent(struct http_client *c, json_t **out, struct dlc_err *err)
{
    int rc = figures_fetch(c, out, err);

    if (rc < 0 || !is_new(*out))
        return rc;
    json_decref(*out);
    *out = NULL;
    dlc_sleep(DLC_SEC(1));
    return figures_fetch(c, out, err);
}
