// SPDX-License-Identifier: Apache-2.0
/*
 * One job of a DLTPod in the control plane: its data, its registration, warm-up. Its end is in
 * reconcile_job_end.c.
 *
 * The job is registered as soon as its data is, listed or not: while a job waits for a listing the
 * manager lists again, so a bucket that was wrong and is right now is found.
 */
#include "operator/reconcile/reconcile_i.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"

void job_note(struct condition *c, const char *status, bool warning, const char *reason,
              const char *fmt, ...)
{
    va_list ap;

    c->status = status;
    c->warning = warning;
    snprintf(c->reason, sizeof(c->reason), "%s", reason);
    va_start(ap, fmt);
    vsnprintf(c->message, sizeof(c->message), fmt, ap);
    va_end(ap);
    cut_text(c->message);
}

/* ---- begin ---- */

/* False: the ConfigMap is missing or makes no sense, and the condition says so. */
static bool find_qos(struct job_round *w)
{
    struct dlc_err err = DLC_ERR_INIT;

    w->qos = w->sj->qos;
    if (w->sj->qos_from == NULL)
        return true;
    if (w->j->qos_map == NULL)
        job_note(&w->ready, "False", true, "ConfigMapMissing",
                 "job %s: ConfigMap %s does not exist; make it, or correct qosFrom", w->j->name,
                 w->sj->qos_from);
    else if (spec_qos_from(&w->qos, w->j->qos_map, &err) == 0)
        return true;
    else
        job_note(&w->ready, "False", true, "ConfigMapInvalid", "job %s: ConfigMap %s: %s",
                 w->j->name, w->sj->qos_from, err.text);
    return false;
}

void job_init(struct job_round *w, struct round *r, size_t i)
{
    const struct observed *o = r->o;
    const char *made;

    memset(w, 0, sizeof(*w));
    w->r = r;
    w->i = i;
    w->j = &o->jobs[i];
    w->sj = &o->spec.jobs[i];
    w->was = status_of_job(o, w->j->name, w->j->dataset);
    made = json_text_at(w->j->job.body, "id");
    snprintf(w->id, sizeof(w->id), "%s", made[0] != '\0' ? made : w->j->id);
    w->in = (struct build_input){.object = o->object,
                                 .spec = &o->spec,
                                 .job = i,
                                 .job_id = w->id,
                                 .dataset = w->j->dataset,
                                 .qos = &w->qos};
    w->known = find_qos(w);
    if (w->known) {
        build_template_hash(&w->in, w->template);
        build_ask_hash(&w->in, w->ask);
    } else { /* what there is counts until we know better */
        snprintf(w->template, sizeof(w->template), "%s", json_text_at(w->was, "template"));
        snprintf(w->ask, sizeof(w->ask), "%s", json_text_at(w->was, "ask"));
    }
    w->registered = json_true_at(w->was, "registered");
    w->released = json_true_at(w->was, "released");
    w->warm_time = time_at(w->was, "warmTime");
    if (strcmp(json_text_at(w->was, "template"), w->template) == 0)
        evictions_read(&w->evictions, w->was);
    w->data = WAIT;
}

void job_round_release(struct job_round *w)
{
    json_decref(w->nodes);
    json_decref(w->succeeded);
    memset(w, 0, sizeof(*w));
}

/* ---- the data ---- */

static enum step make_dataset(struct job_round *w)
{
    const struct response *d = &w->j->data;
    struct action *a;

    if (w->j->ref[0] != '\0') {
        job_note(&w->ready, "False", false, "DatasetComes",
                 "CachedDataset %s is not in the control plane yet", w->j->ref);
        return WAIT;
    }
    if (d->refused == 404) {
        tenant_again(w->r);
    } else if (d->refused != 0) {
        job_note(&w->ready, "False", true, "DatasetRefused", "dataset %s: %s", w->j->dataset,
                 d->message);
        return WAIT;
    }
    if (!d->absent && d->refused == 0) { /* nobody asked */
        job_note(&w->ready, "Unknown", false, "ManagerAway", "the manager was not asked");
        return WAIT;
    }
    a = add_action(w->r->out, ACT_MAKE_DATASET);
    a->job = w->i;
    a->body = build_dataset_body(w->r->o->tenant, w->j->dataset, &w->sj->data);
    return AGAIN;
}

bool data_is(const json_t *body, const char *tenant, const struct spec_data *d)
{
    char *url = d->ref == NULL ? spec_url(d) : NULL;
    const char *endpoint = d->endpoint != NULL ? d->endpoint : "";
    bool same = strcmp(json_text_at(body, "tenant"), tenant) == 0 &&
                (url == NULL || (strcmp(url, json_text_at(body, "url")) == 0 &&
                                 strcmp(endpoint, json_text_at(body, "endpoint")) == 0));

    mem_free(&url);
    return same;
}

/* Is what the control plane has under this name what we mean? */
static bool is_meant(struct job_round *w)
{
    const json_t *b = w->j->data.body;
    const char *tenant = w->r->o->tenant;

    if (data_is(b, tenant, &w->sj->data))
        return true;
    job_note(&w->ready, "False", true, "DatasetConflict",
             "dataset %s is %s already; give dataSource another name", w->j->dataset,
             strcmp(json_text_at(b, "tenant"), tenant) == 0 ? json_text_at(b, "url")
                                                            : "another tenant's");
    return false;
}

static enum step data_step(struct job_round *w)
{
    if (w->j->ref[0] != '\0' &&
        (w->j->cached_dataset == NULL || is_deleted(w->j->cached_dataset))) {
        job_note(&w->ready, "False", true, "DatasetMissing",
                 "CachedDataset %s %s; make it, or correct datasetRef", w->j->ref,
                 w->j->cached_dataset == NULL ? "does not exist" : "is being deleted");
        return WAIT;
    }
    if (w->j->data.body == NULL)
        return make_dataset(w);
    return is_meant(w) ? GO : WAIT;
}

/* ---- the job ---- */

void job_make(struct job_round *w)
{
    struct action *a = add_action(w->r->out, ACT_MAKE_JOB);
    char hash[HASH_LEN];

    a->job = w->i;
    a->body = build_job_body(&w->in);
    snprintf(a->key, sizeof(a->key), "dltpod.%.64s.%s.%s.%s",
             json_text_at(w->r->o->object, "metadata.uid"), w->j->name, build_hash(a->body, hash),
             w->j->id);
}

enum step job_end(struct job_round *w, const char *id)
{
    struct action *a = add_action(w->r->out, ACT_END_JOB);

    a->job = w->i;
    snprintf(a->name, sizeof(a->name), "%s", id);
    return AGAIN;
}

static enum step register_job(struct job_round *w)
{
    const struct response *j = &w->j->job;

    if (j->refused != 0) {
        job_note(&w->ready, "False", true, j->refused == 507 ? "NoRoom" : "JobRefused",
                 "job %s: %s", w->j->name, j->message);
        return WAIT;
    }
    job_make(w);
    return AGAIN;
}

static enum step registration_step(struct job_round *w)
{
    const json_t *b = w->j->job.body;
    bool as_written = b != NULL && strcmp(json_text_at(b, "id"), w->j->id) == 0;

    if (as_written && strcmp(json_text_at(w->was, "ask"), w->ask) != 0) {
        if (w->old + w->going > 0) {
            job_note(&w->ready, "True", false, "Replacing",
                     "pods of the former spec are being replaced");
            return WAIT; /* they read for the former job until they are gone */
        }
        return job_end(w, w->j->id);
    }
    if (b == NULL && w->j->ask_job && !w->j->job.absent) { /* nobody asked */
        job_note(&w->ready, "Unknown", false, "ManagerAway", "the manager was not asked");
        return WAIT;
    }
    if (b == NULL)
        return register_job(w);
    w->registered = true;
    return GO;
}

/* ---- may pods start? ---- */

static void note_queued(struct job_round *w)
{
    const char *why = json_text_at(w->j->job.body, "reason");

    job_note(&w->ready, "False", false, "Queued", "job %s waits: %s", w->j->name,
             why[0] != '\0' ? why : "the manager has not judged it yet");
}

static enum step admission_step(struct job_round *w)
{
    const json_t *d = w->j->data.body, *b = w->j->job.body;
    const char *state = json_text_at(d, "state");

    if (strcmp(state, "failed") == 0) {
        job_note(&w->ready, "False", true, "DatasetFailed", "dataset %s: %.*s", w->j->dataset,
                 lasting_len(json_text_at(d, "error")), json_text_at(d, "error"));
        return WAIT;
    }
    if (json_object_get(d, "snapshot") == NULL) {
        job_note(&w->ready, "False", false, "Listing", "dataset %s is being listed", w->j->dataset);
        return WAIT;
    }
    if (strcmp(json_text_at(b, "state"), "running") != 0) {
        note_queued(w);
        return WAIT;
    }
    job_note(&w->ready, "True", false, "Ready", "dataset %s has %lld samples", w->j->dataset,
             (long long)json_int_at(d, "snapshot.samples"));
    return GO;
}

static enum step warm_step(struct job_round *w)
{
    enum spec_warm_up how = w->r->o->spec.warm_up;

    if (how == WARM_UP_NONE || !w->qos.use_cache || w->made > 0)
        return GO;
    if (w->warm_time == 0) {
        w->warm_now = true;
        w->warm_time = w->r->o->now;
    }
    if (how == WARM_UP_START || prepared_is_over(w->j->data.body, w->r->o->now - w->warm_time))
        return GO;
    job_note(&w->ready, "False", false, "Warming", "dataset %s is being fetched", w->j->dataset);
    return WAIT;
}

void job_orders(struct job_round *w)
{
    struct action *a;

    if (w->warm_now) {
        a = add_action(w->r->out, ACT_WARM);
        a->job = w->i;
        snprintf(a->name, sizeof(a->name), "%s", w->j->dataset);
        a->body = json_object();
    }
    if (!w->over && w->registered && json_int_at(w->j->job.body, "silent_ms") >= RECON_SILENT_MS) {
        a = add_action(w->r->out, ACT_HEARTBEAT);
        a->job = w->i;
        snprintf(a->name, sizeof(a->name), "%s", w->id);
    }
}

/* ---- all ---- */

enum step job_step(struct job_round *w)
{
    static enum step (*const steps[])(struct job_round *) = {data_step, registration_step,
                                                             admission_step, warm_step};
    enum step s = GO;

    if (w->over)
        return w->data = job_end_step(w);
    if (!w->known)
        return w->data = WAIT;
    for (size_t i = 0; s == GO && i < DLC_COUNT(steps); i++)
        s = steps[i](w);
    return w->data = s;
}

/* ---- in status.jobs ---- */

static void set_time(json_t *o, const char *field, int64_t t)
{
    char text[SPEC_TIME_LEN];

    if (t > 0)
        json_object_set_new(o, field, json_string(spec_time(t, text)));
}

json_t *job_entry(const struct job_round *w)
{
    const char *message = w->failed.status != NULL ? w->failed.message
                          : w->conflict            ? w->placed.message
                          : w->ready.status != NULL && strcmp(w->ready.status, "True") != 0
                              ? w->ready.message
                          : w->trouble.status != NULL ? w->trouble.message
                                                      : w->placed.message;
    json_t *evictions = evictions_json(&w->evictions);
    /* what this very job was registered with */
    const char *ask =
        w->was != NULL && strcmp(w->id, w->j->id) == 0 ? json_text_at(w->was, "ask") : w->ask;
    json_t *e = json_pack("{s:s, s:s, s:s, s:b}", "name", w->j->name, "dataset", w->j->dataset,
                          "state", phase_names[w->state], "registered", (int)w->registered);

    if (w->id[0] != '\0')
        json_object_set_new(e, "id", json_string(w->id));
    if (w->registered || w->over) {
        json_object_set_new(e, "ask", json_string(ask));
        json_object_set_new(e, "template", json_string(w->template));
    }
    if (json_array_size(w->nodes) > 0)
        json_object_set(e, "nodes", w->nodes);
    if (json_array_size(w->succeeded) > 0)
        json_object_set(e, "succeeded", w->succeeded);
    if (evictions != NULL)
        json_object_set_new(e, "evictions", evictions);
    set_time(e, "warmTime", w->warm_time);
    set_time(e, "endTime", w->end_time);
    if (w->released && w->over)
        json_object_set_new(e, "released", json_true());
    if (message[0] != '\0')
        json_object_set_new(e, "message", json_string(message));
    return e;
}
