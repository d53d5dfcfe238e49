// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/node_revocation.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "manager/store/store.h"
#include "manager/store/wall_time.h"
#include "manager/tables/cluster_view.h"
#include "manager/tables/documents.h"
#include "manager/tables/tables.h"

#define DOCUMENT    "revoked_nodes"
#define CLOCKS_MS   (3600 * 1000) /* clocks of nodes may be behind, as authority.c allows */
#define GENERATIONS INT32_MAX

static uint32_t generation_of(const json_t *entry)
{
    json_int_t g = json_integer_value(json_object_get(entry, "generation"));

    return g > 0 && g <= GENERATIONS ? (uint32_t)g : 0;
}

/* ---- what this manager knows ---- */

static void take(struct tables *t, const struct store_doc *d)
{
    json_t *nodes = json_deep_copy(json_object_get(d->body, "nodes")), *old = nodes;

    dlc_mtx_lock(&t->mtx);
    if (d->version > t->revocations.version) {
        old = t->revocations.nodes;
        t->revocations.nodes = nodes;
        t->revocations.version = d->version;
        view_changed_locked(t);
    }
    dlc_mtx_unlock(&t->mtx);
    json_decref(old);
}

int revocations_read(struct tables *t, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = store_get(t->store, STORE_MANAGER, DOCUMENT, &d, err);

    if (rc == 0)
        take(t, &d);
    store_doc_release(&d);
    return rc == DLC_ENOTFOUND ? 0 : rc;
}

int revocations_load(struct tables *t, struct dlc_err *err)
{
    dlc_mtx_lock(&t->mtx);
    t->revocations.version = 0;
    dlc_mtx_unlock(&t->mtx);
    return revocations_read(t, err);
}

bool revocations_refuse(struct tables *t, const char *node, uint32_t generation)
{
    bool refuse;

    dlc_mtx_lock(&t->mtx);
    refuse = generation < generation_of(json_object_get(t->revocations.nodes, node));
    dlc_mtx_unlock(&t->mtx);
    return refuse;
}

bool revocations_bar(struct tables *t, const char *node)
{
    bool bar;

    dlc_mtx_lock(&t->mtx);
    bar = json_is_true(json_object_get(json_object_get(t->revocations.nodes, node), "barred"));
    dlc_mtx_unlock(&t->mtx);
    return bar;
}

int revocations_generation(struct tables *t, const char *node, uint32_t *out, struct dlc_err *err)
{
    int rc = revocations_read(t, err);

    dlc_mtx_lock(&t->mtx);
    *out = generation_of(json_object_get(t->revocations.nodes, node));
    dlc_mtx_unlock(&t->mtx);
    return rc;
}

void revocations_release(struct node_revocations *r)
{
    json_decref(r->nodes);
    *r = (struct node_revocations){0};
}

/* ---- changes ---- */

struct change {
    const char *node;
    const struct issued_life *life; /* NULL: lift the bar */
};

static int change_entry(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const struct change *c = arg;
    json_t *nodes = json_object_get(d->body, "nodes");
    json_t *entry = json_object_get(nodes, c->node);
    uint32_t generation = generation_of(entry);
    int64_t now = wall_ms();

    if (c->life == NULL) {
        if (!json_is_true(json_object_get(entry, "barred")))
            return 1;
        json_object_set_new(entry, "barred", json_false());
        return 0;
    }
    if (generation == GENERATIONS)
        return dlc_err_set(err, DLC_ENOSPACE, "node %s was revoked too often: use another name",
                           c->node);
    json_object_set_new(
        nodes, c->node,
        json_pack("{s:I, s:b, s:I, s:I}", "generation", (json_int_t)generation + 1, "barred", 1,
                  "tickets_ms", (json_int_t)(now + c->life->ticket.ns / 1000000), "until_ms",
                  (json_int_t)(now + CLOCKS_MS +
                               DLC_MAX(c->life->certificate.ns, c->life->ticket.ns) / 1000000)));
    return 0;
}

static int make_document(struct tables *t, struct dlc_err *err)
{
    struct store_doc d = {(char *)DOCUMENT, (char *)"", NULL, 0};
    int rc;

    d.body = json_pack("{s:{}}", "nodes");
    rc = store_put(t->store, STORE_MANAGER, &d, STORE_NEW, err);
    json_decref(d.body);
    return rc == DLC_EBUSY ? 0 : rc; /* it is there already */
}

static int change(struct tables *t, struct change *c, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = document_change(t, STORE_MANAGER, DOCUMENT, STORE_ANY, change_entry, c, &d, err);

    if (rc == DLC_ENOTFOUND) {
        rc = make_document(t, err);
        if (rc == 0)
            rc = document_change(t, STORE_MANAGER, DOCUMENT, STORE_ANY, change_entry, c, &d, err);
    }
    if (rc == 0)
        take(t, &d);
    store_doc_release(&d);
    return rc;
}

int revocations_add(struct tables *t, const char *node, const struct issued_life *life,
                    struct dlc_err *err)
{
    return change(t, &(struct change){node, life}, err);
}

int revocations_lift(struct tables *t, const char *node, struct dlc_err *err)
{
    return change(t, &(struct change){node, NULL}, err);
}

/* ---- the view ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static json_t *rows_locked(json_t *nodes)
{
    size_t n = 0, all = json_object_size(nodes);
    const char **names = mem_zero((all + 1) * sizeof(*names)), *name;
    json_t *out = json_array(), *entry;
    int64_t now = wall_ms();

    json_object_foreach(nodes, name, entry)
    {
        if (json_integer_value(json_object_get(entry, "until_ms")) > now)
            names[n++] = name;
    }
    qsort(names, n, sizeof(*names), by_name);
    for (size_t i = 0; i < n; i++) {
        entry = json_object_get(nodes, names[i]);
        json_array_append_new(out,
                              json_pack("[s, I, I]", names[i], (json_int_t)generation_of(entry),
                                        json_integer_value(json_object_get(entry, "tickets_ms"))));
    }
    mem_free(&names);
    return out;
}

json_t *revocations_view(struct tables *t)
{
    json_t *out;

    dlc_mtx_lock(&t->mtx);
    out = rows_locked(t->revocations.nodes);
    dlc_mtx_unlock(&t->mtx);
    return out;
}
