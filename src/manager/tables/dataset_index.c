// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/dataset_index.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/sorted.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/tables.h"

#define ENTRY_TAG DLC_TAG4('d', 's', 'e', 'n')

void dataset_entry_put(struct dataset_entry **ep)
{
    struct dataset_entry *e = *ep;

    *ep = NULL;
    if (e == NULL)
        return;
    dlc_check(e->tag == ENTRY_TAG);
    /* Pairs with itself: who frees it comes after all who have read it. */
    if (atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) > 1)
        return;
    json_decref(e->nodes);
    json_decref(e->spread);
    mem_free(&e->id);
    e->tag = 0;
    mem_free(&e);
}

static int64_t created_of(const json_t *body)
{
    return json_integer_value(json_object_get(body, "created_ms"));
}

static struct dataset_entry *entry_new(const struct store_doc *d)
{
    struct dataset_entry *e = mem_new(struct dataset_entry);

    e->tag = ENTRY_TAG;
    e->refs = 1;
    e->id = mem_str(d->id);
    e->version = d->version;
    e->created_ms = created_of(d->body);
    e->nodes = json_deep_copy(dataset_nodes(d->body));
    e->count = (unsigned)json_integer_value(json_object_get(d->body, "node_count"));
    e->moving = json_object_get(d->body, "moving") != NULL;
    e->spread = json_deep_copy(json_object_get(d->body, "spread"));
    if (dataset_snapshot(d->body) != NULL)
        snapshot_bytes(dataset_snapshot(d->body), NULL, &e->bytes);
    return e;
}

static int by_id(const void *entry, const void *id)
{
    return strcmp((*(struct dataset_entry *const *)entry)->id, id);
}

/* Where it is, or where it would be. */
static size_t place_of(const struct dataset_index *x, const char *id, bool *found)
{
    return sorted_find(x->entries, x->n, sizeof(*x->entries), by_id, id, found);
}

static void index_add(struct dataset_index *x, size_t at, struct dataset_entry *e)
{
    sorted_insert(x->entries, x->n, x->cap, at);
    x->entries[at] = e;
}

void datasets_index_release(struct dataset_index *x)
{
    for (size_t i = 0; i < x->n; i++)
        dataset_entry_put(&x->entries[i]);
    mem_free(&x->entries);
    x->n = x->cap = 0;
    x->known = false;
}

void datasets_index_forget(struct tables *t)
{
    dlc_mtx_lock(&t->mtx);
    t->datasets.known = false;
    dlc_mtx_unlock(&t->mtx);
}

struct dataset_entry *datasets_index_find(struct tables *t, const char *id)
{
    struct dataset_entry *e = NULL;
    bool found;
    size_t at;

    dlc_mtx_lock(&t->mtx);
    at = place_of(&t->datasets, id, &found);
    if (t->datasets.known && found) {
        e = t->datasets.entries[at];
        atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed); /* with dataset_entry_put() */
    }
    dlc_mtx_unlock(&t->mtx);
    return e;
}

/* ---- writes ---- */

/* Gives what was there, or NULL. */
static struct dataset_entry *note_locked(struct dataset_index *x, struct dataset_entry *e)
{
    struct dataset_entry *was = NULL;
    bool found;
    size_t at = place_of(x, e->id, &found);

    if (!x->known) {
        was = e; /* it will be read */
    } else if (!found && e->version == 1) {
        index_add(x, at, e);
    } else if (found && x->entries[at]->created_ms == e->created_ms &&
               x->entries[at]->version + 1 == e->version) {
        was = x->entries[at];
        x->entries[at] = e;
    } else {
        x->known = found && x->entries[at]->created_ms == e->created_ms &&
                   x->entries[at]->version >= e->version;
        was = e;
    }
    return was;
}

void dataset_written(struct tables *t, int rc, const struct store_doc *d)
{
    struct dataset_entry *e = rc == 0 ? entry_new(d) : NULL;

    dlc_mtx_lock(&t->mtx);
    t->datasets.writes++;
    if (e != NULL)
        e = note_locked(&t->datasets, e);
    else if (rc != DLC_ENOTFOUND)
        t->datasets.known = false; /* it may be there all the same */
    dlc_mtx_unlock(&t->mtx);
    dataset_entry_put(&e);
}

void dataset_deleted(struct tables *t, int rc, const char *id)
{
    struct dataset_index *x = &t->datasets;
    struct dataset_entry *was = NULL;
    bool found;
    size_t at;

    dlc_mtx_lock(&t->mtx);
    x->writes++;
    at = place_of(x, id, &found);
    if (rc < 0 && rc != DLC_ENOTFOUND) {
        x->known = false;
    } else if (found) {
        was = x->entries[at];
        sorted_remove(x->entries, x->n, at);
    }
    dlc_mtx_unlock(&t->mtx);
    dataset_entry_put(&was);
}

/* ---- reading ---- */

static bool load_one(struct store_doc *d, void *arg)
{
    struct dataset_index *x = arg;
    bool found;
    size_t at = place_of(x, d->id, &found);

    if (!found)
        index_add(x, at, entry_new(d));
    return true;
}

/* A write that comes meanwhile may be in what is read or not: then all is read again for the view
 * that it asks for. */
static int load(struct tables *t, struct dlc_err *err)
{
    struct dataset_index fresh = {0}, old;
    uint64_t writes;
    int rc;

    dlc_mtx_lock(&t->mtx);
    writes = t->datasets.writes;
    dlc_mtx_unlock(&t->mtx);
    rc = store_each(t->store, STORE_DATASET, NULL, load_one, &fresh, err);
    dlc_mtx_lock(&t->mtx);
    old = t->datasets;
    if (rc == 0) {
        fresh.known = old.writes == writes;
        fresh.writes = old.writes;
        fresh.loads = old.loads + 1;
        t->datasets = fresh;
    } else {
        old = fresh;
    }
    dlc_mtx_unlock(&t->mtx);
    datasets_index_release(&old);
    return rc;
}

int datasets_index_get(struct tables *t, struct dataset_entry ***out, size_t *n,
                       struct dlc_err *err)
{
    const struct dataset_index *x = &t->datasets;
    bool known;
    int rc;

    dlc_mtx_lock(&t->mtx);
    known = x->known;
    dlc_mtx_unlock(&t->mtx);
    rc = known ? 0 : load(t, err);
    if (rc < 0)
        return rc;
    dlc_mtx_lock(&t->mtx);
    *n = x->n;
    *out = mem_zero((x->n + 1) * sizeof(**out));
    for (size_t i = 0; i < x->n; i++) {
        (*out)[i] = x->entries[i];
        atomic_fetch_add_explicit(&x->entries[i]->refs, 1,
                                  memory_order_relaxed); /* index has one */
    }
    dlc_mtx_unlock(&t->mtx);
    return 0;
}
