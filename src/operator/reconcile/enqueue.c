// SPDX-License-Identifier: Apache-2.0
#include "operator/reconcile/enqueue.h"

#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "operator/reconcile/reconcile_i.h"

static void add(struct enqueuer *w, char **key)
{
    if (*key != NULL)
        queue_add(w->queue, *key);
    mem_free(key);
}

static const char *phase_of(const json_t *object)
{
    return json_text_at(object, "status.phase");
}

/* ---- DLTPod and CachedDataset ---- */

/* Is there news for reconcile() but a status? */
static bool is_news(const json_t *before, const json_t *after)
{
    static const char *const fields[] = {
        "generation", "deletionTimestamp", "annotations", "finalizers", "labels", "uid"};
    const json_t *a = json_object_get(before, "metadata"), *b = json_object_get(after, "metadata");

    if (before == NULL || after == NULL)
        return true;
    for (size_t i = 0; i < DLC_COUNT(fields); i++)
        if (!same_json(json_object_get(a, fields[i]), json_object_get(b, fields[i])))
            return true;
    return false;
}

static bool is_same_use(const json_t *a, const json_t *b)
{
    return strcmp(json_text_at(a, "dataset"), json_text_at(b, "dataset")) == 0 &&
           same_json(json_object_get(a, "registered"), json_object_get(b, "registered")) &&
           same_json(json_object_get(a, "released"), json_object_get(b, "released"));
}

/* Does the status of a DLTPod say something else of what it reads (references.c)? One job may have
 * begun or ended while the phase, which is that of all, is the same. */
static bool has_other_uses(const json_t *before, const json_t *after)
{
    const json_t *was = json_at(before, "status.jobs"), *one;
    const json_t *now = json_at(after, "status.jobs");
    size_t i;

    json_array_foreach(was, i, one)
    {
        if (!is_same_use(one, json_find(now, "name", json_text_at(one, "name"))))
            return true;
    }
    return json_array_size(was) != json_array_size(now);
}

/* The CachedDatasets that a DLTPod reads, by reference or by name, or has not let go of yet (but
 * for names that are too long to be found in "NAMESPACE.NAME"). */
static void enqueue_datasets(struct enqueuer *w, const json_t *dltpod)
{
    struct observed o;

    observed_init(&o, dltpod, 0);
    for (size_t i = 0; i < o.n_jobs; i++) {
        const char *name = o.jobs[i].ref;
        char own[SPEC_NAME_LEN];
        json_t *there;
        char *key;

        if (name[0] == '\0' && o.jobs[i].in_spec)
            name = spec_data_name(kube_name(dltpod), &o.spec.jobs[i], own);
        else if (name[0] == '\0' && strchr(o.jobs[i].dataset, '.') != NULL)
            name = strchr(o.jobs[i].dataset, '.') + 1;
        there = objects_get(w->objects, KUBE_DATASET, o.tenant, name);
        if (there != NULL) {
            key = object_key_of(KUBE_DATASET, there);
            add(w, &key);
        }
        objects_put(w->objects, &there);
    }
    observed_release(&o);
}

static void enqueue_readers(struct enqueuer *w, const json_t *dataset)
{
    char name[SPEC_NAME_LEN];
    json_t *keys = users_keys(w->users,
                              spec_dataset(kube_namespace(dataset), kube_name(dataset), name)),
           *one;
    size_t i;

    json_array_foreach(keys, i, one) queue_add(w->queue, json_string_value(one));
    json_decref(keys);
}

static void object_changed(struct enqueuer *w, enum kube_kind kind, const json_t *before,
                           const json_t *after)
{
    const json_t *any = after != NULL ? after : before;
    bool news = is_news(before, after), moved = strcmp(phase_of(before), phase_of(after)) != 0;
    char *key;

    users_changed(w->users, kind, kube_namespace(any), kube_name(any));
    if (news) {
        key = object_key_of(kind, any);
        add(w, &key);
    }
    if (kind == KUBE_DATASET && (moved || before == NULL || after == NULL))
        enqueue_readers(w, any);
    if (kind == KUBE_DLTPOD && (news || moved || has_other_uses(before, after))) {
        enqueue_datasets(w, any);
        if (before != NULL && before != any)
            enqueue_datasets(w, before);
    }
}

/* ---- Node ---- */

static const json_t *ready_of(const json_t *node)
{
    const json_t *conditions = json_at(node, "status.conditions");

    return json_object_get(json_find(conditions, "type", "Ready"), "status");
}

static bool is_same_node(const json_t *a, const json_t *b)
{
    return a != NULL && b != NULL && same_json(ready_of(a), ready_of(b)) &&
           same_json(json_object_get(a, "spec"), json_object_get(b, "spec")) &&
           same_json(json_at(a, "metadata.labels"), json_at(b, "metadata.labels"));
}

static void enqueue_kind(struct enqueuer *w, enum kube_kind kind, bool all)
{
    json_t *objects = objects_all(w->objects, kind, NULL), *one;
    size_t i;

    json_array_foreach(objects, i, one)
    {
        const char *phase = phase_of(one);
        bool ended = strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;

        if (all || !ended) {
            char *key = object_key_of(kind, one);

            add(w, &key);
        }
    }
    objects_put(w->objects, &objects);
}

/* ---- all ---- */

void enqueue_changed(enum kube_kind kind, const json_t *before, const json_t *after, void *arg)
{
    struct enqueuer *w = arg;
    char *key;

    switch (kind) {
    case KUBE_DLTPOD:
    case KUBE_DATASET: object_changed(w, kind, before, after); break;
    case KUBE_NODE:
        if (!is_same_node(before, after))
            enqueue_kind(w, KUBE_DLTPOD, false);
        break;
    default: key = object_key_of_owner(KUBE_DLTPOD, after != NULL ? after : before); add(w, &key);
    }
}

void enqueue_all(struct enqueuer *w)
{
    enqueue_kind(w, KUBE_DATASET, true);
    enqueue_kind(w, KUBE_DLTPOD, true);
}

/* ---- what is kept ---- */

/* Of the member `name` only these members (a list that ends with NULL). */
static void keep_only(json_t *object, const char *name, const char *const *fields)
{
    json_t *whole = json_object_get(object, name), *part;

    if (whole == NULL)
        return;
    part = json_object();
    for (; *fields != NULL; fields++)
        if (json_object_get(whole, *fields) != NULL)
            json_object_set(part, *fields, json_object_get(whole, *fields));
    json_object_set_new(object, name, part);
}

/* Of a status only the conditions of these types. */
static void keep_conditions(json_t *object, const char *const *types)
{
    json_t *all = json_at(object, "status.conditions"), *kept;

    if (all == NULL)
        return;
    kept = json_array();
    for (; *types != NULL; types++)
        if (json_find(all, "type", *types) != NULL)
            json_array_append(kept, (json_t *)json_find(all, "type", *types));
    json_object_set_new(json_object_get(object, "status"), "conditions", kept);
}

void enqueue_trim(enum kube_kind kind, json_t *object, void *arg)
{
    static const char *const meta[] = {"name",
                                       "namespace",
                                       "uid",
                                       "resourceVersion",
                                       "labels",
                                       "annotations",
                                       "ownerReferences",
                                       "deletionTimestamp",
                                       NULL};
    static const char *const pod_conditions[] = {"PodScheduled", "DisruptionTarget", NULL};
    static const char *const node_conditions[] = {"Ready", NULL};
    static const char *const pod_spec[] = {"nodeName", NULL};
    static const char *const pod_status[] = {
        "phase", "reason", "message", "conditions", "containerStatuses", "startTime", NULL};
    static const char *const node_spec[] = {"unschedulable", "taints", NULL};
    static const char *const node_status[] = {"conditions", NULL};
    static const char *const none[] = {NULL};

    (void)arg;
    if (kind != KUBE_DLTPOD && kind != KUBE_DATASET)
        keep_only(object, "metadata", meta);
    if (kind == KUBE_POD) {
        keep_only(object, "spec", pod_spec);
        keep_only(object, "status", pod_status);
        keep_conditions(object, pod_conditions);
    } else if (kind == KUBE_NODE) {
        keep_only(object, "spec", node_spec);
        keep_only(object, "status", node_status);
        keep_conditions(object, node_conditions);
    } else if (kind == KUBE_SERVICE) {
        keep_only(object, "spec", none);
        keep_only(object, "status", none);
    }
}
