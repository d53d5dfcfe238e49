// SPDX-License-Identifier: Apache-2.0
/*
 * The view: who is there, with which weight, which datasets lie on some nodes only or are read, and
 * which jobs keep nothing of what they read.
 *
 * (V1) Two views of one version are equal. (V2) Versions grow, also from one manager to the next:
 * the fence is their upper part. (V3) A view that comes out as the last one is the last one: no new
 * version, nothing to send. (V4) No node gets a command before the view that it was given in.
 * (V5) A node gets no view that does not name it: one of the time when it was not heard would tell
 * it that others own what it has.
 */
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/routes/nodes_i.h"
#include "manager/tables/cluster_view_i.h"

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

struct view *view_get(struct control *c, uint64_t has)
{
    struct view *v = NULL;

    dlc_mtx_lock(&c->mtx);
    if (c->view_version != has && c->view != NULL) {
        v = c->view;
        atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed); /* c->view has one */
    }
    dlc_mtx_unlock(&c->mtx);
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

static void free_text(void *text)
{
    mem_free(&text);
}

void view_add_to_reply(const struct view *v, struct http_reply *reply)
{
    static const char name[] = "\"view\":";
    char *rest = json_dumps(reply->body, JSON_COMPACT);
    struct buf b = BUF_INIT;

    dlc_check(json_is_object(reply->body) && rest != NULL && reply->done == NULL);
    buf_reserve(&b, strlen(rest) + v->len + sizeof(name) + 1);
    buf_add(&b, rest, strlen(rest) - 1); /* without its '}' */
    buf_adds(&b, json_object_size(reply->body) > 0 ? "," : "");
    buf_adds(&b, name);
    buf_add(&b, v->text, v->len);
    buf_addc(&b, '}');
    free(rest);
    json_decref(reply->body);
    reply->body = NULL;
    reply->type = "application/json";
    reply->data_len = b.len;
    reply->data = reply->arg = buf_take(&b);
    reply->done = free_text;
}

/* ---- what is in it ---- */

/* Chunks are spread by space. A node that says nothing of its space counts as a gigabyte. */
double view_weight(enum node_state state, uint64_t capacity, uint64_t memory)
{
    uint64_t space = capacity != 0 ? capacity : memory;

    if (state != NODE_LIVE)
        return 0;
    return space == 0 ? 1.0 : (double)space / 1e9;
}

json_t *view_nodes(const struct node_info *nodes, size_t n)
{
    json_t *array = json_array();

    for (size_t i = 0; i < n; i++) {
        const struct node_info *x = &nodes[i];

        if (x->state == NODE_GONE)
            continue;
        json_array_append_new(array, json_pack("{s:s, s:s, s:f, s:s}", "name", x->name, "address",
                                               x->address, "weight",
                                               view_weight(x->state, x->capacity, x->memory),
                                               "state", node_state_name(x->state)));
    }
    return array;
}

/* ---- making it ---- */

void view_changed(struct control *c)
{
    dlc_mtx_lock(&c->mtx);
    c->view_dirty = true;
    c->view_asked++;
    dlc_cond_signal(&c->wake);
    dlc_mtx_unlock(&c->mtx);
}

void view_wait(struct control *c)
{
    struct dlc_mono until = dlc_mono_add(dlc_mono_now(), SETTLE), now;
    uint64_t asked;

    dlc_mtx_lock(&c->mtx);
    asked = c->view_asked;
    while (c->view_made < asked && !dlc_mono_passed(until, now = dlc_mono_now()))
        dlc_cond_wait_for(&c->view_new, &c->mtx, dlc_mono_sub(until, now));
    dlc_mtx_unlock(&c->mtx);
}

int view_load(struct control *c, uint64_t fence, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = store_get(c->store, STORE_MANAGER, "view", &d, err);
    uint64_t was = (uint64_t)json_integer_value(json_object_get(d.body, "version"));
    struct view *old;

    if (rc == 0 || rc == DLC_ENOTFOUND) {
        dlc_mtx_lock(&c->mtx);
        old = c->view;
        c->view = NULL;
        c->view_version = DLC_MAX(was, fence);
        c->view_dirty = true;
        dlc_mtx_unlock(&c->mtx);
        view_put(&old);
        datasets_index_forget(c); /* another manager may have written */
        rc = 0;
    }
    store_doc_release(&d);
    return rc;
}

static int write_version(struct control *c, uint64_t version, struct dlc_err *err)
{
    struct store_doc d = {(char *)"view", (char *)"", NULL, 0};
    int rc;

    d.body = json_pack("{s:I}", "version", (json_int_t)version);
    rc = store_put(c->store, STORE_MANAGER, &d, STORE_ANY, err);
    json_decref(d.body);
    return rc;
}

static bool is_same(const struct view *v, const json_t *nodes, const json_t *datasets,
                    const json_t *jobs)
{
    return v != NULL && json_equal(json_object_get(v->body, "nodes"), nodes) == 1 &&
           json_equal(json_object_get(v->body, "datasets"), datasets) == 1 &&
           json_equal(json_object_get(v->body, "jobs"), jobs) == 1;
}

/* Borrows all. Only the thread makes views, so nothing comes between, and it may look at the
 * present one without the lock. */
static int install(struct control *c, json_t *nodes, json_t *datasets, json_t *jobs,
                   struct dlc_err *err)
{
    struct view *old, *now;
    uint64_t version, fence;
    int rc;

    dlc_mtx_lock(&c->mtx);
    old = c->view;
    version = c->view_version + 1;
    fence = c->fence;
    dlc_mtx_unlock(&c->mtx);
    if (is_same(old, nodes, datasets, jobs))
        return 0;
    rc = write_version(c, version, err);
    if (rc < 0)
        return rc;
    now = view_new(version, json_pack("{s:I, s:I, s:O, s:O, s:O}", "version", (json_int_t)version,
                                      "fence", (json_int_t)fence, "nodes", nodes, "datasets",
                                      datasets, "jobs", jobs));
    dlc_mtx_lock(&c->mtx);
    c->view = now;
    c->view_version = version;
    dlc_mtx_unlock(&c->mtx);
    view_put(&old);
    return 0;
}

void view_tick(struct control *c)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct node_info *info = NULL;
    json_t *datasets, *nodes, *jobs;
    uint64_t asked;
    size_t n;
    bool dirty, made;

    dlc_mtx_lock(&c->mtx);
    dirty = c->view_dirty;
    asked = c->view_asked;
    c->view_dirty = false; /* what changes from here on makes it dirty again */
    dlc_mtx_unlock(&c->mtx);
    if (!dirty)
        return;
    datasets = datasets_view(c, &err);
    n = nodes_list(c, &info);
    nodes = view_nodes(info, n);
    jobs = jobs_view(c);
    made = datasets != NULL && install(c, nodes, datasets, jobs, &err) == 0;
    if (!made)
        log_warn("no new view can be made: %s", err.text);
    dlc_mtx_lock(&c->mtx);
    c->view_dirty = c->view_dirty || !made;
    c->view_made = made ? asked : c->view_made;
    dlc_cond_broadcast(&c->view_new);
    dlc_mtx_unlock(&c->mtx);
    json_decref(nodes);
    json_decref(datasets);
    json_decref(jobs);
    nodes_release(&info, n);
}
