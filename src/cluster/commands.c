// SPDX-License-Identifier: Apache-2.0
/*
 * Commands of the manager to a node: warm, evict, snapshot (docs/design/0006). The manager repeats
 * a command with every heartbeat until it has been told that it is done, so a command is known by
 * its id and started once; after a restart it is started again, and finds most of its work done.
 *
 * Commands for one dataset run one after the other, in the order received; an eviction cuts earlier
 * warm-ups short. For every command the manager is asked again who owns the dataset: a name may
 * have been freed and taken by another tenant since (CLUSTER-2). A command applies only to the
 * dataset of the tenant that it names.
 */
#include "cluster/commands.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cluster/access.h"
#include "cluster/disk_inventory.h"
#include "cluster/member.h"
#include "daemon/dataset.h"
#include "daemon/dataset_open.h"
#include "daemon/dataset_chunks.h"
#include "daemon/decoded_cache.h"
#include "daemon/fetch/fetch.h"
#include "daemon/job_weights.h"
#include "daemon/prefetch/warm.h"
#include "daemon/state.h"
#include "base/thread_pool.h"
#include "catalog/catalog.h"
#include "cluster/peer/view.h"
#include "daemon/work.h"
#include "ipc/frame.h"

#define ORDERS_MAX 1024
#define DONE_BYTES (128u << 10) /* told in one heartbeat */
#define TRIES_MAX  30           /* to ask whose its dataset is */

struct node_command {
    struct dlc_list link; /* in member.commands */
    struct node *node;
    char *id;
    json_t *order;
    struct dataset_waiter needer;
    struct dataset *ds; /* with a reference, while it is under way */
    struct work work;
    struct task task;
    uint64_t memory_bytes, disk_bytes;
    struct evict_place at; /* how far it is evicted from memory */
    bool evicted;          /* wholly: its pages are given back */
    bool begun, done;
    unsigned tries;
    json_t *result; /* or NULL */
    char *error;    /* NULL: it went well */
};

static const char *text(const struct node_command *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o->order, name));

    return s != NULL ? s : "";
}

static void order_free(struct node_command *o)
{
    dlc_list_remove(&o->link);
    json_decref(o->order);
    json_decref(o->result);
    mem_free(&o->id);
    mem_free(&o->error);
    mem_free(&o);
}

/* A manager takes one line of text; what a bucket or a key says may be anything. Gives. */
static char *printable(const char *text)
{
    struct buf b = BUF_INIT;
    char *out;

    str_printable(text, strlen(text), &b);
    out = mem_str(buf_str(&b));
    buf_release(&b);
    return out;
}

static void run_waiting(struct node *n);

/* Takes result. */
static void order_end(struct node_command *o, json_t *result, const char *error)
{
    if (o->ds != NULL) { /* as a session's end: what was fetched is not idle at once */
        o->ds->last_used = dlc_mono_now();
        dataset_put(&o->ds);
    }
    o->done = true;
    o->result = result;
    if (error != NULL)
        o->error = printable(error);
    if (error != NULL)
        log_warn("order %s (%s of %s): %s", o->id, text(o, "op"), text(o, "dataset"), o->error);
    else
        log_info("order %s (%s of %s) is done", o->id, text(o, "op"), text(o, "dataset"));
    run_waiting(o->node);
}

/* ---- warm ---- */

static void warmed(struct warm *w, void *arg)
{
    struct node_command *o = arg;

    order_end(o,
              json_pack("{s:I, s:I, s:I}", "samples", (json_int_t)w->done, "bytes",
                        (json_int_t)w->bytes, "failed", (json_int_t)w->failed),
              w->failed > 0 && w->done == 0 ? w->first_error.text : NULL);
}

static void begin_warm(struct node_command *o)
{
    const char *split = text(o, "split");
    bool disk = strcmp(text(o, "tier"), "disk") == 0 && o->node->disk != NULL;
    uint64_t first = 0, count = catalog_count(o->ds->catalog);
    const struct catalog_split *s = split[0] != '\0' ? catalog_split(o->ds->catalog, split) : NULL;

    if (split[0] != '\0' && s == NULL) {
        order_end(o, NULL, "the dataset has no split of that name");
        return;
    }
    if (s != NULL) {
        first = s->first;
        count = s->count;
    }
    if (!warm_start_order(o->ds, disk ? FETCH_DISK : FETCH_MEMORY, first, count, warmed, o))
        order_end(o, NULL, "too many warm-ups are under way at this node");
}

/* ---- evict ---- */

static void evict_work(struct work *w)
{
    struct node_command *o = dlc_container(w, struct node_command, work);

    o->disk_bytes = o->ds != NULL ? dataset_drop_chunks(o->ds)
                                  : inventory_drop(o->node, text(o, "dataset"), text(o, "tenant"),
                                                   text(o, "url"));
    loop_post(o->node->loop, &o->task);
}

static void evicted(struct task *t)
{
    struct node_command *o = dlc_container(t, struct node_command, task);

    o->node->pending--;
    order_end(o,
              json_pack("{s:I, s:I}", "memory_bytes", (json_int_t)o->memory_bytes, "disk_bytes",
                        (json_int_t)o->disk_bytes),
              NULL);
}

static void evict_disk(struct node_command *o)
{
    o->work.run = evict_work;
    o->task.run = evicted;
    if (o->node->disk != NULL && strcmp(text(o, "tier"), "memory") != 0)
        work_run(o->node->work, WORK_BACKGROUND, &o->work);
    else
        evicted(&o->task);
}

/* A slice in each turn of the loop; then the pages are given back. */
static void evict_step(struct task *t)
{
    struct node_command *o = dlc_container(t, struct node_command, task);

    if (!o->evicted && !dataset_evict_some(o->ds, &o->at, &o->memory_bytes)) {
        o->evicted = true;
        memory_give_back(dataset_memory(o->ds));
    }
    if (!o->evicted || memory_free_some(dataset_memory(o->ds)))
        loop_post(o->node->loop, t);
    else
        evict_disk(o);
}

/* Of a dataset that is open, or of what is left of one (o->ds is NULL). The manager need not know
 * it any more. */
static void begin_evict(struct node_command *o)
{
    o->node->pending++;
    o->task.run = evict_step;
    if (o->ds != NULL && strcmp(text(o, "tier"), "disk") != 0)
        evict_step(&o->task);
    else
        evict_disk(o);
}

/* ---- snapshot ---- */

/* {"samples", "bytes"} of a split; NULL: a sample of it cannot be read, or the node ends. Gives. */
static json_t *split_figures(const struct node *n, const struct catalog *c,
                             const struct catalog_split *s)
{
    uint64_t bytes = 0;
    struct catalog_entry e;

    if (s->first == 0 && s->count == catalog_visible(c)) {
        bytes = catalog_bytes(c);
    } else {
        for (uint64_t i = s->first; i < s->first + s->count; i++) {
            if (node_is_ending(n) || catalog_get(c, i, &e, NULL) < 0)
                return NULL;
            bytes += e.size;
        }
    }
    return json_pack("{s:I, s:I}", "samples", (json_int_t)s->count, "bytes", (json_int_t)bytes);
}

/* On a worker: adding up the bytes of millions of samples takes a while. */
static void snapshot_work(struct work *w)
{
    struct node_command *o = dlc_container(w, struct node_command, work);
    const struct catalog *c = o->ds->catalog;
    json_t *splits = json_object();
    char snapshot[17];
    bool well = true;

    for (unsigned i = 0; i < catalog_splits(c) && well; i++) {
        const struct catalog_split *s = catalog_split_at(c, i);
        json_t *figures = s->hidden ? NULL : split_figures(o->node, c, s);

        well = s->hidden || figures != NULL;
        if (figures != NULL) /* fails for a name that JSON cannot say: that split is left out */
            json_object_set_new(splits, s->name, figures);
    }
    snprintf(snapshot, sizeof(snapshot), "%016llx", (unsigned long long)catalog_snapshot(c));
    if (well)
        o->result =
            json_pack("{s:s, s:I, s:I, s:I, s:O}", "snapshot", snapshot, "samples",
                      (json_int_t)catalog_visible(c), "objects", (json_int_t)catalog_objects(c),
                      "bytes", (json_int_t)catalog_bytes(c), "splits", splits);
    json_decref(splits);
    loop_post(o->node->loop, &o->task);
}

static void snapshot_made(struct task *t)
{
    struct node_command *o = dlc_container(t, struct node_command, task);
    json_t *result = o->result;

    o->result = NULL;
    o->node->pending--;
    order_end(o, result, result == NULL ? "the new catalog cannot be read: list it again" : NULL);
}

static void end_snapshot(struct node_command *o)
{
    o->work.run = snapshot_work;
    o->task.run = snapshot_made;
    o->node->pending++;
    work_run(o->node->work, WORK_BACKGROUND, &o->work);
}

/* ---- all ---- */

static void on_dataset(struct dataset_waiter *d, struct dataset *ds, const struct dlc_err *err)
{
    struct node_command *o = dlc_container(d, struct node_command, needer);

    if (ds == NULL) {
        order_end(o, NULL, err->text);
        return;
    }
    o->ds = ds;
    ds->refs++;
    if (strcmp(text(o, "op"), "warm") == 0)
        begin_warm(o);
    else
        end_snapshot(o);
}

static void on_granted(struct node *n, const struct grant *g, const struct dlc_err *err, void *arg)
{
    struct node_command *o = arg;
    bool refresh = strcmp(text(o, "op"), "snapshot") == 0;

    if (g == NULL && (err->code == DLC_EBUCKET || err->code == DLC_ETIMEDOUT) &&
        ++o->tries < TRIES_MAX && !n->stopping)
        o->begun = false; /* again when the manager is heard */
    else if (g == NULL || n->stopping)
        order_end(o, NULL, g == NULL ? err->text : "the node is ending");
    else if (strcmp(g->tenant, text(o, "tenant")) != 0)
        order_end(o, NULL, "a dataset of another tenant has that name by now");
    else
        dataset_need(n,
                     &(struct open_request){.url = g->url,
                                            .endpoint = g->endpoint,
                                            .anonymous = g->anonymous,
                                            .refresh = refresh,
                                            .grant = g},
                     &o->needer);
}

static bool is_known_op(const char *op)
{
    return strcmp(op, "warm") == 0 || strcmp(op, "evict") == 0 || strcmp(op, "snapshot") == 0;
}

static void order_run(struct node_command *o)
{
    struct node *n = o->node;
    char *url;

    o->begun = true;
    if (!is_known_op(text(o, "op"))) {
        order_end(o, NULL, "this node does not know such an order: is it of an older version?");
        return;
    }
    if (strcmp(text(o, "op"), "evict") == 0) {
        o->ds = inventory_still_open(n, text(o, "dataset"), text(o, "tenant"), text(o, "url"));
        if (o->ds != NULL)
            o->ds->refs++;
        begin_evict(o);
        return;
    }
    url = mem_fmt("dlcache://%s", text(o, "dataset"));
    resolve(n, NULL, url, NULL, DLC_MS(0), on_granted, o);
    mem_free(&url);
}

/* Is one for the same dataset, given before it, still to be done? */
static bool must_wait(const struct node_command *o)
{
    dlc_list_each (l, &o->node->member->commands) {
        const struct node_command *p = dlc_container(l, struct node_command, link);

        if (p == o)
            break;
        if (!p->done && strcmp(text(p, "dataset"), text(o, "dataset")) == 0)
            return true;
    }
    return false;
}

static void run_waiting(struct node *n)
{
    dlc_list_each (l, &n->member->commands) {
        struct node_command *o = dlc_container(l, struct node_command, link);

        if (!o->begun && !must_wait(o) && !n->stopping)
            order_run(o);
    }
}

static void order_begin(struct node *n, const char *id, const json_t *order)
{
    struct node_command *o = mem_new(struct node_command);

    o->node = n;
    o->id = mem_str(id);
    o->order = json_deep_copy(order);
    o->needer.ready = on_dataset;
    dlc_list_push_tail(&n->member->commands, &o->link);
    if (strcmp(text(o, "op"), "evict") == 0)
        warm_cut(n, text(o, "dataset"), text(o, "tenant"));
    run_waiting(n);
}

static struct node_command *order_find(struct node *n, const char *id)
{
    dlc_list_each (l, &n->member->commands) {
        struct node_command *o = dlc_container(l, struct node_command, link);

        if (strcmp(o->id, id) == 0)
            return o;
    }
    return NULL;
}

void commands_take(struct node *n, const json_t *orders)
{
    unsigned known = 0;
    const json_t *order;
    size_t i;

    dlc_list_each (l, &n->member->commands)
        known++;
    json_array_foreach(orders, i, order)
    {
        const json_t *id = json_object_get(order, "id");
        char number[32];
        const char *name = json_string_value(id);

        if (json_is_integer(id)) {
            snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(id));
            name = number;
        }
        if (name == NULL || known >= ORDERS_MAX || order_find(n, name) != NULL || n->stopping)
            continue;
        known++;
        order_begin(n, name, order);
    }
    if (orders != NULL)
        run_waiting(n);
}

json_t *commands_done(struct node *n)
{
    json_t *all = json_array();
    size_t bytes = 0;

    dlc_list_each (l, &n->member->commands) {
        const struct node_command *o = dlc_container(l, struct node_command, link);
        json_t *one;

        if (!o->done)
            continue;
        one = json_pack("{s:O}", "id", json_object_get(o->order, "id"));
        if (o->result != NULL)
            json_object_set(one, "result", o->result);
        if (o->error != NULL)
            json_object_set_new(one, "error", msg_string(o->error));
        bytes += json_dumpb(one, NULL, 0, JSON_COMPACT);
        json_array_append_new(all, one);
        if (bytes > DONE_BYTES)
            break; /* the others next time */
    }
    return all;
}

void commands_heard(struct node *n, const json_t *done)
{
    const json_t *one;
    size_t i;

    json_array_foreach(done, i, one)
    {
        dlc_list_each_safe (l, &n->member->commands) {
            struct node_command *o = dlc_container(l, struct node_command, link);

            if (o->done && json_equal(json_object_get(o->order, "id"), json_object_get(one, "id")))
                order_free(o);
        }
    }
}

void commands_free(struct node *n)
{
    while (!dlc_list_empty(&n->member->commands)) {
        struct node_command *o = dlc_container(n->member->commands.next, struct node_command, link);

        if (o->ds != NULL)
            dataset_put(&o->ds);
        order_free(o);
    }
}
