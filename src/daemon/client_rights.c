// SPDX-License-Identifier: Apache-2.0
/*
 * Rights of clients. The user alone does not tell clients of a cluster's node apart: pods of all
 * tenants run as the same user, often as the daemon's own. So there the token decides, as it does
 * for `open`.
 *
 * (RIGHT-1) An operation runs only if its line of operations.def permits the caller.
 * (RIGHT-2) The administrator is the daemon's own user or root; on a node of a cluster it has a
 *           token of nodes or admins besides. Neither is enough there.
 * (RIGHT-3) What a client sees of a tenant's dataset needs a token of that tenant: in this message,
 *           or in the `open` of this connection.
 *
 * conn.admin and conn.tenant hold what is known of the caller of the message that is handled.
 */
#include "daemon/client_rights.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/client_audit.h"
#include "daemon/client_conn.h"
#include "daemon/cluster_ops.h"
#include "daemon/daemon.h"
#include "daemon/dataset.h"
#include "daemon/session.h"
#include "daemon/state.h"

/* A message that waits until the manager has said whose its token is. */
struct identification {
    uint64_t conn;
    const struct operation *op;
    json_t *body;
};

/* A node of a cluster whose manager is another process. */
static bool is_cluster_node(const struct node *n)
{
    return n->cluster_ops != NULL && !n->membership->inside;
}

static bool is_owner(const struct conn *c)
{
    return c->uid == geteuid() || c->uid == 0;
}

/* The caller's tenant; NULL: not known. "": of a dataset without one. */
static const char *tenant_of(const struct conn *c)
{
    if (c->tenant != NULL)
        return c->tenant;
    return c->session != NULL ? c->session->ds->tenant : NULL;
}

bool client_sees(const struct conn *c, const struct dataset *ds)
{
    const char *tenant = tenant_of(c);

    if (c->admin || (c->session != NULL && c->session->ds == ds))
        return true;
    if (ds->tenant != NULL)
        return tenant != NULL && tenant[0] != '\0' && strcmp(tenant, ds->tenant) == 0;
    dlc_list_each (l, &ds->sessions) {
        if (dlc_container(l, struct session, link)->conn->uid == c->uid)
            return true;
    }
    return false;
}

/* ---- refusals ---- */

static void refuse(struct conn *c, const json_t *body, const struct operation *op, int code,
                   const char *why)
{
    static struct log_limit limit; /* L */
    char text[320];

    count(operations_refused);
    if (log_limit_allows(&limit))
        log_warn("refused `%s` to process %d of user %d: %s (%u such warnings were left out "
                 "before)",
                 op->name, (int)c->pid, (int)c->uid, why, log_limit_left_out(&limit));
    snprintf(text, sizeof(text), "%s: %s", op->name, why);
    client_audit(c, op->name, json_string_value(json_object_get(body, "url")), AUDIT_REFUSED, why);
    conn_fail(c, code, text);
}

static void refuse_admin(struct conn *c, const json_t *body, const struct operation *op)
{
    char why[256];

    if (is_cluster_node(c->node))
        snprintf(why, sizeof(why),
                 "only the administrator of this node may: run it as user %d or root, and give a "
                 "token of nodes or admins with --token-file or DLCACHE_TOKEN",
                 (int)geteuid());
    else
        snprintf(why, sizeof(why),
                 "only the user that runs the daemon may (%d, or root), and you are user %d",
                 (int)geteuid(), (int)c->uid);
    refuse(c, body, op, DLC_EDENIED, why);
}

/* ---- the checks ---- */

/* May the caller do this to the dataset that it names? */
static void authorise_dataset(struct conn *c, struct msg *m, const struct operation *op)
{
    const char *tenant = c->session != NULL ? c->session->ds->tenant : NULL;

    if (c->admin)
        op->run(c, m);
    else if (json_object_get(m->body, "url") == NULL)
        refuse_admin(c, m->body, op);
    else if (c->session == NULL)
        conn_fail(c, DLC_ENOTFOUND, "open the dataset on this connection first, with your token");
    else if (tenant != NULL && tenant[0] == '\0')
        refuse(c, m->body, op, DLC_EDENIED,
               "the dataset is of no tenant, all may read it: only the node's administrator may");
    else
        op->run(c, m);
}

/* What is known of the caller is in c. */
static void authorise_known(struct conn *c, struct msg *m, const struct operation *op)
{
    if (op->right == RIGHT_DATASET)
        authorise_dataset(c, m, op);
    else if (op->right == RIGHT_ADMIN && !c->admin)
        refuse_admin(c, m->body, op);
    else
        op->run(c, m);
}

static void on_identified(struct node *n, const struct token_owner *o, const struct dlc_err *err,
                          void *arg)
{
    struct identification *i = arg;
    struct conn *c = conn_by_id(n, i->conn);
    struct msg m = MSG_INIT;

    if (c != NULL)
        c->asking = false;
    if (c != NULL && o == NULL) {
        refuse(c, i->body, i->op, err->code, err->text);
    } else if (c != NULL) {
        c->admin = o->admin && is_owner(c);
        c->tenant = o->admin ? NULL : mem_str(o->tenant);
        m.body = i->body;
        authorise_known(c, &m, i->op);
    }
    json_decref(i->body);
    mem_free(&i);
}

static void identify(struct conn *c, const struct msg *m, const struct operation *op,
                     const char *token)
{
    struct identification *i = mem_new(struct identification);

    *i = (struct identification){c->id, op, json_incref(m->body)};
    c->asking = true;
    c->node->cluster_ops->identify(c->node, token, on_identified, i);
}

void client_authorise(struct conn *c, struct msg *m, const struct operation *op)
{
    const char *token = json_string_value(json_object_get(m->body, "token"));
    char text[80];

    if (op->right == RIGHT_OPEN) {
        op->run(c, m);
        return;
    }
    if (op->right == RIGHT_SESSION && c->session == NULL) {
        snprintf(text, sizeof(text), "%s: needs an open dataset on this connection", op->name);
        conn_fail(c, DLC_EINVAL, text);
        return;
    }
    if (op->right == RIGHT_SESSION) {
        op->run(c, m);
        return;
    }
    if (c->asking) { /* what is known of the caller is about the message before */
        conn_fail(c, DLC_EBUSY, "one request at a time: wait for the answer");
        return;
    }
    c->admin = is_owner(c) && !is_cluster_node(c->node);
    mem_free(&c->tenant);
    if (!c->admin && c->node->cluster_ops != NULL && token != NULL && token[0] != '\0')
        identify(c, m, op, token);
    else
        authorise_known(c, m, op);
}
