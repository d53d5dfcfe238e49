// SPDX-License-Identifier: Apache-2.0
/*
 * Reports of this node to the manager: figures, and the chunks it has.
 *
 * Nothing on the data path reports chunks that come and go. Instead each dataset of the cluster is
 * walked over all the time, a slice per tick, and compared with the last report. The loop looks at
 * the memory tier, a worker at the disk tier. A chunk is an object; it is here when any sample of
 * it, or its unpacked copy, is in either tier.
 *
 *     walk: slice --worker--> seen ... all slices --> have      report: have against told --> rows
 *
 * (HEARTBEAT-1) told changes only when the manager has confirmed the rows.
 * (HEARTBEAT-2) A row says what was true when the walk passed it: it serves display and placement,
 *               never reads.
 */
#include "cluster/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "cache/policy/lifecycle.h"
#include "cluster/cost.h"
#include "cluster/handover.h"
#include "cluster/member.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/dataset_chunks.h"
#include "daemon/listing.h"
#include "daemon/prefetch/warm.h"
#include "daemon/session.h"
#include "daemon/state.h"
#include "daemon/work.h"
#include "catalog/catalog.h"
#include "catalog/sample.h"
#include "cluster/peer/view.h"
#include "daemon/client_conn.h"
#include "daemon/daemon.h"
#include "ipc/frame.h"

#define WALKS     16u /* datasets that a tick goes on with: each may look at a slice */
#define FIGURES   64u /* datasets whose figures are made in one turn of the loop */
#define SLICE     8192u
#define ROWS_MAX  2000u
#define BYTES_MAX (400u << 10) /* of keys and ETags in one batch */
#define ROW_BYTES 96u          /* what else a row takes */
#define PAST_JOBS 64u
/* Work of one turn of the loop that collects rows, in words of bitmaps: */
#define WORK_STEP    16384u
#define WORK_DATASET 32u
#define WORK_ROW     64u

struct report {
    struct dataset *ds;
    uint64_t *seen, *have, *told; /* a bit per object */
    uint64_t *anew;               /* those that are told once more: their state has changed */
    uint32_t *samples;            /* cut from each object; NULL: one each */
    float *cost;                  /* of each object, as far as it was measured; NULL: none was */
    double cost_sum;
    uint64_t cost_n;
    uint64_t words, at;     /* at: the next sample to look at */
    uint64_t chunks, bytes; /* of have */
    uint64_t seen_chunks, seen_bytes;
    uint64_t cursor; /* word that the next batch begins at */
    uint64_t n_told; /* bits of told */
    unsigned state;  /* life state that told was told with */
    /* From the cursor on, so many words are still to be ... */
    uint64_t forget;     /* ... cleared in told: the manager has lost them */
    uint64_t renew;      /* ... told once more */
    bool begun;          /* the word at the cursor was not finished by the last batch */
    uint64_t generation; /* member.report_generation that told is of */
    bool counted;        /* samples is complete: a catalog does not change */
    bool walking;

    struct work work;
    struct task task;
    uint64_t end;
    uint8_t ready[SLICE]; /* of [at, end): in memory */
    uint8_t on_disk[SLICE];
};

struct row {
    struct dataset *ds; /* with a reference */
    uint64_t object;
    unsigned state; /* as it is told */
    bool put;
};

/* Rows for one heartbeat. It is collected in several turns of the loop, then told until it is heard. */
struct batch {
    struct row rows[ROWS_MAX];
    unsigned n;
    json_t *put, *gone; /* until it is told */
    size_t bytes;
    uint64_t at;   /* dataset that is looked at, ... */
    uint64_t word; /* ... and how many of its words were */
    bool collected, full;
};

static bool bit(const uint64_t *bits, uint64_t i)
{
    return (bits[i / 64] >> (i % 64) & 1) != 0;
}

static void set_bit(uint64_t *bits, uint64_t i)
{
    bits[i / 64] |= (uint64_t)1 << (i % 64);
}

static void clear_bit(uint64_t *bits, uint64_t i)
{
    bits[i / 64] &= ~((uint64_t)1 << (i % 64));
}

static void set_told(struct report *r, uint64_t object, bool is)
{
    r->n_told += (uint64_t)is - (uint64_t)bit(r->told, object);
    if (is)
        set_bit(r->told, object);
    else
        clear_bit(r->told, object);
}

static void report_free(struct dataset *ds)
{
    struct report *r = ds->report;

    ds->report = NULL;
    if (r == NULL)
        return;
    mem_free(&r->seen);
    mem_free(&r->have);
    mem_free(&r->told);
    mem_free(&r->anew);
    mem_free(&r->samples);
    mem_free(&r->cost);
    mem_free(&r);
}

static struct report *report_of(struct dataset *ds)
{
    struct report *r = ds->report;

    if (r != NULL)
        return r;
    r = ds->report = mem_new(struct report);
    r->ds = ds;
    r->words = catalog_objects(ds->catalog) / 64 + 1;
    r->seen = mem_zero(r->words * 8);
    r->have = mem_zero(r->words * 8);
    r->told = mem_zero(r->words * 8);
    r->anew = mem_zero(r->words * 8);
    if (!catalog_is_whole(ds->catalog))
        r->samples = mem_zero((catalog_objects(ds->catalog) + 1) * sizeof(r->samples[0]));
    return r;
}

static void report_derived_cost(struct dataset *ds, uint64_t object, double cost)
{
    struct report *r = report_of(ds);

    if (r->cost == NULL)
        r->cost = mem_zero((catalog_objects(ds->catalog) + 1) * sizeof(r->cost[0]));
    r->cost[object] = (float)cost;
}

static void report_cost(struct dataset *ds, uint64_t sample, double cost)
{
    struct report *r = report_of(ds);

    r->cost_sum += cost;
    r->cost_n++;
    if (catalog_is_whole(ds->catalog)) /* sample and object are one */
        report_derived_cost(ds, sample, cost);
}

/* ---- the walk ---- */

/* `seen` is the worker's for as long as it looks. */
static void look_for_derived(struct report *r)
{
    const struct dataset *ds = r->ds;
    struct catalog_entry e;
    uint64_t size;

    for (uint64_t j = 0; j < catalog_objects(ds->catalog) && !node_is_ending(ds->node); j++)
        if (catalog_derived(ds->catalog, j, &size, NULL) == 0 &&
            catalog_object(ds->catalog, j, &e, NULL) == 0 &&
            disk_has(ds->node->disk, dataset_derived_chunk(ds, &e)))
            set_bit(r->seen, j);
}

static void mark_pieces(struct report *r, uint64_t sample, bool here)
{
    struct catalog_sample s;

    if (catalog_sample(r->ds->catalog, sample, &s, NULL) == 0) {
        for (size_t i = 0; i < s.n_pieces; i++) {
            if (s.pieces[i].kind == PIECE_INLINE)
                continue;
            if (here)
                set_bit(r->seen, s.pieces[i].object);
            r->samples[s.pieces[i].object] += !r->counted;
        }
    }
    catalog_sample_release(&s);
}

/* What was found in either tier: of [at, end). */
static void mark_slice(struct report *r)
{
    bool whole = catalog_is_whole(r->ds->catalog);

    for (uint64_t i = r->at; i < r->end; i++) {
        bool here = r->ready[i - r->at] || r->on_disk[i - r->at];

        if (!whole)
            mark_pieces(r, i, here);
        else if (here)
            set_bit(r->seen, i);
    }
}

/* On a worker: a catalog never changes, and the disk tier is anybody's. */
static void look_on_disk(struct work *w)
{
    struct report *r = dlc_container(w, struct report, work);
    const struct dataset *ds = r->ds;
    struct catalog_entry e;

    if (r->at == 0)
        memset(r->seen, 0, r->words * 8);
    memset(r->on_disk, 0, sizeof(r->on_disk));
    /* Copies of a deleted dataset that another one uses are that one's. */
    for (uint64_t i = r->at; ds->node->disk != NULL && !ds->deleted && i < r->end; i++)
        if (catalog_get(ds->catalog, i, &e, NULL) == 0)
            r->on_disk[i - r->at] = disk_has(ds->node->disk, dataset_chunk(ds, e.key, e.etag));
    if (ds->node->disk != NULL && !ds->deleted && !catalog_is_whole(ds->catalog) &&
        r->end == catalog_count(ds->catalog))
        look_for_derived(r);
    mark_slice(r);
    loop_post(ds->node->loop, &r->task);
}

/* All samples were looked at: what was seen is what we have. */
static void walk_ended(struct report *r)
{
    uint64_t *old = r->have;
    struct disk_group_figures g;

    r->have = r->seen;
    r->seen = old; /* the next walk clears it */
    r->at = 0;
    r->counted = true;
    r->chunks = r->seen_chunks;
    r->bytes = r->seen_bytes;
    if (r->ds->node->disk == NULL)
        return;
    disk_group_figures(r->ds->node->disk, r->ds->disk.group, &g);
    if (r->state != g.state) { /* rows say it: those that stay are told again */
        r->renew = r->words;
        r->begun = false;
    }
    r->state = (unsigned)g.state;
}

/* On a worker, which `seen` is: there may be millions. */
static void count_seen(struct work *w)
{
    struct report *r = dlc_container(w, struct report, work);
    struct catalog_entry e;

    r->seen_chunks = r->seen_bytes = 0;
    for (uint64_t i = 0; i < catalog_objects(r->ds->catalog) && !node_is_ending(r->ds->node); i++) {
        if (!bit(r->seen, i) || catalog_object(r->ds->catalog, i, &e, NULL) < 0)
            continue;
        r->seen_chunks++;
        r->seen_bytes += e.size;
    }
    loop_post(r->ds->node->loop, &r->task);
}

static void counted(struct task *t)
{
    struct report *r = dlc_container(t, struct report, task);
    struct dataset *ds = r->ds;

    ds->node->pending--;
    r->walking = false;
    walk_ended(r);
    dataset_put(&ds);
}

static void slice_looked_at(struct task *t)
{
    struct report *r = dlc_container(t, struct report, task);
    struct dataset *ds = r->ds;

    r->at = r->end;
    if (r->at == catalog_count(ds->catalog)) {
        r->work.run = count_seen;
        r->task.run = counted;
        work_run(ds->node->work, WORK_BACKGROUND, &r->work);
        return;
    }
    ds->node->pending--;
    r->walking = false;
    dataset_put(&ds);
}

static void walk_on(struct dataset *ds)
{
    struct report *r = report_of(ds);

    if (r->walking)
        return;
    r->walking = true;
    r->end = DLC_MIN(r->at + SLICE, catalog_count(ds->catalog));
    for (uint64_t i = r->at; i < r->end; i++)
        r->ready[i - r->at] = mem_index_ready(ds->index, i);
    r->work.run = look_on_disk;
    r->task.run = slice_looked_at;
    dataset_ref(ds);
    ds->node->pending++;
    work_run(ds->node->work, WORK_BACKGROUND, &r->work);
}

void report_tick(struct node *n)
{
    if (n->cluster == NULL || cluster_version(n->cluster) == 0)
        return;
    for (unsigned i = 0; i < WALKS; i++) {
        struct dataset *ds = dataset_step(n, &n->member->walked);

        if (ds == NULL)
            break;
        if (ds->cid == NULL || ds->state != DATASET_READY || ds->stale)
            continue;
        if (ds->deleted && ds->refs == 0 && (ds->report == NULL || ds->report->n_told == 0))
            dataset_forget(ds); /* a stale one reports nothing */
        else
            walk_on(ds);
    }
}

/* ---- rows ---- */

void report_again(struct node *n)
{
    n->member->report_generation++; /* each dataset heeds it when rows are collected */
}

static void heed_generation(struct report *r)
{
    uint64_t generation = r->ds->node->member->report_generation;

    if (r->generation == generation)
        return;
    r->generation = generation;
    r->forget = r->words;
    r->begun = false;
}

/* The collector comes to a word, ... */
static void word_begin(struct report *r, uint64_t w)
{
    if (r->forget > 0) {
        r->n_told -= (uint64_t)__builtin_popcountll(r->told[w]);
        r->told[w] = 0;
    }
    if (r->renew > 0)
        r->anew[w] |= r->have[w];
}

/* ... and is done with it. */
static void word_end(struct report *r)
{
    r->forget -= r->forget > 0;
    r->renew -= r->renew > 0;
}

/* As measured; else as many samples as it has, at what one of them has cost. */
static double cost_of(const struct report *r, uint64_t object)
{
    uint32_t samples = r->samples != NULL ? r->samples[object] : 1;

    if (r->cost != NULL && r->cost[object] > 0)
        return (double)r->cost[object];
    return r->cost_n > 0 ? samples * r->cost_sum / (double)r->cost_n : 0;
}

static unsigned n_sessions(const struct dataset *ds)
{
    unsigned n = 0;

    dlc_list_each (l, &ds->sessions)
        n++;
    return n;
}

static json_t *put_row(const struct report *r, uint64_t object, const struct catalog_entry *e,
                       unsigned jobs)
{
    const struct dataset *ds = r->ds;

    return json_pack("[o, o, o, I, f, I, s, i]", msg_string(ds->cid), msg_string(e->key),
                     msg_string(e->etag), (json_int_t)e->size, cost_of(r, object),
                     (json_int_t)(r->samples != NULL ? r->samples[object] : 1),
                     ds->node->disk != NULL ? life_name(r->state) : life_name(LIFE_ACTIVE),
                     (int)jobs);
}

/* As JSON: control characters take six bytes there. */
static size_t json_len(const char *s)
{
    size_t n = 0;

    for (; *s != '\0'; s++)
        n += (unsigned char)*s < 0x20 ? 6 : *s == '"' || *s == '\\' ? 2 : 1;
    return n;
}

static void add_row(struct batch *b, struct report *r, uint64_t object, unsigned jobs)
{
    struct catalog_entry e;
    bool have = bit(r->have, object);

    if (catalog_object(r->ds->catalog, object, &e, NULL) < 0)
        return;
    b->rows[b->n++] = (struct row){r->ds, object, r->state, have};
    dataset_ref(r->ds);
    b->bytes += json_len(e.key) + json_len(e.etag) + ROW_BYTES;
    if (have)
        json_array_append_new(b->put, put_row(r, object, &e, jobs));
    else
        json_array_append_new(b->gone,
                              json_pack("[o, o]", msg_string(r->ds->cid), msg_string(e.key)));
}

/* The changes of one dataset, as far as *work and the batch allow. True: that was all. */
static bool add_rows(struct batch *b, struct report *r, unsigned *work)
{
    unsigned jobs = n_sessions(r->ds);

    heed_generation(r);
    for (; b->word<r->words && * work> 0; b->word++) {
        uint64_t w = (r->cursor + b->word) % r->words, differ;

        if (!r->begun)
            word_begin(r, w);
        r->begun = false;
        differ = (r->have[w] ^ r->told[w]) | (r->have[w] & r->anew[w]);
        *work -= DLC_MIN(*work, 1 + WORK_ROW * (unsigned)__builtin_popcountll(differ));
        for (; differ != 0; differ &= differ - 1) {
            if (b->n == ROWS_MAX || b->bytes > BYTES_MAX) {
                b->collected = b->full = true;
                r->begun = true;
                r->cursor = w;
                return false;
            }
            add_row(b, r, w * 64 + (uint64_t)__builtin_ctzll(differ), jobs);
        }
        word_end(r);
    }
    return b->word == r->words;
}

bool report_collect(struct node *n)
{
    struct batch *b = n->member->batch;
    unsigned work = WORK_STEP;

    if (b == NULL) {
        b = n->member->batch = mem_new(struct batch);
        b->put = json_array();
        b->gone = json_array();
    }
    while (!b->collected && work > 0) {
        struct dataset *ds = dataset_from(n, b->at);

        work -= DLC_MIN(work, WORK_DATASET);
        if (ds == NULL || ds->id != b->at)
            b->word = 0;
        if (ds == NULL)
            b->collected = true;
        else if (ds->cid == NULL || ds->report == NULL || ds->stale ||
                 add_rows(b, ds->report, &work))
            b->at = ds->id + 1;
        else
            b->at = ds->id;
        if (ds != NULL && b->at > ds->id)
            b->word = 0;
    }
    return b->collected;
}

json_t *report_chunks(struct node *n, bool *more)
{
    struct batch *b = n->member->batch;
    json_t *rows = NULL;

    dlc_check(b != NULL && b->collected);
    *more = b->full;
    if (b->n > 0)
        rows = json_pack("{s:O, s:O}", "put", b->put, "gone", b->gone);
    json_decref(b->put);
    json_decref(b->gone);
    b->put = b->gone = NULL; /* another thread sends them */
    if (b->n == 0)
        mem_free(&n->member->batch);
    return rows;
}

void report_heard(struct node *n, bool well)
{
    struct batch *b = n->member->batch;

    n->member->batch = NULL;
    for (unsigned i = 0; b != NULL && i < b->n; i++) {
        struct row *row = &b->rows[i];
        struct report *r = row->ds->report;

        if (well)
            set_told(r, row->object, row->put);
        if (well && row->state == r->state)
            clear_bit(r->anew, row->object);
        dataset_put(&row->ds);
    }
    if (b != NULL) {
        json_decref(b->put);
        json_decref(b->gone);
    }
    mem_free(&b);
}

/* ---- figures ---- */

static json_t *dataset_figures(struct dataset *ds)
{
    struct mem_session_stats sum = ds->readers.ended;
    struct disk_group_figures g = {0};
    char snapshot[17];
    int readers = 0;
    json_t *o;

    dlc_list_each (l, &ds->sessions) {
        session_add_stats(dlc_container(l, struct session, link), &sum);
        readers++;
    }
    if (ds->node->disk != NULL)
        disk_group_figures(ds->node->disk, ds->disk.group, &g);
    snprintf(snapshot, sizeof(snapshot), "%016llx",
             (unsigned long long)catalog_snapshot(ds->catalog));
    o = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:i, s:I, s:I, s:I, s:f}", "bytes",
                  (json_int_t)(ds->report != NULL ? ds->report->bytes : 0), "chunks",
                  (json_int_t)(ds->report != NULL ? ds->report->chunks : 0), "memory_bytes",
                  (json_int_t)mem_index_bytes(ds->index), "disk_bytes", (json_int_t)g.bytes,
                  "samples", (json_int_t)catalog_visible(ds->catalog), "total_bytes",
                  (json_int_t)catalog_bytes(ds->catalog), "snapshot", snapshot, "readers", readers,
                  "hits", (json_int_t)sum.hits, "misses", (json_int_t)sum.misses, "read_bytes",
                  (json_int_t)sum.bytes, "stall_s", (double)sum.stall_ns / 1e9);
    json_object_update_new(
        o, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "bucket_gets",
                     (json_int_t)ds->tally->gets, "bucket_bytes", (json_int_t)ds->tally->bytes,
                     "peer_hits", (json_int_t)ds->peer.hits, "peer_misses",
                     (json_int_t)ds->peer.misses, "peer_bytes", (json_int_t)ds->peer.bytes,
                     "served", (json_int_t)ds->peer.served, "served_bytes",
                     (json_int_t)ds->peer.served_bytes, "state", life_name(g.state)));
    return o;
}

/* What sessions of one job, as its clients name it, have read here. */
static void add_job(json_t *jobs, const char *job, const char *dataset, unsigned readers,
                    const struct mem_session_stats *st)
{
    json_t *o = json_object_get(jobs, job);

    if (o == NULL) {
        o = json_pack("{s:o}", "dataset", msg_string(dataset));
        if (json_object_set_new(jobs, job, o) < 0)
            return; /* a name that JSON cannot say */
    }
    json_add_int(o, "readers", readers);
    json_add_int(o, "hits", (json_int_t)st->hits);
    json_add_int(o, "misses", (json_int_t)st->misses);
    json_add_int(o, "read_bytes", (json_int_t)st->bytes);
    json_object_set_new(
        o, "stall_s",
        json_real(json_real_value(json_object_get(o, "stall_s")) + (double)st->stall_ns / 1e9));
}

static void add_session(json_t *jobs, const struct session *s)
{
    struct mem_session_stats st = {0};

    if (s->conn->job == NULL || s->ds->cid == NULL)
        return;
    session_add_stats(s, &st);
    add_job(jobs, s->conn->job, s->ds->cid, 1, &st);
}

/* Workers of a loader end with each epoch, their job does not. The latest PAST_JOBS are known. */
struct past_job {
    char *job, *dataset;
    struct mem_session_stats sum;
};

static struct past_job *past_job_of(struct node *n, const char *job, const char *dataset)
{
    struct past_job *p;

    for (size_t i = 0; i < n->member->n_past_jobs; i++)
        if (strcmp(n->member->past_jobs[i].job, job) == 0 &&
            strcmp(n->member->past_jobs[i].dataset, dataset) == 0)
            return &n->member->past_jobs[i];
    if (n->member->n_past_jobs == PAST_JOBS) {
        mem_free(&n->member->past_jobs[0].job);
        mem_free(&n->member->past_jobs[0].dataset);
        memmove(&n->member->past_jobs[0], &n->member->past_jobs[1],
                --n->member->n_past_jobs * sizeof(n->member->past_jobs[0]));
    }
    mem_reserve(n->member->past_jobs, n->member->n_past_jobs, n->member->cap_past_jobs);
    p = &n->member->past_jobs[n->member->n_past_jobs++];
    *p = (struct past_job){.job = mem_str(job), .dataset = mem_str(dataset)};
    return p;
}

static void report_session_ended(const struct session *s, const struct mem_session_stats *st)
{
    struct past_job *p;

    if (s->conn->job == NULL || s->ds->cid == NULL)
        return;
    p = past_job_of(s->ds->node, s->conn->job, s->ds->cid);
    p->sum.hits += st->hits;
    p->sum.misses += st->misses;
    p->sum.bytes += st->bytes;
    p->sum.stall_ns += st->stall_ns;
}

void report_close(struct node *n)
{
    for (size_t i = 0; i < n->member->n_past_jobs; i++) {
        mem_free(&n->member->past_jobs[i].job);
        mem_free(&n->member->past_jobs[i].dataset);
    }
    json_decref(n->member->figures.datasets);
    json_decref(n->member->figures.jobs);
    json_decref(n->member->figures.spent);
    json_decref(n->member->figures.progress);
    n->member->figures = (struct figures){0};
    mem_free(&n->member->past_jobs);
    n->member->n_past_jobs = n->member->cap_past_jobs = 0;
}

/* What the disk tier may hold: its limit, or what the file system leaves it; 0: none, not known yet. */
static uint64_t disk_space(const struct disk_figures *d)
{
    uint64_t room = d->fs_free == UINT64_MAX    ? UINT64_MAX
                    : d->fs_free > d->keep_free ? d->bytes + d->fs_free - d->keep_free
                                                : d->bytes;

    if (d->limit == 0)
        return room == UINT64_MAX ? 0 : room;
    return DLC_MIN(d->limit, room);
}

/* The figures of the next datasets. False: there are more. */
static bool figures_step(struct node *n, struct figures *f)
{
    if (f->datasets == NULL) {
        f->datasets = json_object();
        f->jobs = json_object();
        f->spent = cost_begin(n);
        f->progress = json_object();
        for (size_t i = 0; i < n->member->n_past_jobs; i++)
            add_job(f->jobs, n->member->past_jobs[i].job, n->member->past_jobs[i].dataset, 0,
                    &n->member->past_jobs[i].sum);
    }
    for (unsigned i = 0; i < FIGURES; i++) {
        struct dataset *ds = dataset_step(n, &f->at);

        if (ds == NULL)
            return true;
        if (ds->cid == NULL)
            continue;
        cost_add(f->spent, ds);
        if (ds->opening.listing != NULL)
            json_object_set_new(f->progress, ds->cid, listing_progress(ds));
        if (ds->state != DATASET_READY)
            continue;
        if (!ds->stale && !ds->deleted)
            json_object_set_new(f->datasets, ds->cid, dataset_figures(ds));
        dlc_list_each (s, &ds->sessions)
            add_session(f->jobs, dlc_container(s, struct session, link));
    }
    return false;
}

static void add_warms(struct node *n, json_t *progress)
{
    dlc_list_each (l, &n->warms) {
        struct warm *w = dlc_container(l, struct warm, link);

        if (w->ds->cid != NULL)
            json_object_set_new(progress, w->ds->cid, warm_figures(w));
    }
}

json_t *report_figures(struct node *n, json_t **progress)
{
    struct figures *f = &n->member->figures;
    struct figures made;
    struct memory_figures m;
    struct disk_figures d = {0};

    if (!figures_step(n, f))
        return NULL;
    made = *f;
    *f = (struct figures){0};
    *progress = made.progress;
    add_warms(n, *progress);
    tenant_memories_figures(&n->memories, &m);
    if (n->disk != NULL)
        disk_figures(n->disk, &d);
    return json_pack("{s:I, s:I, s:I, s:I, s:i, s:o, s:o, s:o, s:o*}", "memory_used",
                     (json_int_t)m.used, "memory_limit", (json_int_t)m.ceiling, "disk_used",
                     (json_int_t)d.bytes, "disk_limit", (json_int_t)disk_space(&d), "gpus_free",
                     (int)n->membership->gpus, "datasets", made.datasets, "jobs", made.jobs,
                     "spent", made.spent, "handover", handover_figures(n));
}

const struct node_events report_events = {
    .dataset_freed = report_free,
    .session_closed = report_session_ended,
    .sample_cost = report_cost,
    .derived_cost = report_derived_cost,
};
