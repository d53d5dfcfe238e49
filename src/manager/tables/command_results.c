// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/command_results.h"

#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/dataset_listing.h"
#include "manager/tables/dataset_move.h"
#include "manager/tables/event_log.h"
#include "manager/tables/node_commands.h"
#include "manager/tables/node_table.h"
#include "manager/tables/tables.h"

/* A node has done a command, or failed (error: not NULL). `result` is what it said. May be called
 * again for the same. A failure of the store: it must be. */
static int command_done(struct tables *t, const char *node, const json_t *command,
                        const json_t *result, const char *error, struct dlc_err *err)
{
    const char *op = json_string_value(json_object_get(command, "op"));
    const char *name = json_string_value(json_object_get(command, "dataset"));
    struct store_doc d = STORE_DOC_INIT;
    char *type;
    int rc;

    if (op == NULL || name == NULL)
        return 0;
    if (strcmp(op, "snapshot") == 0)
        return dataset_listing_done(t, node, name, command, result, error, err);
    rc = store_get(t->store, STORE_DATASET, name, &d, err);
    if (rc == 0 && dataset_commanded(&d, command)) {
        type = mem_fmt("dataset.%s.%s", op, error != NULL ? "failed" : "done");
        event_log(t->store, d.tenant, type,
                  json_pack("{s:s, s:s, s:s*}", "dataset", name, "node", node, "error", error));
        mem_free(&type);
        if (strcmp(op, "warm") == 0 && json_object_get(d.body, "moving") != NULL)
            rc = dataset_move_continue(t, name, node, err);
    }
    store_doc_release(&d);
    return rc == DLC_ENOTFOUND ? 0 : rc;
}

/* What came of those that are on the list; a word for one that is not is an old one. */
static int take_results(struct tables *t, const char *node, const json_t *commands,
                        const json_t *done, struct dlc_err *err)
{
    int rc = 0;

    for (size_t i = 0; i < json_array_size(commands) && rc == 0; i++) {
        const json_t *command = json_array_get(commands, i),
                     *word = json_find(done, "id", command_id(command));
        const char *error = json_string_value(json_object_get(word, "error"));

        if (word == NULL)
            continue;
        if (error != NULL)
            log_warn("node %s could not carry out a command: %s", node, error);
        rc = command_done(t, node, command, json_object_get(word, "result"), error, err);
    }
    return rc;
}

int commands_finish(struct tables *t, const char *node, const json_t *done, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc;

    commands_set_finishing(t, done, 1);
    rc = store_get(t->store, STORE_NODE, node, &d, err);
    if (rc == 0)
        rc = take_results(t, node, json_object_get(d.body, "commands"), done, err);
    store_doc_release(&d);
    if (rc == 0) /* (COMMAND-1) */
        rc = commands_remove(t, node, done, err);
    commands_set_finishing(t, done, -1);
    return rc;
}

/* ---- listings of a node that is not there ---- */

/* Those that somebody else has now are taken off the node's list. */
static void forget_listings(struct tables *t, const char *node, const json_t *given)
{
    struct dlc_err err = DLC_ERR_INIT;
    int rc = commands_remove(t, node, given, &err);

    if (rc < 0 && rc != DLC_ENOTFOUND) /* both will list it: no harm */
        log_warn("commands of node %s, which is gone, stay: %s", node, err.text);
}

void commands_hand_over(struct tables *t, const char *node, const json_t *listings)
{
    json_t *given = json_array();

    for (size_t i = 0; i < json_array_size(listings); i++) {
        json_t *command = json_array_get(listings, i);
        const char *dataset = json_string_value(json_object_get(command, "dataset"));

        if (dataset != NULL && dataset_list_elsewhere(t, dataset, node))
            json_array_append(given, command);
    }
    if (json_array_size(given) > 0)
        forget_listings(t, node, given);
    json_decref(given);
}

void commands_tick(struct tables *t)
{
    struct node_info *nodes = NULL;
    size_t n = nodes_list(t, &nodes);

    for (size_t i = 0; i < n; i++) {
        json_t *listings;

        if (nodes[i].state != NODE_GONE || nodes[i].commands == 0)
            continue;
        listings = commands_listings(t, nodes[i].name);
        commands_hand_over(t, nodes[i].name, listings);
        json_decref(listings);
    }
    nodes_release(&nodes, n);
}
