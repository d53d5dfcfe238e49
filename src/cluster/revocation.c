// SPDX-License-Identifier: Apache-2.0
#include "cluster/revocation.h"

#include <string.h>

#include "base/config.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/str.h"
#include "cluster/member.h"
#include "cluster/peer/view.h"
#include "daemon/client_conn.h"
#include "daemon/daemon.h"
#include "daemon/dataset.h"
#include "daemon/session.h"
#include "daemon/state.h"

/* Was the session of this connection opened by a token? */
static bool is_by_token(const struct conn *c)
{
    return c->session != NULL && c->by_token && c->session->ds->cid != NULL && !c->closing;
}

static bool same_kind(const struct conn *a, const struct conn *b)
{
    const struct dataset *x = a->session->ds, *y = b->session->ds;

    return memcmp(a->token, b->token, SHA256_LEN) == 0 && strcmp(x->cid, y->cid) == 0 &&
           strcmp(x->tenant, y->tenant) == 0;
}

static json_t *row_of(const struct conn *c)
{
    char digest[2 * SHA256_LEN + 1];

    str_hex(c->token, SHA256_LEN, digest);
    return json_pack("[s, s, s]", digest, c->session->ds->cid, c->session->ds->tenant);
}

json_t *revocation_rows(struct node *n)
{
    const struct conn *kinds[REVOKE_ROWS];
    json_t *rows = NULL;
    unsigned have = 0;

    if (!n->member->lists_sessions)
        return NULL;
    dlc_list_each (l, &n->conns) { /* by rising id */
        const struct conn *c = dlc_container(l, struct conn, link);
        unsigned i = 0;

        if (c->id <= DLC_MAX(n->member->listed_to, n->member->unlisted_to) || !is_by_token(c))
            continue;
        while (i < have && !same_kind(kinds[i], c))
            i++;
        if (i == REVOKE_ROWS)
            break;
        n->member->listed_to = c->id;
        if (i < have)
            continue;
        kinds[have++] = c;
        if (rows == NULL)
            rows = json_array();
        json_array_append_new(rows, row_of(c));
    }
    if (have < REVOKE_ROWS)
        n->member->listed_to = 0; /* all were: from the start next time */
    return rows;
}

const unsigned char *revocation_token_on(const struct node *n, const char *dataset)
{
    dlc_list_each (l, &n->conns) {
        const struct conn *c = dlc_container(l, struct conn, link);

        if (is_by_token(c) && strcmp(c->session->ds->cid, dataset) == 0)
            return c->token;
    }
    return NULL;
}

/* Ended by their next event: their connections may not be freed here (CLIENT-CONN-3). */
static void end_sessions(struct node *n, const unsigned char *token, const char *cid,
                         const char *tenant, const char *why)
{
    dlc_list_each (l, &n->conns) {
        struct conn *c = dlc_container(l, struct conn, link);

        if (!is_by_token(c) || (token != NULL && (memcmp(c->token, token, SHA256_LEN) != 0 ||
                                                  strcmp(c->session->ds->cid, cid) != 0 ||
                                                  strcmp(c->session->ds->tenant, tenant) != 0)))
            continue;
        count(sessions_revoked);
        conn_end_soon(c, why);
    }
}

void revocation_heard(struct node *n, const json_t *answer)
{
    const json_t *revoked = json_object_get(answer, "revoked"), *row;
    size_t i;

    n->member->heard = dlc_mono_now();
    n->member->lists_sessions = json_is_array(revoked);
    json_array_foreach(revoked, i, row)
    {
        const char *digest = json_string_value(json_array_get(row, 0));
        const char *cid = json_string_value(json_array_get(row, 1));
        const char *tenant = json_string_value(json_array_get(row, 2));
        unsigned char token[SHA256_LEN];

        if (digest == NULL || cid == NULL || tenant == NULL || strlen(digest) != 2 * SHA256_LEN ||
            !str_unhex(digest, strlen(digest), token))
            continue;
        log_info("sessions of tenant %s on %s end: the manager took their token back, or the "
                 "dataset was deleted",
                 tenant, cid);
        cluster_forget(n->cluster, cid); /* what is known of it is asked again */
        end_sessions(n, token, cid, tenant, "its token was taken back, or its dataset deleted");
    }
}

void revocation_store_is_new(struct node *n)
{
    if (!dlc_list_empty(&n->conns))
        n->member->unlisted_to = dlc_container(n->conns.prev, struct conn, link)->id;
}

bool revocation_grace_over(const struct node *n)
{
    struct dlc_dur grace = n->config->manager_grace;

    return !n->membership->inside && grace.ns > 0 && n->member->heard.ns != 0 &&
           dlc_mono_since(n->member->heard).ns > grace.ns;
}

void revocation_tick(struct node *n)
{
    if (revocation_grace_over(n))
        end_sessions(n, NULL, NULL, NULL, "the manager was silent for longer than manager-grace");
}
