// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/node_join_token.h"

#include <openssl/crypto.h>

#include "base/log.h"
#include "manager/routes/api.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/route_util.h"
#include "manager/tables/node_token.h"

#define LIFE_S     3600
#define LIFE_MAX_S (30 * 86400)
/* Lives of certificates that the credential of a machine lasts: so long it may be off without an
 * admin. A pod has the token of its account, and needs none longer than its certificate. */
#define LIVES_OF_A_MACHINE 15

/* A new token in *out, whose document is to have this id. */
static void make(char out[static TOKEN_LEN + 1], char id[static TOKEN_ID_LEN + 1])
{
    unsigned char hash[SHA256_LEN];

    token_new(out);
    token_hash(out, hash);
    token_doc_id(hash, id);
}

static int add_credential(struct api *api, const char *node, struct dlc_dur life, json_t *answer,
                          struct dlc_err *err)
{
    char token[TOKEN_LEN + 1], id[TOKEN_ID_LEN + 1];
    int rc;

    make(token, id);
    rc = node_token_put_credential(api->tables, id, node, life, err);
    if (rc == 0)
        json_object_set_new(answer, "credential", json_string(token));
    OPENSSL_cleanse(token, sizeof(token));
    return rc;
}

static struct dlc_dur life_of_machine(const struct api *api)
{
    return (struct dlc_dur){LIVES_OF_A_MACHINE * api->certificate_life.ns};
}

void route_nodes_join_token(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *name = read_name(r, 0, "node", reply);
    uint64_t life = LIFE_S;
    const struct field fields[] = {{"life_s", FIELD_U64, false, LIFE_MAX_S, &life}, {NULL}};
    struct dlc_err err = DLC_ERR_INIT;
    char token[TOKEN_LEN + 1], id[TOKEN_ID_LEN + 1];

    if (name == NULL || !read_body(r, fields, reply))
        return;
    if (life == 0) {
        refuse_field(reply, "", "life_s", "must be 1 or more");
        return;
    }
    make(token, id);
    if (node_token_put_join(api->tables, id, name, DLC_SEC((int64_t)life), &err) < 0)
        reply_store_error(api, r, reply, &err);
    else
        reply_doc(
            reply, 201,
            json_pack("{s:s, s:s, s:I}", "name", name, "token", token, "life_s", (json_int_t)life),
            0);
    OPENSSL_cleanse(token, sizeof(token));
}

bool node_join_token_use(struct api *api, struct http_request *r, const char *instance,
                         struct http_reply *reply)
{
    const struct caller *who = caller_of(r);
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    if (!who->joins || who->token_id[0] == '\0')
        return true;
    if (instance[0] == '\0') {
        refuse_field(reply, "", "instance", "is missing: a join token is for one process");
        return false;
    }
    rc = node_token_use(api->tables, who->token_id, instance, &err);
    if (rc == DLC_EDENIED)
        http_problem(reply, 401, "Unknown token",
                     "%s; an admin makes another: `dlcache node join-token %s`", err.text,
                     who->node);
    else if (rc < 0)
        reply_store_error(api, r, reply, &err);
    return rc == 0;
}

bool node_join_token_answer(struct api *api, struct http_request *r, const char *node,
                            json_t *answer, struct http_reply *reply)
{
    const struct caller *who = caller_of(r);
    bool is_pod = who->token_id[0] == '\0';
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    if (!who->joins)
        return true;
    rc = add_credential(api, node, is_pod ? api->certificate_life : life_of_machine(api), answer,
                        &err);
    if (rc == 0)
        log_info("node %s joined by a token of its own", node);
    else
        reply_store_error(api, r, reply, &err);
    return rc == 0;
}

void node_credential_renew(struct api *api, struct http_request *r, const char *node,
                           json_t *answer)
{
    const struct caller *who = caller_of(r);
    struct dlc_dur life = who->credential_life.ns > 0 ? who->credential_life : life_of_machine(api);
    struct dlc_err err = DLC_ERR_INIT;

    if (!who->credential_due)
        return;
    if (node_token_replace(api->tables, who->token_id, life, &err) < 0 ||
        add_credential(api, node, life, answer, &err) < 0)
        log_warn("node %s gets no new credential now: %s", node, err.text);
}
