// SPDX-License-Identifier: Apache-2.0
/* What a node shows to its manager: the token, and the certificate that came with the join. */
#include "base/api_token.h"
#include "base/config.h"
#include "base/mem.h"
#include "cluster/agent_i.h"
#include "cluster/certificate.h"
#include "daemon/daemon.h"
#include "daemon/state.h"
#include "net/manager_client.h"

#define CALL_TIMEOUT DLC_SEC(5)

/* Any thread: what the file holds now, so that a token can be replaced while the node runs. */
static int find_token(void *arg, char **out, struct dlc_err *err)
{
    const struct node *n = agent_of(arg)->node;
    char *file = mem_fmt("%s/node.token", n->config->dir);
    int rc = n->membership->inside ? token_load_file(file, out, err)
                                   : token_load(n->config, NULL, out, err);

    mem_free(&file);
    return rc;
}

static const char *or_null(const char *s)
{
    return s != NULL && s[0] != '\0' ? s : NULL;
}

int agent_client_open(struct agent *a, struct manager_client **out, struct dlc_err *err)
{
    const struct manager_client_config c = {
        .http.base = a->base,
        .find_token = find_token,
        .arg = a,
        .http.ca = or_null(a->node->config->manager_ca),
        .http.timeout = CALL_TIMEOUT,
        .http.repeatable = true, /* heartbeats and questions whose a token is */
    };

    return manager_client_open(&c, out, err);
}

void agent_client_certify(struct agent *a, struct manager_client *client)
{
    struct tls_identity *id = certificate_get(a->certificate);

    manager_client_identity(client, id);
    tls_identity_put(&id);
}
