// SPDX-License-Identifier: Apache-2.0
/*
 * Orders lie in the document of the node that is to carry them out, so that a manager that takes
 * over goes on giving them. A node may get one twice, when its word that it is done was lost: they
 * are such that this does no harm.
 */
#include <string.h>

#include <openssl/rand.h>

#include "base/check.h"
#include "base/log.h"
#include "base/str.h"
#include "control/nodes_i.h"

#define ORDERS_MAX 1000 /* that wait for one node */

static json_t *orders_of(struct meta_doc *d)
{
    json_t *orders = json_object_get(d->body, "orders");

    if (!json_is_array(orders)) {
        orders = json_array();
        json_object_set_new(d->body, "orders", orders);
    }
    return orders;
}

/* Alike in all but the number. */
static bool same_order(const json_t *a, const json_t *b)
{
    json_t *x = json_copy((json_t *)a), *y = json_copy((json_t *)b);
    bool same;

    json_object_del(x, "id");
    json_object_del(y, "id");
    same = json_equal(x, y) == 1;
    json_decref(x);
    json_decref(y);
    return same;
}

static int add_order(struct meta_doc *d, void *arg, struct dlc_err *err)
{
    json_t *order = arg, *orders = orders_of(d);

    for (size_t i = 0; i < json_array_size(orders); i++)
        if (same_order(json_array_get(orders, i), order))
            return 1;
    if (json_array_size(orders) >= ORDERS_MAX)
        return dlc_err_set(err, DLC_ENOSPACE,
                           "node %s has %d orders that it did not carry out yet: is it alive?",
                           d->id, ORDERS_MAX);
    return json_array_append(orders, order) < 0 ? DLC_ENOMEM : 0;
}

int order_give(struct control *c, const char *node, json_t *order, struct dlc_err *err)
{
    struct meta_doc d = META_DOC_INIT;
    unsigned char random[8];
    char id[2 * sizeof(random) + 1];
    int rc;

    dlc_check(RAND_bytes(random, sizeof(random)) == 1);
    str_hex(random, sizeof(random), id);
    json_object_set_new(order, "id", json_string(id));
    rc = control_change(c, META_NODE, node, META_ANY, add_order, order, &d, err);
    if (rc == 0)
        nodes_remember(c, &d, false);
    meta_doc_release(&d);
    json_decref(order);
    return rc;
}

static bool is_named(const json_t *names, const char *name)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *s = json_string_value(json_array_get(names, i));

        if (s != NULL && strcmp(s, name) == 0)
            return true;
    }
    return false;
}

int order_give_all(struct control *c, const json_t *nodes, json_t *order, struct dlc_err *err)
{
    const char *op = json_string_value(json_object_get(order, "op"));
    bool lasts = op != NULL && strcmp(op, "evict") == 0; /* what is away has it on disk yet */
    struct node_info *info = NULL;
    size_t n = nodes_list(c, &info);
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        bool gone = info[i].state == NODE_GONE;

        if ((gone && !lasts) || (nodes != NULL && !is_named(nodes, info[i].name)))
            continue;
        rc = order_give(c, info[i].name, json_deep_copy(order), err);
        if (rc == DLC_ENOTFOUND || (gone && rc == DLC_ENOSPACE)) /* it has just left, or for good */
            rc = 0;
    }
    nodes_release(&info, n);
    json_decref(order);
    return rc;
}

/* ---- done, or not wanted any more ---- */

struct finishing {
    const json_t *done;
    json_t *finished; /* of [order, element of done] */
};

static const json_t *find_done(const json_t *done, const char *id)
{
    for (size_t i = 0; id != NULL && i < json_array_size(done); i++) {
        const json_t *v = json_array_get(done, i);
        const char *its = json_string_value(json_object_get(v, "id"));

        if (its != NULL && strcmp(its, id) == 0)
            return v;
    }
    return NULL;
}

static int take_off(struct meta_doc *d, void *arg, struct dlc_err *err)
{
    struct finishing *f = arg;
    json_t *orders = orders_of(d);

    (void)err;
    json_array_clear(f->finished);
    for (size_t i = json_array_size(orders); i-- > 0;) {
        json_t *order = json_array_get(orders, i);
        const json_t *word = find_done(f->done, json_string_value(json_object_get(order, "id")));

        if (word == NULL)
            continue;
        json_array_append_new(f->finished, json_pack("[OO]", order, word));
        json_array_remove(orders, i);
    }
    return json_array_size(f->finished) == 0 ? 1 : 0;
}

int orders_finish(struct control *c, const char *node, const json_t *done, struct dlc_err *err)
{
    struct finishing f = {done, json_array()};
    struct meta_doc d = META_DOC_INIT;
    int rc = control_change(c, META_NODE, node, META_ANY, take_off, &f, &d, err);

    if (rc == 0)
        nodes_remember(c, &d, false);
    for (size_t i = json_array_size(f.finished); rc == 0 && i-- > 0;) {
        const json_t *pair = json_array_get(f.finished, i), *word = json_array_get(pair, 1);
        const char *error = json_string_value(json_object_get(word, "error"));

        if (error != NULL)
            log_warn("node %s could not carry out an order: %s", node, error);
        datasets_order_done(c, node, json_array_get(pair, 0), json_object_get(word, "result"),
                            error);
    }
    meta_doc_release(&d);
    json_decref(f.finished);
    return rc;
}

static int withdraw(struct meta_doc *d, void *arg, struct dlc_err *err)
{
    json_t *orders = orders_of(d);
    size_t before = json_array_size(orders);

    (void)err;
    for (size_t i = before; i-- > 0;) {
        const json_t *order = json_array_get(orders, i);
        const char *dataset = json_string_value(json_object_get(order, "dataset"));

        if (dataset != NULL && strcmp(dataset, arg) == 0)
            json_array_remove(orders, i);
    }
    return json_array_size(orders) == before ? 1 : 0;
}

int order_withdraw(struct control *c, const char *dataset, struct dlc_err *err)
{
    struct node_info *info = NULL;
    size_t n = nodes_list(c, &info);
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        struct meta_doc d = META_DOC_INIT;

        if (info[i].orders == 0)
            continue;
        rc = control_change(c, META_NODE, info[i].name, META_ANY, withdraw, (void *)dataset, &d,
                            err);
        if (rc == 0)
            nodes_remember(c, &d, false);
        else if (rc == DLC_ENOTFOUND)
            rc = 0;
        meta_doc_release(&d);
    }
    nodes_release(&info, n);
    return rc;
}
