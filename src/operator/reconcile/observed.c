// SPDX-License-Identifier: Apache-2.0
/* Observed state and action lists: memory and generated names. Decisions are in reconcile*.c. */
#include "operator/reconcile/reconcile_i.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

const struct action_info action_infos[ACT_KINDS] = {
#define ACTION(name, control, calls) {#name, control, calls},
    ACTIONS(ACTION)
#undef ACTION
};

/* ---- JSON ---- */

int64_t time_at(const json_t *o, const char *path)
{
    int64_t t;

    return spec_time_parse(json_text_at(o, path), &t) ? t : 0;
}

double spent_at(const json_t *dataset)
{
    const json_t *money = json_at(dataset, "spent.money");

    return json_is_number(money) ? json_number_value(money) : -1;
}

bool is_owned(const json_t *object, const json_t *by)
{
    const json_t *owners = json_at(object, "metadata.ownerReferences");

    return json_find(owners, "uid", json_text_at(by, "metadata.uid")) != NULL;
}

bool has_finalizer(const json_t *object)
{
    return json_has_text(json_at(object, "metadata.finalizers"), FINALIZER);
}

bool is_deleted(const json_t *object)
{
    return json_text_at(object, "metadata.deletionTimestamp")[0] != '\0';
}

/* Names of annotations and labels have dots. */
static const char *member_text(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));

    return s != NULL ? s : "";
}

const char *annotation(const json_t *object, const char *name)
{
    return member_text(json_at(object, "metadata.annotations"), name);
}

const char *label(const json_t *object, const char *name)
{
    return member_text(json_at(object, "metadata.labels"), name);
}

int lasting_len(const char *error)
{
    const char *tried = strstr(error, "; given up after ");

    return (int)(tried != NULL ? (size_t)(tried - error) : strlen(error));
}

static bool same_members(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *v;

    if (json_object_size(a) != json_object_size(b))
        return false;
    json_object_foreach((json_t *)a, key, v)
    {
        if (!same_json(v, json_object_get(b, key)))
            return false;
    }
    return true;
}

bool same_json(const json_t *a, const json_t *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    if (json_typeof(a) != json_typeof(b))
        return false;
    if (json_is_object(a))
        return same_members(a, b);
    if (!json_is_array(a))
        return json_equal(a, b) != 0;
    for (size_t i = 0; i < json_array_size(a); i++)
        if (!same_json(json_array_get(a, i), json_array_get(b, i)))
            return false;
    return json_array_size(a) == json_array_size(b);
}

/* ---- texts ---- */

void cut_text(char *s)
{
    size_t len = strlen(s), n = len;

    while (n > 0 && len - n < 4 && !str_is_utf8(s, n))
        n--;
    if (str_is_utf8(s, n))
        s[n] = '\0';
}

/* ---- responses ---- */

static void response_release(struct response *a)
{
    json_decref(a->body);
    memset(a, 0, sizeof(*a));
}

void response_set(struct response *a, json_t *body)
{
    response_release(a);
    a->body = body;
}

void response_absent(struct response *a)
{
    response_release(a);
    a->absent = true;
}

void response_ended(struct response *a)
{
    response_absent(a);
    a->ended = true;
}

void response_refused(struct response *a, int status, const char *message)
{
    a->refused = status;
    snprintf(a->message, sizeof(a->message), "%s", message);
    cut_text(a->message);
}

/* ---- observed ---- */

static struct seen_job *add_job(struct observed *o, const char *name, const char *dataset)
{
    struct seen_job *j;

    o->jobs = mem_grow(o->jobs, (o->n_jobs + 1) * sizeof(*o->jobs));
    j = &o->jobs[o->n_jobs++];
    memset(j, 0, sizeof(*j));
    snprintf(j->name, sizeof(j->name), "%s", name);
    snprintf(j->dataset, sizeof(j->dataset), "%s", dataset);
    j->ask_data = dataset[0] != '\0';
    return j;
}

/* What status.jobs says of this job, with this dataset. */
const json_t *status_of_job(const struct observed *o, const char *name, const char *dataset)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_at(o->object, "status.jobs"), i, one)
    {
        if (strcmp(json_text_at(one, "name"), name) == 0 &&
            strcmp(json_text_at(one, "dataset"), dataset) == 0)
            return one;
    }
    return NULL;
}

/* Its number, and whether the control plane may know it. */
static void set_id(struct seen_job *j, const json_t *was)
{
    snprintf(j->id, sizeof(j->id), "%s", json_text_at(was, "id"));
    j->ask_job = j->id[0] != '\0' && !json_is_false(json_object_get(was, "registered"));
}

/* Figures are those of all jobs: of one that has ended too, until they are final. */
static bool wants_ended(const struct observed *o, const struct seen_job *j, const json_t *was)
{
    const char *phase = json_text_at(o->object, "status.phase");
    bool over = strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;

    return j->id[0] != '\0' && !j->ask_job &&
           (!over || o->now < time_at(was, "endTime") + 4 * RECON_SETTLE_S);
}

static void add_spec_job(struct observed *o, const struct spec_job *sj)
{
    char name[SPEC_NAME_LEN], dataset[SPEC_NAME_LEN];
    struct seen_job *j;
    const json_t *was;

    if (sj->data.ref == NULL)
        spec_data_name(json_text_at(o->object, "metadata.name"), sj, name);
    spec_dataset(o->tenant, sj->data.ref != NULL ? sj->data.ref : name, dataset);
    j = add_job(o, sj->name, dataset);
    j->in_spec = true;
    was = status_of_job(o, j->name, j->dataset);
    set_id(j, was);
    j->ask_ended = wants_ended(o, j, was);
    snprintf(j->ref, sizeof(j->ref), "%s", sj->data.ref != NULL ? sj->data.ref : "");
    snprintf(j->qos_from, sizeof(j->qos_from), "%s", sj->qos_from != NULL ? sj->qos_from : "");
}

/* Jobs that the spec does not know any more, or knows with other data. */
static void add_orphans(struct observed *o)
{
    size_t n = o->n_jobs, i;
    const json_t *one;

    json_array_foreach(json_at(o->object, "status.jobs"), i, one)
    {
        bool known = false;
        struct seen_job *j;

        for (size_t k = 0; k < n; k++)
            known |= strcmp(o->jobs[k].name, json_text_at(one, "name")) == 0 &&
                     strcmp(o->jobs[k].dataset, json_text_at(one, "dataset")) == 0;
        if (known)
            continue;
        j = add_job(o, json_text_at(one, "name"), json_text_at(one, "dataset"));
        set_id(j, one);
    }
}

void observed_init(struct observed *o, const json_t *object, int64_t now)
{
    const char *secret = NULL;

    memset(o, 0, sizeof(*o));
    o->object = object;
    o->now = now;
    o->is_dataset = strcmp(json_text_at(object, "kind"), "CachedDataset") == 0;
    snprintf(o->tenant, sizeof(o->tenant), "%s", json_text_at(object, "metadata.namespace"));
    if (o->is_dataset) {
        char name[SPEC_NAME_LEN];

        o->invalid = dataset_spec_parse(&o->dataset, object, &o->why) < 0;
        spec_dataset(o->tenant, json_text_at(object, "metadata.name"), name);
        add_job(o, "", name);
        secret = o->dataset.secret;
    } else {
        o->invalid = spec_parse(&o->spec, object, &o->why) < 0;
        for (size_t i = 0; !o->invalid && i < o->spec.n_jobs; i++)
            add_spec_job(o, &o->spec.jobs[i]);
        add_orphans(o);
        secret = o->spec.secret;
    }
    snprintf(o->secret, sizeof(o->secret), "%s", secret != NULL ? secret : "");
}

void observed_release(struct observed *o)
{
    for (size_t i = 0; i < o->n_jobs; i++) {
        response_release(&o->jobs[i].job);
        response_release(&o->jobs[i].data);
        response_release(&o->jobs[i].ended);
    }
    mem_free(&o->jobs);
    memset(o, 0, sizeof(*o));
}

json_t *observed_names(const struct observed *o, enum kube_kind kind)
{
    const char *dltpod = json_text_at(o->object, "metadata.name");
    json_t *out = json_array();
    char name[SPEC_NAME_LEN];

    for (size_t i = 0; !o->is_dataset && i < o->n_jobs && o->jobs[i].in_spec; i++) {
        if (kind == KUBE_CONFIGMAP || (kind == KUBE_SERVICE && o->spec.replicas > 1))
            json_array_append_new(out, json_string(spec_service(dltpod, o->jobs[i].name, name)));
        for (int r = 0; kind == KUBE_POD && r < o->spec.replicas; r++)
            json_array_append_new(out, json_string(spec_pod(dltpod, o->jobs[i].name, r, name)));
    }
    return out;
}

/* ---- actions ---- */

struct action *add_action(struct actions *a, enum action_kind kind)
{
    struct action *one;

    mem_reserve(a->v, a->n, a->cap);
    one = &a->v[a->n++];
    memset(one, 0, sizeof(*one));
    one->kind = kind;
    one->grace_s = -1;
    return one;
}

void actions_release(struct actions *a)
{
    for (size_t i = 0; i < a->n; i++)
        json_decref(a->v[i].body);
    mem_free(&a->v);
    *a = (struct actions)ACTIONS_INIT;
}

void look_after_s(struct actions *a, int64_t seconds)
{
    look_after(a, DLC_SEC(DLC_MIN(seconds, 86400))); /* what people write may be centuries */
}

void look_after(struct actions *a, struct dlc_dur after)
{
    if (a->after.ns < 0 || after.ns < a->after.ns)
        a->after = after;
}
