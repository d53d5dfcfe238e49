// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/resolve.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "manager/routes/api.h"
#include "manager/routes/dataset_names.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/node_access.h"
#include "manager/routes/route_util.h"
#include "manager/routes/tickets.h"
#include "manager/store/seal.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/deleted_datasets.h"

#define RECORD_SPLITS 64

struct resolve_request {
    const char *token, *dataset, *url, *endpoint;
    struct caller who; /* role 0: the node itself */
    struct node_asker node;
};

/* ---- which dataset ---- */

/* A tenant's own goes before the one that is nobody's and so for all. */
static int find_by_name(struct api *api, const struct resolve_request *q, struct store_doc *out,
                        struct dlc_err *err)
{
    int rc = DLC_ENOTFOUND;

    if (q->who.role == 0)
        return names_find_any(api, q->dataset, out, err);
    if (q->who.role == ROLE_TENANT)
        rc = names_find(api, q->who.tenant, q->dataset, out, err);
    return rc == DLC_ENOTFOUND ? names_find(api, "", q->dataset, out, err) : rc;
}

/* "s3://b/p" and "s3://b/p/" are the same. */
static bool same_url(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);

    n -= n > 0 && a[n - 1] == '/';
    m -= m > 0 && b[m - 1] == '/';
    return n == m && memcmp(a, b, n) == 0;
}

struct url_search {
    const struct resolve_request *q;
    struct store_doc found;
};

static bool match_url(struct store_doc *d, void *arg)
{
    struct url_search *s = arg;
    const char *url = json_string_value(json_object_get(d->body, "url"));
    const char *endpoint = json_string_value(json_object_get(d->body, "endpoint"));

    if (url == NULL || !same_url(url, s->q->url))
        return true;
    if (s->q->endpoint != NULL && endpoint != NULL && !same_url(endpoint, s->q->endpoint))
        return true;
    s->found = *d;
    *d = (struct store_doc)STORE_DOC_INIT;
    return false;
}

static int find_by_url(struct api *api, const struct resolve_request *q, struct store_doc *out,
                       struct dlc_err *err)
{
    struct url_search s = {q, STORE_DOC_INIT};
    int rc = 0;

    if (q->who.role == ROLE_TENANT)
        rc = store_each(api->tables->store, STORE_DATASET, q->who.tenant, match_url, &s, err);
    if (rc == 0 && s.found.id == NULL)
        rc = store_each(api->tables->store, STORE_DATASET, "", match_url, &s, err);
    if (rc == 0 && s.found.id == NULL)
        rc = dlc_err_set(err, DLC_ENOTFOUND, "there is no dataset at this URL for this token");
    *out = s.found;
    return rc;
}

static int find_dataset(struct api *api, const struct resolve_request *q, struct store_doc *out,
                        struct dlc_err *err)
{
    int rc;

    if (q->url != NULL)
        return find_by_url(api, q, out, err);
    rc = find_by_name(api, q, out, err);
    if (rc == DLC_ENOTFOUND)
        rc = dlc_err_set(err, DLC_ENOTFOUND, "there is no dataset %s for this token", q->dataset);
    if (rc == 0 && q->who.role == 0)
        rc = node_access_check(api, &q->node, out, err);
    return rc;
}

/* ---- the answer ---- */

/* Gives what was sealed, or NULL when the tenant has set nothing. */
static int credentials_of(struct api *api, const char *tenant, json_t **out, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    const json_t *sealed;
    char *text = NULL;
    int rc = tenant[0] == '\0' ? DLC_ENOTFOUND
                               : store_get(api->tables->store, STORE_TENANT, tenant, &d, err);

    *out = NULL;
    sealed = json_object_get(json_object_get(d.body, "credentials"), "sealed");
    if (rc == DLC_ENOTFOUND || (rc == 0 && sealed == NULL))
        rc = 0;
    else if (rc == 0)
        rc = unseal_text(api->seal, tenant, sealed, &text, err);
    if (rc == 0 && text != NULL) {
        *out = json_loads(text, 0, NULL);
        if (*out == NULL)
            rc = dlc_err_set(err, DLC_ECORRUPT, "the credentials of %s are not JSON", tenant);
    }
    secret_wipe(&text);
    store_doc_release(&d);
    return rc;
}

static void copy(json_t *to, const char *name, const json_t *from)
{
    json_t *v = json_object_get(from, name);

    if (v != NULL)
        json_object_set(to, name, v);
}

/* Texts of `secret` are shared with the answer, which the server frees when it is sent. */
static json_t *answer(const struct store_doc *d, const json_t *secret)
{
    json_t *o = json_pack("{s:s, s:s, s:s}", "dataset", d->id, "tenant", d->tenant, "name",
                          dataset_doc_name(d));
    json_t *keys = NULL;

    copy(o, "url", d->body);
    copy(o, "endpoint", secret); /* the dataset's own, when it has one, goes before it */
    copy(o, "endpoint", d->body);
    copy(o, "region", secret);
    copy(o, "splits", d->body);
    copy(o, "nodes", d->body);
    copy(o, "snapshot", d->body);
    json_object_set_new(o, "anonymous",
                        json_boolean(json_is_true(json_object_get(secret, "anonymous"))));
    if (json_object_get(secret, "access_key") != NULL) {
        keys = json_object();
        copy(keys, "access_key", secret);
        copy(keys, "secret_key", secret);
        copy(keys, "session_token", secret);
    }
    json_object_set_new(o, "credentials", keys != NULL ? keys : json_null());
    return o;
}

/* With a ticket for the node, if it has joined; else it gets one when it asks again. */
static json_t *answer_to(struct api *api, const struct resolve_request *q,
                         const struct store_doc *d, const json_t *secret)
{
    struct store_doc node = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    json_t *o = answer(d, secret);

    if (json_array_size(json_object_get(d->body, "splits")) <= RECORD_SPLITS)
        json_object_set_new(o, "record", store_doc_export(api->tables->store, STORE_DATASET, d));
    if (q->node.name != NULL && node_access_identify(api, &q->node, &node, &err) == 0)
        ticket_add(api, d->id, d->tenant, q->node.name, o);
    store_doc_release(&node);
    return o;
}

/* ---- the route ---- */

static bool read_request(struct api *api, const struct http_request *r, struct resolve_request *q,
                         struct http_reply *reply)
{
    const struct field fields[] = {
        {"token", FIELD_TEXT, false, 256, &q->token},
        {"dataset", FIELD_NAME, false, 0, &q->dataset},
        {"url", FIELD_TEXT, false, 4096, &q->url},
        {"endpoint", FIELD_TEXT0, false, 1024, &q->endpoint},
        {"node", FIELD_NAME, false, 0, &q->node.name},
        {"instance", FIELD_TEXT, false, 64, &q->node.instance},
        {"session", FIELD_TEXT, false, 2 * SHA256_LEN, &q->node.session},
        {NULL},
    };
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    if (!read_node_body(r, fields, reply))
        return false;
    if ((q->dataset != NULL) == (q->url != NULL)) {
        refuse_field(reply, "", "dataset", "either dataset or url must be there");
        return false;
    }
    if (q->endpoint != NULL && q->endpoint[0] == '\0')
        q->endpoint = NULL;
    if (!caller_is_node(r, q->node.name, reply))
        return false;
    if (q->token == NULL && q->url != NULL) {
        refuse_field(reply, "", "token", "is missing: a node asks for itself by dataset only");
        return false;
    }
    rc = q->token == NULL ? 0 : token_caller(api, q->token, &q->who, &err);
    if (rc == DLC_EDENIED)
        http_problem(reply, 403, "Unknown token", "%s", err.text);
    else if (rc < 0)
        reply_store_error(api, r, reply, &err);
    return rc == 0;
}

void route_resolve(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    struct resolve_request q = {0};
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT, lost = DLC_ERR_INIT;
    json_t *secret = NULL;
    bool refused;
    int rc;

    q.node.certificate = caller_node(r);
    if (!read_request(api, r, &q, reply))
        return;
    rc = find_dataset(api, &q, &d, &err);
    if (rc == DLC_ENOTFOUND && !store_is_marked(api->tables->store, &lost))
        rc = lost.code; /* it was emptied: a node must not take that for a deletion */
    if (lost.code != 0)
        err = lost;
    if (rc == DLC_ENOTFOUND && q.token == NULL &&
        deleted_datasets_named(api->tables, q.dataset, &err)) {
        http_problem(reply, 410, "Deleted", "dataset %s was deleted", q.dataset);
        return;
    }
    refused = rc == DLC_EDENIED || rc == DLC_EBUSY;
    if (rc == 0)
        rc = credentials_of(api, d.tenant, &secret, &err);
    if (rc == 0) {
        reply_doc(reply, 200, answer_to(api, &q, &d, secret), d.version);
    } else if (rc == DLC_EINVAL) {
        http_problem(reply, 409, "Ambiguous", "%s", err.text);
    } else if (refused) {
        log_info("%s: not for node %s: %s", d.id, q.node.name != NULL ? q.node.name : "?",
                 err.text);
        http_problem(reply, rc == DLC_EBUSY ? 503 : 403, "Not for this node", "%s", err.text);
    } else if (rc == DLC_EDENIED || rc == DLC_ECORRUPT) {
        log_error("%s", err.text);
        http_problem(reply, 500, "Credentials unreadable", "%s", err.text);
    } else {
        reply_store_error(api, r, reply, &err);
    }
    json_decref(secret);
    store_doc_release(&d);
}

/* ---- whose a token is ---- */

void route_identify(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    struct dlc_err err = DLC_ERR_INIT;
    const char *token = NULL;
    const struct field fields[] = {
        {"token", FIELD_TEXT, true, 256, &token},
        {NULL},
    };
    struct caller who;
    int rc;

    if (!read_node_body(r, fields, reply))
        return;
    rc = token_caller(api, token, &who, &err);
    if (rc == DLC_EDENIED)
        http_problem(reply, 403, "Unknown token", "%s", err.text);
    else if (rc < 0)
        reply_store_error(api, r, reply, &err);
    else
        reply->body = json_pack("{s:s, s:s}", "role", role_name(who.role), "tenant", who.tenant);
}
