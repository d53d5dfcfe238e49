// SPDX-License-Identifier: Apache-2.0
/* Replaces the agent in builds without the manager: no manager to join, no peer server. */
#include "base/mem.h"
#include "cluster/agent.h"
#include "daemon/state.h"
#include "cluster/peer_server.h"

const bool node_has_control = false;

int agent_open(struct node *n, const struct agent_ops *ops, const char *address,
               struct certificate *certificate, struct agent **out, struct dlc_err *err)
{
    (void)n;
    (void)ops;
    (void)address;
    (void)certificate;
    *out = NULL;
    return dlc_err_set(err, DLC_EINVAL, "this dlcache was built without the control plane");
}

void agent_leave(struct agent *a)
{
    (void)a;
}

void agent_close(struct agent **ap)
{
    *ap = NULL;
}

const char *agent_name(const struct agent *a)
{
    (void)a;
    return "";
}

const char *agent_instance(const struct agent *a)
{
    (void)a;
    return "";
}

void agent_beat_now(struct agent *a)
{
    (void)a;
}

bool agent_manager_away(const struct agent *a)
{
    (void)a;
    return true;
}

json_t *agent_figures(struct agent *a)
{
    (void)a;
    return json_object();
}

void agent_ask(struct agent *a, struct agent_call *c)
{
    (void)a;
    (void)c;
    dlc_check(false); /* there is no agent that could be asked */
}

void agent_call_release(struct agent_call *c)
{
    mem_free(&c->path);
    json_decref(c->body);
    c->body = NULL;
}

int peer_server_open(struct node *n, const char *listen, bool tls, struct peer_server **out,
                     struct dlc_err *err)
{
    (void)n;
    (void)listen;
    (void)tls;
    *out = NULL;
    return dlc_err_set(err, DLC_EINVAL, "this dlcache was built without the control plane");
}

void peer_server_revoked(struct peer_server *d, const json_t *revoked)
{
    (void)d;
    (void)revoked;
}

void peer_server_heard(struct peer_server *d, const json_t *tickets)
{
    (void)d;
    (void)tickets;
}

int peer_server_identity(struct peer_server *d, const struct tls_identity *id, struct dlc_err *err)
{
    (void)d;
    (void)id;
    (void)err;
    return 0;
}

const char *peer_server_address(const struct peer_server *d)
{
    (void)d;
    return NULL;
}

json_t *peer_server_json(const struct peer_server *d)
{
    (void)d;
    return NULL;
}

void peer_server_cancel(struct peer_server *d)
{
    (void)d;
}

void peer_server_close(struct peer_server *d)
{
    (void)d;
}

void peer_server_free(struct peer_server **dp)
{
    *dp = NULL;
}
