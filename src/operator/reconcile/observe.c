// SPDX-License-Identifier: Apache-2.0
/*
 * Observe: gather what reconcile() needs for one object: watched objects from the caches, Secrets
 * and ConfigMaps read by name, and the manager's state.
 */
#include "operator/reconcile/pass.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "operator/reconcile/reconcile_i.h"

/* ---- Kubernetes ---- */

/* The array of `seen` that a kind belongs to. */
static json_t *array_of(const struct pass *p, enum kube_kind kind)
{
    return kind == KUBE_POD ? p->pods : kind == KUBE_SERVICE ? p->services : p->configmaps;
}

/* What the object owns, and what others own that is called as it wants. */
static void observe_kind(struct pass *p, enum kube_kind kind)
{
    struct objects *all = p->reconciler->objects;
    const char *uid = kube_uid(p->seen.object), *ns = p->seen.tenant;
    json_t *owned = objects_owned(all, kind, uid), *names = observed_names(&p->seen, kind), *one;
    size_t i;

    json_array_append(p->held, owned);
    json_array_extend(array_of(p, kind), owned);
    json_array_foreach(names, i, one)
    {
        json_t *o = objects_get(all, kind, ns, json_string_value(one));

        if (o != NULL && !is_owned(o, p->seen.object))
            json_array_append(array_of(p, kind), o);
        if (o != NULL)
            json_array_append_new(p->held, o);
    }
    json_decref(names);
    json_decref(owned);
}

/* Gives to p->own. *out is borrowed from there; NULL: there is none. */
static int fetch(struct pass *p, enum kube_kind kind, const char *name, const json_t **out,
                 struct dlc_err *err)
{
    json_t *o = NULL;
    int rc = 0;

    *out = NULL;
    if (name[0] != '\0')
        rc = fetched_get(p->reconciler->fetched, p->reconciler->kube, kind, p->seen.tenant, name,
                         &o, err);
    if (o != NULL)
        json_array_append_new(p->own, o);
    *out = o;
    return rc;
}

static const json_t *held(struct pass *p, json_t *object)
{
    if (object != NULL)
        json_array_append_new(p->held, object);
    return object;
}

/* Namespaces decide whether we may read their Secrets: that they do not let us is news for the user
 * of the object, not a failure of ours. */
static int observe_secret(struct pass *p, struct dlc_err *err)
{
    struct observed *o = &p->seen;
    int rc = fetch(p, KUBE_SECRET, o->secret, &o->secret_object, err);

    o->secret_forbidden = rc == DLC_EDENIED && kube_status(p->reconciler->kube) == 403;
    return o->secret_forbidden ? 0 : rc;
}

static int observe_names(struct pass *p, struct dlc_err *err)
{
    struct observed *o = &p->seen;
    bool reads = !kube_is_deleted(o->object);
    int rc = 0;

    if (reads)
        rc = fetch(p, KUBE_SECRET, TENANT_SECRET, &o->tenant_secret, err);
    if (rc == 0 && reads)
        rc = observe_secret(p, err);
    for (size_t i = 0; rc == 0 && i < o->n_jobs; i++) {
        struct seen_job *j = &o->jobs[i];

        j->cached_dataset =
            held(p, objects_get(p->reconciler->objects, KUBE_DATASET, o->tenant, j->ref));
        rc = fetch(p, KUBE_CONFIGMAP, j->qos_from, &j->qos_map, err);
    }
    return rc;
}

static void observe_users(struct pass *p)
{
    struct observed *o = &p->seen;
    const char *used = annotation(o->tenant_secret, ANNOTATION_CREDENTIALS);
    char *secret = mem_strn(used, strcspn(used, "/"));

    o->credentials_used = users_of_secret(p->reconciler->users, o->tenant, secret, p->key);
    for (size_t i = 0; i < o->n_jobs; i++)
        o->jobs[i].shared = users_others(p->reconciler->users, o->jobs[i].dataset, p->key);
    if (o->is_dataset) {
        json_t *names = users_of(p->reconciler->users, o->jobs[0].dataset);

        o->used_by = names;
        json_array_append_new(p->own, names);
    }
    mem_free(&secret);
}

void observe_add(struct pass *p, enum kube_kind kind, json_t *object)
{
    json_array_append(array_of(p, kind), object);
    json_array_append_new(p->own, object);
}

/* ---- the control plane ---- */

void observe_manager_away(struct pass *p, const struct dlc_err *why)
{
    p->seen.manager_away = true;
    snprintf(p->seen.manager_error, sizeof(p->seen.manager_error), "%.199s", why->text);
}

/* False: the manager did not answer. */
static bool put_response(struct pass *p, struct response *a, enum manager_said s, json_t *body,
                         const struct dlc_err *err)
{
    if (s == MANAGER_OK)
        response_set(a, body);
    else if (s == MANAGER_ABSENT)
        response_absent(a);
    else
        observe_manager_away(p, err);
    return !p->seen.manager_away;
}

static void observe_manager(struct pass *p)
{
    struct observed *o = &p->seen;
    struct dlc_err err = DLC_ERR_INIT;
    bool answers = true;

    for (size_t i = 0; answers && i < o->n_jobs; i++) {
        struct seen_job *j = &o->jobs[i];
        json_t *body = NULL;
        enum manager_said s;

        if (j->ask_data) {
            s = manager_dataset(p->reconciler->manager, j->dataset, &body, &err);
            answers = put_response(p, &j->data, s, body, &err);
        }
        if (answers && j->ask_job) {
            s = manager_job(p->reconciler->manager, j->id, &body, &err);
            answers = put_response(p, &j->job, s, body, &err);
        }
        if (answers && j->ask_ended) {
            s = manager_ended_job(p->reconciler->manager, j->id, &body, &err);
            answers = put_response(p, &j->ended, s, body, &err);
        }
    }
}

/* ---- all ---- */

int observe_begin(struct pass *p, struct reconciler *r, json_t *object, struct dlc_err *err)
{
    struct observed *o = &p->seen;
    int rc;

    memset(p, 0, sizeof(*p));
    p->reconciler = r;
    p->held = json_array();
    p->own = json_array();
    p->pods = json_array();
    p->configmaps = json_array();
    p->services = json_array();
    observed_init(o, object, dlc_wall_seconds());
    json_array_append_new(p->held, object);
    p->key = object_key_of(o->is_dataset ? KUBE_DATASET : KUBE_DLTPOD, object);
    rc = observe_names(p, err);
    if (rc < 0)
        return rc;
    if (!o->is_dataset) {
        json_t *nodes = objects_all(r->objects, KUBE_NODE, NULL);

        o->nodes = held(p, nodes);
        observe_kind(p, KUBE_POD);
        observe_kind(p, KUBE_CONFIGMAP);
        if (o->spec.replicas > 1)
            observe_kind(p, KUBE_SERVICE);
    }
    o->pods = p->pods;
    o->configmaps = p->configmaps;
    o->services = p->services;
    observe_users(p);
    if (kube_is_deleted(object) || !o->invalid)
        observe_manager(p);
    return 0;
}

void observe_end(struct pass *p)
{
    json_decref(p->pods);
    json_decref(p->configmaps);
    json_decref(p->services);
    observed_release(&p->seen);
    json_decref(p->own);
    objects_put(p->reconciler->objects, &p->held);
    mem_free(&p->key);
    memset(p, 0, sizeof(*p));
}
