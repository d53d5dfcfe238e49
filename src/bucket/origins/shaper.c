// SPDX-License-Identifier: Apache-2.0
/*
 * A decorator that simulates a distant bucket: each request takes a latency with jitter, the bodies
 * of all share one link, and a share of requests fails. For demonstrations, tests and benchmarks.
 *
 * The inner attempt is made at once; what is delayed is its answer. An answer arrives at the link
 * one latency after the request and is sent when the link is free:
 *
 *     begin = max(arrival, link_free)     link_free = end = begin + bytes / bandwidth
 *
 * (SHAPER-1) arrival, begin and end are exact instants; a timer that fires late delays one answer,
 *            not the link.
 * (SHAPER-2) The part of a transfer that had not happened when it was cancelled is given back to
 *            the link.
 */
#include "base/check.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/rng.h"
#include "bucket/origins/origin.h"

#define PASSAGE_TAG DLC_TAG4('s', 'h', 'p', 'd')

struct shaped_lane {
    struct loop *loop;
    struct rng rng;
};

struct shaped {
    struct origin o;
    struct origin_ops ops;
    struct shape shape;
    struct origin *inner;
    struct dlc_mtx mtx;        /* rank LCK_origin */
    struct dlc_mono link_free; /* G: mtx */
    struct shaped_lane lanes[];
};

enum fate { FATE_WELL, FATE_RESET, FATE_BUSY };

/* One attempt on its way. */
struct passage {
    uint32_t tag;
    struct shaped *s;
    struct shaped_lane *lane;
    struct attempt *outer;
    struct attempt inner;
    enum fate fate;
    bool answered; /* the inner attempt is done, or was never made */
    bool over;     /* the time of the whole answer has come */
    bool cancelled;
    struct dlc_mono arrival, begin, end; /* begin, end: 0 until the link is taken */
    struct timer timer;
};

static struct shaped *shaped_of(struct origin *o)
{
    return dlc_container(o, struct shaped, o);
}

static struct passage *passage_of(void *priv)
{
    struct passage *p = priv;

    dlc_check(p != NULL && p->tag == PASSAGE_TAG);
    return p;
}

static int64_t nanoseconds(const struct shaped *s, uint64_t bytes)
{
    return s->shape.bandwidth == 0 ? 0
                                   : (int64_t)((double)bytes * 1e9 / (double)s->shape.bandwidth);
}

static void link_take(struct passage *p, uint64_t bytes)
{
    struct shaped *s = p->s;

    if (bytes == 0) {
        p->begin = p->end = p->arrival;
        return;
    }
    dlc_mtx_lock(&s->mtx);
    p->begin.ns = DLC_MAX(p->arrival.ns, s->link_free.ns);
    p->end.ns = p->begin.ns + nanoseconds(s, bytes);
    s->link_free = p->end;
    dlc_mtx_unlock(&s->mtx);
}

static void link_give_back(struct passage *p, struct dlc_mono now)
{
    struct shaped *s = p->s;
    int64_t unused = p->end.ns - DLC_MAX(p->begin.ns, now.ns);

    if (p->end.ns == 0 || unused <= 0)
        return;
    dlc_mtx_lock(&s->mtx);
    s->link_free.ns -= unused;
    dlc_mtx_unlock(&s->mtx);
}

static void passage_free(struct passage *p)
{
    attempt_clear(&p->inner);
    p->tag = 0;
    mem_free(&p);
}

static void fail(struct attempt *a, enum fate fate)
{
    const char *what = a->op == ATTEMPT_LIST ? a->prefix : a->key;

    a->retryable = true;
    a->throttled = fate == FATE_BUSY;
    a->rc = fate == FATE_BUSY
                ? dlc_err_set(&a->err, DLC_EBUCKET, "%.200s: 503 slow down (injected)", what)
                : dlc_err_set(&a->err, DLC_EBUCKET, "%.200s: connection reset (injected)", what);
}

static void deliver(struct passage *p)
{
    struct attempt *a = p->outer;

    if (p->fate == FATE_WELL)
        attempt_move_answer(a, &p->inner);
    else
        fail(a, p->fate);
    a->first_byte = p->begin.ns != 0 ? p->begin : p->arrival;
    a->priv = NULL;
    passage_free(p);
    a->done(a);
}

/* An answer without a body needs no link. */
static uint64_t body(const struct passage *p)
{
    return p->outer->op == ATTEMPT_GET && p->inner.rc == 0 ? p->outer->length : 0;
}

/* At the arrival of the answer, and again at the end of its transfer. */
static void on_timer(struct timer *t)
{
    struct passage *p = dlc_container(t, struct passage, timer);
    struct dlc_mono now = loop_now(p->lane->loop);

    if (p->fate == FATE_WELL && p->begin.ns == 0) {
        link_take(p, body(p));
        p->outer->first_byte = p->begin;
        if (p->end.ns > now.ns) {
            loop_timer_set(p->lane->loop, &p->timer, p->end);
            return;
        }
    }
    p->over = true;
    if (p->answered)
        deliver(p);
}

static void on_inner(struct attempt *inner)
{
    struct passage *p = passage_of(inner->owner);

    p->answered = true;
    if (p->over && !p->cancelled)
        deliver(p);
}

static enum fate draw_fate(struct shaped *s, struct rng *r)
{
    if (s->shape.errors <= 0 || rng_unit(r) >= s->shape.errors)
        return FATE_WELL;
    return rng_below(r, 2) == 0 ? FATE_RESET : FATE_BUSY;
}

static struct dlc_mono draw_arrival(struct shaped *s, struct rng *r)
{
    int64_t ns = s->shape.latency.ns;

    if (s->shape.jitter.ns > 0)
        ns += (int64_t)rng_below(r, (uint64_t)s->shape.jitter.ns);
    return dlc_mono_add(dlc_mono_now(), (struct dlc_dur){ns});
}

static void copy_question(struct attempt *to, const struct attempt *from)
{
    to->op = from->op;
    to->lane = from->lane;
    to->key = from->key;
    to->etag = from->etag;
    to->offset = from->offset;
    to->length = from->length;
    to->whole = from->whole;
    to->want_sum = from->want_sum;
    to->dst = from->dst;
    to->prefix = from->prefix;
    to->continuation = from->continuation;
    to->by_folder = from->by_folder;
}

static void shaped_start(struct origin *o, struct attempt *a)
{
    struct shaped *s = shaped_of(o);
    struct passage *p = mem_new(struct passage);

    p->tag = PASSAGE_TAG;
    p->s = s;
    p->lane = &s->lanes[a->lane];
    p->outer = a;
    p->fate = draw_fate(s, &p->lane->rng);
    p->arrival = draw_arrival(s, &p->lane->rng);
    p->timer.fire = on_timer;
    a->priv = p;
    loop_timer_set(p->lane->loop, &p->timer, p->arrival);
    if (p->fate != FATE_WELL) {
        p->answered = true;
        return;
    }
    copy_question(&p->inner, a);
    p->inner.owner = p;
    p->inner.done = on_inner;
    s->inner->ops->start(s->inner, &p->inner);
}

static void shaped_cancel(struct origin *o, struct attempt *a)
{
    struct shaped *s = shaped_of(o);
    struct passage *p = passage_of(a->priv);

    p->cancelled = true;
    loop_timer_del(p->lane->loop, &p->timer);
    if (!p->answered)
        s->inner->ops->cancel(s->inner, &p->inner);
    link_give_back(p, dlc_mono_now());
    a->priv = NULL;
    passage_free(p);
    a->rc = dlc_err_set(&a->err, DLC_ECANCELED, "cancelled");
    a->done(a);
}

/* On a slow link an answer trickles in. */
static void shaped_progress(struct origin *o, struct attempt *a)
{
    struct shaped *s = shaped_of(o);
    struct passage *p = passage_of(a->priv);
    int64_t span = p->end.ns - p->arrival.ns, gone = dlc_mono_since(p->arrival).ns;

    if (p->end.ns != 0 && span > 0 && gone > 0)
        a->received = (uint64_t)((double)a->length * (double)DLC_MIN(gone, span) / (double)span);
    else if (!p->answered && s->inner->ops->progress != NULL) {
        s->inner->ops->progress(s->inner, &p->inner);
        a->received = p->inner.received;
    }
}

static int shaped_lane_open(struct origin *o, unsigned lane, struct loop *loop, struct dlc_err *err)
{
    struct shaped *s = shaped_of(o);

    s->lanes[lane].loop = loop;
    s->lanes[lane].rng.state = s->shape.seed + lane;
    return s->inner->ops->lane_open == NULL ? 0
                                            : s->inner->ops->lane_open(s->inner, lane, loop, err);
}

static void shaped_lane_close(struct origin *o, unsigned lane)
{
    struct shaped *s = shaped_of(o);

    if (s->inner->ops->lane_close != NULL)
        s->inner->ops->lane_close(s->inner, lane);
}

static void shaped_free(struct origin *o)
{
    struct shaped *s = shaped_of(o);

    s->inner->ops->free(s->inner);
    dlc_mtx_release(&s->mtx);
    mem_free(&s);
}

int origin_shaped_new(const struct shape *shape, struct origin *inner, struct origin **out,
                      struct dlc_err *err)
{
    struct shaped *s = mem_zero(sizeof(*s) + inner->lanes * sizeof(s->lanes[0]));

    (void)err;
    s->o = *inner;
    s->o.ops = &s->ops;
    s->ops = (struct origin_ops){
        .name = inner->ops->name,
        .lane_open = shaped_lane_open,
        .lane_close = shaped_lane_close,
        .start = shaped_start,
        .cancel = shaped_cancel,
        .progress = shaped_progress,
        .free = shaped_free,
        .part_max = inner->ops->part_max,
        .sums = inner->ops->sums,
        .folders = inner->ops->folders,
        .folders_free = inner->ops->folders_free,
    };
    s->shape = *shape;
    s->inner = inner;
    dlc_mtx_init(&s->mtx, LCK_origin);
    *out = &s->o;
    return 0;
}
