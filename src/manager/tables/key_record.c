// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/key_record.h"

#include <string.h>

#include "base/check.h"

#define RECORD "key"

static int put(struct store *store, const char *id, uint64_t expect, struct dlc_err *err)
{
    struct store_doc d = {(char *)RECORD, (char *)"", json_pack("{s:s}", "id", id), 0};
    int rc = store_put(store, STORE_MANAGER, &d, expect, err);

    json_decref(d.body);
    return rc;
}

int key_record_follow(struct store *store, struct seal *seal, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    char id[SEAL_KEY_ID_LEN + 1];
    const char *named;
    int rc = store_get(store, STORE_MANAGER, RECORD, &d, err);

    if (rc == DLC_ENOTFOUND) {
        seal_key_id(seal, id);
        rc = put(store, id, STORE_NEW, err);
        if (rc == 0)
            return 0;
        if (rc == DLC_EBUSY) /* another manager made it just now */
            rc = store_get(store, STORE_MANAGER, RECORD, &d, err);
    }
    named = json_string_value(json_object_get(d.body, "id"));
    if (rc == 0 && (named == NULL || !seal_use(seal, named)))
        rc =
            dlc_err_set(err, DLC_EDENIED,
                        "the store's secrets are encrypted with key %.16s, which %s does not hold: "
                        "copy manager.key, admin.token and node.token from the directory of "
                        "another manager of the store, or set DLCACHE_MANAGER_KEY",
                        named != NULL ? named : "?", seal_source(seal));
    store_doc_release(&d);
    return rc;
}

int key_record_set(struct store *store, struct seal *seal, const char *id, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = store_get(store, STORE_MANAGER, RECORD, &d, err);

    if (rc == 0)
        rc = put(store, id, d.version, err);
    if (rc == 0)
        dlc_check(seal_use(seal, id));
    store_doc_release(&d);
    return rc;
}
