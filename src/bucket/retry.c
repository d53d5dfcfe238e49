// SPDX-License-Identifier: Apache-2.0
/*
 * An op: one question to the origin, asked again until it is answered, refused for good, or its
 * time is up. States and invariants: bucket_i.h.
 *
 * Retries: full jitter, so that many clients that failed together do not return together. Answers
 * that ask to slow down do not use up retries for the first PATIENCE: a bucket that says 503 for
 * ten seconds is not a reason to give up.
 *
 * The deadline runs from the first try: time spent in our own queue is not the bucket's fault.
 */
#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "bucket/bucket_i.h"
#include "bucket/origins/http_i.h"

#define TRY_TAG DLC_TAG4('b', 't', 'r', 'y')

#define BACKOFF_FIRST DLC_MS(50)
#define BACKOFF_MOST  DLC_SEC(10)
#define PATIENCE      DLC_SEC(30)

static const char *verb(const struct op *op)
{
    switch (op->kind) {
    case ATTEMPT_GET: return "reading";
    case ATTEMPT_STAT: return "looking at";
    case ATTEMPT_LIST: break;
    }
    return "listing";
}

/* What the op is about, for messages: "reading s3://bucket/key". Gives the string. */
static char *what(const struct op *op)
{
    const struct bucket *b = op->lane->bucket;
    const char *subject = op->kind == ATTEMPT_LIST ? op->prefix : op->key;
    struct buf text = BUF_INIT;
    char *s;

    buf_addf(&text, "%s %s", verb(op), b->place);
    if (b->scheme == URL_HTTP || b->scheme == URL_HTTPS) {
        buf_adds(&text, " (");
        web_show(subject, &text); /* its query may be a secret */
        buf_adds(&text, ")");
    } else {
        str_printable(subject, DLC_MIN(strlen(subject), 120), &text);
    }
    s = mem_str(buf_str(&text));
    buf_release(&text);
    return s;
}

/* ---- tries ---- */

static void on_done(struct attempt *a);

static struct try *try_of(struct attempt *a)
{
    struct try *t = a->owner;

    dlc_check(t != NULL && t->tag == TRY_TAG);
    return t;
}

static struct try *try_new(struct lane *l)
{
    struct dlc_list *n = dlc_list_pop_head(&l->spare);
    struct try *t;

    if (n != NULL)
        return dlc_container(n, struct try, link);
    t = mem_new(struct try);
    t->tag = TRY_TAG;
    t->lane = l;
    t->a.owner = t;
    t->a.done = on_done;
    t->a.lane = l->index;
    dlc_list_init(&t->link);
    return t;
}

static void try_recycle(struct try *t)
{
    attempt_clear(&t->a);
    mem_free(&t->buffer);
    dlc_list_push_head(&t->lane->spare, &t->link);
}

static void count_sent(const struct op *op)
{
    const struct bucket *b = op->lane->bucket;

    bucket_count(b, requests, bucket_requests, 1);
    if (op->kind == ATTEMPT_GET)
        bucket_count(b, gets, bucket_gets, 1);
    else if (op->kind == ATTEMPT_LIST)
        bucket_count(b, lists, bucket_lists, 1);
}

void try_start(struct op *op, struct try **slot, void *dst)
{
    struct lane *l = op->lane;
    struct origin *o = l->bucket->origin;
    struct try *t = try_new(l);
    struct attempt *a = &t->a;

    a->op = op->kind;
    a->key = op->key;
    a->etag = op->etag;
    a->offset = op->offset;
    a->length = op->length;
    a->whole = op->whole;
    a->want_sum = op->want_sum;
    a->dst = dst;
    a->prefix = op->prefix;
    a->continuation = op->continuation;
    a->by_folder = op->by_folder;
    t->op = op;
    t->started = t->progress = dlc_mono_now();
    t->progress_bytes = 0;
    t->hedged = false;
    *slot = t;
    op->attempts++;
    l->in_flight++;
    dlc_list_push_tail(&l->flying, &t->link);
    count_sent(op);
    if (op->kind == ATTEMPT_GET)
        limiter_sent(&l->limiter, t->started);
    o->ops->start(o, a);
}

/* Nobody waits for this one any more. After it returns nothing of it is left (ORIGIN-1). */
static void try_abandon(struct try **tp)
{
    struct try *t = *tp;
    struct origin *o;

    *tp = NULL;
    if (t == NULL)
        return;
    o = t->lane->bucket->origin;
    t->op = NULL;
    o->ops->cancel(o, &t->a);
}

/* ---- the end of an op ---- */

static void op_leave(struct op *op)
{
    dlc_list_remove(&op->link);
    dlc_list_remove(&op->begun);
    loop_timer_del(op->lane->loop, &op->backoff);
    op->state = OP_IDLE;
}

static void op_end(struct op *op, struct attempt *answer, int rc)
{
    op_leave(op);
    op->rc = rc;
    op->answer = answer;
    if (rc < 0 && rc != DLC_ECANCELED)
        bucket_count(op->lane->bucket, errors, bucket_errors, 1);
    op->ended(op);
}

void op_cancel(struct op *op)
{
    if (op->state == OP_IDLE)
        return;
    op_leave(op);
    try_abandon(&op->hedge);
    try_abandon(&op->first);
}

/* ---- answers ---- */

/* For lanes that have seen nothing yet. A lost update does no harm. */
static void share_ttfb(struct bucket *b, struct dlc_dur ttfb)
{
    int64_t known = atomic_load_explicit(&b->ttfb, memory_order_relaxed);

    if (known == 0 || ttfb.ns < known)
        atomic_store_explicit(&b->ttfb, DLC_MAX(ttfb.ns, (int64_t)1), memory_order_relaxed);
}

static void learn(struct lane *l, const struct try *t, struct dlc_mono now)
{
    const struct attempt *a = &t->a;
    struct dlc_dur ttfb, whole = dlc_mono_sub(now, t->started);

    ttfb = a->first_byte.ns == 0 ? whole : dlc_mono_sub(a->first_byte, t->started);
    limiter_began(&l->limiter, ttfb);
    share_ttfb(l->bucket, ttfb);
    if (a->op != ATTEMPT_GET)
        return;
    hist_add(&l->ttfb, (uint64_t)DLC_MAX(ttfb.ns, (int64_t)0));
    hist_add(&l->whole, (uint64_t)whole.ns);
    limiter_answered(&l->limiter, now, whole, a->received);
}

static void op_succeeded(struct op *op, struct try *t, struct dlc_mono now)
{
    struct lane *l = op->lane;

    learn(l, t, now);
    if (t == op->hedge) {
        op->hedge = NULL;
        if (op->first != NULL) /* it would have taken at least this long */
            hist_add(&l->ttfb, (uint64_t)dlc_mono_sub(now, op->first->started).ns);
        try_abandon(&op->first); /* before dst is written (BUCKET-4) */
        if (op->length > 0)
            memcpy(op->dst, t->buffer, op->length);
        count(bucket_hedges_won);
    } else {
        op->first = NULL;
        try_abandon(&op->hedge);
    }
    op_end(op, &t->a, 0);
}

static void on_backoff(struct timer *timer)
{
    struct op *op = dlc_container(timer, struct op, backoff);

    op->state = OP_QUEUED;
    dlc_list_push_head(&op->lane->queue, &op->link);
    lane_pump(op->lane);
}

static void op_retry(struct op *op, const struct attempt *a, struct dlc_mono now)
{
    struct dlc_dur wait =
        backoff_jitter(backoff_after(op->failures, BACKOFF_FIRST, BACKOFF_MOST), 1, &op->lane->rng);

    wait.ns += DLC_MAX(a->retry_after.ns, (int64_t)0);
    op->state = OP_BACKOFF;
    op->backoff.fire = on_backoff;
    bucket_count(op->lane->bucket, retries, bucket_retries, 1);
    loop_timer_set(op->lane->loop, &op->backoff, dlc_mono_add(now, wait));
}

static bool may_retry(const struct op *op, const struct attempt *a, struct dlc_mono now)
{
    if (!a->retryable || op->once)
        return false;
    if (op->failures <= op->lane->bucket->config.retries)
        return true;
    return a->throttled && dlc_mono_sub(now, op->first_sent).ns < PATIENCE.ns;
}

/* The text of the last failure, and how hard we tried. */
static int give_up(struct op *op, int rc, struct dlc_mono now)
{
    char took[24];
    size_t n = strlen(op->err->text);

    op->err->code = rc;
    if (op->attempts > 1)
        snprintf(op->err->text + n, sizeof(op->err->text) - n, "; given up after %u attempts in %s",
                 op->attempts, str_dur(dlc_mono_sub(now, op->first_sent), took));
    return rc;
}

/* t has failed and is no longer op's. */
static void op_failed(struct op *op, struct try *t, struct dlc_mono now)
{
    const struct attempt *a = &t->a;
    struct lane *l = op->lane;

    dlc_check(a->rc < 0);
    *op->err = a->err;
    op->err->code = a->rc;
    if (a->throttled) {
        count(bucket_throttled);
        limiter_throttled(&l->limiter, now);
    }
    if (a->rc == DLC_ECORRUPT)
        count(bucket_corrupt);
    log_debug("bucket: %s", a->err.text);
    if (a->retryable && (op->first != NULL || op->hedge != NULL))
        return; /* the other one may still answer */
    try_abandon(&op->first);
    try_abandon(&op->hedge);
    op->failures++;
    if (may_retry(op, a, now))
        op_retry(op, a, now);
    else
        op_end(op, &t->a, give_up(op, a->rc, now));
}

/* Trust, but look: a server may cut a body short or ignore If-Match. */
static void check_answer(const struct op *op, struct attempt *a)
{
    if (a->rc < 0 || a->op != ATTEMPT_GET)
        return;
    if (a->received != a->length) {
        a->rc =
            dlc_err_set(&a->err, DLC_ECORRUPT, "%.200s: %llu bytes came where %llu were asked for",
                        op->key, (unsigned long long)a->received, (unsigned long long)a->length);
        a->retryable = true;
    } else if (op->etag != NULL && op->etag[0] != '\0' && a->etag_seen[0] != '\0' &&
               strcmp(op->etag, a->etag_seen) != 0) {
        a->rc = dlc_err_set(&a->err, DLC_ECHANGED,
                            "%.200s has changed: its ETag is %s, not %s; make the catalog again",
                            op->key, a->etag_seen, op->etag);
        a->retryable = false;
    }
}

const char *const bucket_outcome_names[BUCKET_OUTCOMES] = {
    "ok", "throttled", "denied", "not_found", "changed", "corrupt", "failed"};

static enum bucket_outcome outcome_of(const struct attempt *a)
{
    if (a->rc == 0)
        return BUCKET_OK;
    if (a->throttled)
        return BUCKET_THROTTLED;
    switch (a->rc) {
    case DLC_EDENIED: return BUCKET_DENIED;
    case DLC_ENOTFOUND: return BUCKET_NOT_FOUND;
    case DLC_ECHANGED: return BUCKET_CHANGED;
    case DLC_ECORRUPT: return BUCKET_CORRUPT;
    default: return BUCKET_FAILED;
    }
}

static void count_outcome(const struct bucket *b, const struct attempt *a)
{
    if (b->config.tally != NULL)
        atomic_fetch_add_explicit(&b->config.tally->outcomes[outcome_of(a)], 1,
                                  memory_order_relaxed); /* statistics */
}

static void on_done(struct attempt *a)
{
    struct try *t = try_of(a);
    struct lane *l = t->lane;
    struct op *op = t->op;
    struct dlc_mono now = dlc_mono_now();

    dlc_list_remove(&t->link);
    l->in_flight--;
    lane_received(l, a);
    if (op == NULL) {
        try_recycle(t);
        return;
    }
    check_answer(op, a);
    count_outcome(l->bucket, a);
    if (a->rc == 0) {
        op_succeeded(op, t, now);
    } else {
        *(t == op->first ? &op->first : &op->hedge) = NULL;
        op_failed(op, t, now);
    }
    try_recycle(t);
    lane_pump(l);
}

/* ---- submission ---- */

/* What the limiter may know before this lane's first answer. */
static void inform_limiter(struct lane *l, uint64_t length)
{
    struct bucket *b = l->bucket;
    uint64_t hint = atomic_load_explicit(&b->hint, memory_order_relaxed); /* any value will do */
    struct dlc_dur ttfb = {atomic_load_explicit(&b->ttfb, memory_order_relaxed)};

    l->mean_n++;
    l->mean_sum += length;
    if (hint == 0)
        hint = l->mean_sum / l->mean_n;
    limiter_hint(&l->limiter, DLC_CLAMP(hint, 1, PART_BYTES));
    if (l->limiter.phase == LIMITER_BLIND && ttfb.ns != 0)
        limiter_began(&l->limiter, ttfb);
}

void op_submit(struct op *op, struct lane *l)
{
    dlc_check(op->state == OP_IDLE);
    op->state = OP_QUEUED;
    op->lane = l;
    op->attempts = op->failures = 0;
    op->first_sent.ns = 0;
    dlc_list_init(&op->begun);
    if (op->kind == ATTEMPT_GET) {
        inform_limiter(l, op->length);
        dlc_list_push_tail(&l->queue, &op->link);
    } else { /* somebody waits to know what to read: before all reads */
        dlc_list_push_head(&l->queue, &op->link);
    }
}

void op_send(struct op *op)
{
    struct lane *l = op->lane;

    op->state = OP_FLYING;
    if (op->attempts == 0) {
        op->first_sent = dlc_mono_now();
        dlc_list_push_tail(&l->begun, &op->begun);
        if (op->kind == ATTEMPT_GET)
            hedge_earn(l);
    }
    try_start(op, &op->first, op->dst);
}

/* ---- time ---- */

static void op_expire(struct op *op, struct dlc_mono now)
{
    char took[24], last[300] = "", *subject = what(op);

    if (op->failures > 0)
        snprintf(last, sizeof(last), "; the last failure was: %.270s", op->err->text);
    dlc_err_set(op->err, DLC_ETIMEDOUT, "%s took longer than allowed (%s, %u attempts)%s", subject,
                str_dur(dlc_mono_sub(now, op->first_sent), took), op->attempts, last);
    mem_free(&subject);
    try_abandon(&op->hedge);
    try_abandon(&op->first);
    op_end(op, NULL, DLC_ETIMEDOUT);
}

void op_check_deadlines(struct lane *l, struct dlc_mono now)
{
    struct dlc_dur limit = l->bucket->config.deadline;

    while (!dlc_list_empty(&l->begun)) {
        struct op *op = dlc_container(l->begun.next, struct op, begun);

        if (dlc_mono_sub(now, op->first_sent).ns < limit.ns)
            return;
        op_expire(op, now);
    }
}

/* Silence for too long. The origin ends the attempt as cancelled; to us it is a failure. */
static void try_stalled(struct try *t, struct dlc_mono now)
{
    struct op *op = t->op;
    struct dlc_dur limit = t->lane->bucket->config.stall_timeout;
    struct try copy = {.a.rc = DLC_ETIMEDOUT, .a.retryable = true};
    char silence[24], *subject = what(op);

    dlc_err_set(&copy.a.err, DLC_ETIMEDOUT,
                "%s: no byte came for %s (--stall-timeout): is the bucket's endpoint right and "
                "reachable?",
                subject, str_dur(limit, silence));
    mem_free(&subject);
    if (t == op->first)
        try_abandon(&op->first);
    else
        try_abandon(&op->hedge);
    op_failed(op, &copy, now);
}

void op_check_stalls(struct lane *l, struct dlc_mono now)
{
    struct dlc_dur limit = l->bucket->config.stall_timeout;
    struct origin *o = l->bucket->origin;

    if (now.ns < l->stall_scan.ns)
        return;
    l->stall_scan.ns = now.ns + DLC_MAX(limit.ns / 16, (int64_t)1);
    for (struct dlc_list *n = l->flying.next, *next; n != &l->flying; n = next) {
        struct try *t = dlc_container(n, struct try, link);

        next = n->next;
        if (o->ops->progress != NULL)
            o->ops->progress(o, &t->a);
        if (t->a.received != t->progress_bytes || t->a.first_byte.ns > t->progress.ns) {
            t->progress_bytes = t->a.received;
            t->progress = now;
        } else if (dlc_mono_sub(now, t->progress).ns >= limit.ns) {
            try_stalled(t, now);
            next = l->flying.next; /* it may have ended others */
        }
    }
}
