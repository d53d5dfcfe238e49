// SPDX-License-Identifier: Apache-2.0
/*
 * Worker threads. Each takes a work item: a few samples of the newest batch that come next in the
 * order, or one late sample whose bytes have arrived, or, if there is nothing else, a late sample
 * for whose bytes it waits. A thread without work, or beyond the tuned number, sleeps.
 */
#include "loader/loader_i.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"

#define GRAIN_NS 100000.0 /* a work item should take as long: locks then cost nothing */
#define WEIGHT   0.05
#define NICER    5 /* the thread that trains comes first: the GPU waits for it */

struct work_item {
    struct slot *slot;
    uint32_t first, n;
    bool wait;           /* for its bytes */
    struct dlc_view got; /* a late sample that is there: its view */
    uint32_t n_missed;
    uint32_t missed[LOADER_GRAIN];
    uint32_t n_done;
    uint64_t busy_ns, starved_ns;
};

/* The number that the dataset knows it by. */
static uint64_t sample_of(const struct dlc_loader *l, const struct slot *s, uint32_t k)
{
    return rows_find(&l->rows, s->index[k]).sample;
}

/* ---- taking ---- */

static void drop_late_locked(struct dlc_loader *l, uint32_t i)
{
    memmove(&l->late[i], &l->late[i + 1], (--l->n_late - i) * sizeof(*l->late));
}

/* The oldest late sample, if its bytes have come or if they shall be waited for. */
static bool take_late_locked(struct dlc_loader *l, struct work_item *item, bool wait)
{
    struct late first;

    if (l->n_late == 0)
        return false;
    first = l->late[0];
    if (!wait && dlc_try_get(l->ds, sample_of(l, first.slot, first.k), &item->got) < 0)
        return false;
    item->slot = first.slot;
    item->first = first.k;
    item->n = 1;
    item->wait = wait;
    drop_late_locked(l, 0);
    return true;
}

static bool take_fresh_locked(struct dlc_loader *l, struct work_item *item)
{
    struct slot *s = ring_fresh_locked(l);
    uint32_t share;

    if (s == NULL)
        return false;
    share = DLC_MAX((s->n - s->taken) / (2 * l->wanted), 1u); /* some for the others */
    item->slot = s;
    item->first = s->taken;
    item->n = DLC_MIN(DLC_MIN(l->grain, share), s->n - s->taken);
    s->taken += item->n;
    return true;
}

static bool take_locked(struct dlc_loader *l, struct work_item *item)
{
    *item = (struct work_item){0};
    return take_late_locked(l, item, false) || take_fresh_locked(l, item) ||
           take_late_locked(l, item, true);
}

/* ---- making ---- */

/* Whose fault is it? The sample's own: the caller said what to do with it. */
static bool is_bad(int rc)
{
    return rc == DLC_EINVAL || rc == DLC_ECORRUPT || rc == DLC_ECHANGED || rc == DLC_ENOTFOUND;
}

static void fail(struct dlc_loader *l, struct work_item *item, uint32_t k, struct dlc_err *err)
{
    struct slot *s = item->slot;
    char key[300];
    int n = dlc_key(l->ds, sample_of(l, s, k), key, sizeof(key));

    dlc_err_prefix(err, "sample %llu (%s)", (unsigned long long)s->index[k],
                   n >= 0 && (size_t)n < sizeof(key) ? key : "its key is long");
    s->bad[k] = 1;
    dlc_mtx_lock(&l->mtx);
    s->n_bad++;
    bad_add(&l->bad, s->index[k], err->text);
    /* (LOADER-RING-1): the first of the batch, not of the time */
    if ((l->on_bad == DLC_BAD_RAISE || !is_bad(err->code)) && (s->err.code == 0 || k < s->err_at)) {
        s->err = *err;
        s->err_at = k;
    }
    dlc_mtx_unlock(&l->mtx);
}

static int64_t label_of(struct dlc_dataset *ds, uint64_t sample)
{
    int64_t label = dlc_class_count(ds) > 0 ? dlc_label(ds, sample) : -1;

    return DLC_MAX(label, (int64_t)-1);
}

/* The bytes of sample k. DLC_EMISS: not now. DLC_ECANCELED: nobody wants them any more. */
static int get(struct dlc_loader *l, struct work_item *item, uint32_t k, struct dlc_view *v)
{
    struct dlc_mono start;
    int rc;

    if (item->got.data != NULL) {
        *v = item->got;
        return 0;
    }
    if (!item->wait)
        return dlc_try_get(l->ds, sample_of(l, item->slot, k), v);
    start = dlc_mono_now();
    rc = dlc_get(l->ds, sample_of(l, item->slot, k), v);
    item->starved_ns += (uint64_t)dlc_mono_since(start).ns;
    return rc;
}

/* (LOADER-RING-1): of all ranks no two places of an explicit order are the same. */
static uint64_t key_of(const struct dlc_loader *l, const struct slot *s, uint32_t k,
                       uint64_t sample)
{
    uint64_t place = 0;

    if (l->placed)
        place = 1 + (s->begin + k) * l->spec.world + l->spec.rank;
    return decode_spec_random_key(&l->decode, s->epoch, sample, place);
}

static int make_from(struct dlc_loader *l, struct worker *w, struct work_item *item, uint32_t k,
                     const struct sample_part *part, enum sample_encoding input, const void *data,
                     size_t len, struct dlc_err *err)
{
    struct slot *s = item->slot;

    return sample_decoder_run(w->decoder, input, data, len, key_of(l, s, k, part->sample), part,
                              s->data + k * l->decode.bytes, &s->lengths[k], err);
}

/* From a decoded sample that is kept. False: there is none that is any good. */
static bool make_from_kept(struct dlc_loader *l, struct worker *w, struct work_item *item,
                           uint32_t k, const struct sample_part *part)
{
    struct decoded_sample d;
    int rc;

    if (item->got.data != NULL || !decoded_policy_get(&l->decoded, part->sample, &d))
        return false;
    rc = make_from(l, w, item, k, part, SAMPLE_DECODED, d.data, d.len, NULL);
    decoded_policy_put(&l->decoded, &d);
    if (rc == 0)
        decoded_policy_count(&l->decoded, true);
    return rc == 0;
}

/* From a decoded sample that is kept, or from the bytes, of which a decoded sample is made if one
 * is wanted. DLC_EMISS and DLC_ECANCELED as get(). */
static int make_sample(struct dlc_loader *l, struct worker *w, struct work_item *item, uint32_t k,
                       struct dlc_err *err)
{
    struct sample_part part = rows_find(&l->rows, item->slot->index[k]);
    struct dlc_view v = {0};
    struct decoded_sample d;
    int rc;

    if (make_from_kept(l, w, item, k, &part))
        return 0;
    rc = get(l, item, k, &v);
    if (rc == DLC_EMISS || rc == DLC_ECANCELED)
        return rc;
    if (rc < 0)
        return dlc_err_set(err, rc, "%s", dlc_last_error());
    if (sample_decoder_make_decoded(w->decoder, &l->decoded, v.data, v.len, part.sample, &d)) {
        rc = make_from(l, w, item, k, &part, SAMPLE_DECODED, d.data, d.len, err);
        decoded_policy_put(&l->decoded, &d);
    } else {
        rc = make_from(l, w, item, k, &part, SAMPLE_ENCODED, v.data, v.len, err);
    }
    dlc_put(l->ds, &v);
    if (rc == 0)
        decoded_policy_count(&l->decoded, false);
    return rc;
}

static void make_one(struct dlc_loader *l, struct worker *w, struct work_item *item, uint32_t k)
{
    struct slot *s = item->slot;
    struct dlc_err err = DLC_ERR_INIT;
    int rc = make_sample(l, w, item, k, &err);

    if (rc == DLC_EMISS || rc == DLC_ECANCELED) {
        item->missed[item->n_missed++] = k;
        return;
    }
    s->labels[k] = label_of(l->ds, sample_of(l, s, k));
    if (rc < 0)
        fail(l, item, k, &err);
    item->n_done++;
}

static void make(struct dlc_loader *l, struct worker *w, struct work_item *item)
{
    struct dlc_mono start = dlc_mono_now();
    uint64_t ask[LOADER_GRAIN];

    for (uint32_t i = 0; i < item->n; i++)
        make_one(l, w, item, item->first + i);
    item->busy_ns = (uint64_t)dlc_mono_since(start).ns - item->starved_ns;
    for (uint32_t i = 0; i < item->n_missed; i++)
        ask[i] = sample_of(l, item->slot, item->missed[i]);
    /* relaxed: it is looked at again under the lock */
    if (item->n_missed > 0 && !atomic_load_explicit(&l->stop, memory_order_relaxed))
        dlc_prefetch(l->ds, ask, item->n_missed);
}

/* ---- finishing ---- */

static void measure_locked(struct dlc_loader *l, const struct work_item *item)
{
    double each = (double)item->busy_ns / item->n_done;

    l->sample_ns += (l->sample_ns > 0 ? WEIGHT : 1) * (each - l->sample_ns);
    l->grain = (uint32_t)DLC_CLAMP(GRAIN_NS / DLC_MAX(l->sample_ns, 1.0), 1.0, LOADER_GRAIN);
}

static void finish_locked(struct dlc_loader *l, struct work_item *item)
{
    struct slot *s = item->slot;

    l->stats.busy_ns += item->busy_ns;
    l->stats.starved_ns += item->starved_ns;
    if (atomic_load(&l->stop))
        return; /* the batch is forgotten in a moment */
    for (uint32_t i = 0; i < item->n_missed; i++) {
        mem_reserve(l->late, l->n_late, l->cap_late);
        l->late[l->n_late++] = (struct late){s, item->missed[i]};
    }
    if (item->n_missed > 1)
        dlc_cond_broadcast(&l->work); /* others may sleep */
    s->busy_ns += item->busy_ns;
    s->done += item->n_done;
    if (item->n_done > 0)
        measure_locked(l, item);
    if (s->done == s->n && l->queue.next == &s->link)
        dlc_cond_signal(&l->ready);
}

/* ---- threads ---- */

static bool asked_to_stop(struct interrupt *i)
{
    struct worker *w = dlc_container(i, struct worker, interrupt);

    /* relaxed: a wait is given up a little later */
    return atomic_load_explicit(&w->loader->stop, memory_order_relaxed);
}

static void work_locked(struct dlc_loader *l, struct worker *w, struct work_item *item)
{
    l->running++;
    dlc_mtx_unlock(&l->mtx);
    w->interrupt = (struct interrupt){.ask = asked_to_stop};
    make(l, w, item);
    dlc_mtx_lock(&l->mtx);
    finish_locked(l, item);
    if (--l->running == 0 && atomic_load(&l->stop))
        dlc_cond_broadcast(&l->quiet);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct dlc_loader *l = w->loader;
    struct work_item *item = mem_new(struct work_item);
    char name[16];

    snprintf(name, sizeof(name), "dlc-load-%u", w->number % 1000);
    pthread_setname_np(pthread_self(), name);
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICER); /* 0: this thread */
    interrupt_asked = &w->interrupt;
    dlc_mtx_lock(&l->mtx);
    while (!l->closing) {
        if (w->number >= l->wanted)
            dlc_cond_wait(&l->spare_time, &l->mtx);
        else if (!atomic_load(&l->stop) && take_locked(l, item))
            work_locked(l, w, item);
        else
            dlc_cond_wait(&l->work, &l->mtx);
    }
    dlc_mtx_unlock(&l->mtx);
    mem_free(&item);
    return NULL;
}

static int start_one(struct dlc_loader *l, struct dlc_err *err)
{
    struct worker *w = mem_new(struct worker);
    sigset_t all, before;
    int rc;

    *w = (struct worker){
        .loader = l, .number = l->started, .decoder = sample_decoder_new(&l->decode)};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the caller's threads */
    rc = os_thread(&w->thread, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        sample_decoder_free(&w->decoder);
        mem_free(&w);
        return dlc_err_set(err, DLC_ENOMEM, "cannot start thread %u of the loader: %s",
                           l->started + 1, strerror(rc));
    }
    l->workers[l->started++] = w;
    return 0;
}

int crew_start(struct dlc_loader *l, unsigned threads, struct dlc_err *err)
{
    int rc = 0;

    l->workers = mem_zero(threads * sizeof(struct worker *));
    l->grain = 1;
    dlc_mtx_lock(&l->mtx); /* they wait until all are there */
    while (rc == 0 && l->started < threads)
        rc = start_one(l, err);
    l->wanted = l->started;
    dlc_mtx_unlock(&l->mtx);
    return l->started > 0 ? 0 : rc; /* fewer than wished for are enough */
}

void crew_want_locked(struct dlc_loader *l, unsigned threads)
{
    unsigned before = l->wanted;

    dlc_mtx_assert_held(&l->mtx);
    l->wanted = DLC_CLAMP(threads, 1u, l->started);
    if (l->wanted > before)
        dlc_cond_broadcast(&l->spare_time);
}

void crew_pause_locked(struct dlc_loader *l)
{
    dlc_mtx_assert_held(&l->mtx);
    atomic_store(&l->stop, true);
    while (l->running > 0)
        dlc_cond_wait(&l->quiet, &l->mtx);
}

void crew_go_locked(struct dlc_loader *l)
{
    dlc_mtx_assert_held(&l->mtx);
    atomic_store(&l->stop, false);
    dlc_cond_broadcast(&l->work);
}

void crew_stop(struct dlc_loader *l)
{
    dlc_mtx_lock(&l->mtx);
    atomic_store(&l->stop, true);
    l->closing = true;
    dlc_cond_broadcast(&l->work);
    dlc_cond_broadcast(&l->spare_time);
    dlc_mtx_unlock(&l->mtx);
    for (uint32_t i = 0; i < l->started; i++) {
        struct worker *w = l->workers[i];

        pthread_join(w->thread, NULL);
        sample_decoder_free(&w->decoder);
        mem_free(&w);
    }
    l->started = 0;
    mem_free(&l->workers);
}
