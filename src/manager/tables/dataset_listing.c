// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/dataset_listing.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/documents.h"
#include "manager/tables/event_log.h"
#include "manager/tables/job_table.h"
#include "manager/tables/node_commands.h"
#include "manager/tables/node_table.h"
#include "manager/tables/tables.h"

static unsigned spread(const char *name)
{
    unsigned h = 2166136261u;

    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

int dataset_have_listed(struct tables *t, const struct store_doc *d, char node[NAME_MAX_LEN + 1],
                        struct dlc_err *err)
{
    json_t *nodes = nodes_present(t, dataset_nodes(d->body));
    size_t n = json_array_size(nodes);
    const char *who = n > 0 ? json_string_value(json_array_get(nodes, spread(d->id) % n)) : "";
    int rc = 0;

    if (n > 0)
        rc = command_send(t, who, dataset_command(d, "snapshot", NULL), err);
    if (node != NULL)
        snprintf(node, NAME_MAX_LEN + 1, "%s", who);
    json_decref(nodes);
    return rc;
}

void dataset_list_for_job(struct tables *t, const char *name)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    if (store_get(t->store, STORE_DATASET, name, &d, &err) < 0 ||
        dataset_have_listed(t, &d, NULL, &err) < 0)
        log_warn("dataset %s: not listed yet: %s", name, err.text);
    store_doc_release(&d);
}

bool dataset_list_elsewhere(struct tables *t, const char *dataset, const char *node)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    char who[NAME_MAX_LEN + 1] = "";
    int rc = store_get(t->store, STORE_DATASET, dataset, &d, &err);

    if (rc == DLC_ENOTFOUND)
        return true; /* nobody needs it any more */
    if (rc == 0)
        rc = dataset_have_listed(t, &d, who, &err);
    if (rc < 0) {
        log_warn("dataset %s: node %s, which should list it, is gone, but: %s", dataset, node,
                 err.text);
    } else if (who[0] != '\0') {
        log_info("dataset %s: %s lists it instead of %s, which is gone", dataset, who, node);
        event_log(t->store, d.tenant, "dataset.snapshot",
                  json_pack("{s:s, s:[s]}", "dataset", dataset, "nodes", who));
    }
    store_doc_release(&d);
    return rc == 0 && who[0] != '\0';
}

/* ---- what nodes say ---- */

struct listing_result {
    const json_t *command;
    json_t *snapshot; /* NULL: it failed */
    const char *error;
};

static int set_listed(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const struct listing_result *l = arg;
    json_t *why;

    if (!dataset_commanded(d, l->command))
        return dlc_err_set(err, DLC_ENOTFOUND, "dataset %s is another tenant's", d->id);
    if (l->snapshot != NULL) {
        json_object_set(d->body, "snapshot", l->snapshot);
        json_object_del(d->body, "error");
    } else {
        why = json_stringn(l->error, strnlen(l->error, 500)); /* NULL: cut in mid-character */
        json_object_set_new(d->body, "error", why != NULL ? why : json_string("it was not said"));
    }
    return 0;
}

int dataset_listing_done(struct tables *t, const char *node, const char *name,
                         const json_t *command, const json_t *result, const char *error,
                         struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    struct listing_result l = {.command = command, .error = error};
    int rc;

    if (error == NULL) {
        l.snapshot = snapshot_of_result(result);
        l.error = "the node's answer could not be read";
    }
    rc = document_change(t, STORE_DATASET, name, STORE_ANY, set_listed, &l, &d, err);
    if (rc == 0) {
        jobs_dataset_changed(t, name, d.body);
        event_log(t->store, d.tenant, l.snapshot != NULL ? "dataset.listed" : "dataset.failed",
                  json_pack("{s:s, s:s, s:s*}", "dataset", name, "node", node, "error",
                            l.snapshot != NULL ? NULL : l.error));
    }
    json_decref(l.snapshot);
    store_doc_release(&d);
    return rc == DLC_ENOTFOUND ? 0 : rc; /* it was deleted meanwhile */
}
