// SPDX-License-Identifier: Apache-2.0
/*
 * The origin that speaks S3's protocol. s3.c, gs.c and the like say how a request proves who we are.
 *
 * A call is one attempt under way:
 *
 *     start --> WAITING (for credentials) --s3_resume--> start again
 *           --> FAILED (before anything was sent; reported by the task `later`)
 *           --> SENT --answer--> done
 *
 * (S3-ORIGIN-1) A call is in exactly one of: lane->waiting, lane->failed, the HTTP engine (request
 *               != NULL).
 * (S3-ORIGIN-2) Places are only added while the origin lives, so a call may keep a pointer to its
 *               own.
 *
 * A wrong region and expired credentials are put right here (a new place, a new look for
 * credentials) and the attempt is reported as retryable; the bucket above then tries again. That
 * ends: the region is corrected at most MOVES_MAX times, and a call that was signed with
 * credentials already known to be expired is not retryable.
 */
#include "bucket/origins/s3_i.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"

#define S3_TAG    DLC_TAG4('s', '3', ' ', ' ')
#define CALL_TAG  DLC_TAG4('s', '3', 'c', 'l')
#define LIST_MAX  (64u << 20) /* bytes of one page of a listing */
#define MOVES_MAX 8
#define LIMIT     1024 /* bucket_config.max_requests when it is 0 */

static struct s3 *s3_of(struct origin *o)
{
    struct s3 *s = dlc_container(o, struct s3, origin);

    dlc_check(s->tag == S3_TAG);
    return s;
}

static struct s3_call *call_of(void *priv)
{
    struct s3_call *c = priv;

    dlc_check(c != NULL && c->tag == CALL_TAG);
    return c;
}

/* -------- calls -------- */

static struct s3_call *call_new(struct s3_lane *lane, struct attempt *a)
{
    struct dlc_list *n = dlc_list_pop_head(&lane->idle);
    struct s3_call *c = n != NULL ? dlc_container(n, struct s3_call, link) : NULL;

    if (c == NULL) {
        c = mem_new(struct s3_call);
        c->tag = CALL_TAG;
        c->lane = lane;
        dlc_list_init(&c->link);
    }
    c->attempt = a;
    a->priv = c;
    return c;
}

static void call_end(struct s3_call *c)
{
    struct attempt *a = c->attempt;

    engine_put(&c->request);
    dlc_list_remove(&c->link);
    dlc_list_push_head(&c->lane->idle, &c->link);
    c->attempt = NULL;
    a->priv = NULL;
    a->done(a);
}

/* The attempt's rc and err are set. It must not end inside start(), so it ends a little later. */
static void call_fail_later(struct s3_call *c)
{
    struct s3_lane *lane = c->lane;

    engine_put(&c->request);
    dlc_list_push_tail(&lane->failed, &c->link);
    if (!lane->later_posted)
        loop_post(lane->loop, &lane->later);
    lane->later_posted = true;
}

static void on_later(struct task *t)
{
    struct s3_lane *lane = dlc_container(t, struct s3_lane, later);

    lane->later_posted = false;
    while (!dlc_list_empty(&lane->failed))
        call_end(dlc_container(lane->failed.next, struct s3_call, link));
}

/* -------- answers -------- */

static int make_place(const struct s3 *s, const char *region, struct s3_place **out,
                      struct dlc_err *err)
{
    const char *slash = strrchr(s->bucket, '/'); /* az: the account's host comes before it */
    struct s3_place_config c = {
        .endpoint = s->endpoint,
        .cloud = s->kind->cloud,
        .region = region,
        .bucket = slash != NULL ? slash + 1 : s->bucket,
        .path_style = s->path_style,
    };

    return s3_place_new(&c, out, err);
}

/* The bucket is in another region. True: worth another attempt. */
static bool move(struct s3_call *c, const char *region)
{
    struct s3 *s = c->lane->s3;
    struct s3_place *now = s->place, *next;

    if (strcmp(region, c->place->region) == 0)
        return false;
    if (strcmp(region, now->region) == 0)
        return true; /* another call was faster */
    if (atomic_fetch_add(&s->moves, 1) >= MOVES_MAX)
        return false;
    if (make_place(s, region, &next, NULL) < 0)
        return false;
    next->older = now;
    while (!atomic_compare_exchange_weak(&s->place, &next->older, next))
        ;
    return true;
}

static void answer_failed(struct s3_call *c)
{
    struct s3 *s = c->lane->s3;
    struct attempt *a = c->attempt;
    struct s3_error error;

    switch (
        s3_answer_failed(s->kind->scheme, s->bucket, c->request, dlc_wall_seconds(), a, &error)) {
    case S3_OTHER_REGION: a->retryable = move(c, error.region) || a->retryable; break;
    case S3_EXPIRED:
        if (c->generation != 0 && !c->known_expired) {
            s3_expired(c);
            a->retryable = true;
        }
        break;
    case S3_FAILED: break;
    }
    if (s->kind->range_sum_max != 0 && strcmp(error.code, "FeatureNotSupported") == 0)
        s->no_range_sums = true; /* and the attempt, whose status is 500, is made again */
}

static void answer_list(struct s3_call *c)
{
    const struct s3 *s = c->lane->s3;
    struct attempt *a = c->attempt;
    struct buf what = BUF_INIT;

    a->rc = (s->kind->parse_list != NULL ? s->kind->parse_list : s3_xml_list)(
        buf_str(&c->request->body), c->request->body.len, a, &a->err);
    if (a->rc < 0) {
        s3_what(s->kind->scheme, s->bucket, a, &what);
        dlc_err_prefix(&a->err, "%s", buf_str(&what));
        a->retryable = true; /* perhaps cut by a proxy */
        buf_release(&what);
    }
}

static void answer_stat(struct s3_call *c)
{
    const struct s3 *s = c->lane->s3;
    struct attempt *a = c->attempt;
    struct buf what = BUF_INIT;

    a->rc = 0;
    a->size = c->request->answer.length;
    if (a->want_sum)
        s3_answer_sum(c->request, &a->sum);
    if (a->size == ENGINE_UNKNOWN) {
        s3_what(s->kind->scheme, s->bucket, a, &what);
        a->rc = dlc_err_set(&a->err, DLC_EPROTO, "%s: the server does not say how long it is",
                            buf_str(&what));
        buf_release(&what);
    }
}

static void on_answer(struct engine_request *r)
{
    struct s3_call *c = call_of(r->owner);
    const struct s3 *s = c->lane->s3;
    struct attempt *a = c->attempt;

    memcpy(a->etag_seen, r->answer.etag, sizeof(a->etag_seen));
    if (r->rc < 0)
        s3_answer_broken(s->kind->scheme, s->bucket, r, a);
    else if (r->answer.status < 200 || r->answer.status > 299)
        answer_failed(c);
    else if (a->op == ATTEMPT_LIST)
        answer_list(c);
    else if (a->op == ATTEMPT_STAT)
        answer_stat(c);
    else
        a->rc = s3_answer_verify(s->kind->scheme, s->bucket, r, a);
    call_end(c);
}

/* -------- requests -------- */

static void write_get(struct s3_call *c)
{
    const struct attempt *a = c->attempt;
    struct engine_request *r = c->request;

    r->head = a->op == ATTEMPT_STAT || (a->length == 0 && !a->whole); /* 0 bytes have no range */
    r->ranged = a->op == ATTEMPT_GET && !r->head && a->length > 0 &&
                (!a->whole || a->length <= c->lane->s3->kind->range_sum_max);
    if (!r->head) {
        r->dst = a->dst != NULL ? a->dst : r; /* 0 bytes need no room, but NULL means the body */
        r->dst_len = a->length;
        r->offset = a->offset;
    }
    if (r->ranged)
        engine_header(r, "Range: bytes=%llu-%llu", (unsigned long long)a->offset,
                      (unsigned long long)(a->offset + a->length - 1));
    if (a->etag != NULL && *a->etag != '\0')
        engine_header(r, "If-Match: \"%s\"", a->etag);
    if (c->lane->s3->kind->extra != NULL)
        engine_header_lines(r, c->lane->s3->kind->extra, strlen(c->lane->s3->kind->extra));
    s3_object_path(c->place, a->key, &c->lane->path);
}

static void write_list(struct s3_call *c)
{
    const struct s3_kind *kind = c->lane->s3->kind;

    c->request->body_max = LIST_MAX;
    if (kind->write_list != NULL) {
        kind->write_list(c->place, c->attempt, &c->lane->path, &c->lane->query);
    } else {
        s3_list_path(c->place, &c->lane->path);
        s3_list_query(c->attempt, &c->lane->query);
    }
}

static void write_url(struct s3_call *c)
{
    const struct s3_lane *lane = c->lane;
    struct buf *url = &c->request->url;

    buf_adds(url, c->place->base);
    buf_add(url, buf_str(&lane->path), lane->path.len);
    if (lane->query.len > 0) {
        buf_addc(url, '?');
        buf_add(url, buf_str(&lane->query), lane->query.len);
    }
}

/* Write and send, or wait for credentials, or fail later. */
static void call_begin(struct s3_call *c)
{
    static const struct sigv4_header sum_mode = {"x-amz-checksum-mode", "ENABLED"};
    struct s3_lane *lane = c->lane;
    const struct s3_kind *kind = lane->s3->kind;
    struct attempt *a = c->attempt;
    bool sums =
        kind->sum_mode &&
        (a->op == ATTEMPT_STAT ? a->want_sum : a->op == ATTEMPT_GET && a->whole && a->length > 0);

    c->place = lane->s3->place;
    c->generation = 0;
    c->request = engine_get(lane->http);
    c->request->first_byte = &a->first_byte;
    c->request->received = &a->received;
    c->request->done = on_answer;
    c->request->owner = c;
    buf_clear(&lane->path);
    buf_clear(&lane->query);
    if (a->op == ATTEMPT_LIST)
        write_list(c);
    else
        write_get(c);
    write_url(c);
    if (sums)
        engine_header(c->request, "%s: %s", sum_mode.name, sum_mode.value);
    a->rc = s3_authorise(c, c->request->head ? "HEAD" : "GET", &sum_mode, sums, &a->err);
    if (a->rc == 0) {
        engine_send(c->request);
    } else if (a->rc == DLC_EBUSY) {
        engine_put(&c->request);
        dlc_list_push_tail(&lane->waiting, &c->link);
    } else {
        call_fail_later(c);
    }
}

void s3_sign(struct s3_call *c, const struct credentials *cr, const char *method,
             const struct sigv4_header *extra, size_t n_extra)
{
    struct s3_lane *lane = c->lane;

    buf_clear(&lane->lines);
    sigv4_sign(&lane->signer, cr, c->place->region, "s3", dlc_wall_seconds(), method,
               c->place->host, buf_str(&lane->path), buf_str(&lane->query), extra, n_extra, NULL,
               &lane->lines);
    engine_header_lines(c->request, buf_str(&lane->lines), lane->lines.len);
}

void s3_resume(struct s3_lane *lane)
{
    struct dlc_list batch, *n;

    dlc_list_init(&batch);
    while ((n = dlc_list_pop_head(&lane->waiting)) != NULL)
        dlc_list_push_tail(&batch, n);
    while ((n = dlc_list_pop_head(&batch)) != NULL)
        call_begin(dlc_container(n, struct s3_call, link));
}

/* -------- the origin -------- */

void s3_start(struct origin *o, struct attempt *a)
{
    struct s3 *s = s3_of(o);

    dlc_check(a->lane < o->lanes);
    a->rc = 0;
    a->retryable = a->throttled = false;
    a->retry_after = (struct dlc_dur){0};
    a->first_byte = (struct dlc_mono){0};
    a->received = 0;
    call_begin(call_new(&s->lanes[a->lane], a));
}

void s3_cancel(struct origin *o, struct attempt *a)
{
    struct s3_call *c = call_of(a->priv);

    dlc_check(c->lane->s3 == s3_of(o));
    a->rc = dlc_err_set(&a->err, DLC_ECANCELED, "cancelled");
    a->retryable = false;
    call_end(c);
}

int s3_lane_open(struct origin *o, unsigned lane, struct loop *loop, struct dlc_err *err)
{
    struct s3 *s = s3_of(o);
    struct s3_lane *l = &s->lanes[lane];

    l->loop = loop;
    return engine_new(loop,
                      &(struct engine_config){.connections = s->connections,
                                              .connect_timeout = s->connect_timeout,
                                              .rules = s->address_rules,
                                              .proxy = s->proxy},
                      &l->http, err);
}

void s3_lane_close(struct origin *o, unsigned lane)
{
    struct s3 *s = s3_of(o);
    struct s3_lane *l = &s->lanes[lane];

    dlc_check(dlc_list_empty(&l->waiting) && dlc_list_empty(&l->failed));
    s3_auth_close(l);
    engine_free(&l->http);
}

static void lane_init(struct s3 *s, struct s3_lane *l)
{
    l->s3 = s;
    l->later.run = on_later;
    l->ready.run = s3_auth_ready;
    dlc_list_init(&l->idle);
    dlc_list_init(&l->waiting);
    dlc_list_init(&l->failed);
    sigv4_signer_init(&l->signer);
}

static void lane_release(struct s3_lane *l)
{
    struct dlc_list *n;

    dlc_check(l->http == NULL);
    while ((n = dlc_list_pop_head(&l->idle)) != NULL) {
        struct s3_call *c = dlc_container(n, struct s3_call, link);

        mem_free(&c);
    }
    sigv4_signer_release(&l->signer);
    buf_release(&l->path);
    buf_release(&l->query);
    buf_release(&l->lines);
}

void s3_free(struct origin *o)
{
    struct s3 *s = s3_of(o);
    struct s3_place *p = s->place;

    for (unsigned i = 0; i < o->lanes; i++)
        lane_release(&s->lanes[i]);
    credential_source_free(&s->source);
    s3_place_free(&p);
    mem_free(&s->bucket);
    mem_free(&s->endpoint);
    mem_free(&s);
}

int s3_new(const struct s3_kind *kind, const struct url *u, const struct bucket_config *c,
           const char *endpoint, const char *region, unsigned lanes,
           struct credential_source **source, struct origin **out, struct dlc_err *err)
{
    struct s3 *s = mem_zero(sizeof(*s) + lanes * sizeof(s->lanes[0]));
    unsigned limit = c->max_requests != 0 ? c->max_requests : LIMIT;
    struct s3_place *place = NULL;
    int rc;

    s->origin =
        (struct origin){&kind->ops, lanes, kind->price_get, kind->price_list, kind->price_gb};
    s->tag = S3_TAG;
    s->kind = kind;
    s->source = *source;
    *source = NULL;
    s->bucket = mem_str(u->bucket);
    s->endpoint = mem_str(endpoint);
    s->path_style = c->path_style;
    s->connections = limit / lanes + 1;
    s->address_rules = c->address_rules;
    s->proxy = c->proxy;
    s->connect_timeout = c->connect_timeout.ns != 0 ? c->connect_timeout : DLC_SEC(5);
    for (unsigned i = 0; i < lanes; i++)
        lane_init(s, &s->lanes[i]);
    rc = make_place(s, region, &place, err);
    s->place = place;
    if (rc < 0)
        s3_free(&s->origin);
    else
        *out = &s->origin;
    return rc;
}
