// SPDX-License-Identifier: Apache-2.0
/*
 * A CachedDataset: declared, listed, warmed, evicted when nobody has read it for its retention.
 *
 *     Pending --dataset made--> Listing --snapshot--> [Warming] --> Ready
 *     Listing --bucket refuses--> Failed --listed again after a while--> Listing
 *
 * One that was left behind by a DLTPod (ANNOTATION_RETAINED) is deleted when its time is over.
 */
#include "operator/reconcile/reconcile_i.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"

#define LIST_AGAIN_S 60 /* after a listing that failed */

static const struct response *data_of(const struct round *r)
{
    return &r->o->jobs[0].data;
}

static struct action *order(struct round *r, enum action_kind kind)
{
    struct action *a = add_action(r->out, kind);

    snprintf(a->name, sizeof(a->name), "%s", r->o->jobs[0].dataset);
    return a;
}

static void set_now(struct round *r, const char *field)
{
    char text[SPEC_TIME_LEN];

    json_object_set_new(r->fields, field, json_string(spec_time(r->o->now, text)));
}

/* What stays until something changes it. */
static void keep_fields(struct round *r)
{
    static const char *const kept[] = {"snapshot", "samples",  "bytes",    "listTime",
                                       "warmed",   "warmTime", "lastUsed", "evictedTime"};

    for (size_t i = 0; i < DLC_COUNT(kept); i++) {
        json_t *v = json_object_get(r->was, kept[i]);

        if (v != NULL)
            json_object_set(r->fields, kept[i], v);
    }
}

/* ---- made ---- */

/* Or is it other data under this name? */
static bool is_meant(const struct round *r)
{
    const struct observed *o = r->o;
    const struct spec_data want = {.bucket = o->dataset.bucket, .endpoint = o->dataset.endpoint};

    return !o->invalid && data_is(data_of(r)->body, o->tenant, &want);
}

static enum step made_step(struct round *r)
{
    const struct observed *o = r->o;
    const struct response *d = data_of(r);
    struct action *a;

    if (d->body == NULL && d->refused == 404) {
        tenant_again(r);
    } else if (d->body == NULL && d->refused != 0) {
        warn(r, COND_DATASET, "False", "DatasetRefused", "%s", d->message);
        r->phase = "Failed";
        look_after(r->out, RECON_LOOK_WAITING);
        return WAIT;
    }
    if (d->body == NULL) {
        a = add_action(r->out, ACT_MAKE_DATASET);
        a->body = build_dataset_body_of(o->tenant, o->jobs[0].dataset, &o->dataset);
        return AGAIN;
    }
    if (is_meant(r))
        return GO;
    warn(r, COND_DATASET, "False", "DatasetConflict",
         "the control plane has other data under the name %s; choose another name",
         o->jobs[0].dataset);
    r->phase = "Failed";
    return WAIT;
}

static void set_figures(struct round *r)
{
    const json_t *b = data_of(r)->body, *snapshot = json_object_get(b, "snapshot"), *one;
    const json_t *cached = json_object_get(b, "cached");
    int64_t bytes = json_int_at(snapshot, "bytes"), samples = json_int_at(snapshot, "samples");
    int64_t in = prepared_bytes(b);
    json_t *nodes = json_array();
    size_t i;

    json_object_set_new(r->fields, "snapshot", json_string(json_text_at(snapshot, "id")));
    json_object_set_new(r->fields, "samples", json_integer((json_int_t)samples));
    json_object_set_new(r->fields, "bytes", json_integer((json_int_t)bytes));
    json_object_set_new(r->figures, "cachedBytes", json_integer((json_int_t)in));
    json_object_set_new(
        r->figures, "progress",
        json_pack("{s:I, s:I, s:I}", "samples",
                  (json_int_t)(bytes > 0 ? (double)samples * (double)in / (double)bytes
                                         : (double)samples),
                  "total", (json_int_t)samples, "percent",
                  (json_int_t)(bytes > 0 ? 100 * in / bytes : 100)));
    json_array_foreach(json_object_get(cached, "nodes"), i, one)
        json_array_append_new(nodes, json_pack("{s:s, s:I}", "name", json_text_at(one, "node"),
                                               "bytes", (json_int_t)json_int_at(one, "bytes")));
    json_object_set_new(r->figures, "nodes", nodes);
    set_cost(r, spent_at(b));
}

static enum step listed_step(struct round *r)
{
    const json_t *b = data_of(r)->body;

    if (strcmp(json_text_at(b, "state"), "failed") == 0) {
        int64_t left = time_at(r->was, "listTime") + LIST_AGAIN_S - r->o->now;

        warn(r, COND_DATASET, "False", "DatasetFailed", "%.*s",
             lasting_len(json_text_at(b, "error")), json_text_at(b, "error"));
        r->phase = "Failed";
        if (left <= 0) {
            order(r, ACT_LIST);
            set_now(r, "listTime");
            left = LIST_AGAIN_S;
        }
        look_after(r->out, DLC_SEC(left));
        return WAIT;
    }
    if (json_object_get(b, "snapshot") == NULL) {
        say(r, COND_DATASET, "False", "Listing", "the bucket is being listed");
        r->phase = "Listing";
        look_after(r->out, RECON_LOOK_PREPARING);
        return WAIT;
    }
    set_figures(r);
    say(r, COND_DATASET, "True", "Ready", "it has %lld samples",
        (long long)json_int_at(b, "snapshot.samples"));
    return GO;
}

/* ---- warm ---- */

static void order_warm(struct round *r, const char *snapshot)
{
    const json_t *splits = r->o->dataset.splits, *one;
    size_t i;

    json_array_foreach(splits, i, one) order(r, ACT_WARM)->body =
        json_pack("{s:s, s:s}", "tier", r->o->dataset.tier, "split", json_string_value(one));
    if (splits == NULL)
        order(r, ACT_WARM)->body = json_pack("{s:s}", "tier", r->o->dataset.tier);
    json_object_set_new(r->fields, "warmed", json_string(snapshot));
    set_now(r, "warmTime");
}

static void warm_step(struct round *r)
{
    const char *snapshot = json_text_at(data_of(r)->body, "snapshot.id");
    bool ordered = strcmp(json_text_at(r->was, "warmed"), snapshot) == 0;

    r->phase = "Ready";
    if (!r->o->dataset.warm) {
        say(r, COND_WARMED, "False", "NotAsked", "spec.warm is false");
        return;
    }
    if (!ordered)
        order_warm(r, snapshot);
    if (prepared_is_over(data_of(r)->body, ordered ? r->o->now - time_at(r->was, "warmTime") : 0)) {
        say(r, COND_WARMED, "True", "Warmed", "what fits of it has been fetched");
        return;
    }
    if (ordered && strcmp(json_text_at(condition_was(r, "Warmed"), "status"), "True") == 0)
        return; /* it was: what has been evicted since is fetched when it is read */
    say(r, COND_WARMED, "False", "Warming", "it is being fetched");
    r->phase = "Warming";
    r->every = RECON_PROGRESS_S;
    look_after(r->out, RECON_LOOK_PREPARING);
}

/* ---- retention ---- */

static void retention_step(struct round *r)
{
    const struct observed *o = r->o;
    int64_t keep_s = o->dataset.retention_s, last, left;
    struct action *a;

    if (json_array_size(o->used_by) > 0) { /* lastUsed is written when they are gone */
        json_object_del(r->fields, "evictedTime");
        return;
    }
    if (json_array_size(json_object_get(r->was, "usedBy")) > 0)
        set_now(r, "lastUsed");
    if (keep_s == SPEC_FOREVER)
        return;
    last = time_at(r->fields, "lastUsed");
    if (last == 0)
        last = time_at(json_object_get(o->object, "metadata"), "creationTimestamp");
    left = last + keep_s - o->now;
    if (left > 0) {
        look_after_s(r->out, left);
    } else if (annotation(o->object, ANNOTATION_RETAINED)[0] != '\0') {
        a = add_action(r->out, ACT_DELETE);
        a->object = KUBE_DATASET;
        snprintf(a->name, sizeof(a->name), "%s", json_text_at(o->object, "metadata.name"));
        snprintf(a->uid, sizeof(a->uid), "%s", json_text_at(o->object, "metadata.uid"));
    } else if (is_meant(r) && json_object_get(r->fields, "evictedTime") == NULL) {
        order(r, ACT_EVICT)->body = json_pack("{s:s}", "tier", "all");
        set_now(r, "evictedTime");
    }
}

static void set_users(struct round *r)
{
    const json_t *u = r->o->used_by;

    json_object_set_new(r->fields, "dataset", json_string(r->o->jobs[0].dataset));
    json_object_set_new(r->fields, "users", json_integer((json_int_t)json_array_size(u)));
    if (json_array_size(u) > 0)
        json_object_set_new(r->fields, "usedBy", json_deep_copy(u));
}

/* ---- all ---- */

static void finish(struct round *r)
{
    const struct condition *c = &r->conds[COND_DATASET];

    if (r->message[0] == '\0' && c->status != NULL && strcmp(c->status, "True") != 0)
        snprintf(r->message, sizeof(r->message), "%s", c->message);
    status_write(r);
}

static void delete_it(struct round *r)
{
    const struct response *d = data_of(r);

    set_users(r);
    if (r->o->manager_away)
        snprintf(r->message, sizeof(r->message),
                 "its deletion waits for the manager, which does not answer: %s",
                 r->o->manager_error);
    else if (json_array_size(r->o->used_by) > 0)
        snprintf(r->message, sizeof(r->message), "its deletion waits for DLTPod %s, which reads it",
                 json_string_value(json_array_get(r->o->used_by, 0)));
    else if (d->body != NULL && d->refused != 0)
        snprintf(r->message, sizeof(r->message), "its deletion waits: %.400s", d->message);
    else if (d->body != NULL && is_meant(r)) {
        order(r, ACT_END_DATASET);
        r->out->again = true;
        return;
    } else {
        add_action(r->out, ACT_DROP_FINALIZER);
        return;
    }
    look_after(r->out, RECON_LOOK_AWAY);
    status_write(r);
}

void reconcile_dataset(struct round *r)
{
    enum step s;

    keep_fields(r);
    if (is_deleted(r->o->object)) {
        delete_it(r);
        return;
    }
    if (r->o->manager_away) {
        say(r, COND_DATASET, "Unknown", "ManagerAway", "the manager does not answer: %s",
            r->o->manager_error);
        look_after(r->out, RECON_LOOK_AWAY);
        set_users(r);
        finish(r);
        return;
    }
    s = tenant_step(r);
    if (s == GO)
        s = made_step(r);
    if (s == AGAIN) {
        r->out->again = true;
        return;
    }
    set_users(r);
    if (s == GO)
        s = listed_step(r);
    if (s == GO)
        warm_step(r);
    retention_step(r);
    if (s == WAIT) /* for a Secret, or the control plane: no watch tells of them */
        look_after(r->out, RECON_LOOK_RUNNING);
    look_after(r->out, DLC_SEC(RECON_FIGURES_S));
    finish(r);
}
