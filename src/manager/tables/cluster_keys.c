// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/cluster_keys.h"

#include <stdio.h>
#include <string.h>

#include <openssl/ec.h>
#include <openssl/err.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/pem.h"
#include "manager/store/wall_time.h"

#define ID_MAX 64

static const char *const names[CLUSTER_KEY_PURPOSES] = {"authority", "tickets"};

void cluster_keys_release(struct cluster_keys *k)
{
    for (size_t i = 0; i < k->n; i++)
        EVP_PKEY_free(k->v[i].pair); /* OpenSSL wipes it */
    memset(k, 0, sizeof(*k));
}

const struct cluster_key *cluster_keys_signer(const struct cluster_keys *k)
{
    dlc_check(k->n > 0);
    return &k->v[k->n - 1];
}

/* ---- one key as a sealed text ---- */

static EVP_PKEY *key_make(enum cluster_key_purpose purpose)
{
    return purpose == CLUSTER_KEY_AUTHORITY ? EVP_EC_gen("P-256")
                                            : EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
}

/* The owner that a key is sealed for. */
static void key_owner(enum cluster_key_purpose purpose, char out[static ID_MAX])
{
    snprintf(out, ID_MAX, "the cluster's %s key", names[purpose]);
}

static json_t *key_seal(EVP_PKEY *pair, const struct seal *seal, enum cluster_key_purpose purpose)
{
    char owner[ID_MAX], *text = pem_of_key(pair);
    json_t *sealed;

    key_owner(purpose, owner);
    sealed = seal_text(seal, owner, text);
    secret_wipe(&text);
    return sealed;
}

static int key_unseal(const json_t *sealed, const struct seal *seal,
                      enum cluster_key_purpose purpose, EVP_PKEY **out, struct dlc_err *err)
{
    char owner[ID_MAX], *text = NULL;
    int rc;

    key_owner(purpose, owner);
    rc = unseal_text(seal, owner, sealed, &text, err);
    if (rc < 0)
        return rc;
    *out = pem_read_key(text);
    secret_wipe(&text);
    return *out != NULL ? 0 : dlc_err_set(err, DLC_ECORRUPT, "%s is not a private key", owner);
}

/* ---- the document ---- */

static int keys_of_body(const json_t *body, const struct seal *seal,
                        enum cluster_key_purpose purpose, struct cluster_keys *out,
                        struct dlc_err *err)
{
    const json_t *list = json_object_get(body, "keys"), *item;
    size_t i;
    int rc = 0;

    if (json_array_size(list) == 0 || json_array_size(list) > CLUSTER_KEYS_MAX)
        return dlc_err_set(err, DLC_ECORRUPT, "it has %zu keys, not 1 to %d", json_array_size(list),
                           CLUSTER_KEYS_MAX);
    json_array_foreach(list, i, item)
    {
        struct cluster_key *k = &out->v[i];

        if (rc == 0)
            rc = key_unseal(json_object_get(item, "private"), seal, purpose, &k->pair, err);
        if (rc == 0) {
            k->made_ms = json_integer_value(json_object_get(item, "made_ms"));
            out->n++;
        }
    }
    return rc;
}

/* Gives a new key as the document has it, or NULL. */
static json_t *new_item(const struct seal *seal, enum cluster_key_purpose purpose,
                        struct dlc_err *err)
{
    EVP_PKEY *pair = key_make(purpose);
    json_t *item = NULL;

    if (pair != NULL)
        item = json_pack("{s:I, s:o}", "made_ms", (json_int_t)wall_ms(), "private",
                         key_seal(pair, seal, purpose));
    else
        dlc_err_set(err, DLC_EIO, "OpenSSL cannot make a key pair");
    ERR_clear_error();
    EVP_PKEY_free(pair);
    return item;
}

/* DLC_EBUSY: another manager was first. */
static int keys_make(struct store *store, const struct seal *seal, enum cluster_key_purpose purpose,
                     const char *id, struct dlc_err *err)
{
    struct store_doc d = {(char *)(uintptr_t)id, (char *)"", NULL, 0};
    json_t *item = new_item(seal, purpose, err);
    int rc;

    if (item == NULL)
        return err->code;
    d.body = json_pack("{s:[o]}", "keys", item);
    rc = store_put(store, STORE_MANAGER, &d, STORE_NEW, err);
    json_decref(d.body);
    return rc;
}

static void document_id(enum cluster_key_purpose purpose, char out[static ID_MAX])
{
    dlc_check(purpose < CLUSTER_KEY_PURPOSES);
    snprintf(out, ID_MAX, "cluster_key.%s", names[purpose]);
}

int cluster_keys_get(struct store *store, const struct seal *seal, enum cluster_key_purpose purpose,
                     struct cluster_keys *out, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err why = DLC_ERR_INIT;
    char id[ID_MAX];
    int rc;

    memset(out, 0, sizeof(*out));
    document_id(purpose, id);
    rc = store_get(store, STORE_MANAGER, id, &d, &why);
    if (rc == DLC_ENOTFOUND) {
        rc = keys_make(store, seal, purpose, id, &why);
        if (rc == 0 || rc == DLC_EBUSY)
            rc = store_get(store, STORE_MANAGER, id, &d, &why);
    }
    if (rc == 0)
        rc = keys_of_body(d.body, seal, purpose, out, &why);
    store_doc_release(&d);
    if (rc < 0) {
        cluster_keys_release(out);
        return dlc_err_set(err, rc,
                           "cannot use the cluster's %s key, document %s of the store: %s; the "
                           "store must be readable and writable, and hold what its managers wrote",
                           names[purpose], id, why.text);
    }
    return 0;
}

int cluster_keys_add(struct store *store, const struct seal *seal, enum cluster_key_purpose purpose,
                     size_t drop, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err why = DLC_ERR_INIT;
    char id[ID_MAX];
    json_t *list, *item = NULL;
    int rc;

    document_id(purpose, id);
    rc = store_get(store, STORE_MANAGER, id, &d, &why);
    list = json_object_get(d.body, "keys");
    if (rc == 0 && json_array_size(list) - DLC_MIN(drop, json_array_size(list)) >= CLUSTER_KEYS_MAX)
        rc = dlc_err_set(&why, DLC_ENOSPACE, "there are %d keys already", CLUSTER_KEYS_MAX);
    if (rc == 0 && (item = new_item(seal, purpose, &why)) == NULL)
        rc = why.code;
    if (rc == 0) {
        for (; drop > 0; drop--)
            json_array_remove(list, 0);
        json_array_append_new(list, item);
        rc = store_put(store, STORE_MANAGER, &d, d.version, &why);
    }
    store_doc_release(&d);
    return rc == 0 ? 0
                   : dlc_err_set(err, rc, "the cluster gets no new %s key: %s", names[purpose],
                                 why.text);
}
