// SPDX-License-Identifier: Apache-2.0
/*
 * What the view needs of datasets, in memory: where each lies, how many nodes it wants, whether it
 * moves. A change of one dataset changes one entry; the documents of all are read when we begin to
 * lead, and again when a write may or may not have reached the store.
 *
 *     UNKNOWN --datasets_index_get(): all documents are read--> KNOWN
 *     KNOWN --a write with an unknown outcome, or out of order; we begin to lead--> UNKNOWN
 *
 * (INDEX-1) Only the leader writes documents, and each of its writes comes by here: by
 *           control_change(), or where a dataset is made and deleted. Those two hold jobs->admit.
 * (INDEX-2) An entry never changes: another takes its place. Readers share it by reference.
 * (INDEX-3) Versions of a document grow by one. A write that is not the next one of the document we
 *           know, by version and time of creation, makes all UNKNOWN: it does not happen but when
 *           two threads write the same document at the same time, or its name is taken anew.
 */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "manager/routes/datasets_i.h"

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
    return e;
}

/* Where it is, or where it would be. */
static size_t place_of(const struct dataset_index *x, const char *id, bool *found)
{
    size_t lo = 0, hi = x->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (strcmp(x->entries[mid]->id, id) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    *found = lo < x->n && strcmp(x->entries[lo]->id, id) == 0;
    return lo;
}

static void index_add(struct dataset_index *x, size_t at, struct dataset_entry *e)
{
    mem_reserve(x->entries, x->n, x->cap);
    memmove(&x->entries[at + 1], &x->entries[at], (x->n - at) * sizeof(*x->entries));
    x->entries[at] = e;
    x->n++;
}

void datasets_index_release(struct dataset_index *x)
{
    for (size_t i = 0; i < x->n; i++)
        dataset_entry_put(&x->entries[i]);
    mem_free(&x->entries);
    x->n = x->cap = 0;
    x->known = false;
}

void datasets_index_forget(struct control *c)
{
    dlc_mtx_lock(&c->mtx);
    c->index.known = false;
    dlc_mtx_unlock(&c->mtx);
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

void dataset_written(struct control *c, int rc, const struct store_doc *d)
{
    struct dataset_entry *e = rc == 0 ? entry_new(d) : NULL;

    dlc_mtx_lock(&c->mtx);
    c->index.writes++;
    if (e != NULL)
        e = note_locked(&c->index, e);
    else if (rc != DLC_ENOTFOUND)
        c->index.known = false; /* it may be there all the same */
    dlc_mtx_unlock(&c->mtx);
    dataset_entry_put(&e);
}

void dataset_deleted(struct control *c, int rc, const char *id)
{
    struct dataset_index *x = &c->index;
    struct dataset_entry *was = NULL;
    bool found;
    size_t at;

    dlc_mtx_lock(&c->mtx);
    x->writes++;
    at = place_of(x, id, &found);
    if (rc < 0 && rc != DLC_ENOTFOUND) {
        x->known = false;
    } else if (found) {
        was = x->entries[at];
        x->n--;
        memmove(&x->entries[at], &x->entries[at + 1], (x->n - at) * sizeof(*x->entries));
    }
    dlc_mtx_unlock(&c->mtx);
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
static int load(struct control *c, struct dlc_err *err)
{
    struct dataset_index fresh = {0}, old;
    uint64_t writes;
    int rc;

    dlc_mtx_lock(&c->mtx);
    writes = c->index.writes;
    dlc_mtx_unlock(&c->mtx);
    rc = control_each(c, STORE_DATASET, NULL, load_one, &fresh, err);
    dlc_mtx_lock(&c->mtx);
    old = c->index;
    if (rc == 0) {
        fresh.known = old.writes == writes;
        fresh.writes = old.writes;
        fresh.loads = old.loads + 1;
        c->index = fresh;
    } else {
        old = fresh;
    }
    dlc_mtx_unlock(&c->mtx);
    datasets_index_release(&old);
    return rc;
}

int datasets_index_get(struct control *c, struct dataset_entry ***out, size_t *n,
                       struct dlc_err *err)
{
    const struct dataset_index *x = &c->index;
    bool known;
    int rc;

    dlc_mtx_lock(&c->mtx);
    known = x->known;
    dlc_mtx_unlock(&c->mtx);
    rc = known ? 0 : load(c, err);
    if (rc < 0)
        return rc;
    dlc_mtx_lock(&c->mtx);
    *n = x->n;
    *out = mem_zero((x->n + 1) * sizeof(**out));
    for (size_t i = 0; i < x->n; i++) {
        (*out)[i] = x->entries[i];
        atomic_fetch_add_explicit(&x->entries[i]->refs, 1,
                                  memory_order_relaxed); /* index has one */
    }
    dlc_mtx_unlock(&c->mtx);
    return 0;
}
