// SPDX-License-Identifier: Apache-2.0
/* dlc_loader_*: the consumer's side. */
#include "loader/loader_i.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "client/last_error.h"
#include "base/host_limits.h"

#define RING_DEFAULT 4u
#define RING_LEAST   2u
#define RING_MOST    1024u
#define BATCH_MOST   (1u << 20)
#define LOOK_EVERY   DLC_MS(50) /* while waiting: Ctrl-C, the daemon, how far we are */

static struct slot *slot_of(struct dlc_list *link)
{
    return dlc_container(link, struct slot, link);
}

/* ---- open ---- */

static uint32_t ring_of(const struct dlc_loader_spec *spec)
{
    return spec->ring == 0 ? RING_DEFAULT : DLC_CLAMP(spec->ring, RING_LEAST, RING_MOST);
}

static int check_spec(const struct dlc_loader_spec *spec, struct dlc_err *err)
{
    if (spec->batch == 0 || spec->batch > BATCH_MOST)
        return dlc_err_set(err, DLC_EINVAL, "a batch of %u samples: 1 to %u", spec->batch,
                           BATCH_MOST);
    if (spec->on_bad > DLC_BAD_REPLACE || spec->decoded_cache > DLC_OFF)
        return dlc_err_set(err, DLC_EINVAL,
                           "on_bad %u, decoded_cache %u: see enum dlc_on_bad, dlc_switch",
                           spec->on_bad, spec->decoded_cache);
    if (spec->order.kind > DLC_EXPLICIT || spec->order.relaxed != 0)
        return dlc_err_set(err, DLC_EINVAL,
                           "a loader reads in sequential, shuffled or explicit order, and not in a "
                           "relaxed one");
    if (spec->threads > LOADER_THREADS || spec->threads_most > LOADER_THREADS)
        return dlc_err_set(err, DLC_EINVAL, "%u threads: at most %u",
                           DLC_MAX(spec->threads, spec->threads_most), LOADER_THREADS);
    return 0;
}

int64_t dlc_loader_bytes(const struct dlc_loader_spec *spec, uint32_t *count)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct decode_spec m;

    if (check_spec(spec, &err) < 0 || decode_spec_init(&m, spec, &err) < 0)
        return client_fail(&err);
    if (count != NULL)
        *count = ring_of(spec);
    return (int64_t)(m.bytes * spec->batch);
}

static int make_slots(struct dlc_loader *l, struct dlc_err *err)
{
    while (l->slots < l->ring) {
        struct slot *s = slot_new(l, err);

        if (s == NULL)
            return err->code;
        dlc_list_push_tail(&l->spare, &s->link);
        l->slots++;
    }
    return 0;
}

static struct dlc_loader *loader_new(struct dlc_dataset *ds, const struct dlc_loader_spec *spec)
{
    struct dlc_loader *l = mem_new(struct dlc_loader);

    l->tag = LOADER_TAG;
    l->pid = getpid();
    l->ds = ds;
    l->refs = 1;
    l->batch = spec->batch;
    l->ring = ring_of(spec);
    l->drop_last = spec->drop_last != 0;
    l->placed = spec->order.kind == DLC_EXPLICIT && spec->once == 0;
    l->on_bad = (enum dlc_on_bad)spec->on_bad;
    l->alloc = spec->alloc;
    l->free = spec->free;
    l->alloc_arg = spec->alloc_arg;
    l->fixed = spec->threads != 0;
    dlc_mtx_init(&l->mtx, LCK_loader);
    dlc_cond_init(&l->work);
    dlc_cond_init(&l->spare_time);
    dlc_cond_init(&l->ready);
    dlc_cond_init(&l->quiet);
    dlc_list_init(&l->queue);
    dlc_list_init(&l->spare);
    return l;
}

static int begin(struct dlc_loader *l, const struct dlc_loader_spec *spec, struct dlc_err *err)
{
    unsigned most = spec->threads_most != 0 ? spec->threads_most : host_cores();
    unsigned threads = spec->threads != 0 ? spec->threads : DLC_MIN(most, LOADER_THREADS);
    int rc = decode_spec_init(&l->decode, spec, err);

    if (rc == 0)
        rc = make_slots(l, err);
    if (rc == 0)
        rc = place_init(l, spec, err);
    if (rc < 0)
        return rc;
    l->first_epoch = spec->epoch;
    decoded_policy_begin(&l->decoded,
                         spec->kind == DLC_IMAGES ? (enum dlc_switch)spec->decoded_cache : DLC_OFF,
                         l->ds, decode_spec_decoded_key(&l->decode));
    rc = crew_start(l, threads, err);
    if (rc == 0)
        pace_init(&l->pace, l->started);
    return rc;
}

int dlc_loader_open(struct dlc_dataset *ds, const struct dlc_loader_spec *spec,
                    struct dlc_loader **out)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct dlc_loader *l;

    *out = NULL;
    if (check_spec(spec, &err) < 0)
        return client_fail(&err);
    l = loader_new(ds, spec);
    if (begin(l, spec, &err) < 0) {
        dlc_loader_close(&l);
        return client_fail(&err);
    }
    *out = l;
    return 0;
}

/* ---- close ---- */

/* Nobody uses it any more: neither caller nor batch nor thread. */
static void loader_free(struct dlc_loader *l)
{
    dlc_cond_release(&l->work);
    dlc_cond_release(&l->spare_time);
    dlc_cond_release(&l->ready);
    dlc_cond_release(&l->quiet);
    dlc_mtx_release(&l->mtx);
    l->tag = 0;
    mem_free(&l);
}

static void free_slots(struct dlc_list *list)
{
    struct dlc_list *n;

    while ((n = dlc_list_pop_head(list)) != NULL) {
        struct slot *s = slot_of(n);

        slot_free(&s);
    }
}

void dlc_loader_close(struct dlc_loader **lp)
{
    struct dlc_loader *l = *lp;
    bool last;

    *lp = NULL;
    if (l == NULL)
        return;
    loader_of(l);
    if (l->pid != getpid())
        return; /* (LOADER-RING-5) */
    crew_stop(l);
    free_slots(&l->queue);
    free_slots(&l->spare);
    mem_free(&l->late);
    decoded_policy_release(&l->decoded);
    place_release(l);
    rows_release(&l->rows);
    dlc_mtx_lock(&l->mtx);
    bad_release(&l->bad);
    last = --l->refs == 0;
    dlc_mtx_unlock(&l->mtx);
    if (last)
        loader_free(l);
}

void dlc_batch_put(struct dlc_batch *b)
{
    struct slot *s = (struct slot *)(uintptr_t)b->priv[0], *gone = NULL;
    struct dlc_loader *l;
    bool last;

    *b = (struct dlc_batch){0};
    if (s == NULL)
        return;
    l = loader_of(s->loader);
    if (l->pid != getpid())
        return; /* (LOADER-RING-5) */
    dlc_mtx_lock(&l->mtx);
    l->held--;
    if (l->closing || l->slots > l->ring) {
        gone = s;
        l->slots--;
    } else {
        dlc_list_push_tail(&l->spare, &s->link);
        dlc_cond_broadcast(&l->work);
    }
    last = --l->refs == 0;
    dlc_mtx_unlock(&l->mtx);
    slot_free(&gone);
    if (last)
        loader_free(l);
}

/* ---- next ---- */

/* The oldest batch, if it is finished. */
static struct slot *finished_locked(struct dlc_loader *l)
{
    struct slot *s = dlc_list_empty(&l->queue) ? NULL : slot_of(l->queue.next);

    return s != NULL && s->done == s->n ? s : NULL;
}

static unsigned count_ready_locked(struct dlc_loader *l)
{
    unsigned n = 0;

    dlc_list_each (link, &l->queue) {
        if (slot_of(link)->done < slot_of(link)->n)
            break;
        n++;
    }
    return n;
}

/* Who holds nearly all batches gets another one: two at least must be on their way. */
static int add_slot(struct dlc_loader *l, struct dlc_err *err)
{
    struct slot *s;
    uint32_t left;

    dlc_mtx_lock(&l->mtx);
    left = l->slots - l->held;
    dlc_mtx_unlock(&l->mtx);
    if (left >= RING_LEAST)
        return 0;
    s = slot_new(l, err);
    if (s == NULL)
        return left > 0 ? 0 : err->code;
    dlc_mtx_lock(&l->mtx);
    dlc_list_push_tail(&l->spare, &s->link);
    l->slots++;
    dlc_cond_broadcast(&l->work);
    dlc_mtx_unlock(&l->mtx);
    return 0;
}

/* Wait for the oldest batch. NULL: *err. */
static struct slot *await(struct dlc_loader *l, struct dlc_err *err)
{
    struct slot *s;

    for (;;) {
        dlc_mtx_lock(&l->mtx);
        s = finished_locked(l);
        if (s == NULL)
            dlc_cond_wait_for(&l->ready, &l->mtx, LOOK_EVERY);
        s = finished_locked(l);
        dlc_mtx_unlock(&l->mtx);
        if (s != NULL)
            return s;
        if (interrupted()) {
            interrupt_err(err);
            return NULL;
        }
        place_tell(l);
    }
}

/* A batch leaves the queue: figures, and how many threads there should be. */
static struct decoded_policy_batch account_locked(struct dlc_loader *l, const struct slot *s,
                                                  struct dlc_mono asked, unsigned ready)
{
    struct dlc_mono now = dlc_mono_now();
    int64_t step = l->left.ns != 0 ? asked.ns - l->left.ns : 0;
    struct pace_batch b = {.waited_s = dlc_dur_seconds(dlc_mono_sub(now, asked)),
                           .step_s = (double)step / 1e9,
                           .make_s = (double)s->busy_ns / 1e9,
                           .ready = ready,
                           .ring = l->ring};

    l->stats.waited_ns += (uint64_t)(now.ns - asked.ns);
    l->stats.step_ns += (uint64_t)step;
    if (l->left.ns != 0 && !l->fixed)
        crew_want_locked(l, pace_step(&l->pace, &b));
    l->left = now;
    return (struct decoded_policy_batch){
        .waited_s = b.waited_s,
        .step_s = b.step_s,
        .busy = l->wanted == l->started,
        .more = l->epochs == UINT64_MAX ? l->epoch > l->first_epoch : l->epoch + 1 < l->epochs};
}

static void give(struct dlc_loader *l, struct slot *s, uint32_t samples, struct dlc_batch *out)
{
    *out = (struct dlc_batch){.data = s->data,
                              .bytes = l->decode.bytes,
                              .samples = samples,
                              .index = s->index,
                              .labels = s->labels,
                              .lengths = l->decode.kind == DLC_AUDIO ? s->lengths : NULL,
                              .epoch = l->epoch,
                              .position = l->position,
                              .priv = {(uintptr_t)s}};
}

/* Take a finished batch out. false: all of it is bad, and it is free again. */
static bool take(struct dlc_loader *l, struct slot *s, struct dlc_mono asked, struct dlc_batch *out)
{
    uint32_t samples = slot_settle(s);
    struct decoded_policy_batch seen = {0};
    unsigned ready;

    dlc_mtx_lock(&l->mtx);
    ready = count_ready_locked(l);
    dlc_list_remove(&s->link);
    l->position = s->begin + s->n;
    l->stats.bad += s->n_bad;
    if (samples > 0) {
        l->stats.batches++;
        l->stats.samples += samples;
        l->held++;
        l->refs++;
        seen = account_locked(l, s, asked, ready);
    } else {
        dlc_list_push_tail(&l->spare, &s->link);
        dlc_cond_broadcast(&l->work);
    }
    dlc_mtx_unlock(&l->mtx);
    if (samples == 0)
        return false;
    decoded_policy_step(&l->decoded, &seen);
    give(l, s, samples, out);
    return true;
}

static int next(struct dlc_loader *l, bool wait, struct dlc_batch *out, struct dlc_err *err)
{
    struct dlc_mono asked = dlc_mono_now();
    struct slot *s;
    int rc;

    for (;;) {
        rc = place_check(l, err);
        if (rc == 0 && place_at_end(l))
            return 0;
        if (rc == 0)
            rc = add_slot(l, err);
        if (rc < 0)
            return rc;
        dlc_mtx_lock(&l->mtx);
        s = finished_locked(l);
        dlc_mtx_unlock(&l->mtx);
        if (s == NULL && !wait)
            return dlc_err_set(err, DLC_EMISS, "no batch is ready");
        if (s == NULL && (s = await(l, err)) == NULL)
            return err->code;
        if (s->err.code != 0) { /* raised once; the rest comes with the next call */
            *err = s->err;
            s->err.code = 0;
            return err->code;
        }
        if (take(l, s, asked, out)) {
            place_tell(l);
            return 1;
        }
    }
}

static int next_or_fail(struct dlc_loader *l, bool wait, struct dlc_batch *out)
{
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    *out = (struct dlc_batch){0};
    loader_of(l);
    if (l->pid != getpid())
        return client_failf(DLC_EINVAL, "the loader was opened before fork(): open one here");
    rc = next(l, wait, out, &err);
    return rc < 0 ? client_fail(&err) : rc;
}

int dlc_loader_next(struct dlc_loader *l, struct dlc_batch *out)
{
    return next_or_fail(l, true, out);
}

int dlc_loader_try_next(struct dlc_loader *l, struct dlc_batch *out)
{
    return next_or_fail(l, false, out);
}

/* ---- figures ---- */

void dlc_loader_stats(struct dlc_loader *l, struct dlc_loader_stats *out)
{
    loader_of(l);
    dlc_mtx_lock(&l->mtx);
    *out = l->stats;
    out->threads = l->wanted;
    out->ready = count_ready_locked(l);
    dlc_mtx_unlock(&l->mtx);
    decoded_policy_stats(&l->decoded, out);
}

int dlc_loader_bad(struct dlc_loader *l, uint64_t k, uint64_t *sample, char *why, size_t cap)
{
    int n = DLC_ENOTFOUND;

    loader_of(l);
    dlc_mtx_lock(&l->mtx);
    if (k < l->bad.n) {
        n = (int)strlen(l->bad.v[k].why);
        *sample = l->bad.v[k].sample;
        if ((size_t)n < cap)
            memcpy(why, l->bad.v[k].why, (size_t)n + 1);
    }
    dlc_mtx_unlock(&l->mtx);
    return n < 0 ? client_failf(n, "there are not so many bad samples") : n;
}
