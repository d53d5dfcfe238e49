// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/node_access.h"

#include <string.h>

#include <openssl/crypto.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/str.h"
#include "manager/routes/api.h"
#include "manager/routes/auth.h"
#include "manager/tables/dataset_doc.h"

int node_access_identify(struct api *api, const struct node_asker *who, struct store_doc *node,
                         struct dlc_err *err)
{
    const char *instance;
    int rc;

    if (who->name == NULL || who->instance == NULL)
        return dlc_err_set(err, DLC_EDENIED,
                           "the question does not say which node asks: use the same version of "
                           "dlcache on all machines");
    if (who->certificate != NULL && strcmp(who->certificate, who->name) != 0)
        return dlc_err_set(err, DLC_EDENIED,
                           "node %s asks with the certificate or token of node %s", who->name,
                           who->certificate);
    rc = store_get(api->tables->store, STORE_NODE, who->name, node, err);
    if (rc < 0 && rc != DLC_ENOTFOUND)
        return rc;
    instance = json_text_at(node->body, "instance");
    if (rc == DLC_ENOTFOUND || strcmp(json_text_at(node->body, "state"), "gone") == 0)
        rc = dlc_err_set(err, DLC_EBUSY, "node %s has yet to join", who->name);
    else if (strlen(instance) != strlen(who->instance) ||
             CRYPTO_memcmp(instance, who->instance, strlen(instance)) != 0)
        rc = dlc_err_set(err, DLC_EDENIED, "another process is node %s", who->name);
    if (rc < 0)
        store_doc_release(node);
    return rc;
}

/* ---- placement ---- */

static bool is_owner(const json_t *node)
{
    return strcmp(json_text_at(node, "state"), "live") == 0 &&
           !json_is_true(json_object_get(node, "drain"));
}

/* Are all of them away? Then every node stands in for them. A store that cannot say: no. */
static bool none_owns(struct api *api, const json_t *names)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        struct store_doc d = STORE_DOC_INIT;
        int rc = name == NULL ? DLC_ENOTFOUND
                              : store_get(api->tables->store, STORE_NODE, name, &d, NULL);
        bool away = rc == DLC_ENOTFOUND || (rc == 0 && !is_owner(d.body));

        store_doc_release(&d);
        if (!away)
            return false;
    }
    return true;
}

static bool is_placed(struct api *api, const char *node, const struct store_doc *dataset)
{
    const json_t *names = dataset_nodes(dataset->body);

    return json_array_size(names) == 0 || json_has_text(names, node) || none_owns(api, names);
}

/* ---- commands and programs ---- */

/* To fetch or list it; an eviction needs no credentials. */
static bool has_command(const struct store_doc *node, const struct store_doc *dataset)
{
    const json_t *commands = json_object_get(node->body, "commands");

    for (size_t i = 0; i < json_array_size(commands); i++) {
        const json_t *c = json_array_get(commands, i);

        if (strcmp(json_text_at(c, "op"), "evict") != 0 &&
            strcmp(json_text_at(c, "dataset"), dataset->id) == 0 &&
            strcmp(json_text_at(c, "tenant"), dataset->tenant) == 0)
            return true;
    }
    return false;
}

/* 0: a program of the dataset's tenant. DLC_EDENIED: not, or there is none. */
static int check_session(struct api *api, const char *session, const char *tenant,
                         struct dlc_err *err)
{
    unsigned char hash[SHA256_LEN];
    struct caller who;
    int rc = DLC_EDENIED;

    if (session != NULL && strlen(session) == 2 * SHA256_LEN &&
        str_unhex(session, strlen(session), hash))
        rc = token_hash_caller(api, hash, &who, err);
    if (rc == 0 && (who.role != ROLE_TENANT || strcmp(who.tenant, tenant) != 0))
        rc = DLC_EDENIED;
    return rc;
}

int node_access_check(struct api *api, const struct node_asker *who,
                      const struct store_doc *dataset, struct dlc_err *err)
{
    struct store_doc node = STORE_DOC_INIT;
    int rc;

    if (dataset->tenant[0] == '\0')
        return 0;
    rc = node_access_identify(api, who, &node, err);
    if (rc == 0 && !is_placed(api, who->name, dataset) && !has_command(&node, dataset))
        rc = check_session(api, who->session, dataset->tenant, err);
    if (rc == DLC_EDENIED && node.body != NULL)
        dlc_err_set(err, rc,
                    "dataset %s is not placed on node %s, and no program there has it open",
                    dataset->id, who->name);
    store_doc_release(&node);
    return rc;
}
