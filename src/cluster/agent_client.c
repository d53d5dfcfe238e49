// SPDX-License-Identifier: Apache-2.0
/* What a node shows to its manager: the token, and the certificate that came with the join. */
#include "base/api_token.h"
#include "base/config.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "cluster/agent_i.h"
#include "cluster/certificate.h"
#include "cluster/node_credential.h"
#include "daemon/daemon.h"
#include "daemon/state.h"
#include "net/manager_client.h"

#define CALL_TIMEOUT DLC_SEC(5)

/* Any thread: what the file holds now, so that a token can be replaced while the node runs. */
static int find_token(void *arg, char **out, struct dlc_err *err)
{
    struct agent *a = agent_of(arg);
    const struct node *n = a->node;
    char *file = mem_fmt("%s/node.token", n->config->dir);
    int rc = 0;

    dlc_mtx_lock(&a->mtx);
    *out = a->credential != NULL && !a->credential_refused ? mem_str(a->credential) : NULL;
    dlc_mtx_unlock(&a->mtx);
    if (*out == NULL)
        rc = n->membership->inside ? token_load_file(file, out, err)
                                   : token_load(n->config, NULL, out, err);
    mem_free(&file);
    return rc;
}

void agent_client_denied(struct agent *a)
{
    dlc_mtx_lock(&a->mtx);
    a->credential_refused = !a->credential_refused;
    dlc_mtx_unlock(&a->mtx);
}

void agent_client_joined(struct agent *a, struct manager_client *client, const json_t *answer)
{
    const char *given = json_string_value(json_object_get(answer, "credential"));
    struct dlc_err err = DLC_ERR_INIT;
    char *old;

    if (given == NULL)
        return;
    if (node_credential_save(a->node->config->dir, given, &err) < 0)
        log_warn("the credential of this node is lost when it ends, and then it needs another join "
                 "token: %s",
                 err.text);
    dlc_mtx_lock(&a->mtx);
    old = a->credential;
    a->credential = mem_str(given);
    a->credential_refused = false;
    dlc_mtx_unlock(&a->mtx);
    secret_free(&old);
    manager_client_forget_token(client);
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
