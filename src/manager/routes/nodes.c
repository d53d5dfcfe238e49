// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/nodes.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "manager/routes/api.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/node_certificate.h"
#include "manager/routes/node_join_token.h"
#include "manager/routes/node_revoke.h"
#include "manager/routes/route_util.h"
#include "manager/routes/tickets.h"
#include "manager/routes/view_reply.h"
#include "manager/store/wall_time.h"
#include "manager/tables/authority.h"
#include "manager/tables/cluster_view.h"
#include "manager/tables/command_results.h"
#include "manager/tables/documents.h"
#include "manager/tables/event_log.h"
#include "manager/tables/node_commands.h"
#include "manager/tables/node_drain.h"
#include "manager/tables/node_table.h"

#define ADDRESS_MAX  255
#define INSTANCE_MAX 64

#define INTERVAL_LEAST 100 /* ms, between two heartbeats */
#define INTERVAL_MOST  2000

/* ---- what is shown ---- */

static json_t *since(struct dlc_dur d)
{
    return json_real((double)(d.ns / 1000000) / 1000.0);
}

static json_t *copy_or_null(const json_t *j)
{
    return j != NULL ? json_deep_copy(j) : json_null();
}

/* What only the leader knows: false when it has nothing to say. */
static bool add_live(struct api *api, json_t *o, const char *name, bool all)
{
    struct node_info n;
    bool known = nodes_get(api->tables, name, &n);

    if (known)
        json_object_set_new(o, "state", json_string(node_state_name(n.state)));
    if (known && all) {
        json_object_set_new(o, "silent_s", since(n.silent));
        json_object_set_new(o, "figures", copy_or_null(n.figures));
        json_object_set_new(o, "progress", copy_or_null(n.progress));
    }
    node_info_release(&n);
    return known;
}

static const char *stored_state(const json_t *body)
{
    const char *s = json_string_value(json_object_get(body, "state"));

    if (s == NULL)
        return "joining";
    return strcmp(s, "live") == 0 && json_is_true(json_object_get(body, "drain")) ? "draining" : s;
}

static json_t *node_doc(struct api *api, const struct store_doc *d, const struct caller *who)
{
    static const char *const fields[] = {"address", "capacity", "memory",
                                         "gpus",    "commands", "drained"};
    static const char *const flags[] = {"drain", "rejoin"};
    json_t *o = json_pack("{s:s}", "name", d->id);
    bool all = who->role != ROLE_TENANT;

    if (!leader_leads(api->tables) || !add_live(api, o, d->id, all))
        json_object_set_new(o, "state", json_string(stored_state(d->body)));
    json_object_set_new(o, "state",
                        json_string(node_drain_state(d->body, json_text_at(o, "state"))));
    for (size_t i = 0; all && i < DLC_COUNT(fields); i++)
        json_object_set(o, fields[i], json_object_get(d->body, fields[i]));
    if (all && json_u64_at(o, "capacity") == 0) /* it goes by its disk and memory: capacity.c */
        json_object_set_new(o, "capacity",
                            json_integer((json_int_t)DLC_MAX(
                                json_u64_at(o, "memory"), json_u64_at(o, "figures.disk_limit"))));
    if (all)
        for (size_t i = 0; i < DLC_COUNT(flags); i++)
            json_object_set_new(o, flags[i],
                                json_boolean(json_is_true(json_object_get(d->body, flags[i]))));
    return o;
}

void route_nodes_list(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);

    reply_page(api, r, caller_of(r), STORE_NODE, NULL, node_doc, reply);
}

void route_nodes_show(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *name = read_name(r, 0, "node", reply);
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    if (name == NULL)
        return;
    rc = store_get(api->tables->store, STORE_NODE, name, &d, &err);
    if (rc == DLC_ENOTFOUND)
        reply_absent(reply, "node", name);
    else if (rc < 0)
        reply_store_error(api, r, reply, &err);
    else
        reply_doc(reply, 200, node_doc(api, &d, caller_of(r)), d.version);
    store_doc_release(&d);
}

/* ---- what a node is answered ---- */

static int64_t interval_ms(struct api *api)
{
    if (view_is_due(api->tables)) /* there will be another view in a moment */
        return INTERVAL_LEAST;
    return DLC_CLAMP(api->tables->node_ttl.ns / 5000000, INTERVAL_LEAST, INTERVAL_MOST);
}

void nodes_reply(struct api *api, const char *name, uint64_t has, json_t *answer, int status,
                 uint64_t version, struct http_reply *reply)
{
    json_t *commands = nodes_commands(api->tables, name);
    struct view *view = view_get(api->tables, has); /* after the commands: (VIEW-5) */

    json_object_set_new(answer, "commands", commands != NULL ? commands : json_array());
    json_object_set_new(answer, "interval_ms", json_integer(interval_ms(api)));
    json_object_set_new(answer, "tickets", ticket_keys_json(api));
    if (nodes_wants_inventory(api->tables, name))
        json_object_set_new(answer, "inventory", json_true());
    reply_doc(reply, status, answer, version);
    if (view != NULL && view_names(view, name)) /* (VIEW-6) */
        view_add_to_reply(view, reply);
    view_put(&view);
}

/* ---- join and leave ---- */

/*
 * A name belongs to one process at a time, the `instance` that joined with it, until that leaves or
 * is gone. Another one is refused, unless it is evidently the same node started again: its
 * directory, which one process at a time can show, on the same host.
 */
struct join_request {
    const char *address, *instance, *directory; /* "": not said */
    uint64_t capacity, memory, gpus;
    bool missed;      /* nobody hears who has the name, which the store may not know yet */
    bool taken;       /* out */
    char holder[256]; /* out: the address of who has the name */
};

static bool check_address(const char *s, struct http_reply *reply)
{
    bool good = s[0] == '\0' || str_starts(s, "http://") || str_starts(s, "https://");

    if (good && (strstr(s, "://0.0.0.0") != NULL || strstr(s, "://[::]") != NULL)) {
        refuse_field(reply, "", "address",
                     "is every address of a host: nobody else reaches the node there; start it "
                     "with --advertise http://HOST:PORT");
        return false;
    }
    if (good && strpbrk(s, "@?# \"\\") == NULL)
        return true;
    refuse_field(reply, "", "address", "must be http://HOST:PORT or https://HOST:PORT, or \"\"");
    return false;
}

/* "http://10.0.0.1" of "http://10.0.0.1:7071" */
static size_t host_len(const char *address)
{
    const char *port = strrchr(address, ':');

    return port != NULL && port[1] != '/' ? (size_t)(port - address) : strlen(address);
}

static bool same_home(const json_t *body, const struct join_request *j)
{
    const char *address = json_text_at(body, "address");
    size_t len = host_len(address);

    return j->directory[0] != '\0' && strcmp(json_text_at(body, "directory"), j->directory) == 0 &&
           len == host_len(j->address) && strncmp(address, j->address, len) == 0;
}

static bool is_taken(const json_t *body, const struct join_request *j)
{
    const char *holder = json_text_at(body, "instance");

    return holder[0] != '\0' && strcmp(holder, j->instance) != 0 && !j->missed &&
           strcmp(json_text_at(body, "state"), "gone") != 0 && !same_home(body, j);
}

static bool same_figures(const json_t *body, const struct join_request *j)
{
    return strcmp(json_text_at(body, "address"), j->address) == 0 &&
           strcmp(json_text_at(body, "instance"), j->instance) == 0 &&
           strcmp(json_text_at(body, "directory"), j->directory) == 0 &&
           (uint64_t)json_integer_value(json_object_get(body, "capacity")) == j->capacity &&
           (uint64_t)json_integer_value(json_object_get(body, "memory")) == j->memory &&
           (uint64_t)json_integer_value(json_object_get(body, "gpus")) == j->gpus;
}

/* A node that comes again as it was, and was not missed, stays what it is: nothing is to be moved.
 * Nor is it when it was asked to come. */
static int rejoin(struct store_doc *d, void *arg, struct dlc_err *err)
{
    struct join_request *j = arg;
    bool stays = strcmp(json_text_at(d->body, "state"), "live") == 0;
    bool asked = json_is_true(json_object_get(d->body, "rejoin"));

    j->taken = is_taken(d->body, j);
    if (j->taken) {
        snprintf(j->holder, sizeof(j->holder), "%s", json_text_at(d->body, "address"));
        return dlc_err_set(err, DLC_EBUSY, "another process is node %s", d->id);
    }
    if (stays && !asked && same_figures(d->body, j))
        return 1;
    json_object_del(d->body, "rejoin");
    json_object_set_new(d->body, "instance", json_string(j->instance));
    json_object_set_new(d->body, "directory", json_string(j->directory));
    json_object_set_new(d->body, "address", json_string(j->address));
    json_object_set_new(d->body, "capacity", json_integer((json_int_t)j->capacity));
    json_object_set_new(d->body, "memory", json_integer((json_int_t)j->memory));
    json_object_set_new(d->body, "gpus", json_integer((json_int_t)j->gpus));
    if (!stays)
        json_object_set_new(d->body, "state", json_string("joining"));
    return 0;
}

static int join_new(struct api *api, const char *name, const struct join_request *j,
                    struct store_doc *out, struct dlc_err *err)
{
    struct store_doc d = {mem_str(name), mem_str(""), NULL, 0};
    int rc;

    d.body = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:b, s:I, s:[]}", "address", j->address,
                       "instance", j->instance, "directory", j->directory, "capacity",
                       (json_int_t)j->capacity, "memory", (json_int_t)j->memory, "gpus",
                       (json_int_t)j->gpus, "state", "joining", "drain", 0, "joined_ms",
                       (json_int_t)wall_ms(), "commands");
    rc = store_put(api->tables->store, STORE_NODE, &d, STORE_NEW, err);
    if (rc == 0)
        *out = d;
    else
        store_doc_release(&d);
    return rc;
}

static bool is_missed(struct api *api, const char *name)
{
    struct node_info n;
    bool is = nodes_get(api->tables, name, &n) && n.state == NODE_GONE;

    node_info_release(&n);
    return is;
}

/* *is_new: there was none of this name. */
static int join(struct api *api, const char *name, uint64_t expect, struct join_request *j,
                struct store_doc *out, bool *is_new, struct dlc_err *err)
{
    int rc = document_change(api->tables, STORE_NODE, name, expect, rejoin, j, out, err);

    *is_new = rc == DLC_ENOTFOUND && expect == STORE_ANY;
    if (*is_new)
        rc = join_new(api, name, j, out, err);
    if (rc == 0) /* it tells again what it has */
        rc = store_chunks_drop(api->tables->store, NULL, name, err);
    return rc;
}

void nodes_refuse_name(struct api *api, const char *name, const char *holder,
                       struct http_reply *reply)
{
    char at[ADDRESS_MAX + 8] = "";
    struct node_info n;

    nodes_get(api->tables, name, &n);
    if (holder[0] != '\0')
        snprintf(at, sizeof(at), ", at %s,", holder);
    http_problem(reply, 409, "Name taken",
                 "another process%s is node %s, heard of %.1f s ago: start this one with another "
                 "--name, or end that one. If it is dead its name is free when it was silent for "
                 "%.0f s, or at once after `dlcache node leave %s`",
                 at, name, dlc_dur_seconds(n.silent), dlc_dur_seconds(api->tables->node_ttl), name);
    node_info_release(&n);
}

void route_nodes_join(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *name = read_name(r, 0, "node", reply);
    struct join_request j = {.instance = "", .directory = ""};
    const char *request = NULL;
    const struct field fields[] = {
        {"address", FIELD_TEXT0, true, ADDRESS_MAX, &j.address},
        {"instance", FIELD_TEXT, false, INSTANCE_MAX, &j.instance},
        {"directory", FIELD_TEXT0, false, INSTANCE_MAX, &j.directory},
        {"capacity", FIELD_U64, true, 0, &j.capacity},
        {"memory", FIELD_U64, false, 0, &j.memory},
        {"gpus", FIELD_U64, false, 1024, &j.gpus},
        {"certificate_request", FIELD_TEXT, false, AUTHORITY_REQUEST_MAX, &request},
        {NULL},
    };
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t expect;
    bool is_new = false;
    json_t *doc;

    if (name == NULL || !read_node_body(r, fields, reply) || !check_address(j.address, reply) ||
        !read_if_match(r, &expect, reply))
        return;
    if (!node_revoke_allows_join(api, r, name, reply) ||
        !node_join_token_use(api, r, j.instance, reply))
        return;
    j.missed = is_missed(api, name);
    if (join(api, name, expect, &j, &d, &is_new, &err) < 0) {
        if (j.taken)
            nodes_refuse_name(api, name, j.holder, reply);
        else
            reply_store_error(api, r, reply, &err);
    } else {
        nodes_remember(api->tables, &d, true);
        log_info("node %s joins: %s", name, j.address);
        if (is_new)
            event_log(api->tables->store, "", "node.joined", json_pack("{s:s}", "name", name));
        doc = node_doc(api, &d, caller_of(r));
        json_object_set_new(doc, "known", json_boolean(!is_new));
        if ((request == NULL || node_certificate_add(api, name, request, doc, reply)) &&
            node_join_token_answer(api, r, name, doc, reply))
            nodes_reply(api, name, 0, doc, is_new ? 201 : 200, d.version, reply);
        else
            json_decref(doc);
    }
    store_doc_release(&d);
}

static int put_gone(struct store_doc *d, void *arg, struct dlc_err *err)
{
    (void)arg;
    (void)err;
    json_object_set_new(d->body, "state", json_string("gone"));
    return 0;
}

static bool is_draining(struct api *api, const char *name)
{
    struct store_doc d = STORE_DOC_INIT;
    bool is = store_get(api->tables->store, STORE_NODE, name, &d, NULL) == 0 &&
              json_is_true(json_object_get(d.body, "drain"));

    store_doc_release(&d);
    return is;
}

/* One that goes by itself, to be started again perhaps, keeps what it was told: to drain. */
static int let_go(struct api *api, const char *name, bool by_itself, uint64_t expect,
                  struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc;

    if (!by_itself || !is_draining(api, name)) {
        rc = store_delete(api->tables->store, STORE_NODE, name, expect, err);
        if (rc == 0 || rc == DLC_ENOTFOUND)
            (by_itself ? nodes_goodbye : nodes_forget)(api->tables, name);
        return rc;
    }
    rc = document_change(api->tables, STORE_NODE, name, expect, put_gone, NULL, &d, err);
    if (rc == 0)
        nodes_remember(api->tables, &d, false);
    store_doc_release(&d);
    return rc;
}

/* It leaves, for good or by itself. 0 also when it is not known. */
static int remove_node(struct api *api, const char *name, bool by_itself, uint64_t expect,
                       struct dlc_err *err)
{
    json_t *listings = commands_listings(api->tables, name);
    int rc = let_go(api, name, by_itself, expect, err);

    if (rc == 0 || rc == DLC_ENOTFOUND) {
        commands_hand_over(api->tables, name, listings);
        if (store_chunks_drop(api->tables->store, NULL, name, err) < 0)
            log_warn("chunks of node %s, which left, stay in the store: %s", name, err->text);
        if (rc == 0)
            event_log(api->tables->store, "", "node.left", json_pack("{s:s}", "name", name));
        rc = 0;
    }
    json_decref(listings);
    return rc;
}

int nodes_remove(struct api *api, const char *name, uint64_t expect, struct dlc_err *err)
{
    return remove_node(api, name, false, expect, err);
}

void route_nodes_leave(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *name = read_name(r, 0, "node", reply), *instance = http_query(r, "instance");
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t expect;

    if (name == NULL || !read_if_match(r, &expect, reply))
        return;
    if (instance != NULL && !nodes_is_holder(api->tables, name, instance)) {
        nodes_refuse_name(api, name, "", reply); /* not ours to take out */
        return;
    }
    if (remove_node(api, name, instance != NULL, expect, &err) == 0)
        reply->status = 204;
    else
        reply_store_error(api, r, reply, &err);
}

/* ---- what admins tell it ---- */

/* Change its document; d: as it is now. False: the reply says why not. */
static bool change_node(struct api *api, struct http_request *r, const char *name, change_f *f,
                        void *arg, struct store_doc *d, struct http_reply *reply)
{
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t expect;
    int rc;

    if (!read_if_match(r, &expect, reply))
        return false;
    rc = document_change(api->tables, STORE_NODE, name, expect, f, arg, d, &err);
    if (rc == DLC_ENOTFOUND) {
        reply_absent(reply, "node", name);
    } else if (rc < 0) {
        reply_store_error(api, r, reply, &err);
    } else {
        nodes_remember(api->tables, d, false);
        reply_doc(reply, 200, node_doc(api, d, caller_of(r)), d->version);
    }
    return rc == 0;
}

void route_nodes_drain(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *name = read_name(r, 0, "node", reply);
    bool drain = true;
    const struct field fields[] = {{"drain", FIELD_BOOL, true, 0, &drain}, {NULL}};
    struct store_doc d = STORE_DOC_INIT;

    if (name == NULL || !read_body(r, fields, reply))
        return;
    if (change_node(api, r, name, node_drain_set, &drain, &d, reply))
        event_log(api->tables->store, "", "node.drain",
                  json_pack("{s:s, s:b}", "name", name, "drain", drain));
    store_doc_release(&d);
}

static int set_rejoin(struct store_doc *d, void *arg, struct dlc_err *err)
{
    (void)arg;
    (void)err;
    if (json_is_true(json_object_get(d->body, "rejoin")))
        return 1;
    json_object_set_new(d->body, "rejoin", json_true());
    return 0;
}

/* Its next heartbeat is not known (heartbeat.api), so it joins and tells all that it has. It stays
 * in the view, and owns what it owned. */
void route_nodes_rejoin(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    const char *name = read_name(r, 0, "node", reply);
    const struct field none[] = {{NULL}};
    struct store_doc d = STORE_DOC_INIT;

    if (name != NULL && read_body(r, none, reply))
        change_node(api, r, name, set_rejoin, NULL, &d, reply);
    store_doc_release(&d);
}
