// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/node_commands.h"

#include <string.h>

#include <openssl/rand.h>

#include "base/check.h"
#include "base/json.h"
#include "base/str.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/documents.h"
#include "manager/tables/node_table.h"
#include "manager/tables/tables.h"

#define COMMANDS_MAX        1000 /* that wait for one node */
#define COMMANDS_OF_DATASET 16   /* ... of them for one dataset, beside evictions */
#define COMMANDS_OF_TENANT  200  /* ... of one tenant; and as many evictions */
#define COMMANDS_RESERVED   250  /* ... of them only for evictions */

static json_t *commands_of(struct store_doc *d)
{
    json_t *commands = json_object_get(d->body, "commands");

    if (!json_is_array(commands)) {
        commands = json_array();
        json_object_set_new(d->body, "commands", commands);
    }
    return commands;
}

/* Alike in all but the number and the mark. */
static bool same_command(const json_t *a, const json_t *b)
{
    json_t *x = json_copy((json_t *)a), *y = json_copy((json_t *)b);
    bool same;

    json_object_del(x, "id");
    json_object_del(y, "id");
    json_object_del(x, "mark");
    json_object_del(y, "mark");
    same = json_equal(x, y) == 1;
    json_decref(x);
    json_decref(y);
    return same;
}

const char *command_id(const json_t *command)
{
    return json_string_value(json_object_get(command, "id"));
}

/* Results of these commands are being written, or no more. One that is given meanwhile is another
 * one, although the list still has the first: (COMMAND-1) takes it off later. */
void commands_set_finishing(struct tables *t, const json_t *done, int more)
{
    dlc_mtx_lock(&t->mtx);
    if (t->commands.finishing == NULL)
        t->commands.finishing = json_object();
    for (size_t i = 0; i < json_array_size(done); i++) {
        const char *id = command_id(json_array_get(done, i));
        json_int_t n = json_integer_value(json_object_get(t->commands.finishing, id)) + more;

        if (n > 0)
            json_object_set_new(t->commands.finishing, id, json_integer(n));
        else
            json_object_del(t->commands.finishing, id);
    }
    dlc_mtx_unlock(&t->mtx);
}

static bool is_finishing(struct tables *t, const json_t *command)
{
    bool is;

    dlc_mtx_lock(&t->mtx);
    is = json_object_get(t->commands.finishing, command_id(command)) != NULL;
    dlc_mtx_unlock(&t->mtx);
    return is;
}

/* They make room, and belong to a delete: some of the queue is theirs alone. */
static bool is_eviction(const json_t *command)
{
    const char *op = json_string_value(json_object_get(command, "op"));

    return op != NULL && strcmp(op, "evict") == 0;
}

struct command_add {
    struct tables *t;
    json_t *command;
};

/* Datasets that are nobody's are the admins': they may command what they like. */
static bool same_tenant(const json_t *a, const json_t *b)
{
    const json_t *x = json_object_get(a, "tenant"), *y = json_object_get(b, "tenant");

    return json_string_length(x) > 0 && json_equal(x, y) == 1;
}

static bool of_one_dataset(const json_t *a, const json_t *b)
{
    return json_equal(json_object_get(a, "dataset"), json_object_get(b, "dataset")) == 1;
}

static int add_command(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const struct command_add *g = arg;
    json_t *commands = commands_of(d);
    bool evicts = is_eviction(g->command);
    size_t alike = 0, theirs = 0;
    bool there = false;

    for (size_t i = 0; i < json_array_size(commands); i++) {
        const json_t *o = json_array_get(commands, i);

        if (same_command(o, g->command) && !is_finishing(g->t, o))
            there = true;
        if (is_eviction(o) != evicts && of_one_dataset(o, g->command))
            there = false; /* it undoes what came before it */
        if (is_eviction(o) != evicts)
            continue;
        alike += of_one_dataset(o, g->command);
        theirs += same_tenant(o, g->command);
    }
    if (there)
        return 1;
    if (alike >= COMMANDS_OF_DATASET && !evicts)
        return dlc_err_set(
            err, DLC_ENOSPACE,
            "node %s has %zu commands for this dataset that it did not carry out yet; "
            "wait for them",
            d->id, alike);
    if (theirs >= COMMANDS_OF_TENANT)
        return dlc_err_set(err, DLC_ENOSPACE,
                           "node %s has %zu commands for datasets of this tenant that it did not "
                           "carry out yet; wait for them",
                           d->id, theirs);
    if (json_array_size(commands) >= (evicts ? COMMANDS_MAX : COMMANDS_MAX - COMMANDS_RESERVED))
        return dlc_err_set(err, DLC_ENOSPACE,
                           "node %s has %zu commands that it did not carry out yet: is it alive?",
                           d->id, json_array_size(commands));
    return json_array_append(commands, g->command) < 0 ? DLC_ENOMEM : 0;
}

static void random_hex(char text[static 17])
{
    unsigned char random[8];

    dlc_check(RAND_bytes(random, sizeof(random)) == 1);
    str_hex(random, sizeof(random), text);
}

int command_send(struct tables *t, const char *node, json_t *command, struct dlc_err *err)
{
    struct command_add g = {t, command};
    struct store_doc d = STORE_DOC_INIT;
    char id[17];
    int rc;

    random_hex(id);
    json_object_set_new(command, "id", json_string(id));
    rc = document_change(t, STORE_NODE, node, STORE_ANY, add_command, &g, &d, err);
    if (rc == 0)
        nodes_remember(t, &d, false);
    store_doc_release(&d);
    json_decref(command);
    return rc;
}

int command_send_all(struct tables *t, const json_t *nodes, json_t *command, struct dlc_err *err)
{
    bool lasts = is_eviction(command); /* what is away has it on disk yet */
    char mark[17];
    struct node_info *info = NULL;
    size_t n = nodes_list(t, &info);
    int rc = 0;

    if (lasts && nodes == NULL) { /* those that know it take no copies from those that do not */
        random_hex(mark);
        json_object_set_new(command, "mark", json_string(mark));
    }
    for (size_t i = 0; i < n && rc == 0; i++) {
        bool gone = info[i].state == NODE_GONE;

        if ((gone && !lasts) || (nodes != NULL && !json_has_text(nodes, info[i].name)))
            continue;
        rc = command_send(t, info[i].name, json_deep_copy(command), err);
        if (rc == DLC_ENOTFOUND || (gone && rc == DLC_ENOSPACE)) /* it has just left, or for good */
            rc = 0;
    }
    nodes_release(&info, n);
    json_decref(command);
    return rc;
}

/* ---- done, or not wanted any more ---- */

static int take_off(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const json_t *done = arg;
    json_t *commands = commands_of(d);
    size_t before = json_array_size(commands);

    (void)err;
    for (size_t i = before; i-- > 0;)
        if (json_find(done, "id", command_id(json_array_get(commands, i))) != NULL)
            json_array_remove(commands, i);
    return json_array_size(commands) == before ? 1 : 0;
}

int commands_remove(struct tables *t, const char *node, const json_t *done, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = document_change(t, STORE_NODE, node, STORE_ANY, take_off, (void *)done, &d, err);

    if (rc == 0)
        nodes_remember(t, &d, false);
    store_doc_release(&d);
    return rc;
}

static bool is_listing(const json_t *command)
{
    const char *op = json_string_value(json_object_get(command, "op"));

    return op != NULL && strcmp(op, "snapshot") == 0;
}

json_t *commands_listings(struct tables *t, const char *node)
{
    json_t *commands = nodes_commands(t, node), *out = json_array();

    for (size_t i = 0; i < json_array_size(commands); i++)
        if (is_listing(json_array_get(commands, i)))
            json_array_append(out, json_array_get(commands, i));
    json_decref(commands);
    return out;
}

/* Evictions stay: what they drop is still there, be it of an earlier one of that name. */
static int withdraw(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const struct store_doc *dataset = arg;
    json_t *commands = commands_of(d);
    size_t before = json_array_size(commands);

    (void)err;
    for (size_t i = before; i-- > 0;) {
        const json_t *command = json_array_get(commands, i);

        if (dataset_commanded(dataset, command) && !is_eviction(command))
            json_array_remove(commands, i);
    }
    return json_array_size(commands) == before ? 1 : 0;
}

int commands_withdraw(struct tables *t, const struct store_doc *dataset, struct dlc_err *err)
{
    struct node_info *info = NULL;
    size_t n = nodes_list(t, &info);
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        struct store_doc d = STORE_DOC_INIT;

        if (info[i].commands == 0)
            continue;
        rc = document_change(t, STORE_NODE, info[i].name, STORE_ANY, withdraw, (void *)dataset, &d,
                             err);
        if (rc == 0)
            nodes_remember(t, &d, false);
        else if (rc == DLC_ENOTFOUND)
            rc = 0;
        store_doc_release(&d);
    }
    nodes_release(&info, n);
    return rc;
}
