// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/capacity.h"

#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "manager/tables/dataset_doc.h"

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* What a node can hold (as it said, else on disk, or in memory where that is more), what it has of a
 * dataset and in all, as its last heartbeat said. */
static uint64_t node_bytes_of(const struct node_info *n, const char *dataset)
{
    return json_u64_at(json_object_get(json_object_get(n->figures, "datasets"), dataset), "bytes");
}

static uint64_t node_space(const struct node_info *n)
{
    return n->capacity > 0 ? n->capacity
                           : DLC_MAX(n->memory, json_u64_at(n->figures, "disk_limit"));
}

static uint64_t node_used(const struct node_info *n)
{
    bool on_disk = n->capacity > 0 || json_u64_at(n->figures, "disk_limit") > n->memory;

    return json_u64_at(n->figures, on_disk ? "disk_used" : "memory_used");
}

/* only NULL: all. */
static bool usable(const struct node_info *n, const json_t *only)
{
    return n->state == NODE_LIVE && (only == NULL || json_has_text(only, n->name));
}

static bool is_busy(const struct job *jobs, size_t n, const char *dataset)
{
    for (size_t i = 0; i < n; i++)
        if (jobs[i].state == JOB_RUNNING && strcmp(jobs[i].dataset, dataset) == 0)
            return true;
    return false;
}

/* Bytes on a node that nobody reads, apart from those of `dataset` itself. */
static uint64_t evictable_on(const struct node_info *n, const struct job *jobs, size_t n_jobs,
                             const char *dataset)
{
    uint64_t kept = node_bytes_of(n, dataset);
    const char *name;
    json_t *v;

    json_object_foreach(json_object_get(n->figures, "datasets"), name, v)
    {
        if (strcmp(name, dataset) != 0 && is_busy(jobs, n_jobs, name))
            kept = plus(kept, json_u64_at(v, "bytes"));
    }
    return minus(node_used(n), kept);
}

/* ---- what was promised ---- */

/* Does a job with this place in the queue go before j? */
static bool before(const struct job *a, const struct job *j)
{
    if (a->qos.priority != j->qos.priority)
        return a->qos.priority > j->qos.priority;
    if (a->created_ms != j->created_ms)
        return a->created_ms < j->created_ms;
    return strcmp(a->id, j->id) < 0;
}

static uint64_t bytes_of(const struct job *j)
{
    uint64_t bytes = 0;

    if (j->snapshot != NULL)
        snapshot_bytes(j->snapshot, j->splits, &bytes);
    return bytes;
}

static uint64_t space(const struct node_info *nodes, size_t n, const json_t *only)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        if (usable(&nodes[i], only))
            sum = plus(sum, node_space(&nodes[i]));
    return sum;
}

static const json_t *may_use(const struct job *j)
{
    return j->nodes != NULL ? j->nodes : j->lies_on;
}

/* A part is so much on each node that the job reads on: as many as it asked for, or one. */
static struct qos qos_of(const struct job *j)
{
    uint64_t part = job_part(j);
    size_t nodes = j->node_count > 0 ? j->node_count : json_array_size(j->nodes);
    struct qos q = j->qos;

    nodes = DLC_MAX(nodes, 1u);
    if (part > 0)
        q.memory_limit = part > UINT64_MAX / nodes ? UINT64_MAX : part * nodes;
    return q;
}

/* Promised room: running, or waiting before j with a chance to run some day. */
static bool counts(const struct job *a, const struct job *j, const struct node_info *nodes,
                   size_t n)
{
    const struct qos q = qos_of(a);
    struct admission alone;

    if (strcmp(a->id, j->id) == 0 || !a->qos.use_cache)
        return false;
    if (a->state != JOB_QUEUED)
        return a->state == JOB_RUNNING;
    if (!before(a, j))
        return false;
    admit(&alone, &q, bytes_of(a), 0, space(nodes, n, may_use(a)), 0, 0);
    return alone.admitted;
}

/* The splits that lazy jobs of a dataset read, together: *all when one reads everything. */
static void add_splits(json_t *to, const json_t *splits, bool *all)
{
    *all = *all || json_array_size(splits) == 0;
    for (size_t i = 0; i < json_array_size(splits); i++)
        if (!json_has_text(to, json_string_value(json_array_get(splits, i))))
            json_array_append(to, json_array_get(splits, i));
}

static uint64_t cached_of(const struct node_info *nodes, size_t n, const char *dataset)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        if (nodes[i].state == NODE_LIVE)
            sum = plus(sum, node_bytes_of(&nodes[i], dataset));
    return sum;
}

/* Bytes of splits, which are everything when *all, that are not there yet. */
static uint64_t missing(const json_t *snapshot, json_t *splits, bool all, uint64_t cached)
{
    uint64_t bytes = 0;

    if (all)
        json_array_clear(splits);
    if (snapshot != NULL && (all || json_array_size(splits) > 0))
        snapshot_bytes(snapshot, splits, &bytes);
    return minus(bytes, cached);
}

/* What must come for j that does not come anyway for jobs that run on the same dataset. */
static uint64_t comes_for(const struct job *j, const struct job *jobs, size_t n_jobs,
                          uint64_t cached)
{
    json_t *splits = json_array();
    bool all = false;
    uint64_t without, with;

    for (size_t i = 0; i < n_jobs; i++)
        if (jobs[i].state == JOB_RUNNING && job_keeps(&jobs[i]) && strcmp(jobs[i].id, j->id) != 0 &&
            strcmp(jobs[i].dataset, j->dataset) == 0)
            add_splits(splits, jobs[i].splits, &all);
    without = missing(j->snapshot, splits, all, cached);
    add_splits(splits, j->splits, &all);
    with = missing(j->snapshot, splits, all, cached);
    json_decref(splits);
    return minus(with, without);
}

/* What must still come for the jobs of one dataset that are `in`, j's own part left out. */
static uint64_t promised_to(const struct job *first, const struct job *jobs, size_t n_jobs,
                            const bool *in, const struct job *j, const struct node_info *nodes,
                            size_t n)
{
    bool own = strcmp(first->dataset, j->dataset) == 0 && job_keeps(j);
    uint64_t cached = cached_of(nodes, n, first->dataset), parts = 0, bytes;
    bool all = false, lazy = own;
    json_t *splits = json_array();

    for (size_t i = 0; i < n_jobs; i++) {
        const struct job *a = &jobs[i];
        struct admission alone;

        if (!in[i] || strcmp(a->dataset, first->dataset) != 0)
            continue;
        if (a->qos.mode == QOS_LAZY) {
            lazy = true;
            add_splits(splits, a->splits, &all);
        } else {
            const struct qos q = qos_of(a);

            admit(&alone, &q, bytes_of(a), cached, 0, 0, 0);
            parts = plus(parts, alone.need);
        }
    }
    if (own)
        add_splits(splits, j->splits, &all);
    bytes = missing(first->snapshot, splits, all, cached);
    json_decref(splits);
    if (!lazy)
        return parts;
    /* a lazy job's bytes hold the partitions of the others */
    return own ? minus(bytes, comes_for(j, jobs, n_jobs, cached)) : bytes;
}

/* The part of a dataset's bytes that will lie on the nodes of j. */
static double overlap(const struct job *a, const struct job *j, const struct node_info *nodes,
                      size_t n)
{
    double all = 0, both = 0;

    for (size_t i = 0; i < n; i++) {
        if (!usable(&nodes[i], may_use(a)))
            continue;
        all += (double)node_space(&nodes[i]);
        if (usable(&nodes[i], may_use(j)))
            both += (double)node_space(&nodes[i]);
    }
    return all > 0 ? both / all : 0;
}

static uint64_t promised(const struct job *jobs, size_t n_jobs, const struct job *j,
                         const struct node_info *nodes, size_t n)
{
    bool *in = mem_zero((n_jobs + 1) * sizeof(*in));
    uint64_t sum = 0;

    for (size_t i = 0; i < n_jobs; i++)
        in[i] = counts(&jobs[i], j, nodes, n);
    for (size_t i = 0; i < n_jobs; i++) {
        const struct job *a = &jobs[i];
        bool seen = false;

        if (!in[i])
            continue;
        for (size_t k = 0; k < i && !seen; k++)
            seen = in[k] && strcmp(jobs[k].dataset, a->dataset) == 0;
        if (!seen)
            sum = plus(sum, (uint64_t)((double)promised_to(a, jobs, n_jobs, in, j, nodes, n) *
                                       overlap(a, j, nodes, n)));
    }
    mem_free(&in);
    return sum;
}

void capacity_admit(const struct node_info *nodes, size_t n, const struct job *jobs, size_t n_jobs,
                    const struct job *j, struct admission *out, bool *known)
{
    const struct qos q = qos_of(j);
    uint64_t available = 0, evictable = 0;

    for (size_t i = 0; i < n; i++) {
        if (!usable(&nodes[i], may_use(j)))
            continue;
        available = plus(available, minus(node_space(&nodes[i]), node_used(&nodes[i])));
        evictable = plus(evictable, evictable_on(&nodes[i], jobs, n_jobs, j->dataset));
    }
    admit(out, &q, comes_for(j, jobs, n_jobs, cached_of(nodes, n, j->dataset)), 0, available,
          evictable, promised(jobs, n_jobs, j, nodes, n));
    *known = j->snapshot != NULL || !j->qos.use_cache;
}

/* ---- where ---- */

/* Does the job run on this node: does it read there, or was it registered for it alone? */
static bool runs_on(const struct job *j, const struct node_info *n)
{
    const json_t *reads = json_object_get(json_object_get(n->figures, "jobs"), j->id);
    size_t wanted = DLC_MAX(j->node_count, 1u);

    return j->state == JOB_RUNNING &&
           (json_u64_at(reads, "readers") > 0 ||
            (json_array_size(j->nodes) == wanted && json_has_text(j->nodes, n->name)));
}

/* As the node says, and not more than running jobs leave: their processes may be about to start. */
static unsigned gpus_free(const struct node_info *n, const struct job *jobs, size_t n_jobs,
                          const char *except)
{
    const json_t *says = json_object_get(n->figures, "gpus_free");
    uint64_t taken = 0, left;

    for (size_t i = 0; i < n_jobs; i++)
        if ((except == NULL || strcmp(jobs[i].id, except) != 0) && runs_on(&jobs[i], n))
            taken += jobs[i].gpus;
    left = minus(n->gpus, taken);
    return (unsigned)(json_is_integer(says) ? DLC_MIN(left, json_u64_at(n->figures, "gpus_free"))
                                            : left);
}

static void describe(const struct node_info *from, const struct job *jobs, size_t n_jobs,
                     const char *dataset, const json_t *only, const char *job,
                     struct place_node *to)
{
    uint64_t open = minus(node_space(from), node_used(from));

    *to = (struct place_node){.usable = usable(from, only),
                              .gpus_free = gpus_free(from, jobs, n_jobs, job),
                              .cached = node_bytes_of(from, dataset),
                              .free = plus(open, evictable_on(from, jobs, n_jobs, dataset))};
}

json_t *capacity_place(const struct node_info *nodes, size_t n, const struct job *jobs,
                       size_t n_jobs, const char *dataset, const json_t *only,
                       const struct place_ask *ask)
{
    struct place_node *p = mem_zero((n + 1) * sizeof(*p));
    size_t *order = mem_zero((n + 1) * sizeof(*order)), k;
    json_t *out = NULL;

    for (size_t i = 0; i < n; i++)
        describe(&nodes[i], jobs, n_jobs, dataset, only, ask->job, &p[i]);
    k = place(p, n, ask, order);
    if (k > 0)
        out = json_array();
    for (size_t i = 0; i < k; i++)
        json_array_append_new(out, json_pack("{s:s, s:f}", "node", nodes[order[i]].name, "weight",
                                             p[order[i]].weight));
    mem_free(&p);
    mem_free(&order);
    return out;
}

uint64_t capacity_space(const struct node_info *n)
{
    return node_space(n);
}

uint64_t capacity_room(const struct node_info *n, const struct job *jobs, size_t n_jobs,
                       const char *dataset)
{
    struct place_node p;

    describe(n, jobs, n_jobs, dataset, NULL, NULL, &p);
    return plus(p.cached, p.free);
}
