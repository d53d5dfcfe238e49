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

static struct follow_node *node_of(struct follow *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->nodes[i].name, name) == 0)
            return &f->nodes[i];
    return NULL;
}

static void end_node(struct follow_node *n, const char *error)
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

static void forget_nodes(struct follow *f)
{
    for (size_t i = 0; i < f->n; i++) {
        mem_free(&f->nodes[i].name);
        mem_free(&f->nodes[i].error);
    }
    mem_free(&f->nodes);
    f->n = 0;
}

static void take_names(struct follow *f, const json_t *nodes)
{
    forget_nodes(f);
    f->n = json_array_size(nodes);
    f->nodes = mem_zero(DLC_MAX(f->n, 1) * sizeof(*f->nodes));
    for (size_t i = 0; i < f->n; i++) {
        const char *name = json_string_value(json_array_get(nodes, i));

        f->nodes[i].name = mem_str(name != NULL ? name : "");
    }
    f->missed = 0;
}

/* "dataset.listed", "dataset.failed"; "dataset.snapshot": another node lists it from now on. */
static void take_listing(struct follow *f, const char *type, const json_t *event)
{
    if (strcmp(type, "snapshot") == 0)
        take_names(f, json_object_get(event, "nodes"));
    if (strcmp(type, "failed") == 0 && f->error == NULL)
        f->error = mem_str(error_of(event, "it was not said why"));
    f->over = f->over || strcmp(type, "listed") == 0 || strcmp(type, "failed") == 0;
}

/* "dataset.warm.done", "dataset.warm.failed" of a node. */
static void take_event(struct follow *f, const json_t *event)
{
    const char *type = json_text_at(event, "type");
    struct follow_node *n = node_of(f, json_text_at(event, "node"));
    size_t len = strlen(f->op);

    if (strcmp(json_text_at(event, "dataset"), f->dataset) != 0 ||
        strncmp(type, "dataset.", 8) != 0)
        return;
    type += 8;
    if (strcmp(type, "deleted") == 0) {
        f->over = true;
        if (f->error == NULL)
            f->error = mem_str("it was deleted meanwhile");
    } else if (strcmp(f->op, "snapshot") == 0) {
        take_listing(f, type, event);
    } else if (n != NULL && strncmp(type, f->op, len) == 0 && type[len] == '.') {
        end_node(n, strcmp(type + len, ".failed") == 0 ? error_of(event, "it was not said why")
                                                       : NULL);
    }
}

static bool on_line(const char *line, void *arg)
{
    struct follow *f = arg;
    json_t *event = json_loads(line, 0, NULL);

    if (event != NULL) {
        f->after = DLC_MAX(f->after, json_u64_at(event, "seq"));
        take_event(f, event);
    }
    json_decref(event);
    return true;
}

static int look_at_events(struct follow *f, struct dlc_err *err)
{
    char *path = mem_fmt("/v1/events?after=%llu", (unsigned long long)f->after);
    int rc = api_lines(f->api, path, on_line, f, err);

    mem_free(&path);
    return rc;
}

/* ---- how far ---- */

static int look_at_dataset(struct follow *f, char phase[static 32], struct dlc_err *err)
{
    char *path = mem_fmt("/v1/datasets/%s", f->dataset);
    json_t *d = NULL, *p;
    int rc = api_call(f->api, "GET", path, NULL, &d, err);
    size_t i;

    json_array_foreach(json_object_get(d, "preparation"), i, p)
    {
        struct follow_node *n = node_of(f, json_text_at(p, "node"));

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
static void miss_node(struct follow *f, const char *name)
{
    if (++f->missed < MISSED_MOST || f->over)
        return;
    f->over = true;
    mem_free(&f->error);
    f->error =
        mem_fmt("node %s, which was to list it, has left or is not heard of any more, and no "
                "other node is there to do it; start one (`dlcache node`, `dlcache node ls`)"
                " and say `dlcache dataset snapshot %s` again",
                name, f->dataset);
}

static void note_state(struct follow *f, struct follow_node *n, const char *state)
{
    bool left = strcmp(state, "left") == 0;

    if (!left && strcmp(state, "gone") != 0)
        f->missed = 0;
    else if (strcmp(f->op, "snapshot") == 0)
        miss_node(f, n->name);
    else
        end_node(n, left ? "the node has left the cluster" : "the node is not heard of any more");
}

/* Is everybody that we wait for still there? */
static int look_at_nodes(struct follow *f, struct dlc_err *err)
{
    json_t *all = NULL, *v;
    int rc = api_list(f->api, "/v1/nodes", &all, err);
    size_t i;

    for (size_t k = 0; rc == 0 && k < f->n; k++) {
        const char *state = "left";

        json_array_foreach(json_object_get(all, "items"), i, v)
        {
            if (strcmp(json_text_at(v, "name"), f->nodes[k].name) == 0)
                state = json_text_at(v, "state");
        }
        note_state(f, &f->nodes[k], state);
    }
    json_decref(all);
    return rc;
}

static bool is_over(const struct follow *f)
{
    bool all = f->n > 0;

    for (size_t i = 0; i < f->n; i++)
        all = all && f->nodes[i].over;
    return f->over || all;
}

static void paint(const struct follow *f, const char *phase, struct progress *bar)
{
    uint64_t done = 0, total = 0, bytes = 0;

    for (size_t i = 0; i < f->n; i++) {
        done += f->nodes[i].done;
        total += f->nodes[i].total;
        bytes += f->nodes[i].bytes;
    }
    /* Nodes that have not begun do not know their share: that of the whole is known. */
    progress_update(bar, phase, done, DLC_MAX(total, f->total), bytes, 0);
}

int follow_wait(struct follow *f, const json_t *nodes, struct progress *bar, struct dlc_err *err)
{
    char phase[32] = "waiting";
    int rc = 0;

    take_names(f, nodes);
    for (unsigned i = 0; rc == 0; i++) {
        rc = look_at_events(f, err);
        if (rc == 0 && !is_over(f))
            rc = look_at_dataset(f, phase, err);
        if (rc == 0 && !is_over(f) && i % NODES_EVERY == 0)
            rc = look_at_nodes(f, err);
        if (rc < 0 || is_over(f))
            break;
        paint(f, phase, bar);
        dlc_sleep(LOOK_EVERY);
    }
    return rc;
}

int follow_begin(struct follow *f, struct api *api, const char *dataset, const char *op,
                 struct dlc_err *err)
{
    *f = (struct follow){.api = api, .dataset = mem_str(dataset), .op = op};
    return newest_event(api, &f->after, err);
}

int follow_result(const struct follow *f, struct dlc_err *err)
{
    size_t failed = 0;
    const struct follow_node *first = NULL;

    if (f->error != NULL)
        return dlc_err_set(err, DLC_EBUCKET, "%s: %s", f->dataset, f->error);
    for (size_t i = f->n; i-- > 0;)
        if (f->nodes[i].error != NULL) {
            first = &f->nodes[i];
            failed++;
        }
    if (failed == 0)
        return 0;
    return dlc_err_set(err, DLC_EBUCKET, "%zu of %zu nodes failed; %s: %s", failed, f->n,
                       first->name, first->error);
}

void follow_release(struct follow *f)
{
    forget_nodes(f);
    mem_free(&f->dataset);
    mem_free(&f->error);
}
