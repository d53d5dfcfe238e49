// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/node_token.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "manager/store/wall_time.h"
#include "manager/tables/documents.h"
#include "manager/tables/node_revocation.h"
#include "manager/tables/tables.h"

#define PAGE     256
#define AGAIN_MS 60000 /* until a node whose answer was lost is given another one */

/* Fields: node, generation, instance; until_ms: end of a join token, 0: a credential; expires_ms and
 * life_ms: of a credential; replaced_ms: when its node was last given another one. */
static int64_t number(const json_t *body, const char *field)
{
    return json_integer_value(json_object_get(body, field));
}

static bool counts(struct tables *t, const json_t *body)
{
    const char *node = json_text_at(body, "node");
    int64_t now = wall_ms(), until = number(body, "until_ms"), end = number(body, "expires_ms");
    int64_t generation = number(body, "generation");

    return str_is_name(node) && (until == 0 || now < until) && (end == 0 || now < end) &&
           generation >= 0 && !revocations_refuse(t, node, (uint32_t)generation);
}

static bool is_due(const json_t *body)
{
    int64_t now = wall_ms(), end = number(body, "expires_ms"), life = number(body, "life_ms");
    int64_t replaced = number(body, "replaced_ms");

    return (end == 0 || now >= end - life / 2) && (replaced == 0 || now - replaced >= AGAIN_MS);
}

int node_token_get(struct tables *t, const char *id, struct node_token *out)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = store_get(t->store, STORE_MANAGER, id, &d, NULL);

    *out = (struct node_token){.joins = false};
    if (rc == DLC_ENOTFOUND || (rc == 0 && !counts(t, d.body))) {
        rc = DLC_EDENIED;
    } else if (rc == 0) {
        snprintf(out->node, sizeof(out->node), "%s", json_text_at(d.body, "node"));
        out->joins = number(d.body, "until_ms") != 0;
        out->due = !out->joins && is_due(d.body);
        out->life = DLC_MS(number(d.body, "life_ms"));
    }
    store_doc_release(&d);
    return rc;
}

static int put(struct tables *t, const char *id, const char *node, struct dlc_dur life, bool joins,
               struct dlc_err *err)
{
    struct store_doc d = {(char *)(uintptr_t)id, (char *)"", NULL, 0};
    json_int_t life_ms = life.ns / 1000000, end = wall_ms() + life_ms;
    uint32_t generation;
    int rc = revocations_generation(t, node, &generation, err);

    if (rc < 0)
        return rc;
    d.body = json_pack("{s:s, s:I, s:I, s:s}", "node", node, "generation", (json_int_t)generation,
                       "until_ms", joins ? end : 0, "instance", "");
    if (!joins) {
        json_object_set_new(d.body, "expires_ms", json_integer(end));
        json_object_set_new(d.body, "life_ms", json_integer(life_ms));
    }
    rc = store_put(t->store, STORE_MANAGER, &d, STORE_NEW, err);
    json_decref(d.body);
    return rc;
}

int node_token_put_join(struct tables *t, const char *id, const char *node, struct dlc_dur life,
                        struct dlc_err *err)
{
    return put(t, id, node, life, true, err);
}

int node_token_put_credential(struct tables *t, const char *id, const char *node,
                              struct dlc_dur life, struct dlc_err *err)
{
    return put(t, id, node, life, false, err);
}

static int set_replaced(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const struct dlc_dur *life = arg;
    int64_t now = wall_ms();

    (void)err;
    json_object_set_new(d->body, "replaced_ms", json_integer(now));
    if (number(d->body, "expires_ms") == 0) {
        json_object_set_new(d->body, "expires_ms", json_integer(now + life->ns / 1000000));
        json_object_set_new(d->body, "life_ms", json_integer(life->ns / 1000000));
    }
    return 0;
}

int node_token_replace(struct tables *t, const char *id, struct dlc_dur life, struct dlc_err *err)
{
    return document_change(t, STORE_MANAGER, id, STORE_ANY, set_replaced, &life, NULL, err);
}

static int bind_instance(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const char *user = json_text_at(d->body, "instance"), *instance = arg;

    if (strcmp(user, instance) == 0)
        return 1;
    if (user[0] != '\0')
        return dlc_err_set(err, DLC_EDENIED, "the join token was used already");
    json_object_set_new(d->body, "instance", json_string(instance));
    return 0;
}

int node_token_use(struct tables *t, const char *id, const char *instance, struct dlc_err *err)
{
    int rc = document_change(t, STORE_MANAGER, id, STORE_ANY, bind_instance,
                             (void *)(uintptr_t)instance, NULL, err);

    return rc == DLC_ENOTFOUND
               ? dlc_err_set(err, DLC_EDENIED, "the token is not known, or no longer")
               : rc;
}

/* ---- those that count no longer ---- */

static void purge_one(struct tables *t, const char *id)
{
    struct store_doc d = STORE_DOC_INIT;

    if (store_get(t->store, STORE_MANAGER, id, &d, NULL) == 0 &&
        json_object_get(d.body, "node") != NULL && !counts(t, d.body))
        store_delete(t->store, STORE_MANAGER, id, d.version, NULL);
    store_doc_release(&d);
}

void node_tokens_purge(struct tables *t)
{
    char *after = mem_str("token."), *ids[PAGE];
    size_t n = PAGE;

    while (n == PAGE && leader_holds(t) &&
           store_ids(t->store, STORE_MANAGER, NULL, after, "token/", PAGE, ids, &n, NULL) == 0) {
        for (size_t i = 0; i < n; i++)
            purge_one(t, ids[i]);
        if (n > 0) {
            mem_free(&after);
            after = mem_str(ids[n - 1]);
        }
        for (size_t i = 0; i < n; i++)
            mem_free(&ids[i]);
    }
    mem_free(&after);
}
