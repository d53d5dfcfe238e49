// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/deleted_datasets.h"

#include <string.h>

#include "base/log.h"
#include "manager/tables/documents.h"
#include "manager/tables/tables.h"

#define RECORD "deleted"

json_t *deleted_datasets_item(const struct store_doc *d)
{
    json_int_t created = json_integer_value(json_object_get(d->body, "created_ms"));

    return json_pack("[s, s, I]", d->id, d->tenant, created);
}

static int add_item(struct store_doc *doc, void *arg, struct dlc_err *err)
{
    json_t *items = json_object_get(doc->body, "items");

    (void)err;
    json_array_append_new(items, deleted_datasets_item(arg));
    while (json_array_size(items) > DELETED_MAX)
        json_array_remove(items, 0);
    return 0;
}

void deleted_datasets_add(struct tables *t, const struct store_doc *d)
{
    struct dlc_err err = DLC_ERR_INIT;
    int rc = document_change(t, STORE_MANAGER, RECORD, STORE_ANY, add_item, (void *)(uintptr_t)d,
                             NULL, &err);

    if (rc == DLC_ENOTFOUND) {
        struct store_doc first = {(char *)RECORD, (char *)"", NULL, 0};

        first.body = json_pack("{s:[o]}", "items", deleted_datasets_item(d));
        rc = store_put(t->store, STORE_MANAGER, &first, STORE_NEW, &err);
        json_decref(first.body);
    }
    if (rc < 0)
        log_warn("dataset %s: a rebuild may make it again, since it is not noted as deleted: %s",
                 d->id, err.text);
}

int deleted_datasets_get(struct tables *t, json_t **out, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = store_get(t->store, STORE_MANAGER, RECORD, &d, err);

    *out = json_incref(json_object_get(d.body, "items"));
    store_doc_release(&d);
    return rc == DLC_ENOTFOUND ? 0 : rc;
}

bool deleted_datasets_has(const json_t *items, const struct store_doc *d)
{
    json_t *mine = deleted_datasets_item(d);
    bool has = false;

    for (size_t i = 0; i < json_array_size(items) && !has; i++)
        has = json_equal(json_array_get(items, i), mine) == 1;
    json_decref(mine);
    return has;
}

bool deleted_datasets_named(struct tables *t, const char *id, struct dlc_err *err)
{
    json_t *items = NULL;
    bool named = false;

    if (deleted_datasets_get(t, &items, err) == 0)
        for (size_t i = 0; i < json_array_size(items) && !named; i++)
            named = strcmp(json_string_value(json_array_get(json_array_get(items, i), 0)), id) == 0;
    json_decref(items);
    return named;
}
