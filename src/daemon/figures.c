// SPDX-License-Identifier: Apache-2.0
/*
 * The walk: from the first dataset to the last by id, and over the sessions of each, FIGURES_STEP
 * in one turn of the loop.
 *
 *     idle --figures_get()--> walking (steps) --> published, idle
 *
 * Counters are sums of differences: a look at a session adds what it has counted since the last
 * look to its dataset and to its job; its end is the last look. So nothing is counted twice
 * (FIGURES-4), whatever ends during a walk. Gauges begin at 0 with each walk.
 *
 * A job has a slot. When all are taken, the slot of a job without sessions goes to the next one
 * that comes, the one that was used longest ago first; else its sessions count in other_jobs. A
 * dataset without sessions loses its figures to one in use at the next walk.
 */
#include "daemon/figures.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/config.h"
#include "base/counters.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "catalog/catalog.h"
#include "cluster/peer/view.h"
#include "daemon/client_conn.h"
#include "daemon/cluster_ops.h"
#include "daemon/daemon.h"
#include "daemon/dataset.h"
#include "daemon/decoded_cache.h"
#include "daemon/events.h"
#include "daemon/prefetch/prefetch.h"
#include "daemon/session.h"
#include "daemon/state.h"
#include "order/cursor.h"
#include "order/schedule.h"

#define FIGURES_TAG DLC_TAG4('f', 'g', 'u', 'r')
#define NO_SLOT     FIGURES_JOBS
#define RECENT      DLC_SEC(60)

/* What a job had used at a time. */
struct job_mark {
    struct dlc_mono at;
    double reader_s;
    struct usage usage;
};

struct job_slot {
    bool used;
    struct job_figures f;            /* gauges: of the walk that is being made */
    struct dlc_mono last;            /* a session of it was seen */
    struct job_mark now, old, older; /* (FIGURES-5) */
};

struct figures {
    uint32_t tag;
    struct node *node;
    struct task ask;

    struct dlc_mtx mtx; /* rank LCK_sync */
    struct dlc_cond cond;
    bool asked;                  /* G: mtx: `ask` is posted, or a walk is under way */
    bool ending;                 /* G: mtx */
    uint64_t walks;              /* G: mtx: that have ended */
    struct node_figures *latest; /* G: mtx; NULL: none yet */

    /* the loop's */
    struct timer step;
    struct node_figures *making; /* NULL: no walk */
    uint64_t at;                 /* id of the dataset that the walk is in, or has passed */
    bool within;                 /* its figures are yet to be taken */
    struct session *next;        /* of that dataset; NULL: all were looked at */
    size_t cap_datasets;
    struct job_slot jobs[FIGURES_JOBS];
    unsigned n_named; /* datasets */
    unsigned unnamed; /* datasets in use without a place, in the walk before */
    struct dataset_counts other;
    struct usage other_jobs;
};

static struct figures *figures_of(struct figures *f)
{
    dlc_check(f != NULL && f->tag == FIGURES_TAG);
    return f;
}

/* ---- counting ---- */

static_assert(sizeof(struct dataset_counts) % sizeof(uint64_t) == 0, "an array of uint64_t");
#define COUNTS (sizeof(struct dataset_counts) / sizeof(uint64_t))

/* Add what has come since *seen. A client writes some of them as it likes. */
static void add_since(uint64_t *sum, const uint64_t *now, uint64_t *seen, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t more = now[i] > seen[i] ? now[i] - seen[i] : 0;

        if (more < INT64_MAX / 4)
            sum[i] += more;
        seen[i] = now[i];
    }
}

static void session_usage(const struct session *s, const struct mem_session_stats *st,
                          struct usage *out)
{
    *out = s->waited;
    out->n[USAGE_samples] = st->hits + st->misses + st->bypasses;
    out->n[USAGE_memory_hits] += st->hits;
    out->n[USAGE_read_bytes] = st->bytes;
    out->n[USAGE_stall_ns] = st->stall_ns;
}

/* ---- jobs ---- */

static const char *or_empty(const char *s)
{
    return s != NULL ? s : "";
}

static bool slot_is(const struct job_slot *j, const struct session *s)
{
    return j->used && strcmp(j->f.job, or_empty(s->conn->job)) == 0 &&
           strcmp(j->f.tenant, or_empty(s->ds->tenant)) == 0;
}

static void job_release(struct job_figures *f)
{
    mem_free(&f->job);
    mem_free(&f->tenant);
    mem_free(&f->dataset);
    *f = (struct job_figures){0};
}

static void slot_take(struct figures *f, unsigned i, const struct session *s)
{
    struct job_slot *j = &f->jobs[i];

    job_release(&j->f);
    j->now = j->old = j->older = (struct job_mark){0};
    j->used = true;
    j->f.job = mem_str(or_empty(s->conn->job));
    j->f.tenant = mem_str(or_empty(s->ds->tenant));
    j->f.dataset = mem_str(s->ds->name != NULL ? s->ds->name : s->ds->url.shown);
}

/* Its slot, that of a job without sessions, or NO_SLOT. */
static unsigned slot_of(struct figures *f, struct session *s)
{
    struct dlc_mono now = loop_now(f->node->loop);
    unsigned best = NO_SLOT;

    if (s->figures.slot < FIGURES_JOBS && slot_is(&f->jobs[s->figures.slot], s))
        return s->figures.slot;
    for (unsigned i = 0; i < FIGURES_JOBS; i++) {
        if (slot_is(&f->jobs[i], s))
            return i;
        if (!f->jobs[i].used) {
            best = best == NO_SLOT || f->jobs[best].used ? i : best;
        } else if (dlc_mono_sub(now, f->jobs[i].last).ns > DLC_SEC(60).ns &&
                   (best == NO_SLOT ||
                    (f->jobs[best].used && f->jobs[i].last.ns < f->jobs[best].last.ns))) {
            best = i;
        }
    }
    if (best != NO_SLOT)
        slot_take(f, best, s);
    return best;
}

/* The sums over its sessions, and the place of the one that is least far. */
static void job_reader(struct job_figures *j, const struct session *s)
{
    const struct reader_state *r = &s->reader;
    uint64_t epoch = 0, at = 0;

    if (!r->active || !cursor_state(&r->schedule->cursor, r->pos, &epoch, &at))
        return;
    if (!j->has_order || epoch < j->epoch || (epoch == j->epoch && at < j->at)) {
        j->epoch = epoch;
        j->at = at;
        j->length = r->schedule->length;
        j->ahead = r->ahead > r->pos ? r->ahead - r->pos : 0;
    }
    j->has_order = true;
}

static void job_epochs(struct job_figures *j, const struct session *s)
{
    for (unsigned i = 0; i < s->n_reads; i++) {
        const struct outcomes_epoch *e = &s->reads[i];
        unsigned k = 0;

        while (k < j->n_epochs && j->epochs[k].epoch > e->epoch)
            k++;
        if (k == OUTCOMES_EPOCHS)
            continue;
        if (k == j->n_epochs || j->epochs[k].epoch != e->epoch) {
            j->n_epochs = DLC_MIN(j->n_epochs + 1, OUTCOMES_EPOCHS);
            memmove(&j->epochs[k + 1], &j->epochs[k],
                    (OUTCOMES_EPOCHS - 1 - k) * sizeof(j->epochs[0]));
            j->epochs[k] = (struct outcomes_epoch){.epoch = e->epoch};
        }
        j->epochs[k].sum.reuse += e->sum.reuse;
        j->epochs[k].sum.ahead += e->sum.ahead;
        j->epochs[k].sum.waited += e->sum.waited;
    }
}

/* ---- a session ---- */

static void add_reader(struct reader_figures *r, const struct session *s)
{
    r->sessions++;
    if (!s->reader.active)
        return;
    r->reading += !s->reader.idle;
    r->window += s->reader.window;
    r->ahead += s->reader.ahead > s->reader.pos ? s->reader.ahead - s->reader.pos : 0;
    if (!s->reader.idle)
        r->per_s += s->reader.rate.per_s;
}

static unsigned count_session(struct figures *f, struct session *s,
                              const struct mem_session_stats *st)
{
    struct usage now, before = s->figures.seen;
    unsigned slot = slot_of(f, s);

    session_usage(s, st, &now);
    add_since(s->ds->figures.reads.n, now.n, s->figures.seen.n, USAGE_COUNTERS);
    add_since(slot < FIGURES_JOBS ? f->jobs[slot].f.usage.n : f->other_jobs.n, now.n, before.n,
              USAGE_COUNTERS);
    s->figures.slot = slot;
    return slot;
}

static void visit_session(struct figures *f, struct session *s)
{
    struct mem_session_stats st = {0};
    struct job_slot *j;
    unsigned slot;

    prefetch_poll(s); /* so that what it has read by now is counted */
    session_add_stats(s, &st);
    slot = count_session(f, s, &st);
    add_reader(&s->ds->figures.readers, s);
    if (slot == NO_SLOT) {
        f->making->other_sessions++;
        return;
    }
    j = &f->jobs[slot];
    j->last = loop_now(f->node->loop);
    add_reader(&j->f.readers, s);
    job_reader(&j->f, s);
    job_epochs(&j->f, s);
}

static void figures_session_closed(const struct session *s, const struct mem_session_stats *st)
{
    if (s->ds->node->figures != NULL)
        count_session(figures_of(s->ds->node->figures), (struct session *)(uintptr_t)s, st);
}

static struct session *session_after(const struct session *s)
{
    const struct dlc_list *l = s->link.next;

    return l == &s->ds->sessions ? NULL : dlc_container(l, struct session, link);
}

static void figures_session_unlinked(struct session *s)
{
    struct figures *f = s->ds->node->figures;

    if (f != NULL && f->next == s)
        f->next = session_after(s);
}

/* ---- a dataset ---- */

static void counts_of(const struct dataset *ds, struct dataset_counts *c)
{
    const struct bucket_tally *t = ds->tally;
    double get = 0, byte = 0;

    *c = (struct dataset_counts){.usage = ds->figures.reads};
    c->usage.n[USAGE_requests] = t->requests;
    c->usage.n[USAGE_bytes] = t->bytes;
    c->usage.n[USAGE_money_nano] = t->money_nano;
    c->gets = t->gets;
    c->lists = t->lists;
    c->retries = t->retries;
    c->hedges = t->hedges;
    c->errors = t->errors;
    for (unsigned i = 0; i < BUCKET_OUTCOMES; i++)
        c->outcomes[i] = t->outcomes[i];
    c->reused = ds->outcomes.reads.reuse;
    c->prefetched = ds->outcomes.reads.ahead;
    c->late = ds->outcomes.reads.waited;
    bucket_prices(ds->bucket, &get, &byte);
    c->direct_nano = (uint64_t)(1e9 * (get * (double)c->usage.n[USAGE_samples] +
                                       byte * (double)c->usage.n[USAGE_read_bytes]));
}

static void add_other(struct figures *f, struct dataset *ds)
{
    struct dataset_counts now;

    counts_of(ds, &now);
    add_since((uint64_t *)&f->other, (const uint64_t *)&now, (uint64_t *)&ds->figures.other,
              COUNTS);
}

/* Has it figures of its own? */
static bool is_named(struct figures *f, struct dataset *ds)
{
    bool used = ds->figures.readers.sessions > 0;

    if (ds->figures.named && !used && f->unnamed > 0) {
        ds->figures.named = false;
        f->n_named--;
        f->unnamed--;
        counts_of(ds, &ds->figures.other); /* what it had counts nowhere else */
    } else if (!ds->figures.named && f->n_named < FIGURES_DATASETS) {
        add_other(f, ds);
        ds->figures.named = true;
        f->n_named++;
    }
    return ds->figures.named;
}

static void add_dataset(struct figures *f, struct dataset *ds)
{
    struct node_figures *m = f->making;
    struct dataset_figures *d;
    uint64_t decoded;

    mem_reserve(m->datasets, m->n_datasets, f->cap_datasets);
    d = &m->datasets[m->n_datasets++];
    *d = (struct dataset_figures){
        .label = mem_str(ds->name != NULL ? ds->name : ds->url.shown),
        .url = mem_str(ds->url.shown),
        .tenant = mem_str(or_empty(ds->tenant)),
        .readers = ds->figures.readers,
        .samples = catalog_count(ds->catalog),
        .bytes = catalog_bytes(ds->catalog),
        .resident = mem_index_resident(ds->index),
        .resident_bytes = mem_index_bytes(ds->index),
        .fetching = ds->fetching.n,
        .backlog = ds->backlog.len,
        .has_disk = ds->node->disk != NULL,
    };
    snprintf(d->snapshot, sizeof(d->snapshot), "%016llx",
             (unsigned long long)catalog_snapshot(ds->catalog));
    counts_of(ds, &d->counts);
    decoded_caches_figures(ds, &decoded, &d->decoded_bytes);
    if (d->has_disk)
        disk_group_figures(ds->node->disk, ds->disk.group, &d->disk);
    bucket_figures(ds->bucket, &d->bucket);
    if (d->bucket.bytes_per_s > ds->figures.most_bytes_per_s)
        ds->figures.most_bytes_per_s = d->bucket.bytes_per_s;
    d->most_bytes_per_s = ds->figures.most_bytes_per_s;
}

static void leave_dataset(struct figures *f, struct dataset *ds)
{
    f->within = false;
    if (is_named(f, ds)) {
        add_dataset(f, ds);
        return;
    }
    add_other(f, ds);
    f->making->other_datasets++;
}

static void figures_dataset_closing(struct dataset *ds)
{
    struct figures *f = ds->node->figures;

    if (f == NULL || ds->bucket == NULL)
        return;
    if (ds->figures.named)
        f->n_named--;
    else
        add_other(f, ds);
    ds->figures.named = false;
}

/* ---- the walk ---- */

static void take_tenants(struct node *n, struct node_figures *m)
{
    m->tenants = mem_zero((n->memories.n + 1) * sizeof(m->tenants[0]));
    dlc_list_each (l, &n->memories.all) {
        const struct tenant_memory *t = dlc_container(l, struct tenant_memory, link);

        dlc_check(m->n_tenants <= n->memories.n);
        m->tenants[m->n_tenants].tenant = mem_str(t->tenant);
        memory_figures(t->memory, &m->tenants[m->n_tenants++].memory);
    }
}

/* All that is not of a dataset or of a job. */
static void take_node(struct node *n, struct node_figures *m)
{
    json_t *figures;

    m->taken = dlc_mono_now();
    m->wall = dlc_wall_seconds();
    m->uptime = dlc_mono_since(n->started);
    m->connections = n->n_conns;
    m->zombies = n->n_zombies;
    m->counters = mem_alloc(counter_table_len * sizeof(m->counters[0]));
    for (unsigned i = 0; i < counter_table_len; i++)
        m->counters[i] = atomic_load_explicit(counter_table[i].value, memory_order_relaxed);
    tenant_memories_figures(&n->memories, &m->memory);
    m->memory_policy = n->config->memory_policy;
    m->disk_policy = n->config->disk_policy;
    m->has_disk = n->disk != NULL;
    if (m->has_disk) {
        disk_figures(n->disk, &m->disk);
        m->disk.breaker_why = mem_str(m->disk.breaker_why);
    }
    work_figures(n->work, m->work);
    loop_figures(n->loop, &m->loop);
    memcpy(m->fetched, n->fetched, sizeof(m->fetched));
    if (n->cluster != NULL && cluster_live(n->cluster) > 0)
        m->peers = cluster_live(n->cluster) - 1;
    if (n->cluster_ops != NULL) {
        figures = json_object();
        n->cluster_ops->figures(n, figures);
        m->cluster = json_incref(json_object_get(figures, "cluster"));
        json_decref(figures);
    }
    m->name = mem_str(n->membership != NULL ? or_empty(n->membership->name) : "");
    m->has_shared = n->shared != NULL;
    if (m->has_shared)
        shared_figures(n->shared, &m->shared);
    take_tenants(n, m);
}

/* (FIGURES-5) Readers are counted as those of this walk since the one before. */
static void job_recent(struct job_slot *s, struct dlc_mono now, struct job_figures *out)
{
    const uint64_t *used = s->f.usage.n;

    if (s->now.at.ns > 0)
        s->now.reader_s += s->f.readers.sessions * dlc_dur_seconds(dlc_mono_sub(now, s->now.at));
    s->now.at = now;
    s->now.usage = s->f.usage;
    if (s->old.at.ns == 0)
        s->old = s->older = s->now;
    if (dlc_mono_sub(now, s->old.at).ns > RECENT.ns / 2) {
        s->older = s->old;
        s->old = s->now;
    }
    for (unsigned i = 0; i < USAGE_COUNTERS; i++)
        out->recent.n[i] = used[i] - s->older.usage.n[i];
    out->recent_s = s->now.reader_s - s->older.reader_s;
}

static void copy_jobs(struct figures *f, struct node_figures *m)
{
    m->jobs = mem_zero(FIGURES_JOBS * sizeof(m->jobs[0]));
    for (unsigned i = 0; i < FIGURES_JOBS; i++) {
        struct job_figures *j = &m->jobs[m->n_jobs];

        if (!f->jobs[i].used)
            continue;
        *j = f->jobs[i].f;
        job_recent(&f->jobs[i], m->taken, j);
        j->job = mem_str(j->job);
        j->tenant = mem_str(j->tenant);
        j->dataset = mem_str(j->dataset);
        m->sessions += j->readers.sessions;
        m->n_jobs++;
    }
    m->sessions += (unsigned)m->other_sessions;
    m->other_jobs = f->other_jobs;
    m->other = f->other;
}

static void publish(struct figures *f)
{
    struct node_figures *before;

    take_node(f->node, f->making);
    copy_jobs(f, f->making);
    dlc_mtx_lock(&f->mtx);
    before = f->latest;
    f->latest = f->making;
    f->asked = false;
    f->walks++;
    dlc_cond_broadcast(&f->cond);
    dlc_mtx_unlock(&f->mtx);
    f->making = NULL;
    node_figures_put(&before);
}

/* One session or one dataset. False: that was all. */
static bool walk_on(struct figures *f)
{
    struct dataset *ds;

    if (f->next != NULL) {
        struct session *s = f->next;

        f->next = session_after(s);
        visit_session(f, s);
        return true;
    }
    ds = dataset_from(f->node, f->within ? f->at : f->at + 1);
    if (f->within && ds != NULL && ds->id == f->at) {
        leave_dataset(f, ds);
        return true;
    }
    f->within = false;
    if (ds == NULL)
        return false;
    f->at = ds->id;
    if (ds->state != DATASET_READY || ds->deleted || ds->bucket == NULL)
        return true;
    f->within = true;
    ds->figures.readers = (struct reader_figures){0};
    if (!dlc_list_empty(&ds->sessions))
        f->next = dlc_container(ds->sessions.next, struct session, link);
    return true;
}

static void on_step(struct timer *t)
{
    struct figures *f = dlc_container(t, struct figures, step);

    for (unsigned i = 0; i < FIGURES_STEP; i++) {
        if (!walk_on(f)) {
            f->unnamed = (unsigned)f->making->other_datasets;
            publish(f);
            return;
        }
    }
    loop_timer_set(f->node->loop, t, loop_now(f->node->loop));
}

static void begin(struct task *t)
{
    struct figures *f = dlc_container(t, struct figures, ask);

    dlc_check(f->making == NULL);
    f->making = mem_new(struct node_figures);
    atomic_init(&f->making->refs, 1);
    f->cap_datasets = 0;
    f->at = 0;
    f->within = false;
    f->next = NULL;
    for (unsigned i = 0; i < FIGURES_JOBS; i++) {
        struct job_figures *j = &f->jobs[i].f;

        *j = (struct job_figures){
            .job = j->job, .tenant = j->tenant, .dataset = j->dataset, .usage = j->usage};
    }
    on_step(&f->step);
}

/* ---- for others ---- */

struct figures *figures_new(struct node *n)
{
    struct figures *f = mem_new(struct figures);

    f->tag = FIGURES_TAG;
    f->node = n;
    f->ask.run = begin;
    f->step.fire = on_step;
    dlc_mtx_init(&f->mtx, LCK_sync);
    dlc_cond_init(&f->cond);
    return f;
}

void figures_end(struct figures *f)
{
    dlc_mtx_lock(&figures_of(f)->mtx);
    f->ending = true;
    dlc_cond_broadcast(&f->cond);
    dlc_mtx_unlock(&f->mtx);
}

void figures_free(struct figures **fp)
{
    struct figures *f = *fp;

    *fp = NULL;
    if (f == NULL)
        return;
    dlc_check(f->tag == FIGURES_TAG && f->ending);
    node_figures_put(&f->making);
    node_figures_put(&f->latest);
    for (unsigned i = 0; i < FIGURES_JOBS; i++)
        job_release(&f->jobs[i].f);
    dlc_cond_release(&f->cond);
    dlc_mtx_release(&f->mtx);
    f->tag = 0;
    mem_free(&f);
}

static bool is_fresh(const struct figures *f, struct dlc_dur max_age)
{
    return f->latest != NULL && dlc_mono_since(f->latest->taken).ns <= max_age.ns;
}

int figures_get(struct figures *f, struct dlc_dur max_age, struct dlc_dur wait,
                struct node_figures **out, struct dlc_err *err)
{
    struct dlc_mono until = dlc_mono_add(dlc_mono_now(), wait);
    uint64_t walks;
    int rc = 0;

    *out = NULL;
    dlc_mtx_lock(&figures_of(f)->mtx);
    walks = f->walks;
    if (!is_fresh(f, max_age) && !f->asked && !f->ending) {
        f->asked = true;
        loop_post(f->node->loop, &f->ask);
    }
    while (!is_fresh(f, max_age) && f->walks == walks && !f->ending && rc == 0) {
        struct dlc_dur left = dlc_mono_sub(until, dlc_mono_now());

        if (left.ns <= 0 || dlc_cond_wait_for(&f->cond, &f->mtx, left) != 0)
            rc = DLC_ETIMEDOUT;
    }
    if (f->ending) {
        rc = dlc_err_set(err, DLC_ECANCELED, "the daemon ends");
    } else if (f->latest != NULL && (is_fresh(f, max_age) || f->walks != walks)) {
        rc = 0;
        *out = f->latest;
        atomic_fetch_add_explicit(&f->latest->refs, 1, memory_order_relaxed); /* under mtx */
    } else {
        rc = dlc_err_set(err, DLC_ETIMEDOUT, "the daemon did not give its figures within %.1f s",
                         dlc_dur_seconds(wait));
    }
    dlc_mtx_unlock(&f->mtx);
    return rc;
}

void node_figures_put(struct node_figures **fp)
{
    struct node_figures *m = *fp;
    char *why;

    *fp = NULL;
    /* Pairs with the puts of others: who frees it sees all their reads done. */
    if (m == NULL || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < m->n_datasets; i++) {
        mem_free(&m->datasets[i].label);
        mem_free(&m->datasets[i].url);
        mem_free(&m->datasets[i].tenant);
    }
    for (size_t i = 0; i < m->n_jobs; i++)
        job_release(&m->jobs[i]);
    for (size_t i = 0; i < m->n_tenants; i++)
        mem_free(&m->tenants[i].tenant);
    why = (char *)(uintptr_t)m->disk.breaker_why;
    mem_free(&why);
    json_decref(m->cluster);
    mem_free(&m->name);
    mem_free(&m->counters);
    mem_free(&m->datasets);
    mem_free(&m->jobs);
    mem_free(&m->tenants);
    mem_free(&m);
}

const struct node_events figures_events = {
    .session_closed = figures_session_closed,
    .session_unlinked = figures_session_unlinked,
    .dataset_closing = figures_dataset_closing,
};
