// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/dataset_names.h"

#include <string.h>

#include "base/buf.h"
#include "base/dataset_name.h"
#include "base/mem.h"
#include "base/str.h"
#include "manager/routes/api.h"
#include "manager/routes/route_util.h"
#include "manager/tables/dataset_doc.h"

#define LISTED_MOST 8 /* ids in a message */

/* ---- tenants ---- */

/* 0: the tenant has a dataset of this id. */
static int find_id(struct api *api, const char *tenant, const char *id, struct store_doc *out,
                   struct dlc_err *err)
{
    int rc = store_get(api->tables->store, STORE_DATASET, id, out, err);

    if (rc == 0 && strcmp(out->tenant, tenant) != 0) {
        store_doc_release(out);
        rc = DLC_ENOTFOUND;
    }
    return rc;
}

int names_find(struct api *api, const char *tenant, const char *name, struct store_doc *out,
               struct dlc_err *err)
{
    const char *brief = dataset_short_name(name, tenant);
    struct dataset_ids ids;
    int rc = find_id(api, tenant, name, out, err); /* (NAMES-2) */

    dataset_ids(tenant, brief, &ids);
    for (size_t i = 0; i < ids.n && rc == DLC_ENOTFOUND; i++)
        rc = find_id(api, tenant, ids.v[i], out, err);
    if (rc == DLC_ENOTFOUND)
        dlc_err_set(err, rc, "there is no dataset %s", name);
    return rc;
}

/* ---- admins ---- */

struct name_search {
    const char *name;
    struct store_doc found;
    struct buf ids; /* of all that have the name, for a message */
    size_t n;
};

static bool is_called(const struct store_doc *d, const char *name)
{
    const char *own = dataset_doc_name(d);

    return strcmp(own, name) == 0 || strcmp(own, dataset_short_name(name, d->tenant)) == 0;
}

static bool match_name(struct store_doc *d, void *arg)
{
    struct name_search *s = arg;

    if (!is_called(d, s->name))
        return true;
    if (s->n++ < LISTED_MOST)
        buf_addf(&s->ids, "%s%s", s->n > 1 ? ", " : "", d->id);
    store_doc_release(&s->found);
    s->found = *d;
    *d = (struct store_doc)STORE_DOC_INIT;
    return true;
}

int names_find_any(struct api *api, const char *name, struct store_doc *out, struct dlc_err *err)
{
    struct name_search s = {.name = name, .ids = BUF_INIT};
    int rc = store_get(api->tables->store, STORE_DATASET, name, out, err); /* (NAMES-2) */

    if (rc != DLC_ENOTFOUND)
        return rc;
    rc = store_each(api->tables->store, STORE_DATASET, NULL, match_name, &s, err);
    if (rc == 0 && s.n == 0)
        rc = dlc_err_set(err, DLC_ENOTFOUND, "there is no dataset %s", name);
    else if (rc == 0 && s.n > 1)
        rc = dlc_err_set(err, DLC_EINVAL, "%zu tenants have a dataset %s: say which, %s%s", s.n,
                         name, buf_str(&s.ids), s.n > LISTED_MOST ? ", ..." : "");
    if (rc == 0)
        *out = s.found;
    else
        store_doc_release(&s.found);
    buf_release(&s.ids);
    return rc;
}

/* ---- callers ---- */

bool names_read(struct api *api, const struct http_request *r, const char *name,
                struct store_doc *out, struct http_reply *reply)
{
    const struct caller *who = caller_of(r);
    struct dlc_err err = DLC_ERR_INIT;
    int rc = who->role == ROLE_ADMIN    ? names_find_any(api, name, out, &err)
             : who->role == ROLE_TENANT ? names_find(api, who->tenant, name, out, &err)
                                        : DLC_ENOTFOUND;

    if (rc == 0)
        caller_set_object(r, out->id);
    else if (rc == DLC_ENOTFOUND)
        reply_absent(reply, "dataset", name);
    else if (rc == DLC_EINVAL)
        http_problem(reply, 409, "Ambiguous", "%s", err.text);
    else
        reply_store_error(api, r, reply, &err);
    return rc == 0;
}

/* What the tenant calls its dataset of that id. Gives. */
static char *name_of_id(struct api *api, const char *tenant, const char *id)
{
    struct store_doc d = STORE_DOC_INIT;
    char *name = NULL;

    if (dataset_id_is_hashed(id) && find_id(api, tenant, id, &d, NULL) == 0)
        name = mem_str(dataset_doc_name(&d));
    store_doc_release(&d);
    return name != NULL ? name : mem_str(dataset_short_name(id, tenant));
}

void names_show(struct api *api, const struct caller *who, json_t *o, const char *field)
{
    const char *id = json_string_value(json_object_get(o, field));
    char *name;

    if (id == NULL || who->role != ROLE_TENANT)
        return;
    name = name_of_id(api, who->tenant, id);
    json_object_set_new(o, field, json_string(name));
    mem_free(&name);
}
