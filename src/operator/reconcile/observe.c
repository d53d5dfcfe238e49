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
static json_t *array_of(const struct turn *t, enum kube_kind kind)
{
    return kind == KUBE_POD ? t->pods : kind == KUBE_SERVICE ? t->services : t->configmaps;
}

/* What the object owns, and what others own that is called as it wants. */
static void look_at_kind(struct turn *t, enum kube_kind kind)
{
    struct objects *all = t->desk->objects;
    const char *uid = kube_uid(t->seen.object), *ns = t->seen.tenant;
    json_t *owned = objects_owned(all, kind, uid), *names = observed_names(&t->seen, kind), *one;
    size_t i;

    json_array_append(t->held, owned);
    json_array_extend(array_of(t, kind), owned);
    json_array_foreach(names, i, one)
    {
        json_t *o = objects_get(all, kind, ns, json_string_value(one));

        if (o != NULL && !is_owned(o, t->seen.object))
            json_array_append(array_of(t, kind), o);
        if (o != NULL)
            json_array_append_new(t->held, o);
    }
    json_decref(names);
    json_decref(owned);
}

/* Gives to t->own. *out is borrowed from there; NULL: there is none. */
static int fetch(struct turn *t, enum kube_kind kind, const char *name, const json_t **out,
                 struct dlc_err *err)
{
    json_t *o = NULL;
    int rc = 0;

    *out = NULL;
    if (name[0] != '\0')
        rc = fetched_get(t->desk->fetched, t->desk->kube, kind, t->seen.tenant, name, &o, err);
    if (o != NULL)
        json_array_append_new(t->own, o);
    *out = o;
    return rc;
}

static const json_t *held(struct turn *t, json_t *object)
{
    if (object != NULL)
        json_array_append_new(t->held, object);
    return object;
}

static int look_at_names(struct turn *t, struct dlc_err *err)
{
    struct observed *o = &t->seen;
    bool reads = !kube_is_deleted(o->object);
    int rc = 0;

    if (reads)
        rc = fetch(t, KUBE_SECRET, TENANT_SECRET, &o->tenant_secret, err);
    if (rc == 0 && reads)
        rc = fetch(t, KUBE_SECRET, o->secret, &o->secret_object, err);
    for (size_t i = 0; rc == 0 && i < o->n_jobs; i++) {
        struct seen_job *j = &o->jobs[i];

        j->cached_dataset = held(t, objects_get(t->desk->objects, KUBE_DATASET, o->tenant, j->ref));
        rc = fetch(t, KUBE_CONFIGMAP, j->qos_from, &j->qos_map, err);
    }
    return rc;
}

static void look_at_users(struct turn *t)
{
    struct observed *o = &t->seen;
    const char *used = annotation(o->tenant_secret, ANNOTATION_CREDENTIALS);
    char *secret = mem_strn(used, strcspn(used, "/"));

    o->credentials_used = users_of_secret(t->desk->users, o->tenant, secret, t->key);
    for (size_t i = 0; i < o->n_jobs; i++)
        o->jobs[i].shared = users_others(t->desk->users, o->jobs[i].dataset, t->key);
    if (o->is_dataset) {
        json_t *names = users_of(t->desk->users, o->jobs[0].dataset);

        o->used_by = names;
        json_array_append_new(t->own, names);
    }
    mem_free(&secret);
}

void look_add(struct turn *t, enum kube_kind kind, json_t *object)
{
    json_array_append(array_of(t, kind), object);
    json_array_append_new(t->own, object);
}

/* ---- the control plane ---- */

void look_away(struct turn *t, const struct dlc_err *why)
{
    t->seen.manager_away = true;
    snprintf(t->seen.manager_words, sizeof(t->seen.manager_words), "%.199s", why->text);
}

/* False: the manager did not answer. */
static bool put_answer(struct turn *t, struct answer *a, enum manager_said s, json_t *body,
                       const struct dlc_err *err)
{
    if (s == MANAGER_OK)
        answer_set(a, body);
    else if (s == MANAGER_ABSENT)
        answer_absent(a);
    else
        look_away(t, err);
    return !t->seen.manager_away;
}

static void look_at_control(struct turn *t)
{
    struct observed *o = &t->seen;
    struct dlc_err err = DLC_ERR_INIT;
    bool answers = true;

    for (size_t i = 0; answers && i < o->n_jobs; i++) {
        struct seen_job *j = &o->jobs[i];
        json_t *body = NULL;
        enum manager_said s;

        if (j->ask_data) {
            s = manager_dataset(t->desk->manager, j->dataset, &body, &err);
            answers = put_answer(t, &j->data, s, body, &err);
        }
        if (answers && j->ask_job) {
            s = manager_job(t->desk->manager, j->id, &body, &err);
            answers = put_answer(t, &j->job, s, body, &err);
        }
    }
}

/* ---- all ---- */

int look_begin(struct turn *t, struct desk *d, json_t *object, struct dlc_err *err)
{
    struct observed *o = &t->seen;
    int rc;

    memset(t, 0, sizeof(*t));
    t->desk = d;
    t->held = json_array();
    t->own = json_array();
    t->pods = json_array();
    t->configmaps = json_array();
    t->services = json_array();
    observed_init(o, object, dlc_wall_seconds());
    json_array_append_new(t->held, object);
    t->key = object_key_of(o->is_dataset ? KUBE_DATASET : KUBE_DLTPOD, object);
    rc = look_at_names(t, err);
    if (rc < 0)
        return rc;
    if (!o->is_dataset) {
        json_t *nodes = objects_all(d->objects, KUBE_NODE, NULL);

        o->nodes = held(t, nodes);
        look_at_kind(t, KUBE_POD);
        look_at_kind(t, KUBE_CONFIGMAP);
        if (o->spec.replicas > 1)
            look_at_kind(t, KUBE_SERVICE);
    }
    o->pods = t->pods;
    o->configmaps = t->configmaps;
    o->services = t->services;
    look_at_users(t);
    if (kube_is_deleted(object) || !o->invalid)
        look_at_control(t);
    return 0;
}

void look_end(struct turn *t)
{
    json_decref(t->pods);
    json_decref(t->configmaps);
    json_decref(t->services);
    observed_release(&t->seen);
    json_decref(t->own);
    objects_put(t->desk->objects, &t->held);
    mem_free(&t->key);
    memset(t, 0, sizeof(*t));
}
