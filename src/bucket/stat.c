// SPDX-License-Identifier: Apache-2.0
/* The size and ETag of one object: one op. */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "bucket/bucket_i.h"

struct stating {
    struct request req;
    struct bucket_stat *s;
    struct op op;
};

static void stating_end(struct stating *g, int rc)
{
    struct bucket_stat *s = g->s;

    s->rc = rc;
    if (rc == 0) {
        s->err.code = 0;
        s->err.text[0] = '\0';
    }
    s->done(s);
    request_end(&g->req);
}

static void on_op(struct op *op)
{
    struct stating *g = op->owner;

    if (op->rc == 0) {
        g->s->size = op->answer->size;
        memcpy(g->s->etag, op->answer->etag_seen, sizeof(g->s->etag));
    }
    stating_end(g, op->rc);
}

static void stating_begin(struct request *q)
{
    struct stating *g = dlc_container(q, struct stating, req);

    g->op.kind = ATTEMPT_STAT;
    g->op.key = g->s->key;
    g->op.err = &g->s->err;
    g->op.ended = on_op;
    g->op.owner = g;
    op_submit(&g->op, q->lane);
    lane_pump(q->lane);
}

static void stating_abort(struct request *q, int code, const char *why)
{
    struct stating *g = dlc_container(q, struct stating, req);

    op_cancel(&g->op);
    stating_end(g, dlc_err_set(&g->s->err, code, "looking at %.120s: %s", g->s->key, why));
}

static void stating_free(struct request *q)
{
    struct stating *g = dlc_container(q, struct stating, req);

    mem_free(&g);
}

static const struct request_ops stating_ops = {
    .begin = stating_begin,
    .abort = stating_abort,
    .free = stating_free,
};

void bucket_stat(struct bucket *b, struct bucket_stat *s)
{
    struct stating *g = mem_new(struct stating);

    dlc_check(s->done != NULL && s->key != NULL);
    g->s = s;
    s->size = 0;
    s->etag[0] = '\0';
    request_submit(&g->req, b, &stating_ops);
}
