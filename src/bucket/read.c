// SPDX-License-Identifier: Apache-2.0
/*
 * Reads. Up to SPLIT_ABOVE a read is one op; longer ones are made in parts of PART_BYTES, at most
 * PART_FLYING at once, all on one lane. An origin may ask for smaller parts (part_max).
 *
 * (BUCKET-READ-1) All parts are of one version: each is conditional on the caller's ETag or,
 *                 without one, on that of the first part, which is then read alone.
 * (BUCKET-READ-2) done() comes after the last part has ended or has been cancelled: nothing writes
 *                 into dst.
 * (BUCKET-READ-3) A whole object that is read in parts has the checksum that the bucket keeps of
 *                 it, where it keeps one. It is asked for while the parts come (STAT); where that
 *                 fails, there is none. An object that does not have it is read once more.
 */
#include <string.h>

#include "base/check.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/mem.h"
#include "bucket/bucket_i.h"
#include "bucket/part_sums_i.h"

struct split {
    uint64_t next; /* offset in the read of the next part to ask for */
    unsigned flying;
    char etag[ETAG_MAX];
    struct op ops[PART_FLYING];
    struct op stat; /* asks for the checksum (BUCKET-READ-3) */
    struct dlc_err stat_err;
    struct part_sums sums;
    bool again;
};

struct reading {
    struct request req;
    struct bucket_read *r;
    struct op op;        /* of a read that is not split */
    struct split *split; /* NULL: not split */
    bool ended;          /* a cancel may come later */
};

static struct reading *reading_of(struct request *q)
{
    return dlc_container(q, struct reading, req);
}

static void reading_end(struct reading *g, int rc)
{
    struct bucket_read *r = g->r;

    r->rc = rc;
    if (rc == 0) {
        r->err.code = 0;
        r->err.text[0] = '\0';
    }
    r->took = dlc_mono_since(g->req.submitted);
    g->ended = true;
    r->done(r);
    request_end(&g->req);
}

static void on_op(struct op *op)
{
    struct reading *g = op->owner;
    struct bucket_read *r = g->r;

    r->attempts = op->attempts;
    r->waited = dlc_mono_sub(op->first_sent, g->req.submitted);
    reading_end(g, op->rc);
}

static void op_prepare(struct op *op, struct reading *g, void (*ended)(struct op *))
{
    struct bucket_read *r = g->r;

    op->kind = ATTEMPT_GET;
    op->key = r->key;
    op->etag = r->etag;
    op->offset = r->offset;
    op->length = r->length;
    op->whole = r->whole;
    op->dst = r->dst;
    op->err = &r->err;
    op->ended = ended;
    op->owner = g;
}

/* ---- parts ---- */

static void split_free(struct split **sp)
{
    if (*sp != NULL)
        part_sums_release(&(*sp)->sums);
    mem_free(sp);
}

static bool has_etag(const char *etag)
{
    return etag != NULL && etag[0] != '\0';
}

static uint64_t split_above(const struct bucket *b)
{
    uint64_t max = b->origin->ops->part_max;

    return max != 0 ? max : SPLIT_ABOVE;
}

static uint64_t part_bytes(const struct bucket *b)
{
    uint64_t max = b->origin->ops->part_max;

    return max != 0 ? max : PART_BYTES;
}

static void on_part(struct op *op);

static void part_submit(struct reading *g, struct op *op)
{
    struct split *s = g->split;
    struct bucket_read *r = g->r;

    op_prepare(op, g, on_part);
    if (!has_etag(r->etag))
        op->etag = s->etag;
    op->offset = r->offset + s->next;
    op->length = DLC_MIN(part_bytes(g->req.lane->bucket), r->length - s->next);
    op->whole = false;
    op->dst = (char *)r->dst + s->next;
    s->next += op->length;
    s->flying++;
    op_submit(op, g->req.lane);
}

static void parts_cancel(struct split *s)
{
    for (unsigned i = 0; i < PART_FLYING; i++)
        op_cancel(&s->ops[i]);
    op_cancel(&s->stat);
}

static void parts_submit(struct reading *g)
{
    struct split *s = g->split;

    for (unsigned i = 0; i < PART_FLYING && s->next < g->r->length; i++) {
        if (s->ops[i].state == OP_IDLE)
            part_submit(g, &s->ops[i]);
    }
    lane_pump(g->req.lane);
}

/* All parts have come, and an answer about the checksum. */
static void parts_end(struct reading *g)
{
    struct split *s = g->split;
    struct bucket_read *r = g->r;

    if (part_sums_right(&s->sums)) {
        reading_end(g, 0);
        return;
    }
    count(bucket_corrupt);
    if (s->again) {
        reading_end(g, dlc_err_set(&r->err, DLC_ECORRUPT,
                                   "%.200s: the %llu bytes that came do not have the checksum of "
                                   "the object, twice",
                                   r->key, (unsigned long long)r->length));
        return;
    }
    log_warn("%.200s: what came in parts does not have the checksum of the object; it is read once "
             "more",
             r->key);
    s->again = true;
    s->next = 0;
    parts_submit(g);
}

static void on_stat(struct op *op)
{
    struct reading *g = op->owner;
    struct split *s = g->split;

    if (op->rc == 0 &&
        (op->answer->etag_seen[0] == '\0' || strcmp(op->answer->etag_seen, op->etag) == 0))
        part_sums_want(&s->sums, &op->answer->sum);
    if (s->next == g->r->length && s->flying == 0)
        parts_end(g);
}

/* (BUCKET-READ-3), of the version whose ETag is known now. */
static void ask_checksum(struct reading *g)
{
    struct split *s = g->split;
    struct bucket_read *r = g->r;

    if (!r->whole || !g->req.lane->bucket->origin->ops->sums)
        return;
    part_sums_init(&s->sums, r->dst, r->length, part_bytes(g->req.lane->bucket));
    s->stat.kind = ATTEMPT_STAT;
    s->stat.key = r->key;
    s->stat.etag = has_etag(r->etag) ? r->etag : s->etag;
    s->stat.want_sum = s->stat.once = true;
    s->stat.err = &s->stat_err;
    s->stat.ended = on_stat;
    s->stat.owner = g;
    op_submit(&s->stat, g->req.lane);
}

static void on_part(struct op *op)
{
    struct reading *g = op->owner;
    struct split *s = g->split;
    struct bucket_read *r = g->r;

    r->attempts += op->attempts;
    if (op->offset == r->offset) {
        r->waited = dlc_mono_sub(op->first_sent, g->req.submitted);
        if (op->rc == 0)
            memcpy(s->etag, op->answer->etag_seen, sizeof(s->etag));
        if (op->rc == 0 && has_etag(s->etag) && !has_etag(r->etag) && !s->again)
            ask_checksum(g);
    }
    s->flying--;
    if (op->rc < 0) {
        parts_cancel(s);
        reading_end(g, op->rc);
        return;
    }
    part_sums_came(&s->sums, op->offset - r->offset);
    if (s->next < r->length)
        parts_submit(g);
    else if (s->flying == 0 && s->stat.state == OP_IDLE)
        parts_end(g);
}

static void split_begin(struct reading *g)
{
    g->split = mem_new(struct split);
    if (has_etag(g->r->etag)) {
        ask_checksum(g);
        parts_submit(g);
    } else {
        part_submit(g, &g->split->ops[0]); /* it tells the ETag of the others (BUCKET-READ-1) */
    }
}

/* ---- the request ---- */

uint64_t bucket_read_requests(const struct bucket *b, uint64_t length, bool whole)
{
    uint64_t part = part_bytes(b);

    if (length <= split_above(b))
        return 1;
    return (length + part - 1) / part + (whole && b->origin->ops->sums);
}

static void reading_begin(struct request *q)
{
    struct reading *g = reading_of(q);

    if (g->r->length > split_above(q->lane->bucket)) {
        split_begin(g);
    } else {
        op_prepare(&g->op, g, on_op);
        op_submit(&g->op, q->lane);
    }
    lane_pump(q->lane);
}

static void reading_abort(struct request *q, int code, const char *why)
{
    struct reading *g = reading_of(q);

    if (g->ended)
        return;
    if (g->split != NULL) {
        parts_cancel(g->split);
    } else {
        g->r->attempts = g->op.attempts;
        op_cancel(&g->op);
    }
    reading_end(g, dlc_err_set(&g->r->err, code, "reading %.120s: %s", g->r->key, why));
}

static void reading_free(struct request *q)
{
    struct reading *g = reading_of(q);

    split_free(&g->split);
    mem_free(&g);
}

static const struct request_ops reading_ops = {
    .begin = reading_begin,
    .abort = reading_abort,
    .free = reading_free,
};

void bucket_read(struct bucket *b, struct bucket_read *r)
{
    struct reading *g = mem_new(struct reading);

    dlc_check(r->done != NULL && (r->dst != NULL || r->length == 0));
    g->r = r;
    r->engine = g;
    r->attempts = 0;
    r->waited.ns = 0;
    request_submit(&g->req, b, &reading_ops);
}

/* ---- cancel ---- */

struct cancel {
    struct task task;
    struct reading *g; /* a reference */
};

static void on_cancel(struct task *t)
{
    struct cancel *c = dlc_container(t, struct cancel, task);
    struct request *q = &c->g->req;

    if (!c->g->ended) {
        reading_abort(q, DLC_ECANCELED, "cancelled by the caller");
        lane_pump(q->lane);
    }
    request_put(q);
    mem_free(&c);
}

void bucket_read_cancel(struct bucket *b, struct bucket_read *r)
{
    struct cancel *c = mem_new(struct cancel);

    (void)b;
    c->g = r->engine;
    c->task.run = on_cancel;
    atomic_fetch_add(&c->g->req.refs, 1); /* done() has not returned: the lane still has its own */
    loop_post(c->g->req.lane->loop, &c->task);
}
