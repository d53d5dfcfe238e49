// SPDX-License-Identifier: Apache-2.0
/*
 * The pods of one job: their state, which to delete, which to create.
 *
 * A pod of another template is deleted, and none is created before all of those are gone (Recreate:
 * ranks of two programs never run together). A pod whose node is lost, or that the cluster has
 * evicted, is deleted and created again elsewhere. A program that ended is not started again, even
 * if its pod is gone: the status records ranks that succeeded. Pods that are evicted again and again
 * are created again more and more slowly (pod_trouble.h).
 */
#include "operator/reconcile/reconcile_i.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"

/* ---- one pod ---- */

enum fate { STAYS, GOES, GOES_NOW, GOING };

static const char *phase_of(const json_t *pod)
{
    return json_text_at(pod, "status.phase");
}

static const json_t *pod_condition(const json_t *pod, const char *type)
{
    return json_find(json_at(pod, "status.conditions"), "type", type);
}

bool pod_has_ended(const json_t *pod)
{
    return strcmp(phase_of(pod), "Succeeded") == 0 || strcmp(phase_of(pod), "Failed") == 0;
}

static const char *node_of(const json_t *pod)
{
    return json_text_at(pod, "spec.nodeName");
}

static bool is_lost(struct job_round *w, const json_t *pod)
{
    const char *node = node_of(pod);
    int64_t in = 0;

    if (node[0] == '\0' || pod_has_ended(pod) || w->r->o->spec.node_name != NULL)
        return false;
    if (node_lost(w->r->o, node, &in))
        return true;
    if (in > 0)
        look_after(w->r->out, DLC_SEC(in));
    return false;
}

static enum fate fate_of(struct job_round *w, const json_t *pod)
{
    bool lost = is_lost(w, pod);

    if (is_deleted(pod))
        return lost ? GOES_NOW : GOING; /* nobody is there who would end it */
    if (lost)
        return GOES_NOW;
    return pod_is_evicted(pod) ? GOES : STAYS;
}

/* ---- all of them ---- */

static bool has_rank(const json_t *ranks, int rank)
{
    const json_t *one;
    size_t i;

    json_array_foreach(ranks, i, one)
    {
        if (json_integer_value(one) == rank)
            return true;
    }
    return false;
}

/* Has our name and is not ours. That of a DLTPod before this one goes by itself. */
static void see_foreign(struct job_round *w, const char *kind, const json_t *object)
{
    const char *name = json_text_at(object, "metadata.name");
    bool former =
        strcmp(label(object, LABEL_MANAGED), MANAGED_BY) == 0 &&
        strcmp(label(object, LABEL_DLTPOD), json_text_at(w->r->o->object, "metadata.name")) == 0;

    w->conflict = true;
    job_note(&w->placed, "False", !former, former ? "FormerObject" : "ForeignObject",
             former
                 ? "%s %s of a former DLTPod of this name is still there"
                 : "%s %s exists and is not this DLTPod's; it is left alone: rename or delete it",
             kind, name);
}

static const json_t *pod_of(const struct job_round *w, int rank)
{
    char name[SPEC_NAME_LEN];

    spec_pod(json_text_at(w->r->o->object, "metadata.name"), w->j->name, rank, name);
    return json_find(w->r->o->pods, "metadata.name", name);
}

static void see_scheduling(struct job_round *w, const json_t *pod)
{
    const json_t *c = pod_condition(pod, "PodScheduled");

    if (strcmp(json_text_at(c, "status"), "False") == 0)
        job_note(&w->placed, "False", true, "Unschedulable", "pod %s: %s",
                 json_text_at(pod, "metadata.name"), json_text_at(c, "message"));
}

static void see_current(struct job_round *w, const json_t *pod, int rank)
{
    const char *phase = phase_of(pod);
    char reason[64], why[300];

    w->made++;
    if (!pod_has_ended(pod) && pod_trouble(pod, reason, why)) {
        job_note(&w->trouble, "False", true, reason, "pod %s: %s",
                 json_text_at(pod, "metadata.name"), why);
    } else if (strcmp(phase, "Running") == 0) {
        w->running++;
    } else if (strcmp(phase, "Succeeded") == 0) {
        if (!has_rank(w->succeeded, rank))
            json_array_append_new(w->succeeded, json_integer(rank));
    } else if (strcmp(phase, "Failed") == 0) {
        pod_why_failed(pod, why);
        job_note(&w->failed, "True", true, "PodFailed", "pod %s: %s",
                 json_text_at(pod, "metadata.name"), why);
    } else {
        see_scheduling(w, pod);
    }
}

static void see_rank(struct job_round *w, int rank)
{
    const json_t *pod = pod_of(w, rank);
    enum fate f;

    json_array_append_new(w->nodes, json_string(pod != NULL ? node_of(pod) : ""));
    if (pod == NULL)
        return;
    if (!is_owned(pod, w->r->o->object)) {
        see_foreign(w, "Pod", pod);
        return;
    }
    f = fate_of(w, pod);
    if (f == GOING)
        w->going++;
    else if (strcmp(annotation(pod, ANNOTATION_TEMPLATE), w->template) != 0)
        w->old++;
    else if (f == STAYS)
        see_current(w, pod, rank);
}

static enum phase state_of(const struct job_round *w)
{
    if (w->failed.status != NULL)
        return FAILED;
    if ((int)json_array_size(w->succeeded) >= w->r->o->spec.replicas)
        return SUCCEEDED;
    if (w->running > 0)
        return RUNNING;
    return w->made > 0 ? PLACED : PENDING;
}

/* What status says of an end still holds, if it was the end of the same template. */
static bool was_over(const struct job_round *w)
{
    const char *state = json_text_at(w->was, "state");

    return strcmp(json_text_at(w->was, "template"), w->template) == 0 &&
           (strcmp(state, phase_names[SUCCEEDED]) == 0 || strcmp(state, phase_names[FAILED]) == 0);
}

static void restore_end(struct job_round *w)
{
    w->over = true;
    w->state = strcmp(json_text_at(w->was, "state"), phase_names[FAILED]) == 0 ? FAILED : SUCCEEDED;
    w->end_time = time_at(w->was, "endTime");
    if (w->state == FAILED && w->failed.status == NULL)
        job_note(&w->failed, "True", true, "PodFailed", "%s", json_text_at(w->was, "message"));
}

void pods_see(struct job_round *w)
{
    bool same = strcmp(json_text_at(w->was, "template"), w->template) == 0;
    const json_t *done = same ? json_object_get(w->was, "succeeded") : NULL;

    w->succeeded = done != NULL ? json_deep_copy(done) : json_array();
    w->nodes = json_array();
    for (int r = 0; r < w->r->o->spec.replicas; r++) {
        w->ended += pod_of(w, r) == NULL && has_rank(w->succeeded, r);
        see_rank(w, r);
    }
    w->state = state_of(w);
    w->over = w->state == SUCCEEDED || w->state == FAILED;
    w->end_time = w->r->o->now;
    if (was_over(w))
        restore_end(w);
    else if (!w->over)
        w->end_time = 0;
    if (!w->over && w->released) { /* it runs once more: its data has to come again */
        w->released = false;
        w->warm_time = 0;
    }
    w->registered |= w->over && w->j->job.body != NULL;
}

/* ---- to go ---- */

static struct action *remove_object(struct actions *out, enum kube_kind kind, const json_t *object)
{
    struct action *a = add_action(out, ACT_DELETE);

    a->object = kind;
    snprintf(a->name, sizeof(a->name), "%s", json_text_at(object, "metadata.name"));
    snprintf(a->uid, sizeof(a->uid), "%s", json_text_at(object, "metadata.uid"));
    return a;
}

void pod_remove(struct actions *out, const json_t *pod, bool now)
{
    remove_object(out, KUBE_POD, pod)->grace_s = now ? 0 : -1;
}

static void remove_pod(struct job_round *w, const json_t *pod, bool now)
{
    pod_remove(w->r->out, pod, now);
    w->away = true;
}

static bool is_wanted(const struct job_round *w, const json_t *pod)
{
    char name[SPEC_NAME_LEN];

    for (int r = 0; r < w->r->o->spec.replicas; r++)
        if (strcmp(spec_pod(json_text_at(w->r->o->object, "metadata.name"), w->j->name, r, name),
                   json_text_at(pod, "metadata.name")) == 0)
            return strcmp(annotation(pod, ANNOTATION_TEMPLATE), w->template) == 0;
    return false;
}

/* Those of our job that are of another template, of a rank that is not wanted, lost, or of a job
 * that has failed. */
static void remove_pods(struct job_round *w)
{
    const json_t *pod;
    size_t i;

    json_array_foreach(w->r->o->pods, i, pod)
    {
        enum fate f;

        if (!is_owned(pod, w->r->o->object) || strcmp(label(pod, LABEL_JOB), w->j->name) != 0)
            continue;
        f = fate_of(w, pod);
        if (f == STAYS && (!is_wanted(w, pod) || (w->state == FAILED && !pod_has_ended(pod))))
            f = GOES;
        if (f == GOES && pod_is_evicted(pod))
            evictions_add(&w->evictions, pod, w->r->o->now);
        if (f == GOES || f == GOES_NOW)
            remove_pod(w, pod, f == GOES_NOW);
    }
}

/* ---- to come ---- */

static bool apply(struct job_round *w, enum kube_kind kind, json_t *want, const json_t *all,
                  const char *field)
{
    const char *name = json_text_at(want, "metadata.name");
    const json_t *have = json_find(all, "metadata.name", name);
    struct action *a;

    if (have != NULL && !is_owned(have, w->r->o->object)) {
        see_foreign(w, json_text_at(want, "kind"), have);
    } else if (have == NULL || (field != NULL && !same_json(json_object_get(have, field),
                                                            json_object_get(want, field)))) {
        a = add_action(w->r->out, ACT_APPLY);
        a->object = kind;
        snprintf(a->name, sizeof(a->name), "%s", name);
        a->body = want;
        return true;
    }
    json_decref(want);
    return !w->conflict;
}

/* Nothing of the DLTPod is tried again in this round: it would be rejected again. */
static void see_rejected(struct job_round *w)
{
    const struct rejection *no = &w->r->o->rejected;

    w->rejected = true;
    job_note(&w->placed, "False", true, "Rejected", "the API server does not take %s%s%s: %s",
             kube_kinds[no->kind].kind, no->name[0] != '\0' ? " " : "", no->name, no->message);
}

/* That of another port goes and comes again: ports of a Service are not replaced by an apply.
 * False: it has to go first. */
static bool apply_service(struct job_round *w, const struct build_input *in)
{
    const struct observed *o = w->r->o;
    json_t *want;
    const json_t *have;

    if (o->spec.replicas == 1)
        return true;
    want = build_service(in);
    have = json_find(o->services, "metadata.name", json_text_at(want, "metadata.name"));
    if (have == NULL || !is_owned(have, o->object) ||
        strcmp(annotation(have, ANNOTATION_PORT), annotation(want, ANNOTATION_PORT)) == 0)
        return apply(w, KUBE_SERVICE, want, o->services, NULL);
    json_decref(want);
    w->away = true;
    if (!is_deleted(have))
        remove_object(w->r->out, KUBE_SERVICE, have);
    return false;
}

/* Pods of the job were evicted several times in a row: is it too early for the next one? */
static bool wait_after_evictions(struct job_round *w)
{
    int64_t until = evictions_until(&w->evictions);
    char text[SPEC_TIME_LEN];

    if (until <= w->r->o->now)
        return false;
    job_note(&w->placed, "False", true, "Evicted",
             "pods of job %s were evicted %lld times in a row, and the next one starts at %s: %s",
             w->j->name, (long long)w->evictions.count, spec_time(until, text), w->evictions.why);
    look_after_s(w->r->out, until - w->r->o->now);
    return true;
}

static void make_pods(struct job_round *w)
{
    const struct observed *o = w->r->o;
    struct build_input in = w->in;
    bool any = true;
    char why[300];
    json_t *nodes = nodes_for(o, json_object_get(w->j->job.body, "placement"), &any, why);

    in.place.nodes = nodes;
    if (!any && o->spec.node_name == NULL) {
        job_note(&w->placed, "False", true, "NoNode", "job %s: %s", w->j->name, why);
    } else if (apply(w, KUBE_CONFIGMAP, build_configmap(&in), o->configmaps, "data") &&
               apply_service(w, &in)) {
        for (int r = 0; r < o->spec.replicas; r++)
            if (pod_of(w, r) == NULL && !has_rank(w->succeeded, r)) {
                apply(w, KUBE_POD, build_pod(&in, r), NULL, NULL);
                w->made++;
            }
        w->state = w->running > 0 ? RUNNING : PLACED;
    }
    json_decref(nodes);
}

static int missing(const struct job_round *w)
{
    int n = 0;

    for (int r = 0; r < w->r->o->spec.replicas; r++)
        n += pod_of(w, r) == NULL && !has_rank(w->succeeded, r);
    return n;
}

void pods_act(struct job_round *w)
{
    remove_pods(w);
    if (w->over || w->data != GO || w->conflict || w->away || w->old + w->going > 0 ||
        missing(w) == 0)
        return;
    if (w->r->o->rejected.status != 0)
        see_rejected(w);
    else if (!wait_after_evictions(w))
        make_pods(w);
}

void pods_conclude(struct job_round *w)
{
    bool replacing = w->away || w->old + w->going > 0;

    if (w->placed.status == NULL && !replacing &&
        (w->over || w->made + w->ended >= w->r->o->spec.replicas))
        job_note(&w->placed, "True", false, "PodsMade", "all pods of job %s are there", w->j->name);
    else if (w->placed.status == NULL && replacing)
        job_note(&w->placed, "False", false, "Replacing", "pods of job %s are being replaced",
                 w->j->name);
    if (w->state == PENDING)
        w->state = replacing ? PLACED : w->registered ? PREPARING : PENDING;
}
