// SPDX-License-Identifier: Apache-2.0
#include "cli/wait_nodes.h"

#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/daemon_client.h"

#define LOOK_EVERY  DLC_MS(200)
#define NODES_EVERY 5 /* looks at the dataset for each look at the nodes */
#define MISSED_MOST 4 /* looks at the nodes: time for the manager to find another one */

/* ---- events ---- */

static bool note_one(const char *line, void *arg)
{
    bool *any = arg;

    *any = line[0] != '\0';
    return false;
}

static int is_event_after(struct api *api, uint64_t seq, bool *any, struct dlc_err *err)
{
    char *path = mem_fmt("/v1/events?limit=1&after=%llu", (unsigned long long)seq);
    int rc;

    *any = false;
    rc = api_lines(api, path, note_one, any, err);
    mem_free(&path);
    return rc;
}

/* The number of the newest event, without reading them all: doubled until there is none after it,
 * then halved. */
static int newest_event(struct api *api, uint64_t *out, struct dlc_err *err)
{
    uint64_t low = 0, high = 1; /* one after low (or low is 0); none after high, at last */
    bool any = true;
    int rc = is_event_after(api, 0, &any, err);

    if (rc < 0 || !any) {
        *out = 0;
        return rc;
    }
    while (rc == 0 && (rc = is_event_after(api, high, &any, err)) == 0 && any) {
        low = high;
        high *= 2;
    }
    while (rc == 0 && high - low > 1) {
        uint64_t mid = low + (high - low) / 2;

        rc = is_event_after(api, mid, &any, err);
        if (any)
            low = mid;
        else
            high = mid;
    }
    *out = high;
    return rc;
}

static struct node_progress *node_of(struct wait_nodes *w, const char *name)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->nodes[i].name, name) == 0)
            return &w->nodes[i];
    return NULL;
}

static void end_node(struct node_progress *n, const char *error)
{
    if (n->over)
        return;
    n->over = true;
    n->done = DLC_MAX(n->done, n->total);
    n->error = mem_str(error);
}

static const char *error_of(const json_t *event, const char *otherwise)
{
    const char *s = json_text_at(event, "error");

    return s[0] != '\0' ? s : otherwise;
}

static void forget_nodes(struct wait_nodes *w)
{
    for (size_t i = 0; i < w->n; i++) {
        mem_free(&w->nodes[i].name);
        mem_free(&w->nodes[i].error);
    }
    mem_free(&w->nodes);
    w->n = 0;
}

static void take_names(struct wait_nodes *w, const json_t *nodes)
{
    forget_nodes(w);
    w->n = json_array_size(nodes);
    w->nodes = mem_zero(DLC_MAX(w->n, 1) * sizeof(*w->nodes));
    for (size_t i = 0; i < w->n; i++) {
        const char *name = json_string_value(json_array_get(nodes, i));

        w->nodes[i].name = mem_str(name != NULL ? name : "");
    }
    w->missed = 0;
}

/* "dataset.listed", "dataset.failed"; "dataset.snapshot": another node lists it from now on. */
static void take_listing(struct wait_nodes *w, const char *type, const json_t *event)
{
    if (strcmp(type, "snapshot") == 0)
        take_names(w, json_object_get(event, "nodes"));
    if (strcmp(type, "failed") == 0 && w->error == NULL)
        w->error = mem_str(error_of(event, "it was not said why"));
    w->over = w->over || strcmp(type, "listed") == 0 || strcmp(type, "failed") == 0;
}

/* "dataset.warm.done", "dataset.warm.failed" of a node. */
static void take_event(struct wait_nodes *w, const json_t *event)
{
    const char *type = json_text_at(event, "type");
    struct node_progress *n = node_of(w, json_text_at(event, "node"));
    size_t len = strlen(w->op);

    if (strcmp(json_text_at(event, "dataset"), w->dataset) != 0 ||
        strncmp(type, "dataset.", 8) != 0)
        return;
    type += 8;
    if (strcmp(type, "deleted") == 0) {
        w->over = true;
        if (w->error == NULL)
            w->error = mem_str("it was deleted meanwhile");
    } else if (strcmp(w->op, "snapshot") == 0) {
        take_listing(w, type, event);
    } else if (n != NULL && strncmp(type, w->op, len) == 0 && type[len] == '.') {
        end_node(n, strcmp(type + len, ".failed") == 0 ? error_of(event, "it was not said why")
                                                       : NULL);
    }
}

static bool on_line(const char *line, void *arg)
{
    struct wait_nodes *w = arg;
    json_t *event = json_loads(line, 0, NULL);

    if (event != NULL) {
        w->after = DLC_MAX(w->after, json_u64_at(event, "seq"));
        take_event(w, event);
    }
    json_decref(event);
    return true;
}

static int read_events(struct wait_nodes *w, struct dlc_err *err)
{
    char *path = mem_fmt("/v1/events?after=%llu", (unsigned long long)w->after);
    int rc = api_lines(w->api, path, on_line, w, err);

    mem_free(&path);
    return rc;
}

/* ---- how far ---- */

static int read_dataset(struct wait_nodes *w, char phase[static 32], struct dlc_err *err)
{
    char *path = mem_fmt("/v1/datasets/%s", w->dataset);
    json_t *d = NULL, *p;
    int rc = api_call(w->api, "GET", path, NULL, &d, err);
    size_t i;

    json_array_foreach(json_object_get(d, "preparation"), i, p)
    {
        struct node_progress *n = node_of(w, json_text_at(p, "node"));

        if (n == NULL || n->over)
            continue;
        n->done = json_u64_at(p, "done");
        n->total = json_u64_at(p, "total");
        n->bytes = json_u64_at(p, "bytes");
        snprintf(phase, 32, "%s", json_text_at(p, "phase"));
    }
    json_decref(d);
    mem_free(&path);
    return rc;
}

/* A listing: the manager gives it to another node, if there is one. */
static void miss_node(struct wait_nodes *w, const char *name)
{
    if (++w->missed < MISSED_MOST || w->over)
        return;
    w->over = true;
    mem_free(&w->error);
    w->error =
        mem_fmt("node %s, which was to list it, has left or is not heard of any more, and no "
                "other node is there to do it; start one (`dlcache node`, `dlcache node ls`)"
                " and say `dlcache dataset snapshot %s` again",
                name, w->dataset);
}

static void note_state(struct wait_nodes *w, struct node_progress *n, const char *state)
{
    bool left = strcmp(state, "left") == 0;

    if (!left && strcmp(state, "gone") != 0)
        w->missed = 0;
    else if (strcmp(w->op, "snapshot") == 0)
        miss_node(w, n->name);
    else
        end_node(n, left ? "the node has left the cluster" : "the node is not heard of any more");
}

/* Is everybody that we wait for still there? */
static int look_at_nodes(struct wait_nodes *w, struct dlc_err *err)
{
    json_t *all = NULL, *v;
    int rc = api_list(w->api, "/v1/nodes", &all, err);
    size_t i;

    for (size_t k = 0; rc == 0 && k < w->n; k++) {
        const char *state = "left";

        json_array_foreach(json_object_get(all, "items"), i, v)
        {
            if (strcmp(json_text_at(v, "name"), w->nodes[k].name) == 0)
                state = json_text_at(v, "state");
        }
        note_state(w, &w->nodes[k], state);
    }
    json_decref(all);
    return rc;
}

static bool is_over(const struct wait_nodes *w)
{
    bool all = w->n > 0;

    for (size_t i = 0; i < w->n; i++)
        all = all && w->nodes[i].over;
    return w->over || all;
}

static void paint(const struct wait_nodes *w, const char *phase, struct progress *bar)
{
    uint64_t done = 0, total = 0, bytes = 0;

    for (size_t i = 0; i < w->n; i++) {
        done += w->nodes[i].done;
        total += w->nodes[i].total;
        bytes += w->nodes[i].bytes;
    }
    /* Nodes that have not begun do not know their share: that of the whole is known. */
    progress_update(bar, phase, done, DLC_MAX(total, w->total), bytes, 0);
}

int wait_nodes_run(struct wait_nodes *w, const json_t *nodes, struct progress *bar,
                   struct dlc_err *err)
{
    char phase[32] = "waiting";
    int rc = 0;

    take_names(w, nodes);
    for (unsigned i = 0; rc == 0; i++) {
        rc = read_events(w, err);
        if (rc == 0 && !is_over(w))
            rc = read_dataset(w, phase, err);
        if (rc == 0 && !is_over(w) && i % NODES_EVERY == 0)
            rc = look_at_nodes(w, err);
        if (rc < 0 || is_over(w))
            break;
        paint(w, phase, bar);
        dlc_sleep(LOOK_EVERY);
    }
    return rc;
}

int wait_nodes_begin(struct wait_nodes *w, struct api *api, const char *dataset, const char *op,
                     struct dlc_err *err)
{
    *w = (struct wait_nodes){.api = api, .dataset = mem_str(dataset), .op = op};
    return newest_event(api, &w->after, err);
}

void wait_nodes_set_dataset(struct wait_nodes *w, const char *name)
{
    if (name[0] == '\0')
        return;
    mem_free(&w->dataset);
    w->dataset = mem_str(name);
}

int wait_nodes_result(const struct wait_nodes *w, struct dlc_err *err)
{
    size_t failed = 0;
    const struct node_progress *first = NULL;

    if (w->error != NULL)
        return dlc_err_set(err, DLC_EBUCKET, "%s: %s", w->dataset, w->error);
    for (size_t i = w->n; i-- > 0;)
        if (w->nodes[i].error != NULL) {
            first = &w->nodes[i];
            failed++;
        }
    if (failed == 0)
        return 0;
    return dlc_err_set(err, DLC_EBUCKET, "%zu of %zu nodes failed; %s: %s", failed, w->n,
                       first->name, first->error);
}

void wait_nodes_release(struct wait_nodes *w)
{
    forget_nodes(w);
    mem_free(&w->dataset);
    mem_free(&w->error);
}
