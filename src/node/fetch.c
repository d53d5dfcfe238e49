// SPDX-License-Identifier: Apache-2.0
/*
 * Fetches: read-through from disk and bucket, one per sample whatever the number of readers (N3).
 *
 *     start --> DISK --found--> publish
 *                 |--absent--> BUCKET --> publish --> STORE (behind the reader's back) --> end
 *                                 |--failed--> end
 *     a sample of a cluster's dataset that another node owns (docs/design/0006):
 *                 |--absent--> PEER --> publish --> end
 *                                |--failed, late--> SHARED, where nodes share a Redis
 *                                                      |--absent--> BUCKET --> and into it
 *     a sample too large for memory, or wanted on disk only:
 *     start --> DISK --found--> end
 *                 |--absent--> PREPARE (space on disk) --> BUCKET --> COMMIT --> end
 *
 * DISK, PREPARE, COMMIT and STORE run on workers, BUCKET on lanes; each posts back to the node
 * loop, which alone decides the next step. Between steps nobody but the step's thread touches the
 * bytes.
 */
#include "node/node_i.h"

#include <string.h>

#include "base/counters.h"
#include "base/log.h"
#include "base/mem.h"
#include "storage/remote/peers.h"
#include "storage/remote/shared.h"

#define FETCH_TAG DLC_TAG4('f', 't', 'c', 'h')
#define PUMP_TURN 256 /* fetches started before the loop looks at its clients again */

struct fetch {
    uint32_t tag;
    struct dataset *ds;
    uint64_t sample, size;
    struct catalog_entry entry;
    struct chunk_id chunk;
    bool to_disk;   /* the goal, or the size, is the disk tier's */
    bool from_disk; /* where the bytes came from */
    bool from_peer;
    bool for_peer; /* a peer waits: it is not passed on to another one */
    bool at_peer;  /* PEER is under way */
    bool tried_shared;
    bool tried_again;      /* with other credentials */
    unsigned keys_version; /* of those that it was tried with */
    struct again again;
    bool on_demand;         /* a reader was waiting when it began */
    struct mem_fill *fill;  /* memory goal */
    struct disk_fill *file; /* disk goal */
    const void *stored;     /* resident bytes while they are written to disk */
    struct dlc_list waiters;
    struct warm *warm;
    struct dlc_mono started, asked; /* asked: the bucket */

    struct job job;
    struct task task;
    void (*step)(struct fetch *f); /* what the worker does */
    void (*next)(struct fetch *f); /* what the loop does then */
    struct bucket_read read;
    struct bucket_stat stat; /* of an object that has changed */
    struct peer_read ask;
    struct shared_read look;
    char *peer, *address; /* of it */
    int rc;
    struct dlc_err err;
};

static void fetch_bucket(struct fetch *f);
static void fetch_afar(struct fetch *f);
static void fetch_prepare(struct fetch *f);
static void share(const struct fetch *f);

static struct fetch *fetch_of_task(struct task *t)
{
    struct fetch *f = dlc_container(t, struct fetch, task);

    dlc_check(f->tag == FETCH_TAG);
    return f;
}

/* ---- moving between threads ---- */

static void back_on_loop(struct task *t)
{
    struct fetch *f = fetch_of_task(t);

    f->ds->node->jobs--;
    f->next(f);
}

static void on_worker(struct job *j)
{
    struct fetch *f = dlc_container(j, struct fetch, job);

    f->step(f);
    loop_post(f->ds->node->loop, &f->task);
}

static void work(struct fetch *f, void (*step)(struct fetch *), void (*next)(struct fetch *))
{
    f->step = step;
    f->next = next;
    f->job.run = on_worker;
    f->ds->node->jobs++;
    pool_run(f->ds->node->workers, &f->job);
}

/* ---- the end ---- */

static enum stalled why_stalled(const struct fetch *f, const struct waiter *w)
{
    const struct follow *follow = prefetch_of(w->session);
    struct bucket_figures b;

    if (f->from_disk)
        return STALLED_DISK;
    if (follow != NULL && follow->short_of_memory)
        return STALLED_MEMORY;
    if (follow == NULL && f->on_demand)
        return STALLED_CLIENT;
    bucket_figures(f->ds->bucket, &b);
    return b.queued > 0 ? STALLED_BANDWIDTH : STALLED_LATENCY;
}

/* Why did the reader have to wait? Counted, so that a slow run can be explained. */
static void count_stall(const struct fetch *f, const struct waiter *w)
{
    enum stalled why = why_stalled(f, w);
    uint64_t ns = (uint64_t)dlc_mono_since(w->asked).ns;

    f->ds->stall_ns[why] += ns;
    switch (why) {
    case STALLED_LATENCY: count_add(stall_latency_ns, ns); break;
    case STALLED_BANDWIDTH: count_add(stall_bandwidth_ns, ns); break;
    case STALLED_DISK: count_add(stall_disk_ns, ns); break;
    case STALLED_MEMORY: count_add(stall_memory_ns, ns); break;
    case STALLED_CLIENT: count_add(stall_client_ns, ns); break;
    }
}

static void answer_all(struct fetch *f, int rc)
{
    struct dlc_list *n;

    while ((n = dlc_list_pop_head(&f->waiters)) != NULL) {
        struct waiter *w = dlc_container(n, struct waiter, of_fetch);

        if (f->ds->bucket != NULL && w->session != NULL)
            count_stall(f, w);
        session_answer(w, rc, f->err.text);
    }
    if (f->warm != NULL)
        warm_told(f->warm, f->size, rc == DLC_ELARGE ? 0 : rc, &f->err);
    f->warm = NULL;
}

static void fetch_free(struct fetch **fp)
{
    struct fetch *f = *fp;

    *fp = NULL;
    mem_free(&f->peer);
    mem_free(&f->address);
    f->tag = 0;
    mem_free(&f);
}

static void fetch_end(struct fetch *f, int rc)
{
    struct dataset *ds = f->ds;

    if (rc < 0 && rc != DLC_ELARGE && rc != DLC_EBYPASS && rc != DLC_ECANCELED)
        log_warn("sample %llu of %s: %s", (unsigned long long)f->sample, ds->url.shown,
                 f->err.text);
    map_remove(&ds->fetching, f->sample);
    answer_all(f, rc);
    fetch_free(&f);
    fetch_pump(ds->node);
    dataset_put(&ds);
}

/* ---- storing what is resident on disk ---- */

static void store_step(struct fetch *f)
{
    f->rc = disk_store(f->ds->node->disk, f->chunk, f->stored, f->size, &f->err);
}

static void store_next(struct fetch *f)
{
    struct node *n = f->ds->node;
    struct dataset *ds = f->ds;

    if (f->rc < 0 && f->rc != DLC_EDENIED)
        log_at(f->rc == DLC_ENOSPACE ? LOG_DEBUG : LOG_INFO, "%s not kept on disk: %s",
               f->entry.key, f->err.text);
    memory_unhold(n->memory, ds->index, f->sample);
    n->storing_bytes -= f->size;
    fetch_free(&f);
    fetch_pump(n);
    dataset_put(&ds);
}

/* The readers have their answer; the fetch lives on to write the bytes. */
static bool try_store(struct fetch *f)
{
    struct node *n = f->ds->node;
    struct memory_figures figures;
    uint64_t len;

    if (n->disk == NULL || f->from_disk || n->stopping || !dataset_owns(f->ds, f->sample))
        return false; /* what is borrowed is kept on disk by its owner */
    memory_figures(n->memory, &figures);
    if (n->storing_bytes + f->size > figures.ceiling / 4)
        return false; /* the disk is slower than the bucket: do not fill memory with its backlog */
    f->stored = memory_hold(n->memory, f->ds->index, f->sample, &len);
    if (f->stored == NULL)
        return false;
    n->storing_bytes += f->size;
    work(f, store_step, store_next);
    return true;
}

/* ---- memory goal ---- */

static void publish(struct fetch *f)
{
    struct dataset *ds = f->ds;

    ds->node->filling_bytes -= f->size;
    memory_publish(ds->node->memory, &f->fill);
    hist_add(&ds->latency, (uint64_t)dlc_mono_since(f->started).ns / 1000);
    prefetch_published(ds, f->sample);
    map_remove(&ds->fetching, f->sample);
    answer_all(f, 0);
    if (try_store(f)) {
        fetch_pump(ds->node);
        return;
    }
    fetch_free(&f);
    fetch_pump(ds->node);
    dataset_put(&ds);
}

static void give_up(struct fetch *f)
{
    if (f->fill != NULL) {
        f->ds->node->filling_bytes -= f->size;
        memory_abandon(f->ds->node->memory, &f->fill);
    }
    if (f->file != NULL)
        disk_fill_abandon(f->ds->node->disk, &f->file);
    fetch_end(f, f->rc);
}

static void read_disk_step(struct fetch *f)
{
    f->rc = disk_read(f->ds->node->disk, f->chunk, mem_fill_data(f->fill), f->size, &f->err);
}

static void read_disk_next(struct fetch *f)
{
    if (f->rc < 0) {
        if (f->rc != DLC_EMISS)
            log_warn("disk tier: %s; reading it from the bucket", f->err.text);
        fetch_afar(f);
        return;
    }
    f->from_disk = true;
    publish(f);
}

/* ---- disk goal ---- */

static void commit_step(struct fetch *f)
{
    f->rc = disk_fill_commit(f->ds->node->disk, &f->file, &f->err);
}

static void commit_next(struct fetch *f)
{
    /* The bytes are right even if they could not be kept: let readers get them from the bucket. */
    if (f->rc < 0)
        log_warn("disk tier: %s", f->err.text);
    fetch_end(f, f->rc < 0 ? DLC_EBYPASS : DLC_ELARGE);
}

static void prepare_step(struct fetch *f)
{
    f->rc = disk_fill_begin(f->ds->node->disk, f->chunk, f->size, &f->file, &f->err);
}

static void prepare_next(struct fetch *f)
{
    if (f->rc < 0) {
        log_at(f->rc == DLC_ENOSPACE ? LOG_DEBUG : LOG_WARN, "disk tier: %s", f->err.text);
        fetch_end(f, DLC_EBYPASS);
        return;
    }
    fetch_afar(f);
}

static void fetch_prepare(struct fetch *f)
{
    work(f, prepare_step, prepare_next);
}

static void probe_step(struct fetch *f)
{
    f->rc = disk_has(f->ds->node->disk, f->chunk) ? 0 : DLC_EMISS;
}

static void probe_next(struct fetch *f)
{
    if (f->rc == 0)
        fetch_end(f, DLC_ELARGE);
    else
        fetch_prepare(f);
}

/* ---- bucket ---- */

static void changed_next(struct fetch *f)
{
    f->rc = DLC_ECHANGED;
    f->err = f->read.err;
    if (f->stat.rc == 0)
        dlc_err_set(&f->err, f->rc,
                    "%.200s of %.120s is no longer the object that was listed: its ETag was %s and "
                    "is now %s; list the bucket anew (refresh, `dlcache ls --refresh`)",
                    f->entry.key, f->ds->url.shown, f->entry.etag, f->stat.etag);
    give_up(f);
}

/* On a lane. */
static void on_changed(struct bucket_stat *s)
{
    struct fetch *f = s->priv;

    loop_post(f->ds->node->loop, &f->task);
}

/* The bucket has another version than the catalog, and perhaps did not say which: ask. */
static void fetch_changed(struct fetch *f)
{
    f->stat = (struct bucket_stat){.key = f->entry.key, .done = on_changed, .priv = f};
    f->next = changed_next;
    f->ds->node->jobs++;
    bucket_stat(f->ds->bucket, &f->stat);
}

static void arrived(struct fetch *f)
{
    share(f);
    if (!f->from_disk && !f->from_peer)
        dataset_fetched(f->ds, f->sample, dlc_mono_since(f->asked), f->size);
    if (f->to_disk)
        work(f, commit_step, commit_next);
    else
        publish(f);
}

static void asked_again(struct again *a, bool changed)
{
    struct fetch *f = dlc_container(a, struct fetch, again);

    if (changed)
        fetch_bucket(f);
    else
        give_up(f);
}

/* f->rc and f->err say why. A tenant may have set other credentials since. */
static void failed(struct fetch *f)
{
    struct dataset *ds = f->ds;

    if (f->rc != DLC_EDENIED || ds->keys == NULL || f->tried_again) {
        give_up(f);
        return;
    }
    f->tried_again = true;
    f->again.done = asked_again;
    if (f->keys_version != ds->keys_version)
        fetch_bucket(f);
    else
        resolve_again(ds, &f->again);
}

static void bucket_next(struct fetch *f)
{
    f->rc = f->read.rc;
    if (f->rc == DLC_ECHANGED && !f->ds->node->stopping) {
        fetch_changed(f);
    } else if (f->rc < 0) {
        f->err = f->read.err;
        failed(f);
    } else {
        arrived(f);
    }
}

/* On a lane. */
static void on_read(struct bucket_read *r)
{
    struct fetch *f = r->priv;

    loop_post(f->ds->node->loop, &f->task);
}

/* A sample that is more, or less, than one object. */
static void parts_next(void *arg, int rc, const struct dlc_err *err, bool from_disk)
{
    struct fetch *f = arg;

    f->rc = rc;
    f->from_disk = from_disk;
    f->err = *err;
    if (rc < 0)
        failed(f);
    else
        arrived(f);
}

static void *destination(struct fetch *f)
{
    return f->to_disk ? disk_fill_data(f->file) : mem_fill_data(f->fill);
}

/* ---- the memory that nodes share ---- */

static void shared_next(struct fetch *f)
{
    if (f->look.rc < 0) {
        count(shared_misses);
        fetch_bucket(f);
        return;
    }
    count(shared_hits);
    f->from_peer = true; /* no read of the bucket */
    arrived(f);
}

/* On a thread of the tier. */
static void on_shared(struct shared_read *r)
{
    struct fetch *f = r->priv;

    loop_post(f->ds->node->loop, &f->task);
}

/* What the bucket gave goes there too, for the others. */
static void share(const struct fetch *f)
{
    const struct dataset *ds = f->ds;

    if (ds->node->shared != NULL && ds->cid != NULL && !f->from_peer && !f->from_disk)
        shared_put(ds->node->shared, ds->cid, catalog_snapshot(ds->catalog), f->sample,
                   f->to_disk ? disk_fill_data(f->file) : mem_fill_data(f->fill), f->size);
}

static bool fetch_shared(struct fetch *f)
{
    struct dataset *ds = f->ds;

    if (ds->node->shared == NULL || ds->cid == NULL || f->tried_shared || f->size == 0)
        return false;
    f->tried_shared = true;
    f->look = (struct shared_read){
        .dataset = ds->cid,
        .snapshot = catalog_snapshot(ds->catalog),
        .sample = f->sample,
        .dst = destination(f),
        .length = f->size,
        .done = on_shared,
        .priv = f,
    };
    f->next = shared_next;
    ds->node->jobs++;
    shared_read(ds->node->shared, &f->look);
    return true;
}

/* ---- the bucket ---- */

static void fetch_bucket(struct fetch *f)
{
    struct node *n = f->ds->node;
    void *dst = destination(f);

    if (n->stopping) {
        f->rc = dlc_err_set(&f->err, DLC_ECANCELED, "the daemon is stopping");
        give_up(f);
        return;
    }
    if (fetch_shared(f))
        return;
    f->asked = dlc_mono_now();
    f->keys_version = f->ds->keys_version;
    if (!catalog_is_whole(f->ds->catalog)) {
        parts_read(f->ds, f->sample, dst, parts_next, f);
        return;
    }
    f->read = (struct bucket_read){
        .key = f->entry.key,
        .etag = f->entry.etag,
        .length = f->size,
        .whole = true,
        .dst = dst,
        .done = on_read,
        .priv = f,
    };
    f->next = bucket_next;
    n->jobs++;
    bucket_read(f->ds->bucket, &f->read);
}

/* ---- peer ---- */

static void peer_next(struct fetch *f)
{
    struct dataset *ds = f->ds;

    f->at_peer = false;
    if (f->ask.rc == 0) {
        f->from_peer = true;
        ds->peer_hits++;
        ds->peer_bytes += f->size;
        count(peer_hits);
        count_add(peer_bytes, f->size);
        arrived(f);
        return;
    }
    ds->peer_misses++;
    count(peer_misses);
    log_debug("sample %llu of %s: peer %s: %s; reading it from the bucket",
              (unsigned long long)f->sample, ds->url.shown, f->peer, f->ask.err.text);
    fetch_bucket(f);
}

/* On a thread of the peers. */
static void on_peer(struct peer_read *r)
{
    struct fetch *f = r->priv;

    loop_post(f->ds->node->loop, &f->task);
}

static void fetch_peer(struct fetch *f, const struct cluster_peer *peer)
{
    struct node *n = f->ds->node;

    f->peer = mem_str(peer->name);
    f->address = mem_str(peer->address);
    f->ask = (struct peer_read){
        .peer = f->peer,
        .address = f->address,
        .token = n->token,
        .dataset = f->ds->cid,
        .snapshot = catalog_snapshot(f->ds->catalog),
        .sample = f->sample,
        .dst = destination(f),
        .length = f->size,
        .done = on_peer,
        .priv = f,
    };
    f->at_peer = true;
    f->next = peer_next;
    n->jobs++;
    peers_read(n->peers, &f->ask);
}

/* It is not here: from the node that owns it, or from the bucket. */
static void fetch_afar(struct fetch *f)
{
    struct cluster_peer peer;

    if (!f->ds->node->stopping && !f->for_peer && f->size > 0 &&
        dataset_peer(f->ds, f->sample, &peer))
        fetch_peer(f, &peer);
    else
        fetch_bucket(f);
}

/* ---- start ---- */

static struct fetch *fetch_new(struct dataset *ds, uint64_t sample)
{
    struct fetch *f = mem_new(struct fetch);

    f->tag = FETCH_TAG;
    f->ds = ds;
    f->sample = sample;
    f->started = dlc_mono_now();
    f->task.run = back_on_loop;
    dlc_list_init(&f->waiters);
    ds->refs++;
    map_set(&ds->fetching, sample, f);
    return f;
}

static void join(struct fetch *f, struct waiter *w, struct warm *warm)
{
    if (w != NULL)
        dlc_list_push_tail(&f->waiters, &w->of_fetch);
    if (warm != NULL && f->warm == NULL)
        f->warm = warm;
    else if (warm != NULL)
        warm_told(warm, f->size, 0, NULL); /* two warm-ups of one dataset: the other one waits */
}

/* Reserve room and take the first step. */
static void fetch_begin(struct fetch *f, enum fetch_goal goal)
{
    struct node *n = f->ds->node;

    f->rc = goal == FETCH_DISK
                ? DLC_ELARGE
                : memory_reserve(n->memory, f->ds->index, f->sample, f->size, &f->fill);
    if (f->rc == 0) {
        n->filling_bytes += f->size;
        if (n->disk != NULL)
            work(f, read_disk_step, read_disk_next);
        else
            fetch_afar(f);
    } else if (f->rc == DLC_ELARGE && n->disk != NULL) {
        f->to_disk = true;
        work(f, probe_step, probe_next);
    } else {
        if (f->rc == DLC_ELARGE) /* the memory tier counts its own */
            count(mem_bypasses);
        fetch_end(f, DLC_EBYPASS);
    }
}

static void start(struct dataset *ds, uint64_t sample, enum fetch_goal goal, struct waiter *w,
                  struct warm *warm, bool for_peer)
{
    struct fetch *f = map_get(&ds->fetching, sample);

    if (f != NULL) {
        count(requests_joined);
        f->for_peer |= for_peer;
        join(f, w, warm);
        return;
    }
    f = fetch_new(ds, sample);
    f->on_demand = w != NULL;
    f->for_peer = for_peer;
    join(f, w, warm);
    f->rc = catalog_get(ds->catalog, sample, &f->entry, &f->err);
    if (f->rc < 0) {
        fetch_end(f, f->rc);
        return;
    }
    f->size = f->entry.size;
    f->chunk = dataset_chunk(ds, f->entry.key, f->entry.etag);
    fetch_begin(f, goal);
}

void fetch_start(struct dataset *ds, uint64_t sample, enum fetch_goal goal, struct waiter *w,
                 struct warm *warm)
{
    if (goal == FETCH_MEMORY && mem_index_ready(ds->index, sample)) {
        if (w != NULL)
            session_answer(w, 0, NULL);
        if (warm != NULL)
            warm_told(warm, 0, 0, NULL);
        return;
    }
    start(ds, sample, goal, w, warm, false);
}

bool fetch_for_peer(struct dataset *ds, uint64_t sample, struct waiter *w)
{
    struct fetch *f = map_get(&ds->fetching, sample);

    if (f != NULL && f->at_peer)
        return false; /* that peer may be waiting for us */
    if (mem_index_ready(ds->index, sample))
        session_answer(w, 0, NULL);
    else
        start(ds, sample, FETCH_MEMORY, w, NULL, true);
    return true;
}

/* May another prefetch start? Demand misses never ask. */
static bool room_for_more(const struct node *n, const struct memory_figures *m)
{
    return n->jobs < 4096 && n->filling_bytes < m->ceiling / 4 && n->storing_bytes < m->ceiling / 8;
}

/* Start one prefetch of each dataset and one step of each warm-up. How many were started. */
static unsigned pump_round(struct node *n)
{
    struct memory_figures m;
    unsigned started = 0;
    uint64_t sample;

    dlc_list_each_safe (l, &n->datasets) {
        struct dataset *ds = dlc_container(l, struct dataset, link);

        memory_figures(n->memory, &m);
        if (room_for_more(n, &m) && dataset_backlog_next(ds, &sample)) {
            fetch_start(ds, sample, FETCH_MEMORY, NULL, NULL);
            started++;
        }
    }
    dlc_list_each_safe (l, &n->warms) {
        memory_figures(n->memory, &m);
        if (room_for_more(n, &m) && warm_step(dlc_container(l, struct warm, link)))
            started++;
    }
    return started;
}

void fetch_pump(struct node *n)
{
    unsigned left = PUMP_TURN, started = 1;

    if (n->pumping || n->stopping)
        return;
    n->pumping = true;
    while (left > 0 && started > 0) {
        started = pump_round(n);
        left -= DLC_MIN(started, left);
    }
    n->pumping = false;
    if (left == 0)
        loop_timer_set(n->loop, &n->pump, loop_now(n->loop));
}

void fetch_pump_again(struct timer *t)
{
    fetch_pump(dlc_container(t, struct node, pump));
}
