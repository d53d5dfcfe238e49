// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/node_table.h"

#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sorted.h"
#include "base/str.h"
#include "manager/tables/cluster_view.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/documents.h"
#include "manager/tables/event_log.h"
#include "manager/tables/tables.h"

#define ASK_FOR DLC_SEC(60)

struct live_node {
    char name[NAME_MAX_LEN + 1];
    uint64_t version;      /* of the document that the next four are from */
    json_t *doc;           /* its body; never changed: replaced */
    enum node_state state; /* NODE_DRAINING is not here but in `drain` */
    bool drain;
    struct dlc_mono heard;
    struct dlc_mono gone; /* since when, if it fell silent under us; 0: it did not */
    bool forgiven;        /* gone in the store only */
    struct shared_json *figures, *progress; /* of its last heartbeat that had them */
    bool asked;                             /* for its records, which it has not told yet */
    json_t *inventory;                      /* what it told; NULL: nothing yet */
};

struct away_node {
    char name[NAME_MAX_LEN + 1];
    json_t *doc; /* the last one */
    struct dlc_mono until;
};

const char *node_state_name(enum node_state s)
{
    static const char *const names[] = {"joining", "live", "draining", "gone", "away"};

    return names[s];
}

static enum node_state live_state(const struct live_node *n)
{
    return n->drain && n->state == NODE_LIVE ? NODE_DRAINING : n->state;
}

/* ---- the table ---- */

static int by_name(const void *node, const void *name)
{
    return strcmp((*(struct live_node *const *)node)->name, name);
}

/* Where it is, or where it would be. */
static size_t place_of(const struct tables *t, const char *name, bool *found)
{
    return sorted_find(t->nodes.list, t->nodes.n, sizeof(*t->nodes.list), by_name, name, found);
}

static struct live_node *find_locked(struct tables *t, const char *name)
{
    bool found;
    size_t i = place_of(t, name, &found);

    dlc_mtx_assert_held(&t->mtx);
    return found ? t->nodes.list[i] : NULL;
}

static struct live_node *add_locked(struct tables *t, const char *name)
{
    struct live_node *n = mem_new(struct live_node);
    bool found;
    size_t i = place_of(t, name, &found);

    dlc_check(!found && strlen(name) <= NAME_MAX_LEN);
    memcpy(n->name, name, strlen(name) + 1);
    n->asked = dlc_mono_now().ns < t->nodes.ask_until.ns;
    sorted_insert(t->nodes.list, t->nodes.n, t->nodes.cap, i);
    t->nodes.list[i] = n;
    return n;
}

static void free_node(struct live_node **np)
{
    struct live_node *n = *np;

    *np = NULL;
    json_decref(n->doc);
    shared_json_put(&n->figures);
    shared_json_put(&n->progress);
    json_decref(n->inventory);
    mem_free(&n);
}

static enum node_state state_of(const json_t *doc)
{
    const char *s = json_string_value(json_object_get(doc, "state"));

    if (s != NULL && strcmp(s, "live") == 0)
        return NODE_LIVE;
    return s != NULL && strcmp(s, "gone") == 0 ? NODE_GONE : NODE_JOINING;
}

/* ---- who is away ---- */

static void drop_away_locked(struct tables *t, size_t i)
{
    json_decref(t->nodes.away[i].doc);
    t->nodes.away[i] = t->nodes.away[--t->nodes.n_away];
    view_changed_locked(t);
}

/* NULL: it is not away. */
static struct away_node *away_locked(struct tables *t, const char *name)
{
    for (size_t i = 0; i < t->nodes.n_away; i++)
        if (strcmp(t->nodes.away[i].name, name) == 0)
            return &t->nodes.away[i];
    return NULL;
}

static void is_back_locked(struct tables *t, const char *name)
{
    const struct away_node *a = away_locked(t, name);

    if (a != NULL)
        drop_away_locked(t, (size_t)(a - t->nodes.away));
}

static bool has_disk(const struct live_node *n)
{
    const json_t *limit = json_object_get(shared_json_value(n->figures), "disk_limit");

    return json_integer_value(limit) > 0;
}

/* One that drains hands its copies over: nobody need wait for it. */
static void is_away_locked(struct tables *t, const struct live_node *n)
{
    struct away_node *a;

    if (n->state != NODE_LIVE || n->drain || !has_disk(n))
        return;
    is_back_locked(t, n->name);
    mem_reserve(t->nodes.away, t->nodes.n_away, t->nodes.cap_away);
    a = &t->nodes.away[t->nodes.n_away++];
    memcpy(a->name, n->name, sizeof(a->name));
    a->doc = json_deep_copy(n->doc);
    a->until = dlc_mono_add(dlc_mono_now(), NODES_AWAY_FOR);
}

static void forget_away(struct tables *t, struct dlc_mono now)
{
    dlc_mtx_lock(&t->mtx);
    for (size_t i = t->nodes.n_away; i-- > 0;)
        if (dlc_mono_passed(t->nodes.away[i].until, now))
            drop_away_locked(t, i);
    dlc_mtx_unlock(&t->mtx);
}

void nodes_remember(struct tables *t, const struct store_doc *d, bool heard)
{
    json_t *body = json_deep_copy(d->body);
    struct live_node *n;

    dlc_check(str_is_name(d->id));
    dlc_mtx_lock(&t->mtx);
    n = find_locked(t, d->id);
    if (n == NULL)
        n = add_locked(t, d->id);
    if (n->doc == NULL || d->version > n->version) {
        json_decref(n->doc);
        n->doc = body;
        body = NULL;
        n->version = d->version;
        n->state = state_of(d->body);
        n->drain = json_is_true(json_object_get(d->body, "drain"));
        view_changed_locked(t);
    }
    if (heard || n->heard.ns == 0)
        n->heard = dlc_mono_now();
    dlc_cond_signal(&t->wake);
    dlc_mtx_unlock(&t->mtx);
    json_decref(body);
}

bool nodes_is_holder(struct tables *t, const char *name, const char *instance)
{
    const char *holder = NULL;
    struct live_node *n;
    bool is;

    dlc_mtx_lock(&t->mtx);
    n = find_locked(t, name);
    if (n != NULL)
        holder = json_string_value(json_object_get(n->doc, "instance"));
    is = holder == NULL || holder[0] == '\0' || strcmp(holder, instance) == 0;
    dlc_mtx_unlock(&t->mtx);
    return is;
}

static void forget(struct tables *t, const char *name, bool goodbye)
{
    bool found;
    size_t i;

    dlc_mtx_lock(&t->mtx);
    i = place_of(t, name, &found);
    if (found) {
        if (goodbye)
            is_away_locked(t, t->nodes.list[i]);
        free_node(&t->nodes.list[i]);
        sorted_remove(t->nodes.list, t->nodes.n, i);
        view_changed_locked(t);
    }
    dlc_mtx_unlock(&t->mtx);
}

void nodes_forget(struct tables *t, const char *name)
{
    forget(t, name, false);
}

void nodes_goodbye(struct tables *t, const char *name)
{
    forget(t, name, true);
}

static void forget_everybody(struct tables *t)
{
    dlc_mtx_lock(&t->mtx);
    while (t->nodes.n_away > 0)
        drop_away_locked(t, t->nodes.n_away - 1);
    for (size_t i = 0; i < t->nodes.n; i++)
        free_node(&t->nodes.list[i]);
    t->nodes.n = 0;
    dlc_mtx_unlock(&t->mtx);
}

static bool load_one(struct store_doc *d, void *arg)
{
    if (str_is_name(d->id))
        nodes_remember(arg, d, true);
    return true;
}

int nodes_load(struct tables *t, struct dlc_err *err)
{
    forget_everybody(t);
    return store_each(t->store, STORE_NODE, NULL, load_one, t, err);
}

void nodes_close(struct tables *t)
{
    forget_everybody(t);
    mem_free(&t->nodes.list);
    mem_free(&t->nodes.away);
    t->nodes.cap = t->nodes.cap_away = 0;
}

/* ---- for others ---- */

static void copy_text(char *out, size_t cap, const char *s)
{
    size_t len = s != NULL ? strnlen(s, cap - 1) : 0;

    memcpy(out, s != NULL ? s : "", len);
    out[len] = '\0';
}

static void describe_doc(const char *name, const json_t *doc, struct node_info *out)
{
    memcpy(out->name, name, sizeof(out->name));
    copy_text(out->address, sizeof(out->address),
              json_string_value(json_object_get(doc, "address")));
    out->capacity = (uint64_t)json_integer_value(json_object_get(doc, "capacity"));
    out->memory = (uint64_t)json_integer_value(json_object_get(doc, "memory"));
    out->gpus = (unsigned)json_integer_value(json_object_get(doc, "gpus"));
}

static void describe(const struct live_node *n, struct node_info *out)
{
    describe_doc(n->name, n->doc, out);
    out->state = live_state(n);
    out->disk = has_disk(n);
    out->silent = dlc_mono_since(n->heard);
    out->holds[0] = shared_json_get(n->figures);
    out->holds[1] = shared_json_get(n->progress);
    out->figures = shared_json_value(n->figures);
    out->progress = shared_json_value(n->progress);
    out->commands = json_array_size(json_object_get(n->doc, "commands"));
}

static size_t list_nodes(struct tables *t, bool with_away, struct node_info **out)
{
    size_t n = 0;

    dlc_mtx_lock(&t->mtx);
    *out = mem_zero((t->nodes.n + t->nodes.n_away + 1) * sizeof(**out));
    for (size_t i = 0; i < t->nodes.n; i++) /* one that joins is away until it is heard */
        if (!with_away || t->nodes.list[i]->state != NODE_JOINING ||
            away_locked(t, t->nodes.list[i]->name) == NULL)
            describe(t->nodes.list[i], &(*out)[n++]);
    for (size_t i = 0; with_away && i < t->nodes.n_away; i++) {
        describe_doc(t->nodes.away[i].name, t->nodes.away[i].doc, &(*out)[n]);
        (*out)[n].state = NODE_AWAY;
        (*out)[n++].disk = true;
    }
    dlc_mtx_unlock(&t->mtx);
    return n;
}

size_t nodes_list(struct tables *t, struct node_info **out)
{
    return list_nodes(t, false, out);
}

size_t nodes_of_view(struct tables *t, struct node_info **out)
{
    return list_nodes(t, true, out);
}

bool nodes_get(struct tables *t, const char *name, struct node_info *out)
{
    struct live_node *n;

    memset(out, 0, sizeof(*out));
    dlc_mtx_lock(&t->mtx);
    n = find_locked(t, name);
    if (n != NULL)
        describe(n, out);
    dlc_mtx_unlock(&t->mtx);
    return n != NULL;
}

void node_info_release(struct node_info *info)
{
    shared_json_put(&info->holds[0]);
    shared_json_put(&info->holds[1]);
    info->figures = info->progress = NULL;
}

void nodes_release(struct node_info **out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        node_info_release(&(*out)[i]);
    mem_free(out);
}

bool nodes_drains(struct tables *t, const char *name)
{
    const struct live_node *n;
    bool drains;

    dlc_mtx_lock(&t->mtx);
    n = find_locked(t, name);
    drains = n != NULL && n->drain && json_object_get(n->doc, "drained") == NULL;
    dlc_mtx_unlock(&t->mtx);
    return drains;
}

json_t *nodes_commands(struct tables *t, const char *name)
{
    json_t *commands = NULL;
    struct live_node *n;

    dlc_mtx_lock(&t->mtx);
    n = find_locked(t, name);
    if (n != NULL)
        commands = json_deep_copy(json_object_get(n->doc, "commands"));
    dlc_mtx_unlock(&t->mtx);
    return commands;
}

static bool is_present(const struct node_info *n)
{
    return n->state == NODE_LIVE || n->state == NODE_DRAINING;
}

json_t *nodes_present(struct tables *t, const json_t *only)
{
    struct node_info *nodes = NULL;
    size_t n = nodes_list(t, &nodes);
    json_t *out = json_array();

    for (size_t i = 0; i < n; i++)
        if (is_present(&nodes[i]) && (only == NULL || json_has_text(only, nodes[i].name)))
            json_array_append_new(out, json_string(nodes[i].name));
    nodes_release(&nodes, n);
    return out;
}

/* ---- records of datasets ---- */

void nodes_ask_inventory(struct tables *t)
{
    dlc_mtx_lock(&t->mtx);
    t->nodes.ask_until = dlc_mono_add(dlc_mono_now(), ASK_FOR);
    for (size_t i = 0; i < t->nodes.n; i++) {
        struct live_node *n = t->nodes.list[i];

        n->asked = n->state != NODE_GONE;
        json_decref(n->inventory);
        n->inventory = NULL;
    }
    dlc_mtx_unlock(&t->mtx);
}

bool nodes_wants_inventory(struct tables *t, const char *name)
{
    const struct live_node *n;
    bool wants;

    dlc_mtx_lock(&t->mtx);
    n = find_locked(t, name);
    wants = n != NULL && n->asked;
    dlc_mtx_unlock(&t->mtx);
    return wants;
}

bool nodes_told_inventory(struct tables *t, const char *name, const json_t *records,
                          const json_t *deleted)
{
    json_t *copy = json_pack("{s:o, s:o*}", "records", json_deep_copy(records), "deleted",
                             json_deep_copy(deleted));
    struct live_node *n;
    bool known;

    dlc_mtx_lock(&t->mtx);
    n = find_locked(t, name);
    known = n != NULL;
    if (known) {
        json_decref(n->inventory);
        n->inventory = copy;
        copy = NULL;
        n->asked = false;
    }
    dlc_mtx_unlock(&t->mtx);
    json_decref(copy);
    return known;
}

json_t *nodes_inventories(struct tables *t)
{
    json_t *out = json_array();

    dlc_mtx_lock(&t->mtx);
    for (size_t i = 0; i < t->nodes.n; i++) {
        const struct live_node *n = t->nodes.list[i];
        json_t *one = json_pack("{s:s, s:s, s:b}", "node", n->name, "state",
                                node_state_name(live_state(n)), "told", n->inventory != NULL);

        if (n->inventory != NULL) {
            json_t *copy = json_deep_copy(n->inventory);

            json_object_update(one, copy);
            json_decref(copy);
        }
        json_array_append_new(out, one);
    }
    dlc_mtx_unlock(&t->mtx);
    return out;
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

void nodes_write_state(struct tables *t, const char *name, enum node_state s)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    if (document_change(t, STORE_NODE, name, STORE_ANY, put_state, (void *)node_state_name(s), &d,
                        &err) == 0)
        nodes_remember(t, &d, false);
    else
        log_warn("the state of node %s was not written: %s", name, err.text);
    store_doc_release(&d);
    event_log(t->store, "", s == NODE_GONE ? "node.gone" : "node.live",
              json_pack("{s:s}", "name", name));
}

static void forgive_locked(struct tables *t, const struct live_node *first)
{
    dlc_mtx_assert_held(&t->mtx);
    for (size_t i = 0; i < t->nodes.n; i++)
        if (t->nodes.list[i]->state == NODE_LIVE)
            return; /* somebody was heard all the while */
    for (size_t i = 0; i < t->nodes.n && first->gone.ns != 0; i++) {
        struct live_node *n = t->nodes.list[i];
        int64_t apart = dlc_mono_sub(n->gone, first->gone).ns;

        if (n->state != NODE_GONE || n->gone.ns == 0 || apart > t->node_ttl.ns ||
            apart < -t->node_ttl.ns)
            continue;
        n->state = NODE_LIVE;
        n->heard = dlc_mono_now();
        n->forgiven = n != first;
    }
}

/* The next one that was forgiven: the store does not know it yet. */
static bool next_forgiven(struct tables *t, char *name)
{
    bool found = false;

    dlc_mtx_lock(&t->mtx);
    for (size_t i = 0; i < t->nodes.n && !found; i++) {
        struct live_node *n = t->nodes.list[i];

        found = n->forgiven;
        n->forgiven = false;
        if (found)
            memcpy(name, n->name, sizeof(n->name));
    }
    dlc_mtx_unlock(&t->mtx);
    return found;
}

/* The next one that is silent for too long; it is gone from now on. */
static bool next_silent(struct tables *t, struct dlc_mono now, char *name)
{
    bool found = false;

    dlc_mtx_lock(&t->mtx);
    for (size_t i = 0; i < t->nodes.n && !found; i++) {
        struct live_node *n = t->nodes.list[i];

        if (n->state == NODE_GONE || dlc_mono_sub(now, n->heard).ns <= t->node_ttl.ns)
            continue;
        found = true;
        memcpy(name, n->name, sizeof(n->name));
        n->state = NODE_GONE;
        n->gone = now;
        view_changed_locked(t);
    }
    dlc_mtx_unlock(&t->mtx);
    return found;
}

void nodes_tick(struct tables *t, struct dlc_mono now)
{
    char name[NAME_MAX_LEN + 1];

    forget_away(t, now);
    while (leader_holds(t) && next_forgiven(t, name))
        nodes_write_state(t, name, NODE_LIVE);
    while (leader_holds(t) && next_silent(t, now, name)) {
        log_warn("node %s is gone: it has been silent for more than %.1f s", name,
                 dlc_dur_seconds(t->node_ttl));
        nodes_write_state(t, name, NODE_GONE);
    }
}

/* ---- heartbeats ---- */

/* Takes *with: afterwards it is what was there before. */
static void replace(struct shared_json **slot, struct shared_json **with)
{
    struct shared_json *was = *slot;

    if (*with != NULL) {
        *slot = *with;
        *with = was;
    }
}

/* False: nobody knows it, or it was asked to join again. *woke: it was joining or gone until now.
 */
bool nodes_heard(struct tables *t, const char *name, const json_t *figures, const json_t *progress,
                 bool *woke)
{
    struct shared_json *f = shared_json_new(json_deep_copy(figures));
    struct shared_json *p = shared_json_new(json_deep_copy(progress));
    struct live_node *n;
    bool known;

    dlc_mtx_lock(&t->mtx);
    n = find_locked(t, name);
    known = n != NULL && !json_is_true(json_object_get(n->doc, "rejoin"));
    if (n != NULL)
        n->heard = dlc_mono_now();
    if (known) {
        *woke = n->state != NODE_LIVE;
        if (n->state == NODE_GONE)
            forgive_locked(t, n);
        is_back_locked(t, name);
        n->state = NODE_LIVE;
        replace(&n->figures, &f);
        replace(&n->progress, &p);
        if (*woke) {
            view_changed_locked(t);
        }
    }
    dlc_mtx_unlock(&t->mtx);
    shared_json_put(&f);
    shared_json_put(&p);
    return known;
}
