// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/cluster_view.h"

#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "manager/tables/dataset_index.h"
#include "manager/tables/tables.h"

#define VIEW_TAG DLC_TAG4('v', 'i', 'e', 'w')
#define SETTLE   DLC_SEC(2) /* then the command is given all the same */

/* ---- a view ---- */

struct view *view_new(uint64_t version, json_t *body)
{
    struct view *v = mem_new(struct view);

    v->tag = VIEW_TAG;
    v->refs = 1;
    v->version = version;
    v->body = body;
    v->text = json_dumps(body, JSON_COMPACT);
    dlc_check(v->text != NULL); /* it is made of texts that were read from JSON */
    v->len = strlen(v->text);
    return v;
}

void view_put(struct view **vp)
{
    struct view *v = *vp;

    *vp = NULL;
    if (v == NULL)
        return;
    dlc_check(v->tag == VIEW_TAG);
    /* Pairs with itself: who frees it comes after all who have read it. */
    if (atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) > 1)
        return;
    json_decref(v->body);
    free(v->text); /* jansson's */
    v->tag = 0;
    mem_free(&v);
}

struct view *view_get(struct tables *t, uint64_t has)
{
    struct view *v = NULL;

    dlc_mtx_lock(&t->mtx);
    if (t->view.version != has && t->view.current != NULL) {
        v = t->view.current;
        atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed); /* t->view.current has one */
    }
    dlc_mtx_unlock(&t->mtx);
    return v;
}

bool view_names(const struct view *v, const char *name)
{
    const json_t *nodes = json_object_get(v->body, "nodes");

    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);

        if (strcmp(json_string_value(json_object_get(node, "name")), name) == 0)
            return true;
    }
    return false;
}

bool view_is_due(struct tables *t)
{
    bool due;

    dlc_mtx_lock(&t->mtx);
    due = t->view.dirty || t->view.current == NULL;
    dlc_mtx_unlock(&t->mtx);
    return due;
}

uint64_t view_version(struct tables *t)
{
    uint64_t version;

    dlc_mtx_lock(&t->mtx);
    version = t->view.version;
    dlc_mtx_unlock(&t->mtx);
    return version;
}

/* ---- the wish for another one ---- */

void view_changed_locked(struct tables *t)
{
    dlc_mtx_assert_held(&t->mtx);
    t->view.dirty = true;
    dlc_cond_signal(&t->wake);
}

void view_changed(struct tables *t)
{
    dlc_mtx_lock(&t->mtx);
    t->view.dirty = true;
    t->view.asked++;
    dlc_cond_signal(&t->wake);
    dlc_mtx_unlock(&t->mtx);
}

void view_wait(struct tables *t)
{
    struct dlc_mono until = dlc_mono_add(dlc_mono_now(), SETTLE), now;
    uint64_t asked;

    dlc_mtx_lock(&t->mtx);
    asked = t->view.asked;
    while (t->view.made < asked && !dlc_mono_passed(until, now = dlc_mono_now()))
        dlc_cond_wait_for(&t->view.built, &t->mtx, dlc_mono_sub(until, now));
    dlc_mtx_unlock(&t->mtx);
}

int view_load(struct tables *t, uint64_t fence, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = store_get(t->store, STORE_MANAGER, "view", &d, err);
    uint64_t was = (uint64_t)json_integer_value(json_object_get(d.body, "version"));
    struct view *old;

    if (rc == 0 || rc == DLC_ENOTFOUND) {
        dlc_mtx_lock(&t->mtx);
        old = t->view.current;
        t->view.current = NULL;
        t->view.version = DLC_MAX(was, fence);
        t->view.dirty = true;
        dlc_mtx_unlock(&t->mtx);
        view_put(&old);
        datasets_index_forget(t); /* another manager may have written */
        rc = 0;
    }
    store_doc_release(&d);
    return rc;
}
