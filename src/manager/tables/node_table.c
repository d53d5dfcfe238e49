// SPDX-License-Identifier: Apache-2.0
/*
 * Who is there.
 *
 *     JOINING --heart-beat--> LIVE --silent for node_ttl--> GONE --heart-beat--> LIVE
 *     JOINING --silent for node_ttl--> GONE
 *     LIVE shows as DRAINING while it is told to drain
 *
 * Silence is counted on our own monotonic clock from when heart-beats arrived: what nodes think the
 * time is does not matter. A manager that begins to lead gives every node a full node_ttl; and so
 * does one that has heard nobody at all, when it hears the first again: it was cut off, not they.
 */
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/routes/nodes_i.h"

const char *node_state_name(enum node_state s)
{
    static const char *const names[] = {"joining", "live", "draining", "gone"};

    return names[s];
}

enum node_state live_state(const struct live_node *n)
{
    return n->drain && n->state == NODE_LIVE ? NODE_DRAINING : n->state;
}

/* ---- the table ---- */

/* Where it is, or where it would be. */
static size_t place_of(const struct control *c, const char *name, bool *found)
{
    size_t lo = 0, hi = c->n_nodes;

    *found = false;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        int order = strcmp(c->nodes[mid]->name, name);

        if (order == 0) {
            *found = true;
            return mid;
        }
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct live_node *nodes_find_locked(struct control *c, const char *name)
{
    bool found;
    size_t i = place_of(c, name, &found);

    dlc_mtx_assert_held(&c->mtx);
    return found ? c->nodes[i] : NULL;
}

static struct live_node *add_locked(struct control *c, const char *name)
{
    struct live_node *n = mem_new(struct live_node);
    bool found;
    size_t i = place_of(c, name, &found);

    dlc_check(!found && strlen(name) <= NAME_MAX_LEN);
    memcpy(n->name, name, strlen(name) + 1);
    mem_reserve(c->nodes, c->n_nodes, c->cap_nodes);
    memmove(&c->nodes[i + 1], &c->nodes[i], (c->n_nodes - i) * sizeof(*c->nodes));
    c->nodes[i] = n;
    c->n_nodes++;
    return n;
}

static void free_node(struct live_node **np)
{
    struct live_node *n = *np;

    *np = NULL;
    json_decref(n->doc);
    shared_json_put(&n->figures);
    shared_json_put(&n->progress);
    mem_free(&n);
}

static enum node_state state_of(const json_t *doc)
{
    const char *s = json_string_value(json_object_get(doc, "state"));

    if (s != NULL && strcmp(s, "live") == 0)
        return NODE_LIVE;
    return s != NULL && strcmp(s, "gone") == 0 ? NODE_GONE : NODE_JOINING;
}

void nodes_remember(struct control *c, const struct store_doc *d, bool heard)
{
    json_t *body = json_deep_copy(d->body);
    struct live_node *n;

    dlc_check(name_ok(d->id));
    dlc_mtx_lock(&c->mtx);
    n = nodes_find_locked(c, d->id);
    if (n == NULL)
        n = add_locked(c, d->id);
    if (n->doc == NULL || d->version > n->version) {
        json_decref(n->doc);
        n->doc = body;
        body = NULL;
        n->version = d->version;
        n->state = state_of(d->body);
        n->drain = json_is_true(json_object_get(d->body, "drain"));
        c->view_dirty = true;
    }
    if (heard || n->heard.ns == 0)
        n->heard = dlc_mono_now();
    dlc_cond_signal(&c->wake);
    dlc_mtx_unlock(&c->mtx);
    json_decref(body);
}

bool nodes_is_holder(struct control *c, const char *name, const char *instance)
{
    const char *holder = NULL;
    struct live_node *n;
    bool is;

    dlc_mtx_lock(&c->mtx);
    n = nodes_find_locked(c, name);
    if (n != NULL)
        holder = json_string_value(json_object_get(n->doc, "instance"));
    is = holder == NULL || holder[0] == '\0' || strcmp(holder, instance) == 0;
    dlc_mtx_unlock(&c->mtx);
    return is;
}

void nodes_forget(struct control *c, const char *name)
{
    bool found;
    size_t i;

    dlc_mtx_lock(&c->mtx);
    i = place_of(c, name, &found);
    if (found) {
        free_node(&c->nodes[i]);
        c->n_nodes--;
        memmove(&c->nodes[i], &c->nodes[i + 1], (c->n_nodes - i) * sizeof(*c->nodes));
        c->view_dirty = true;
        dlc_cond_signal(&c->wake);
    }
    dlc_mtx_unlock(&c->mtx);
}

static void forget_everybody(struct control *c)
{
    dlc_mtx_lock(&c->mtx);
    for (size_t i = 0; i < c->n_nodes; i++)
        free_node(&c->nodes[i]);
    c->n_nodes = 0;
    dlc_mtx_unlock(&c->mtx);
}

static bool load_one(struct store_doc *d, void *arg)
{
    if (name_ok(d->id))
        nodes_remember(arg, d, true);
    return true;
}

int nodes_load(struct control *c, struct dlc_err *err)
{
    forget_everybody(c);
    return control_each(c, STORE_NODE, NULL, load_one, c, err);
}

void nodes_close(struct control *c)
{
    forget_everybody(c);
    mem_free(&c->nodes);
    c->cap_nodes = 0;
}

/* ---- for others ---- */

static void copy_text(char *out, size_t cap, const char *s)
{
    size_t len = s != NULL ? strnlen(s, cap - 1) : 0;

    memcpy(out, s != NULL ? s : "", len);
    out[len] = '\0';
}

static void describe(const struct live_node *n, struct node_info *out)
{
    memcpy(out->name, n->name, sizeof(out->name));
    copy_text(out->address, sizeof(out->address),
              json_string_value(json_object_get(n->doc, "address")));
    out->state = live_state(n);
    out->capacity = (uint64_t)json_integer_value(json_object_get(n->doc, "capacity"));
    out->memory = (uint64_t)json_integer_value(json_object_get(n->doc, "memory"));
    out->gpus = (unsigned)json_integer_value(json_object_get(n->doc, "gpus"));
    out->silent = dlc_mono_since(n->heard);
    out->holds[0] = shared_json_get(n->figures);
    out->holds[1] = shared_json_get(n->progress);
    out->figures = shared_json_value(n->figures);
    out->progress = shared_json_value(n->progress);
    out->commands = json_array_size(json_object_get(n->doc, "commands"));
}

size_t nodes_list(struct control *c, struct node_info **out)
{
    size_t n;

    dlc_mtx_lock(&c->mtx);
    n = c->n_nodes;
    *out = mem_zero((n + 1) * sizeof(**out));
    for (size_t i = 0; i < n; i++)
        describe(c->nodes[i], &(*out)[i]);
    dlc_mtx_unlock(&c->mtx);
    return n;
}

void nodes_release(struct node_info **out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        shared_json_put(&(*out)[i].holds[0]);
        shared_json_put(&(*out)[i].holds[1]);
    }
    mem_free(out);
}

/* ---- silence ---- */

static int put_state(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const char *s = arg, *was = json_string_value(json_object_get(d->body, "state"));

    (void)err;
    if (was != NULL && strcmp(was, s) == 0)
        return 1;
    json_object_set_new(d->body, "state", json_string(s));
    return 0;
}

void nodes_write_state(struct control *c, const char *name, enum node_state s)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    if (control_change(c, STORE_NODE, name, STORE_ANY, put_state, (void *)node_state_name(s), &d,
                       &err) == 0)
        nodes_remember(c, &d, false);
    else
        log_warn("the state of node %s was not written: %s", name, err.text);
    store_doc_release(&d);
    control_event(c, "", s == NODE_GONE ? "node.gone" : "node.live",
                  json_pack("{s:s}", "name", name));
}

void nodes_forgive_locked(struct control *c, const struct live_node *first)
{
    dlc_mtx_assert_held(&c->mtx);
    for (size_t i = 0; i < c->n_nodes; i++)
        if (c->nodes[i]->state == NODE_LIVE)
            return; /* somebody was heard all the while */
    for (size_t i = 0; i < c->n_nodes && first->gone.ns != 0; i++) {
        struct live_node *n = c->nodes[i];
        int64_t apart = dlc_mono_sub(n->gone, first->gone).ns;

        if (n->state != NODE_GONE || n->gone.ns == 0 || apart > c->node_ttl.ns ||
            apart < -c->node_ttl.ns)
            continue;
        n->state = NODE_LIVE;
        n->heard = dlc_mono_now();
        n->forgiven = n != first;
    }
}

/* The next one that was forgiven: the store does not know it yet. */
static bool next_forgiven(struct control *c, char *name)
{
    bool found = false;

    dlc_mtx_lock(&c->mtx);
    for (size_t i = 0; i < c->n_nodes && !found; i++) {
        struct live_node *n = c->nodes[i];

        found = n->forgiven;
        n->forgiven = false;
        if (found)
            memcpy(name, n->name, sizeof(n->name));
    }
    dlc_mtx_unlock(&c->mtx);
    return found;
}

/* The next one that is silent for too long; it is gone from now on. */
static bool next_silent(struct control *c, struct dlc_mono now, char *name)
{
    bool found = false;

    dlc_mtx_lock(&c->mtx);
    for (size_t i = 0; i < c->n_nodes && !found; i++) {
        struct live_node *n = c->nodes[i];

        if (n->state == NODE_GONE || dlc_mono_sub(now, n->heard).ns <= c->node_ttl.ns)
            continue;
        found = true;
        memcpy(name, n->name, sizeof(n->name));
        n->state = NODE_GONE;
        n->gone = now;
        c->view_dirty = true;
    }
    dlc_mtx_unlock(&c->mtx);
    return found;
}

void nodes_tick(struct control *c, struct dlc_mono now)
{
    char name[NAME_MAX_LEN + 1];

    while (leader_holds(c) && next_forgiven(c, name))
        nodes_write_state(c, name, NODE_LIVE);
    while (leader_holds(c) && next_silent(c, now, name)) {
        log_warn("node %s is gone: it has been silent for more than %.1f s", name,
                 dlc_dur_seconds(c->node_ttl));
        nodes_write_state(c, name, NODE_GONE);
    }
}
