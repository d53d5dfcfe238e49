// SPDX-License-Identifier: Apache-2.0
/*
 * Exchange of the importance weights of a job that runs on several nodes, through the manager
 * (docs/design/0008): this node sends the weights that its ranks have learnt; the answer brings
 * those of other nodes. One call at a time, every second for each job, and soon after an epoch has
 * ended or the next one's list has come.
 *
 *     marks --taken--> samples, kept --posted--> heard by the manager: forgotten
 *                             ^-------away---------|
 *
 * (WEIGHT-EXCHANGE-1) A mark that was taken is posted, or kept, with its weight at the time of the
 *                     post: at most BATCH of a job are kept, the others stay marked.
 * (WEIGHT-EXCHANGE-2) A received weight does not replace one that was learnt here and is not yet
 *                     posted, or was posted just now: it is older, or the other nodes get ours as
 *                     well.
 * (WEIGHT-EXCHANGE-3) Without another node, or while the manager is unreachable, nothing is sent
 *                     and no mark is taken.
 * (WEIGHT-EXCHANGE-4) Weights may be freed while a call is in flight: its answer finds them by
 *                     number.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "importance/wire.h"
#include "base/rng.h"
#include "base/str.h"
#include "cluster/agent.h"
#include "cluster/weight_exchange.h"
#include "cluster/member.h"
#include "daemon/dataset.h"
#include "daemon/job_weights.h"
#include "daemon/state.h"
#include "catalog/catalog.h"
#include "cluster/peer/view.h"

#define BATCH         16384u       /* weights of one call: some milliseconds of the loop */
#define STEPS         (4u * BATCH) /* words and marks looked at for one call */
#define EVERY         DLC_SEC(1)
#define AFTER_REFUSAL DLC_SEC(10)

struct exchange {
    struct agent_call call;
    struct node *node;
    uint64_t dataset, number; /* whose */
};

#define LOOKS 256u /* datasets looked at in one turn of the loop */

/* ---- whose turn it is ---- */

static bool is_alone(struct node *n)
{
    struct cluster_peer peer;

    return !cluster_peer_at(n->cluster, 0, &peer);
}

/* Somebody is there to learn, or has left something to tell. */
static bool is_due(const struct job_weights *w, struct dlc_mono now)
{
    return !w->own && w->send.next.ns <= now.ns &&
           (w->users > 0 || w->send.n > 0 ||
            weights_stored(&w->w, WEIGHTS_SENDER) != w->send.stored);
}

/* The one that waits for longest, of the next datasets. NULL: none. */
static struct job_weights *due(struct node *n, struct dataset **of)
{
    struct job_weights *first = NULL;

    for (unsigned i = 0; i < LOOKS; i++) {
        struct dataset *ds = dataset_step(n, &n->member->weighed);

        if (ds == NULL)
            break;
        if (ds->cid == NULL || ds->state != DATASET_READY)
            continue;
        dlc_list_each (k, &ds->job_weights) {
            struct job_weights *w = dlc_container(k, struct job_weights, link);

            if (is_due(w, loop_now(n->loop)) &&
                (first == NULL || w->send.next.ns < first->send.next.ns)) {
                first = w;
                *of = ds;
            }
        }
    }
    return first;
}

/* ---- what goes ---- */

/* What was not heard of goes first; then what is marked. Ascending. */
static void take_marks(struct job_weights *w)
{
    struct sending *s = &w->send;
    uint64_t steps = STEPS, sample;

    if (s->n > 0)
        return;
    if (s->place == 0)
        s->round = weights_stored(&w->w, WEIGHTS_SENDER);
    while (s->n < BATCH && weights_take(&w->w, WEIGHTS_SENDER, &s->place, &steps, &sample)) {
        mem_reserve(s->samples, s->n, s->cap);
        s->samples[s->n++] = sample;
    }
    if (s->place >= w->w.n) {
        s->place = 0;
        s->stored = s->round;
    }
}

/* As importance/wire.h has them, in base64; NULL: none. Gives. */
static json_t *pairs_of(const struct job_weights *w)
{
    struct buf text = BUF_INIT;
    struct pairs p = {0};
    json_t *out = NULL;

    for (size_t i = 0; i < w->send.n; i++)
        dlc_check(pairs_add(&p, w->send.samples[i], weights_get(&w->w, w->send.samples[i])));
    if (p.n > 0) {
        str_base64(p.bytes.data, p.bytes.len, &text);
        out = json_stringn_nocheck(text.data, text.len);
    }
    buf_release(&text);
    buf_release(&p.bytes);
    return out;
}

/* Where a dataset is a tenant's, that says whose jobs are whose; else user and token do. */
static void owner_of(const struct dataset *ds, const struct job_weights *w, char out[static 17])
{
    const unsigned char nobody[8] = {0};

    str_hex(ds->tenant != NULL && ds->tenant[0] != '\0' ? nobody : w->owner, 8, out);
}

static json_t *body_of(const struct dataset *ds, const struct job_weights *w)
{
    char snapshot[17], owner[17], sender[17];

    snprintf(snapshot, sizeof(snapshot), "%016" PRIx64, catalog_snapshot(ds->catalog));
    snprintf(sender, sizeof(sender), "%016" PRIx64, w->send.number);
    owner_of(ds, w, owner);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o*}", "dataset", ds->cid, "tenant",
                     ds->tenant != NULL ? ds->tenant : "", "snapshot", snapshot, "owner", owner,
                     "sender", sender, "after", w->send.after, "pairs", pairs_of(w));
}

/* ---- what comes ---- */

/* (WEIGHT-EXCHANGE-2) */
static bool is_ours(const struct job_weights *w, uint64_t sample)
{
    size_t lo = 0, hi = w->send.n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (w->send.samples[mid] < sample)
            lo = mid + 1;
        else
            hi = mid;
    }
    return (lo < w->send.n && w->send.samples[lo] == sample) ||
           weights_is_marked(&w->w, WEIGHTS_SENDER, sample);
}

static void receive(struct job_weights *w, const char *text)
{
    struct buf b = BUF_INIT;
    struct pairs_reader r;
    uint64_t sample;
    float weight;

    if (!str_unbase64(text, &b))
        buf_clear(&b);
    pairs_read(&r, b.data, b.len);
    while (pairs_next(&r, &sample, &weight) && sample < w->w.n) {
        if (is_ours(w, sample))
            continue;
        weights_receive(&w->w, sample, weight);
        w->send.received++;
    }
    buf_release(&b);
}

/* The manager has heard of ours. */
static void take_answer(struct job_weights *w, const json_t *answer, struct dlc_mono now)
{
    const char *after = json_string_value(json_object_get(answer, "after"));
    const json_t *items = json_object_get(answer, "items");

    for (size_t i = 0; i < json_array_size(items); i++)
        if (json_is_string(json_array_get(items, i)))
            receive(w, json_string_value(json_array_get(items, i)));
    if (after != NULL && strlen(after) < sizeof(w->send.after))
        memcpy(w->send.after, after, strlen(after) + 1);
    if (json_is_true(json_object_get(answer, "more")))
        w->send.next = now;
    else if (w->send.n == BATCH) /* others must be able to follow: the manager does not keep all */
        w->send.next = dlc_mono_add(now, SENDING_AT_LEAST);
    w->send.sent += w->send.n;
    w->send.n = 0;
    w->send.refused = false;
}

static void take_failure(struct job_weights *w, const struct dlc_err *err, struct dlc_mono now)
{
    if (err->code == DLC_EBUCKET || err->code == DLC_ETIMEDOUT || err->code == DLC_ECANCELED)
        return; /* it is away */
    if (!w->send.refused)
        log_warn("weights of job %s stay on this node: %s", w->job, err->text);
    w->send.refused = true;
    w->send.next = dlc_mono_add(now, AFTER_REFUSAL);
}

/* (WEIGHT-EXCHANGE-4) */
static struct job_weights *find(struct node *n, const struct exchange *x)
{
    struct dataset *ds = dataset_from(n, x->dataset);

    if (ds == NULL || ds->id != x->dataset)
        return NULL;
    dlc_list_each (k, &ds->job_weights) {
        struct job_weights *w = dlc_container(k, struct job_weights, link);

        if (w->send.number == x->number)
            return w;
    }
    return NULL;
}

static void on_answer(struct agent_call *c)
{
    struct exchange *x = dlc_container(c, struct exchange, call);
    struct node *n = x->node;
    struct job_weights *w = find(n, x);

    n->member->sending_weights = false;
    if (w != NULL && c->rc == 0)
        take_answer(w, c->answer, loop_now(n->loop));
    else if (w != NULL)
        take_failure(w, &c->err, loop_now(n->loop));
    agent_call_release(c);
    mem_free(&x);
    job_weights_all_send(n);
}

void job_weights_all_send(struct node *n)
{
    struct dataset *ds = NULL;
    struct exchange *x;
    struct job_weights *w;

    if (n->member->agent == NULL || n->member->sending_weights || n->stopping ||
        n->member->leaving || is_alone(n) || agent_manager_away(n->member->agent) ||
        (w = due(n, &ds)) == NULL)
        return;
    while (w->send.number == 0)
        w->send.number = rng_seed();
    take_marks(w);
    w->send.last = loop_now(n->loop);
    w->send.next = dlc_mono_add(w->send.last, EVERY);
    x = mem_new(struct exchange);
    *x = (struct exchange){.node = n, .dataset = ds->id, .number = w->send.number};
    x->call.method = "POST";
    x->call.path = mem_fmt("/v1/jobs/%s/weights", w->job);
    x->call.body = body_of(ds, w);
    x->call.done = on_answer;
    n->member->sending_weights = true;
    agent_ask(n->member->agent, &x->call);
}
