// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/node_drain.h"

#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "manager/store/store.h"
#include "manager/store/wall_time.h"
#include "manager/tables/documents.h"
#include "manager/tables/event_log.h"
#include "manager/tables/node_table.h"
#include "manager/tables/tables.h"

/* Does the node say that the new owners have all that it had? */
static bool is_complete(const json_t *handover)
{
    return json_is_true(json_object_get(handover, "draining")) &&
           strcmp(json_text_at(handover, "phase"), "done") == 0 &&
           json_integer_value(json_object_get(handover, "no_room")) == 0 &&
           json_integer_value(json_object_get(handover, "failed")) == 0;
}

static int put_drained(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const json_t *handover = arg;

    (void)err;
    if (!json_is_true(json_object_get(d->body, "drain")) ||
        json_object_get(d->body, "drained") != NULL)
        return 1;
    json_object_set_new(d->body, "drained",
                        json_pack("{s:I, s:I, s:I, s:I}", "samples",
                                  json_integer_value(json_object_get(handover, "samples")), "bytes",
                                  json_integer_value(json_object_get(handover, "bytes")),
                                  "unpacked_bytes",
                                  json_integer_value(json_object_get(handover, "unpacked_bytes")),
                                  "at_ms", (json_int_t)wall_ms()));
    return 0;
}

void node_drain_heard(struct tables *t, const char *name, const json_t *figures)
{
    json_t *handover = json_object_get(figures, "handover");
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    if (!is_complete(handover) || !nodes_drains(t, name))
        return;
    if (document_change(t, STORE_NODE, name, STORE_ANY, put_drained, handover, &d, &err) < 0) {
        log_warn("that node %s is drained was not written: %s; tried again", name, err.text);
    } else {
        nodes_remember(t, &d, false);
        log_info("node %s is drained: it can be removed", name);
        event_log(t->store, "", "node.drained",
                  json_pack("{s:s, s:O}", "name", name, "bytes",
                            json_object_get(json_object_get(d.body, "drained"), "bytes")));
    }
    store_doc_release(&d);
}

int node_drain_set(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const bool *drain = arg;

    (void)err;
    if (json_is_true(json_object_get(d->body, "drain")) == *drain)
        return 1;
    json_object_set_new(d->body, "drain", json_boolean(*drain));
    json_object_del(d->body, "drained");
    return 0;
}

const char *node_drain_state(const json_t *doc, const char *state)
{
    return json_is_object(json_object_get(doc, "drained")) ? "drained" : state;
}
