// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/documents.h"

#include "manager/tables/tables.h"

#define CHANGE_TRIES 16

int document_change(struct tables *t, enum store_kind kind, const char *id, uint64_t expect,
                    change_f *f, void *arg, struct store_doc *out, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = 0;

    for (int i = 0; i < CHANGE_TRIES; i++) {
        rc = store_get(t->store, kind, id, &d, err);
        if (rc == 0 && expect != STORE_ANY && d.version != expect)
            rc = dlc_err_set(err, DLC_EBUSY, "%s has version %llu, not %llu", id,
                             (unsigned long long)d.version, (unsigned long long)expect);
        else if (rc == 0)
            rc = f(&d, arg, err);
        else
            break;
        if (rc != 0)
            break;
        rc = store_put(t->store, kind, &d, d.version, err);
        if (kind == STORE_DATASET)
            dataset_written(t, rc, &d);
        if (rc != DLC_EBUSY || expect != STORE_ANY || !leader_leads(t))
            break;
        store_doc_release(&d);
    }
    rc = rc > 0 ? 0 : rc;
    if (rc == 0 && err != NULL)
        *err = (struct dlc_err)DLC_ERR_INIT; /* of a try before */
    if (rc == 0 && out != NULL) {
        *out = d;
        return 0;
    }
    store_doc_release(&d);
    return rc;
}
