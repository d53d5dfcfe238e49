// SPDX-License-Identifier: Apache-2.0
#include "manager/store/record_copy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/syscalls.h"
#include "manager/store/store_common_i.h"
#include "manager/store/wall_time.h"

#define COPY_MAX ((size_t)1 << 30)

struct copying {
    struct store *store;
    enum store_kind kind;
    json_t *list;
    bool marked; /* it has STORE_MARK */
};

static bool add_document(struct store_doc *d, void *arg)
{
    struct copying *c = arg;

    c->marked = c->marked || (c->kind == STORE_MANAGER && strcmp(d->id, STORE_MARK) == 0);
    json_array_append_new(c->list, store_doc_export(c->store, c->kind, d));
    return true;
}

int record_copy_write(struct store *m, const char *path, struct dlc_err *err)
{
    json_t *documents = json_object(), *copy;
    bool marked = false;
    char *text = NULL;
    int rc = 0;

    /* STORE_MANAGER has the mark, and is read last: (COPY-1). */
    for (int i = 0; rc == 0 && i <= STORE_KINDS; i++) {
        int kind = i == STORE_KINDS ? STORE_MANAGER : i;
        struct copying c = {m, (enum store_kind)kind, NULL, false};

        if (kind == STORE_WEIGHTS || i == STORE_MANAGER) /* weights are learnt again */
            continue;
        c.list = json_array();
        json_object_set_new(documents, store_kind_name(c.kind), c.list);
        rc = store_each(m, c.kind, NULL, add_document, &c, err);
        marked = c.marked;
    }
    if (rc == 0 && !marked)
        rc = dlc_err_set(err, DLC_ECHANGED, "the store is empty: it is not copied");
    copy = json_pack("{s:i, s:I, s:o}", "format", 1, "time_ms", (json_int_t)wall_ms(), "documents",
                     documents);
    if (rc == 0)
        text = json_dumps(copy, JSON_COMPACT);
    if (text != NULL)
        rc = os_write_file(path, text, strlen(text), 0600, err);
    free(text);
    json_decref(copy);
    return rc;
}

int record_copy_read(const char *path, json_t **out, struct dlc_err *err)
{
    struct buf b = BUF_INIT;
    json_error_t why;
    int rc = 0;

    *out = NULL;
    if (os_access(path, F_OK) < 0)
        return dlc_err_set(err, DLC_ENOTFOUND, "there is no copy of the records at %s", path);
    rc = os_read_file(path, COPY_MAX, &b, err);
    if (rc == 0)
        *out = json_loadb(buf_str(&b), b.len, JSON_REJECT_DUPLICATES, &why);
    if (rc == 0 && !json_is_object(json_object_get(*out, "documents")))
        rc = dlc_err_set(err, DLC_ECORRUPT, "%s is not a copy of records", path);
    if (rc < 0) {
        json_decref(*out);
        *out = NULL;
    }
    buf_release(&b);
    return rc;
}

const json_t *record_copy_of(const json_t *copy, enum store_kind kind)
{
    return json_object_get(json_object_get(copy, "documents"), store_kind_name(kind));
}

static int restore(struct store *m, const json_t *copy, enum store_kind kind, bool mark,
                   struct dlc_err *err)
{
    const json_t *list = record_copy_of(copy, kind);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
        struct store_doc d = STORE_DOC_INIT;
        bool is_mark;

        rc = store_doc_import(m, kind, json_array_get(list, i), &d, err);
        is_mark = rc == 0 && kind == STORE_MANAGER && strcmp(d.id, STORE_MARK) == 0;
        if (rc == 0 && is_mark == mark) /* what a manager wrote when it started is in the way */
            rc = store_put(m, kind, &d, STORE_ANY, err);
        store_doc_release(&d);
    }
    return rc;
}

int record_copy_restore(struct store *m, const json_t *copy, struct dlc_err *err)
{
    int rc = 0;

    for (int kind = 0; rc == 0 && kind < STORE_KINDS; kind++)
        rc = restore(m, copy, (enum store_kind)kind, false, err);
    return rc == 0 ? restore(m, copy, STORE_MANAGER, true, err) : rc;
}
