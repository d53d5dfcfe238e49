// SPDX-License-Identifier: Apache-2.0
/*
 * The command `stat` of docs/format/protocol.md: the daemon's figures. Datasets come in pages, so
 * that one answer takes a bounded time to make and to send. Who is not the administrator sees its
 * own datasets, and no figure that others have a part in.
 */
#include "daemon/stat.h"

#include <stdio.h>
#include <unistd.h>

#include "base/counters.h"
#include "cluster/peer/redis_tier.h"
#include "daemon/client_conn.h"
#include "daemon/client_rights.h"
#include "daemon/cluster_ops.h"
#include "daemon/dataset.h"
#include "daemon/decoded_cache.h"
#include "daemon/job_weights.h"
#include "daemon/prefetch/prefetch.h"
#include "daemon/prefetch/read_outcomes.h"
#include "daemon/session.h"
#include "daemon/state.h"
#include "base/config.h"
#include "cache/disk/disk.h"
#include "cache/policy/lifecycle.h"
#include "catalog/catalog.h"
#include "daemon/work.h"
#include "sandbox/sandbox.h"

#define PAGE  16u  /* datasets in one answer */
#define LOOKS 512u /* datasets that are looked at for it */

static const char *const stall_names[N_STALLED] = {
    [STALLED_LATENCY] = "stall_latency_ns", [STALLED_BANDWIDTH] = "stall_bandwidth_ns",
    [STALLED_DISK] = "stall_disk_ns",       [STALLED_MEMORY] = "stall_memory_ns",
    [STALLED_CLIENT] = "stall_client_ns",
};

static json_t *bucket_json(struct bucket *b)
{
    struct bucket_figures f;

    bucket_figures(b, &f);
    return json_pack("{s:i, s:i, s:i, s:f, s:f, s:f}", "in_flight", (int)f.in_flight, "queued",
                     (int)f.queued, "limit", (int)f.limit, "p50_ms", (double)f.p50.ns / 1e6,
                     "p99_ms", (double)f.p99.ns / 1e6, "bytes_per_s", f.bytes_per_s);
}

/* As the daemon's counters of these names, but of one dataset. */
static json_t *dataset_counters(const struct dataset *ds)
{
    const struct bucket_tally *t = ds->tally;
    json_t *o = json_object();

    json_object_set_new(o, "bucket_requests", json_integer((json_int_t)t->requests));
    json_object_set_new(o, "bucket_gets", json_integer((json_int_t)t->gets));
    json_object_set_new(o, "bucket_lists", json_integer((json_int_t)t->lists));
    json_object_set_new(o, "bucket_bytes", json_integer((json_int_t)t->bytes));
    json_object_set_new(o, "money_nano", json_integer((json_int_t)t->money_nano));
    json_object_set_new(o, "peer_hits", json_integer((json_int_t)ds->peer.hits));
    json_object_set_new(o, "peer_misses", json_integer((json_int_t)ds->peer.misses));
    json_object_set_new(o, "peer_bytes", json_integer((json_int_t)ds->peer.bytes));
    json_object_set_new(o, "peer_served", json_integer((json_int_t)ds->peer.served));
    json_object_set_new(o, "peer_served_bytes", json_integer((json_int_t)ds->peer.served_bytes));
    for (unsigned i = 0; i < N_STALLED; i++)
        json_object_set_new(o, stall_names[i], json_integer((json_int_t)ds->readers.stall_ns[i]));
    return o;
}

/* What clients hold whose connection the daemon ended. */
static uint64_t zombie_pins(const struct dataset *ds)
{
    struct mem_session_stats sum = {0};

    dlc_list_each (l, &ds->node->zombies) {
        const struct session *s = dlc_container(l, struct conn, link)->session;

        if (s->ds == ds && s->decoded == NULL)
            session_add_stats(s, &sum);
    }
    return sum.pins;
}

/* {"ACTIVE": 12, ...}: only states that chunks are in. */
static json_t *chunk_states(const struct disk_group_figures *g)
{
    json_t *o = json_object();

    for (int i = 0; i < LIFE_STATES; i++)
        if (g->by_state[i] > 0)
            json_object_set_new(o, life_name((enum life_state)i),
                                json_integer((json_int_t)g->by_state[i]));
    return o;
}

static json_t *dataset_json(struct dataset *ds)
{
    struct mem_session_stats sum = ds->readers.ended;
    struct disk_group_figures g;
    uint64_t ahead = 0, window = 0, asked = 0, decoded, decoded_bytes;
    char snapshot[17];
    int sessions = 0;
    json_t *o;

    dlc_list_each (l, &ds->sessions) {
        const struct session *session = dlc_container(l, struct session, link);

        session_add_stats(session, &sum);
        sessions++;
        if (!session->reader.active)
            continue;
        ahead += session->reader.ahead - session->reader.pos;
        window = DLC_MAX(window, session->reader.window);
        asked = DLC_MAX(asked, session->reader.asked);
    }
    sum.pins += zombie_pins(ds);
    o = json_pack("{s:I, s:o, s:I, s:I, s:I, s:I, s:i, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:I}",
                  "id", (json_int_t)ds->id, "url", msg_string(ds->url.shown), "samples",
                  (json_int_t)catalog_count(ds->catalog), "bytes",
                  (json_int_t)catalog_bytes(ds->catalog), "resident",
                  (json_int_t)mem_index_resident(ds->index), "resident_bytes",
                  (json_int_t)mem_index_bytes(ds->index), "sessions", sessions, "hits",
                  (json_int_t)sum.hits, "misses", (json_int_t)sum.misses, "bypasses",
                  (json_int_t)sum.bypasses, "read_bytes", (json_int_t)sum.bytes, "stall_s",
                  (double)sum.stall_ns / 1e9, "fetching", (json_int_t)ds->fetching.n, "backlog",
                  (json_int_t)ds->backlog.len, "pins", (json_int_t)sum.pins);
    json_object_set_new(o, "ahead", json_integer((json_int_t)ahead));
    json_object_set_new(o, "window", json_integer((json_int_t)window));
    json_object_set_new(o, "window_asked", json_integer((json_int_t)asked));
    snprintf(snapshot, sizeof(snapshot), "%016llx",
             (unsigned long long)catalog_snapshot(ds->catalog));
    json_object_set_new(o, "snapshot", json_string(snapshot));
    json_object_set_new(o, "reading", json_integer(ds->prefetch.n_reading));
    decoded_caches_figures(ds, &decoded, &decoded_bytes);
    json_object_set_new(o, "decoded", json_integer((json_int_t)decoded));
    json_object_set_new(o, "decoded_bytes", json_integer((json_int_t)decoded_bytes));
    json_object_set_new(o, "reads", outcomes_json(&ds->outcomes.reads));
    json_object_set_new(o, "fetched", json_integer((json_int_t)ds->outcomes.fetched));
    json_object_set_new(o, "weights", job_weights_all_json(ds));
    if (ds->runs != POLICY_UNKNOWN)
        json_object_set_new(o, "runs", json_integer(ds->runs));
    if (ds->cid != NULL) {
        json_object_set_new(o, "name", msg_string(ds->name));
        json_object_set_new(o, "tenant", msg_string(ds->tenant));
    }
    json_object_set_new(o, "bucket", bucket_json(ds->bucket));
    json_object_set_new(o, "counters", dataset_counters(ds));
    if (ds->node->disk != NULL) {
        disk_group_figures(ds->node->disk, ds->disk.group, &g);
        json_object_set_new(o, "state", json_string(life_name(g.state)));
        json_object_set_new(o, "jobs", json_integer(g.jobs));
        json_object_set_new(o, "chunk_states", chunk_states(&g));
        json_object_set_new(o, "disk_chunks", json_integer((json_int_t)g.chunks));
        json_object_set_new(o, "disk_bytes", json_integer((json_int_t)g.bytes));
    }
    return o;
}

static json_t *disk_json(struct node *n)
{
    struct disk_figures f;

    if (n->disk == NULL)
        return json_pack("{s:b}", "enabled", 0);
    disk_figures(n->disk, &f);
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:s, s:s}", "enabled", 1, "chunks",
                     (json_int_t)f.chunks, "bytes", (json_int_t)f.bytes, "limit",
                     (json_int_t)f.limit, "keep_free", (json_int_t)f.keep_free, "free",
                     (json_int_t)f.fs_free, "read_only", f.read_only, "scanning", f.scanning,
                     "breaker", f.breaker, "breaker_why", f.breaker_why);
}

static json_t *memory_json(struct node *n)
{
    struct memory_figures f;

    tenant_memories_figures(&n->memories, &f);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "max", (json_int_t)f.max, "ceiling",
                     (json_int_t)f.ceiling, "used", (json_int_t)f.used, "retired",
                     (json_int_t)f.retired, "residents", (json_int_t)f.residents, "decoded",
                     (json_int_t)f.decoded, "decoded_bytes", (json_int_t)f.decoded_bytes);
}

static json_t *shared_json(struct shared *s)
{
    struct shared_figures f;

    shared_figures(s, &f);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:b, s:o, s:o}", "hits",
                     (json_int_t)f.hits, "misses", (json_int_t)f.misses, "bytes_read",
                     (json_int_t)f.bytes_read, "puts", (json_int_t)f.puts, "bytes_put",
                     (json_int_t)f.bytes_put, "dropped", (json_int_t)f.dropped, "failures",
                     (json_int_t)f.failures, "damaged", (json_int_t)f.damaged, "p50_ms", f.p50_ms,
                     "p99_ms", f.p99_ms, "skipping", f.skipping, "why", msg_string(f.why), "evicts",
                     msg_string(f.evicts));
}

static json_t *loop_json(const struct loop *l)
{
    struct loop_figures f;

    loop_figures(l, &f);
    return json_pack("{s:I, s:f, s:f, s:s, s:I}", "turns", (json_int_t)f.turns, "longest_ms",
                     dlc_dur_seconds(f.longest) * 1e3, "longest_passed_ms",
                     dlc_dur_seconds(f.longest_passed) * 1e3, "longest_in", f.longest_in, "slept",
                     (json_int_t)f.slept);
}

/* The ready datasets that the caller may see with the lowest ids above *after, in that order: PAGE
 * of them, of the next LOOKS. How many; *after: where to go on, or 0. */
static unsigned next_page(const struct conn *c, uint64_t *after, struct dataset *page[static PAGE])
{
    unsigned have = 0;

    for (unsigned i = 0; i < LOOKS && have < PAGE; i++) {
        struct dataset *ds = dataset_from(c->node, *after + 1);

        *after = ds != NULL ? ds->id : 0;
        if (ds == NULL)
            break;
        if (client_sees(c, ds) && ds->state == DATASET_READY && !ds->deleted)
            page[have++] = ds;
    }
    return have;
}

static void add_datasets(json_t *answer, const struct conn *c, uint64_t after)
{
    struct dataset *page[PAGE];
    unsigned have = next_page(c, &after, page);
    json_t *datasets = json_array();

    for (unsigned i = 0; i < have; i++)
        json_array_append_new(datasets, dataset_json(page[i]));
    json_object_set_new(answer, "datasets", datasets);
    if (after > 0)
        json_object_set_new(answer, "next", json_integer((json_int_t)after));
}

/* What the kernel holds this process to: "in force: ..." or "not in force: why" by part. */
static json_t *sandbox_json(void)
{
    const struct sandbox_part *parts;
    json_t *o = json_object();
    unsigned n;

    parts = sandbox_parts(&n);
    for (unsigned i = 0; i < n; i++)
        json_object_set_new(
            o, parts[i].name,
            json_sprintf("%s: %s", parts[i].in_force ? "in force" : "not in force", parts[i].text));
    return o;
}

/* Of the sessions that the caller may see. */
static json_t *daemon_json(const struct conn *c)
{
    struct node *n = c->node;
    json_t *daemon;
    int sessions = 0;

    dlc_list_each (l, &n->conns) {
        const struct session *s = dlc_container(l, struct conn, link)->session;

        sessions += s != NULL && client_sees(c, s->ds);
    }
    daemon = json_pack("{s:i, s:s, s:f, s:o, s:i}", "pid", (int)getpid(), "version", dlc_version(),
                       "uptime_s", dlc_dur_seconds(dlc_mono_since(n->started)), "socket",
                       msg_string(n->config->socket), "sessions", sessions);
    if (c->admin) {
        json_object_set_new(daemon, "dir", msg_string(n->config->dir));
        json_object_set_new(daemon, "zombies", json_integer(n->n_zombies));
        json_object_set_new(daemon, "sandbox", sandbox_json());
    }
    return daemon;
}

/* Who gives the answer: everybody may know. */
static void add_cluster(json_t *answer, struct node *n)
{
    json_t *figures = json_object();

    if (n->cluster_ops != NULL)
        n->cluster_ops->figures(n, figures);
    if (json_object_get(figures, "cluster") != NULL)
        json_object_set(answer, "cluster", json_object_get(figures, "cluster"));
    json_decref(figures);
}

/* What is of all tenants and users together. */
static void add_node(json_t *answer, struct node *n)
{
    json_t *all = json_object();

    for (unsigned i = 0; i < counter_table_len; i++)
        json_object_set_new(all, counter_table[i].name,
                            json_integer((json_int_t)*counter_table[i].value));
    json_object_set_new(answer, "memory", memory_json(n));
    json_object_set_new(answer, "disk", disk_json(n));
    json_object_set_new(answer, "work", work_json(n->work));
    json_object_set_new(answer, "counters", all);
    json_object_set_new(answer, "loop", loop_json(n->loop));
    if (n->cluster_ops != NULL)
        n->cluster_ops->figures(n, answer);
    if (n->shared != NULL)
        json_object_set_new(answer, "shared", shared_json(n->shared));
}

void stat_handle(struct conn *c, struct msg *m)
{
    json_int_t after = json_integer_value(json_object_get(m->body, "after"));
    json_t *answer;

    if (c->session != NULL)
        prefetch_poll(c->session); /* so that what it has read by now is counted */
    answer = json_pack("{s:b, s:s, s:o}", "ok", 1, "scope", c->admin ? "all" : "own", "daemon",
                       daemon_json(c));
    add_datasets(answer, c, after > 0 ? (uint64_t)after : 0);
    if (c->admin)
        add_node(answer, c->node);
    else
        add_cluster(answer, c->node);
    if (c->session != NULL) {
        json_t *own = dataset_json(c->session->ds);

        json_object_set_new(own, "epochs", outcomes_epochs(c->session));
        json_object_set_new(answer, "dataset", own);
    }
    conn_send(c, answer, NULL, 0);
}
