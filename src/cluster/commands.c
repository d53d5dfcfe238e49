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
#include "cluster/dataset_records.h"
#include "cluster/disk_inventory.h"
#include "cluster/evictions.h"
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

#define COMMANDS_MAX 1024
#define DONE_BYTES   (128u << 10) /* told in one heartbeat */
#define TRIES_MAX    30           /* to ask whose its dataset is */

struct node_command {
    struct dlc_list link; /* in member.commands */
    struct node *node;
    char *id;
    json_t *message;
    struct dataset_waiter waiter;
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

static const char *text(const struct node_command *c, const char *name)
{
    const char *s = json_string_value(json_object_get(c->message, name));

    return s != NULL ? s : "";
}

static void command_free(struct node_command *c)
{
    dlc_list_remove(&c->link);
    json_decref(c->message);
    json_decref(c->result);
    mem_free(&c->id);
    mem_free(&c->error);
    mem_free(&c);
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

static bool evicts_all_tiers(const struct node_command *c)
{
    return strcmp(text(c, "op"), "evict") == 0 && strcmp(text(c, "tier"), "memory") != 0;
}

static bool is_about(const struct node_command *c, const struct dataset *ds)
{
    return strcmp(ds->cid, text(c, "dataset")) == 0 && strcmp(ds->tenant, text(c, "tenant")) == 0;
}

/* From the time at which this node hears of an eviction until it is done, copies of the dataset are
 * not handed over. */
static void set_evicting(const struct node_command *c, bool evicting)
{
    const struct dlc_list *same = datasets_of_cid(c->node, text(c, "dataset"));

    dlc_list_each (l, same) {
        struct dataset *ds = dlc_container(l, struct dataset, same_cid);

        if (evicting && is_about(c, ds))
            ds->ownership.evicting++;
        else if (ds->ownership.evicting > 0 && is_about(c, ds))
            ds->ownership.evicting--;
    }
}

static void run_waiting(struct node *n);

/* Takes result. */
static void command_end(struct node_command *c, json_t *result, const char *error)
{
    if (c->ds != NULL) { /* as a session's end: what was fetched is not idle at once */
        c->ds->last_used = dlc_mono_now();
        dataset_put(&c->ds);
    }
    c->done = true;
    if (evicts_all_tiers(c))
        set_evicting(c, false);
    c->result = result;
    if (error != NULL)
        c->error = printable(error);
    if (error != NULL)
        log_warn("command %s (%s of %s): %s", c->id, text(c, "op"), text(c, "dataset"), c->error);
    else
        log_info("command %s (%s of %s) is done", c->id, text(c, "op"), text(c, "dataset"));
    run_waiting(c->node);
}

/* ---- warm ---- */

static void warmed(struct warm *w, void *arg)
{
    struct node_command *c = arg;
    struct dlc_err err = DLC_ERR_INIT;
    int rc = warm_shortfall(w, &err);

    command_end(c,
                json_pack("{s:I, s:I, s:I, s:I}", "samples", (json_int_t)w->done, "bytes",
                          (json_int_t)w->bytes, "failed", (json_int_t)w->failed, "left",
                          (json_int_t)w->left),
                rc < 0 ? err.text : NULL);
}

static void begin_warm(struct node_command *c)
{
    const char *split = text(c, "split");
    bool disk = strcmp(text(c, "tier"), "disk") == 0 && c->node->disk != NULL;
    uint64_t first = 0, count = catalog_count(c->ds->catalog);
    const struct catalog_split *s = split[0] != '\0' ? catalog_split(c->ds->catalog, split) : NULL;

    if (split[0] != '\0' && s == NULL) {
        command_end(c, NULL, "the dataset has no split of that name");
        return;
    }
    if (s != NULL) {
        first = s->first;
        count = s->count;
    }
    if (!warm_start_command(c->ds, disk ? FETCH_DISK : FETCH_MEMORY, first, count, warmed, c))
        command_end(c, NULL, "too many warm-ups are under way at this node");
}

/* ---- evict ---- */

static void evict_work(struct work *w)
{
    struct node_command *c = dlc_container(w, struct node_command, work);

    bool deleted = json_is_true(json_object_get(c->message, "deleted"));

    c->disk_bytes = c->ds != NULL ? inventory_drop_open(c->ds, deleted)
                                  : inventory_drop(c->node, text(c, "dataset"), text(c, "tenant"),
                                                   text(c, "url"), deleted);
    if (deleted)
        dataset_record_delete(c->node, text(c, "dataset"), text(c, "tenant"));
    loop_post(c->node->loop, &c->task);
}

static void evicted(struct task *t)
{
    struct node_command *c = dlc_container(t, struct node_command, task);

    c->node->pending--;
    command_end(c,
                json_pack("{s:I, s:I}", "memory_bytes", (json_int_t)c->memory_bytes, "disk_bytes",
                          (json_int_t)c->disk_bytes),
                NULL);
}

static void evict_disk(struct node_command *c)
{
    c->work.run = evict_work;
    c->task.run = evicted;
    if (c->node->disk != NULL && strcmp(text(c, "tier"), "memory") != 0)
        work_run(c->node->work, WORK_BACKGROUND, &c->work);
    else
        evicted(&c->task);
}

/* A slice in each turn of the loop; then the pages are given back. */
static void evict_step(struct task *t)
{
    struct node_command *c = dlc_container(t, struct node_command, task);

    if (!c->evicted && !dataset_evict_some(c->ds, &c->at, &c->memory_bytes)) {
        c->evicted = true;
        memory_give_back(dataset_memory(c->ds));
    }
    if (!c->evicted || memory_free_some(dataset_memory(c->ds)))
        loop_post(c->node->loop, t);
    else
        evict_disk(c);
}

/* Of a dataset that is open, or of what is left of one (c->ds is NULL). The manager need not know
 * it any more. */
static void begin_evict(struct node_command *c)
{
    c->node->pending++;
    c->task.run = evict_step;
    if (c->ds != NULL && strcmp(text(c, "tier"), "disk") != 0)
        evict_step(&c->task);
    else
        evict_disk(c);
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
    struct node_command *c = dlc_container(w, struct node_command, work);
    const struct catalog *catalog = c->ds->catalog;
    json_t *splits = json_object();
    char snapshot[17];
    bool well = true;

    for (unsigned i = 0; i < catalog_splits(catalog) && well; i++) {
        const struct catalog_split *s = catalog_split_at(catalog, i);
        json_t *figures = s->hidden ? NULL : split_figures(c->node, catalog, s);

        well = s->hidden || figures != NULL;
        if (figures != NULL) /* fails for a name that JSON cannot say: that split is left out */
            json_object_set_new(splits, s->name, figures);
    }
    snprintf(snapshot, sizeof(snapshot), "%016llx", (unsigned long long)catalog_snapshot(catalog));
    if (well)
        c->result = json_pack("{s:s, s:I, s:I, s:I, s:O}", "snapshot", snapshot, "samples",
                              (json_int_t)catalog_visible(catalog), "objects",
                              (json_int_t)catalog_objects(catalog), "bytes",
                              (json_int_t)catalog_bytes(catalog), "splits", splits);
    json_decref(splits);
    loop_post(c->node->loop, &c->task);
}

static void snapshot_made(struct task *t)
{
    struct node_command *c = dlc_container(t, struct node_command, task);
    json_t *result = c->result;

    c->result = NULL;
    c->node->pending--;
    command_end(c, result, result == NULL ? "the new catalog cannot be read: list it again" : NULL);
}

static void end_snapshot(struct node_command *c)
{
    c->work.run = snapshot_work;
    c->task.run = snapshot_made;
    c->node->pending++;
    work_run(c->node->work, WORK_BACKGROUND, &c->work);
}

/* ---- all ---- */

static void on_dataset(struct dataset_waiter *d, struct dataset *ds, const struct dlc_err *err)
{
    struct node_command *c = dlc_container(d, struct node_command, waiter);

    if (ds == NULL) {
        command_end(c, NULL, err->text);
        return;
    }
    c->ds = ds;
    dataset_ref(ds);
    ds->deleted = false; /* or it was made again */
    if (strcmp(text(c, "op"), "warm") == 0)
        begin_warm(c);
    else
        end_snapshot(c);
}

static void on_granted(struct node *n, const struct grant *g, const struct dlc_err *err, void *arg)
{
    struct node_command *c = arg;
    bool refresh = strcmp(text(c, "op"), "snapshot") == 0;

    if (g == NULL && (err->code == DLC_EBUCKET || err->code == DLC_ETIMEDOUT) &&
        ++c->tries < TRIES_MAX && !n->stopping)
        c->begun = false; /* again when the manager is heard */
    else if (g == NULL || n->stopping)
        command_end(c, NULL, g == NULL ? err->text : "the node is ending");
    else if (strcmp(g->tenant, text(c, "tenant")) != 0 ||
             strcmp(g->dataset, text(c, "dataset")) != 0)
        command_end(c, NULL, "a dataset of another tenant has that name by now");
    else
        dataset_need(n,
                     &(struct open_request){.url = g->url,
                                            .endpoint = g->endpoint,
                                            .anonymous = g->anonymous,
                                            .refresh = refresh,
                                            .grant = g},
                     &c->waiter);
}

static bool is_known_op(const char *op)
{
    return strcmp(op, "warm") == 0 || strcmp(op, "evict") == 0 || strcmp(op, "snapshot") == 0;
}

static void command_run(struct node_command *c)
{
    struct node *n = c->node;
    char *url;

    c->begun = true;
    if (!is_known_op(text(c, "op"))) {
        command_end(c, NULL, "this node does not know this command: is it of an older version?");
        return;
    }
    if (strcmp(text(c, "op"), "evict") == 0) {
        c->ds = inventory_still_open(n, text(c, "dataset"), text(c, "tenant"), text(c, "url"));
        if (c->ds != NULL)
            dataset_ref(c->ds);
        if (c->ds != NULL && json_is_true(json_object_get(c->message, "deleted")))
            c->ds->deleted = true; /* there is no next run to stay for: report.c */
        begin_evict(c);
        return;
    }
    url = mem_fmt("dlcache://%s", text(c, "dataset"));
    resolve(n, NULL, url, NULL, DLC_MS(0), on_granted, c);
    mem_free(&url);
}

/* Copies that are being taken from another node would come after the eviction. */
static bool takes_copies(const struct node_command *c)
{
    const struct dlc_list *same = datasets_of_cid(c->node, text(c, "dataset"));

    dlc_list_each (l, same) {
        const struct dataset *ds = dlc_container(l, struct dataset, same_cid);

        if (ds->ownership.taking > 0 && is_about(c, ds))
            return true;
    }
    return false;
}

/* Is one for the same dataset, given before it, still to be done? */
static bool must_wait(const struct node_command *c)
{
    if (evicts_all_tiers(c) && takes_copies(c))
        return true;
    dlc_list_each (l, &c->node->member->commands) {
        const struct node_command *p = dlc_container(l, struct node_command, link);

        if (p == c)
            break;
        if (!p->done && strcmp(text(p, "dataset"), text(c, "dataset")) == 0)
            return true;
    }
    return false;
}

static void run_waiting(struct node *n)
{
    dlc_list_each (l, &n->member->commands) {
        struct node_command *c = dlc_container(l, struct node_command, link);

        if (!c->begun && !must_wait(c) && !n->stopping)
            command_run(c);
    }
}

void commands_go_on(struct node *n)
{
    if (!dlc_list_empty(&n->member->commands))
        run_waiting(n);
}

static void command_begin(struct node *n, const char *id, const json_t *message)
{
    struct node_command *c = mem_new(struct node_command);

    c->node = n;
    c->id = mem_str(id);
    c->message = json_deep_copy(message);
    c->waiter.ready = on_dataset;
    dlc_list_push_tail(&n->member->commands, &c->link);
    if (strcmp(text(c, "op"), "evict") == 0)
        warm_cut(n, text(c, "dataset"), text(c, "tenant"));
    if (evicts_all_tiers(c)) {
        evictions_heard(n, text(c, "dataset"), text(c, "tenant"), text(c, "mark"));
        set_evicting(c, true);
    }
    run_waiting(n);
}

static struct node_command *command_find(struct node *n, const char *id)
{
    dlc_list_each (l, &n->member->commands) {
        struct node_command *c = dlc_container(l, struct node_command, link);

        if (strcmp(c->id, id) == 0)
            return c;
    }
    return NULL;
}

void commands_take(struct node *n, const json_t *messages)
{
    unsigned known = 0;
    const json_t *message;
    size_t i;

    dlc_list_each (l, &n->member->commands)
        known++;
    json_array_foreach(messages, i, message)
    {
        const json_t *id = json_object_get(message, "id");
        char number[32];
        const char *name = json_string_value(id);

        if (json_is_integer(id)) {
            snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(id));
            name = number;
        }
        if (name == NULL || known >= COMMANDS_MAX || command_find(n, name) != NULL || n->stopping)
            continue;
        known++;
        command_begin(n, name, message);
    }
    if (messages != NULL)
        run_waiting(n);
}

json_t *commands_done(struct node *n)
{
    json_t *all = json_array();
    size_t bytes = 0;

    dlc_list_each (l, &n->member->commands) {
        const struct node_command *c = dlc_container(l, struct node_command, link);
        json_t *one;

        if (!c->done)
            continue;
        one = json_pack("{s:O}", "id", json_object_get(c->message, "id"));
        if (c->result != NULL)
            json_object_set(one, "result", c->result);
        if (c->error != NULL)
            json_object_set_new(one, "error", msg_string(c->error));
        bytes += json_dumpb(one, NULL, 0, JSON_COMPACT);
        json_array_append_new(all, one);
        if (bytes > DONE_BYTES)
            break; /* the others next time */
    }
    return all;
}

void commands_confirmed(struct node *n, const json_t *done)
{
    const json_t *one;
    size_t i;

    json_array_foreach(done, i, one)
    {
        dlc_list_each_safe (l, &n->member->commands) {
            struct node_command *c = dlc_container(l, struct node_command, link);

            if (c->done &&
                json_equal(json_object_get(c->message, "id"), json_object_get(one, "id")))
                command_free(c);
        }
    }
}

void commands_free(struct node *n)
{
    while (!dlc_list_empty(&n->member->commands)) {
        struct node_command *c = dlc_container(n->member->commands.next, struct node_command, link);

        if (c->ds != NULL)
            dataset_put(&c->ds);
        command_free(c);
    }
}
