// SPDX-License-Identifier: Apache-2.0
/*
 * A lane: one thread with a loop, a queue of ops, and what it has learned about the origin. While
 * it has requests it ticks every few milliseconds to look at deadlines, stalls, hedges and the
 * limiter; idle, it sleeps.
 *
 * Not here: what an op does (retry.c), how many may fly (limiter.c).
 */
#include <errno.h>
#include <stdio.h>

#include "base/check.h"
#include "base/counters.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "bucket/bucket_i.h"

#define REQUEST_TAG DLC_TAG4('b', 'r', 'e', 'q')

#define TICK        DLC_MS(5)
#define RATE_PERIOD DLC_MS(500)
#define HIST_FADE   4096

/* ---- figures, counters, money ---- */

static void publish_rate(struct lane *l, struct dlc_mono now)
{
    struct dlc_dur d = dlc_mono_sub(now, l->rate_from);
    bool idle = dlc_list_empty(&l->requests);

    if (l->rate_from.ns != 0 && d.ns < RATE_PERIOD.ns && !idle)
        return; /* the last period counts, however short */
    if (l->rate_from.ns != 0) {
        uint64_t rate = (uint64_t)((double)l->rate_bytes / dlc_dur_seconds(d));

        atomic_store_explicit(&l->figures.rate, rate, memory_order_relaxed);
        atomic_store_explicit(&l->figures.rate_at, now.ns, memory_order_relaxed);
    }
    atomic_store_explicit(&l->figures.p50, (int64_t)hist_percentile(&l->whole, 0.5),
                          memory_order_relaxed);
    atomic_store_explicit(&l->figures.p99, (int64_t)hist_percentile(&l->whole, 0.99),
                          memory_order_relaxed);
    l->rate_from = idle ? (struct dlc_mono){0} : now;
    l->rate_bytes = 0;
}

static void publish(struct lane *l, struct dlc_mono now)
{
    unsigned limit = limiter_allows(&l->limiter, now);
    bool hungry = !dlc_list_empty(&l->queue);
    unsigned unused = hungry || l->in_flight > limit ? 0 : limit - l->in_flight;

    atomic_store_explicit(&l->figures.in_flight, l->in_flight, memory_order_relaxed);
    atomic_store_explicit(&l->figures.limit, limit, memory_order_relaxed);
    atomic_store_explicit(&l->figures.unused, unused, memory_order_relaxed);
    atomic_store_explicit(&l->figures.hungry, hungry, memory_order_relaxed);
    publish_rate(l, now);
}

void lane_received(struct lane *l, const struct attempt *a)
{
    const struct bucket *b = l->bucket;
    double money = b->nano_byte * (double)a->received;

    switch (a->op) {
    case ATTEMPT_GET:
        bucket_count(b, bytes, bucket_bytes, a->received);
        l->rate_bytes += a->received;
        money += b->nano_get;
        break;
    case ATTEMPT_STAT: money += b->nano_get; break;
    case ATTEMPT_LIST: money += b->nano_list; break;
    }
    l->money_rest += money;
    bucket_count(b, money_nano, money_nano, (uint64_t)l->money_rest);
    l->money_rest -= (double)(uint64_t)l->money_rest;
}

/* ---- the queue ---- */

static unsigned allowed_now(const struct lane *l, struct dlc_mono now)
{
    return limiter_allows(&l->limiter, now) + l->borrowed;
}

/* Lanes with an empty queue lend what they do not use, or the last requests would trickle; no more
 * than if they all had this lane's limit. For a few milliseconds a limit may be used twice. */
static unsigned borrow(const struct lane *l, struct dlc_mono now)
{
    const struct bucket *b = l->bucket;
    unsigned unused = 0, hungry = 0;

    for (unsigned i = 0; i < b->n_lanes; i++) {
        unused += atomic_load_explicit(&b->lanes[i].figures.unused, memory_order_relaxed);
        hungry += atomic_load_explicit(&b->lanes[i].figures.hungry, memory_order_relaxed);
    }
    if (dlc_list_empty(&l->queue))
        return 0;
    return DLC_MIN(unused / DLC_MAX(hungry, 1u),
                   limiter_allows(&l->limiter, now) * (b->n_lanes - 1));
}

void lane_pump(struct lane *l)
{
    unsigned allowed;

    if (dlc_list_empty(&l->queue))
        return;
    allowed = allowed_now(l, loop_now(l->loop));
    while (l->in_flight < allowed) {
        struct dlc_list *n = dlc_list_pop_head(&l->queue);

        if (n == NULL) {
            limiter_slack(&l->limiter);
            return;
        }
        op_send(dlc_container(n, struct op, link));
    }
}

static void on_tick(struct timer *t)
{
    struct lane *l = dlc_container(t, struct lane, tick);
    struct dlc_mono now = loop_now(l->loop);

    op_check_deadlines(l, now);
    op_check_stalls(l, now);
    hedge_check(l, now);
    l->borrowed = borrow(l, now);
    lane_pump(l);
    publish(l, now);
    l->ticking = !dlc_list_empty(&l->requests);
    if (l->ticking)
        loop_timer_set(l->loop, t, dlc_mono_add(now, TICK));
}

/* ---- requests ---- */

static struct request *request_of(struct task *t)
{
    struct request *q = dlc_container(t, struct request, submit);

    dlc_check(q->tag == REQUEST_TAG);
    return q;
}

static void on_submit(struct task *t)
{
    struct request *q = request_of(t);
    struct lane *l = q->lane;

    dlc_list_push_tail(&l->requests, &q->link);
    if (l->closing) {
        q->ops->abort(q, DLC_ECANCELED, "the bucket is being closed");
        return;
    }
    if (!l->ticking) {
        l->ticking = true;
        loop_timer_set(l->loop, &l->tick, dlc_mono_add(loop_now(l->loop), TICK));
    }
    q->ops->begin(q);
}

/* X: the least busy. */
static struct lane *lane_of_request(struct bucket *b)
{
    struct lane *best = &b->lanes[0];
    unsigned least = atomic_load_explicit(&best->load, memory_order_relaxed); /* a guess will do */

    for (unsigned i = 1; i < b->n_lanes && least > 0; i++) {
        unsigned load = atomic_load_explicit(&b->lanes[i].load, memory_order_relaxed);

        if (load < least) {
            least = load;
            best = &b->lanes[i];
        }
    }
    return best;
}

void request_submit(struct request *q, struct bucket *b, const struct request_ops *ops)
{
    q->tag = REQUEST_TAG;
    q->ops = ops;
    q->lane = lane_of_request(b);
    q->submitted = dlc_mono_now();
    q->submit.run = on_submit;
    dlc_list_init(&q->link);
    atomic_store_explicit(&q->refs, 1, memory_order_relaxed); /* loop_post publishes it */
    atomic_fetch_add(&q->lane->load, 1);
    loop_post(q->lane->loop, &q->submit);
}

void request_put(struct request *q)
{
    if (atomic_fetch_sub(&q->refs, 1) == 1) {
        q->tag = 0;
        q->ops->free(q);
    }
}

void request_end(struct request *q)
{
    struct lane *l = q->lane;
    struct bucket *b = l->bucket;
    bool last;

    dlc_list_remove(&q->link);
    request_put(q);
    last = atomic_fetch_sub(&l->load, 1) == 1;
    if (last && atomic_load(&b->closing)) { /* pairs with the wait in bucket_close() */
        dlc_mtx_lock(&b->mtx);
        dlc_cond_signal(&b->drained);
        dlc_mtx_unlock(&b->mtx);
    }
}

/* ---- life ---- */

static void *lane_main(void *arg)
{
    struct lane *l = arg;

    loop_run(l->loop);
    return NULL;
}

int lane_open(struct lane *l, struct bucket *b, unsigned index, struct dlc_err *err)
{
    struct origin *o = b->origin;
    char name[16];
    int rc;

    l->bucket = b;
    l->index = index;
    l->tick.fire = on_tick;
    l->rng.state = rng_seed();
    dlc_list_init(&l->requests);
    dlc_list_init(&l->queue);
    dlc_list_init(&l->begun);
    dlc_list_init(&l->flying);
    dlc_list_init(&l->spare);
    hist_init(&l->ttfb, HIST_FADE);
    hist_init(&l->whole, HIST_FADE);
    limiter_init(&l->limiter, (b->config.max_requests + b->n_lanes - 1) / b->n_lanes, b->n_lanes);
    publish(l, dlc_mono_now());
    l->loop = loop_new(err);
    if (l->loop == NULL)
        return err == NULL ? DLC_EIO : err->code;
    rc = o->ops->lane_open == NULL ? 0 : o->ops->lane_open(o, index, l->loop, err);
    if (rc < 0)
        goto out;
    errno = os_thread(&l->thread, lane_main, l);
    if (errno != 0) {
        rc = dlc_err_sys(err, "cannot start thread %u of a bucket", index);
        if (o->ops->lane_close != NULL)
            o->ops->lane_close(o, index);
        goto out;
    }
    snprintf(name, sizeof(name), "lane-%u", index);
    pthread_setname_np(l->thread, name);
    l->started = true;
out:
    if (rc < 0)
        loop_free(&l->loop);
    return rc;
}

static void on_drain(struct task *t)
{
    struct lane *l = dlc_container(t, struct lane, close_task);
    struct bucket *b = l->bucket;

    l->closing = true;
    while (!dlc_list_empty(&l->requests)) {
        struct request *q = dlc_container(l->requests.next, struct request, link);

        q->ops->abort(q, DLC_ECANCELED, "the bucket is being closed");
    }
    dlc_mtx_lock(&b->mtx);
    b->closed++;
    dlc_cond_signal(&b->drained);
    dlc_mtx_unlock(&b->mtx);
}

void lane_drain(struct lane *l)
{
    l->close_task.run = on_drain;
    loop_post(l->loop, &l->close_task);
}

static void on_stop(struct task *t)
{
    struct lane *l = dlc_container(t, struct lane, close_task);
    struct origin *o = l->bucket->origin;
    struct dlc_list *n;

    dlc_check(l->in_flight == 0 && dlc_list_empty(&l->requests));
    loop_timer_del(l->loop, &l->tick);
    if (o->ops->lane_close != NULL)
        o->ops->lane_close(o, l->index);
    while ((n = dlc_list_pop_head(&l->spare)) != NULL) {
        struct try *spare = dlc_container(n, struct try, link);

        mem_free(&spare);
    }
    loop_stop(l->loop);
}

void lane_stop(struct lane *l)
{
    if (!l->started)
        return;
    l->close_task.run = on_stop;
    loop_post(l->loop, &l->close_task);
    pthread_join(l->thread, NULL);
    loop_free(&l->loop);
    l->started = false;
}
