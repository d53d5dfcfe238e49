// SPDX-License-Identifier: Apache-2.0
#include "world.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"

#define START 1000000

static const char *const kinds[KUBE_KINDS] = {
#define KIND(name, api, kind, plural, namespaced) [KUBE_##name] = kind,
#include "operator/kinds.def"
#undef KIND
};

static const char *text(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));

    return s != NULL ? s : "";
}

static json_t *meta(const json_t *o)
{
    return json_object_get(o, "metadata");
}

static void set_text(json_t *o, const char *name, const char *v)
{
    assert_int_equal(json_object_set_new(o, name, json_string(v)), 0);
}

static void set_time(json_t *o, const char *name, int64_t t)
{
    char s[SPEC_TIME_LEN];

    set_text(o, name, spec_time(t, s));
}

static json_t *parse(const char *s)
{
    json_error_t e;
    json_t *v = json_loads(s, 0, &e);

    if (v == NULL)
        fail_msg("%s at %d: %s", e.text, e.position, s);
    return v;
}

/* ---- Kubernetes ---- */

void world_init(struct world *w)
{
    *w = (struct world){.now = START, .left = -1};
    w->objects = json_object();
    w->tenants = json_object();
    w->datasets = json_object();
    w->jobs = json_object();
    w->ended = json_object();
    w->keys = json_object();
    w->events = json_array();
    world_node(w, "n1", true);
    world_node(w, "n2", true);
}

void world_release(struct world *w)
{
    json_t *all[] = {w->objects, w->tenants, w->datasets, w->jobs, w->ended, w->keys, w->events};

    for (size_t i = 0; i < unit_count(all); i++)
        json_decref(all[i]);
}

static char *key_of(const char *kind, const char *name)
{
    return mem_fmt("%s/%s", kind, name);
}

static void touch(struct world *w, json_t *o)
{
    char v[16];

    snprintf(v, sizeof(v), "%d", ++w->version);
    set_text(meta(o), "resourceVersion", v);
}

json_t *world_put(struct world *w, json_t *o)
{
    char *key = key_of(text(o, "kind"), text(meta(o), "name")), uid[16];

    assert_null(json_object_get(w->objects, key));
    set_text(meta(o), "namespace", WORLD_NS);
    touch(w, o);
    snprintf(uid, sizeof(uid), "u%d", w->version);
    set_text(meta(o), "uid", uid);
    json_object_set_new(meta(o), "generation", json_integer(1));
    set_time(meta(o), "creationTimestamp", w->now);
    json_object_set_new(w->objects, key, o);
    mem_free(&key);
    return o;
}

json_t *world_get(const struct world *w, const char *kind, const char *name)
{
    char *key = key_of(kind, name);
    json_t *o = json_object_get(w->objects, key);

    mem_free(&key);
    return o;
}

static void drop(struct world *w, const json_t *o)
{
    char *key = key_of(text(o, "kind"), text(meta(o), "name"));

    assert_int_equal(json_object_del(w->objects, key), 0);
    mem_free(&key);
}

json_t *world_node(struct world *w, const char *name, bool ready)
{
    json_t *n =
        world_put(w, json_pack("{s:s, s:{s:s, s:{s:s}}, s:{s:[{s:s, s:s}]}}", "kind", "Node",
                               "metadata", "name", name, "labels", LABEL_NODE, "ready", "status",
                               "conditions", "type", "Ready", "status", ready ? "True" : "False"));

    set_time(json_array_get(json_object_get(json_object_get(n, "status"), "conditions"), 0),
             "lastTransitionTime", w->now);
    return n;
}

json_t *world_secret(struct world *w, const char *name)
{
    return world_put(w,
                     json_pack("{s:s, s:{s:s}, s:{s:s, s:s}}", "kind", "Secret", "metadata", "name",
                               name, "data", "access_key", "YQ==", "secret_key", "Yg=="));
}

static json_t *made(struct world *w, const char *kind, const char *name, const char *spec)
{
    return world_put(w, json_pack("{s:s, s:{s:s}, s:o}", "kind", kind, "metadata", "name", name,
                                  "spec", parse(spec)));
}

json_t *world_dltpod(struct world *w, const char *name, const char *spec)
{
    return made(w, "DLTPod", name, spec);
}

json_t *world_dataset(struct world *w, const char *name, const char *spec)
{
    return made(w, "CachedDataset", name, spec);
}

void world_delete(struct world *w, const char *kind, const char *name)
{
    json_t *o = world_get(w, kind, name);

    assert_non_null(o);
    if (json_array_size(json_object_get(meta(o), "finalizers")) == 0 && strcmp(kind, "Pod") != 0) {
        drop(w, o);
    } else if (text(meta(o), "deletionTimestamp")[0] == '\0') {
        set_time(meta(o), "deletionTimestamp", w->now);
        touch(w, o);
    }
}

void world_spec(struct world *w, const char *kind, const char *name, const char *spec)
{
    json_t *o = world_get(w, kind, name);

    json_object_set_new(o, "spec", parse(spec));
    json_object_set_new(
        meta(o), "generation",
        json_integer(json_integer_value(json_object_get(meta(o), "generation")) + 1));
    touch(w, o);
}

static json_t *of_kind(const struct world *w, const char *kind)
{
    json_t *out = json_array(), *o;
    const char *key;

    json_object_foreach(w->objects, key, o)
    {
        if (strcmp(text(o, "kind"), kind) == 0)
            json_array_append(out, o);
    }
    return out;
}

size_t world_count(const struct world *w, const char *kind)
{
    json_t *all = of_kind(w, kind);
    size_t n = json_array_size(all);

    json_decref(all);
    return n;
}

void world_end_pods(struct world *w, const char *phase)
{
    json_t *pods = of_kind(w, "Pod"), *p;
    size_t i;

    json_array_foreach(pods, i, p)
    {
        if (strcmp(text(json_object_get(p, "status"), "phase"), "Running") == 0)
            set_text(json_object_get(p, "status"), "phase", phase);
    }
    json_decref(pods);
}

const char *world_text(const struct world *w, const char *kind, const char *name, const char *path)
{
    json_t *v = world_get(w, kind, name);
    char *copy = mem_str(path), *save = NULL;

    for (char *p = strtok_r(copy, ".", &save); p != NULL; p = strtok_r(NULL, ".", &save))
        v = json_is_array(v) ? json_array_get(v, (size_t)atoi(p)) : json_object_get(v, p);
    mem_free(&copy);
    return json_is_string(v) ? json_string_value(v) : "";
}

const char *world_condition(const struct world *w, const char *kind, const char *name,
                            const char *type)
{
    static char out[100];
    json_t *all =
        json_object_get(json_object_get(world_get(w, kind, name), "status"), "conditions");
    json_t *c;
    size_t i;

    json_array_foreach(all, i, c)
    {
        if (strcmp(text(c, "type"), type) == 0) {
            snprintf(out, sizeof(out), "%s:%s", text(c, "status"), text(c, "reason"));
            return out;
        }
    }
    return "";
}

/* ---- looking ---- */

static bool has_ended(const json_t *o)
{
    const char *phase = text(json_object_get(o, "status"), "phase");

    return strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
}

/* Does another object than `not` that is not deleted name this dataset? */
static bool is_named(const struct world *w, const json_t * not, const char *dataset, json_t *users)
{
    bool found = false;
    const char *key;
    json_t *o;

    json_object_foreach(w->objects, key, o)
    {
        const char *kind = text(o, "kind");
        struct observed other;

        if (o == not || (strcmp(kind, "DLTPod") != 0 && strcmp(kind, "CachedDataset") != 0) ||
            text(meta(o), "deletionTimestamp")[0] != '\0')
            continue;
        observed_init(&other, o, w->now);
        for (size_t i = 0; i < other.n_jobs; i++)
            if (strcmp(other.jobs[i].dataset, dataset) == 0) {
                found = true;
                if (users != NULL && !other.is_dataset && !has_ended(o))
                    json_array_append_new(users, json_string(text(meta(o), "name")));
            }
        observed_release(&other);
    }
    return found;
}

/* Does another object than `not` that is not deleted name this Secret? */
static bool is_secret_named(const struct world *w, const json_t * not, const char *secret)
{
    bool found = false;
    const char *key;
    json_t *o;

    json_object_foreach(w->objects, key, o)
    {
        const json_t *ref = json_object_get(json_object_get(o, "spec"), "secretRef");

        found |= o != not &&text(meta(o), "deletionTimestamp")[0] == '\0' &&
                 strcmp(text(ref, "name"), secret) == 0;
    }
    return found;
}

static void look_at(struct response *a, const json_t *all, const char *name)
{
    json_t *b = json_object_get(all, name);

    if (b != NULL)
        response_set(a, json_deep_copy(b));
    else
        response_absent(a);
}

void world_observe(struct world *w, const char *kind, const char *name, struct observed *o)
{
    json_t *object = world_get(w, kind, name), *users = json_array();

    observed_init(o, object, w->now);
    o->manager_away = w->away;
    if (w->away)
        snprintf(o->manager_error, sizeof(o->manager_error), "connection refused");
    o->tenant_secret = world_get(w, "Secret", TENANT_SECRET);
    o->secret_forbidden = w->secret_forbidden;
    o->secret_object = o->secret_forbidden ? NULL : world_get(w, "Secret", o->secret);
    if (o->tenant_secret != NULL) {
        const char *used =
            text(json_object_get(meta(o->tenant_secret), "annotations"), ANNOTATION_CREDENTIALS);
        char *secret = mem_strn(used, strcspn(used, "/"));

        o->credentials_used = secret[0] != '\0' && is_secret_named(w, object, secret);
        mem_free(&secret);
    }
    o->pods = of_kind(w, "Pod");
    o->configmaps = of_kind(w, "ConfigMap");
    o->services = of_kind(w, "Service");
    o->nodes = of_kind(w, "Node");
    for (size_t i = 0; i < o->n_jobs; i++) {
        struct seen_job *j = &o->jobs[i];

        j->shared = is_named(w, object, j->dataset, users);
        j->cached_dataset = world_get(w, "CachedDataset", j->ref);
        j->qos_map = world_get(w, "ConfigMap", j->qos_from);
        if (!w->away && j->ask_data)
            look_at(&j->data, w->datasets, j->dataset);
        if (!w->away && j->ask_job)
            look_at(&j->job, w->jobs, j->id);
        if (j->ask_ended)
            look_at(&j->ended, w->ended, j->id);
    }
    o->used_by = users;
}

void world_unobserve(struct observed *o)
{
    const json_t *all[] = {o->pods, o->configmaps, o->services, o->nodes, o->used_by};

    for (size_t i = 0; i < unit_count(all); i++)
        json_decref((json_t *)all[i]);
    observed_release(o);
}

/* ---- doing ---- */

static void do_job(struct world *w, struct seen_job *j, const struct action *a)
{
    const char *id = text(w->keys, a->key);
    char fresh[32];
    json_t *b;

    if (id[0] == '\0') {
        if (w->refuse_jobs != 0) {
            response_refused(&j->job, w->refuse_jobs, "no room for it");
            return;
        }
        if (json_object_get(w->datasets, text(a->body, "dataset")) == NULL) {
            response_refused(&j->job, 404, "there is no such dataset");
            return;
        }
        snprintf(fresh, sizeof(fresh), "j-%d", ++w->version);
        b = json_deep_copy(a->body);
        set_text(b, "id", fresh);
        set_text(b, "state", "queued");
        json_object_set_new(w->jobs, fresh, b);
        set_text(w->keys, a->key, fresh);
        id = text(w->keys, a->key);
    }
    b = json_object_get(w->jobs, id);
    response_set(&j->job, b != NULL ? json_deep_copy(b)
                                    : json_pack("{s:s, s:s}", "id", id, "state",
                                                "queued")); /* as remembered */
}

static void do_dataset(struct world *w, struct seen_job *j, const struct action *a)
{
    const char *name = text(a->body, "name");

    assert_true(strlen(name) <= 63);
    if (json_object_get(w->tenants, text(a->body, "tenant")) == NULL) {
        response_refused(&j->data, 404, "there is no such tenant");
        return;
    }
    if (json_object_get(w->datasets, name) == NULL) {
        json_t *b = json_deep_copy(a->body);

        set_text(b, "state", "new");
        json_object_set_new(b, "cached", json_pack("{s:i, s:[]}", "bytes", 0, "nodes"));
        json_object_set_new(w->datasets, name, b);
    }
    response_set(&j->data, json_deep_copy(json_object_get(w->datasets, name)));
}

static void do_end_dataset(struct world *w, struct seen_job *j, const struct action *a)
{
    const char *id;
    json_t *b;

    json_object_foreach(w->jobs, id, b)
    {
        if (strcmp(text(b, "dataset"), a->name) == 0) {
            response_refused(&j->data, 409, "jobs run on it");
            return;
        }
    }
    json_object_del(w->datasets, a->name);
    response_ended(&j->data);
}

static bool is_rejected(struct world *w, struct observed *o, const struct action *a)
{
    struct rejection *no = &o->rejected;

    if (a->kind != ACT_APPLY || w->reject == NULL || strcmp(w->reject, kinds[a->object]) != 0)
        return false;
    no->kind = a->object;
    no->status = 403;
    snprintf(no->name, sizeof(no->name), "%s", a->name);
    snprintf(no->message, sizeof(no->message), "%s is forbidden: exceeded quota", a->name);
    return true;
}

static void do_apply(struct world *w, const struct action *a)
{
    json_t *o = world_get(w, kinds[a->object], a->name);
    const char *field = a->object == KUBE_CONFIGMAP ? "data" : "spec";

    assert_string_equal(text(a->body, "kind"), kinds[a->object]);
    assert_string_equal(text(meta(a->body), "name"), a->name);
    assert_string_equal(text(meta(a->body), "namespace"), WORLD_NS);
    if (o == NULL) {
        o = world_put(w, json_deep_copy(a->body));
        if (a->object == KUBE_POD)
            json_object_set_new(o, "status", json_pack("{s:s}", "phase", "Pending"));
    } else {
        json_object_set_new(o, field, json_deep_copy(json_object_get(a->body, field)));
        touch(w, o);
    }
}

static void do_delete(struct world *w, const struct action *a)
{
    json_t *o = world_get(w, kinds[a->object], a->name);

    if (o == NULL || strcmp(text(meta(o), "uid"), a->uid) != 0)
        return;
    if (a->grace_s == 0)
        drop(w, o);
    else
        world_delete(w, kinds[a->object], a->name);
}

static void do_finalizer(struct world *w, struct observed *o, bool on)
{
    json_t *object = world_get(w, text(o->object, "kind"), text(meta(o->object), "name"));

    json_object_set_new(meta(object), "finalizers",
                        on ? json_pack("[s]", FINALIZER) : json_array());
    touch(w, object);
    if (!on && text(meta(object), "deletionTimestamp")[0] != '\0') {
        o->object = NULL;
        drop(w, object);
    }
}

static void do_tenant(struct world *w, struct observed *o, const struct action *a)
{
    json_t *s = world_get(w, "Secret", TENANT_SECRET);

    if (s == NULL) {
        json_object_set_new(w->tenants, a->name, json_null());
        s = world_put(w, json_deep_copy(a->body));
    } else if (strcmp(a->key, "again") == 0) {
        json_object_set_new(w->tenants, a->name, json_null());
        json_object_del(meta(s), "annotations");
        touch(w, s);
    }
    o->tenant_secret = s;
}

static void do_credentials(struct world *w, struct observed *o, const struct action *a)
{
    json_t *s = world_get(w, "Secret", TENANT_SECRET);

    if (json_object_get(w->tenants, a->name) == NULL) {
        o->credentials_refused = 404;
        snprintf(o->credentials_error, sizeof(o->credentials_error), "there is no such tenant");
        return;
    }
    json_object_set_new(w->tenants, a->name, json_string(a->key));
    json_object_set_new(meta(s), "annotations", json_pack("{s:s}", ANNOTATION_CREDENTIALS, a->key));
    touch(w, s);
    o->tenant_secret = s;
}

bool world_act(struct world *w, struct observed *o, const struct action *a)
{
    struct seen_job *j = a->job < o->n_jobs ? &o->jobs[a->job] : NULL;
    json_t *object;

    w->actions++;
    w->calls += action_infos[a->kind].calls;
    w->control += action_infos[a->kind].control;
    assert_false(w->away && action_infos[a->kind].control);
    switch (a->kind) {
    case ACT_ADD_FINALIZER:
    case ACT_DROP_FINALIZER: do_finalizer(w, o, a->kind == ACT_ADD_FINALIZER); break;
    case ACT_APPLY: do_apply(w, a); break;
    case ACT_DELETE: do_delete(w, a); break;
    case ACT_STATUS:
        object = world_get(w, text(o->object, "kind"), text(meta(o->object), "name"));
        json_object_set_new(object, "status", json_deep_copy(a->body));
        touch(w, object);
        break;
    case ACT_EVENT: json_array_append_new(w->events, json_string(a->reason)); break;
    case ACT_TENANT: do_tenant(w, o, a); break;
    case ACT_CREDENTIALS: do_credentials(w, o, a); break;
    case ACT_MAKE_DATASET: do_dataset(w, j, a); break;
    case ACT_END_DATASET: do_end_dataset(w, j, a); break;
    case ACT_WARM:
    case ACT_EVICT:
        object = json_object_get(w->datasets, a->name);
        json_object_set_new(
            object, "cached",
            json_pack("{s:i, s:[]}", "bytes", a->kind == ACT_WARM ? 1000 : 0, "nodes"));
        break;
    case ACT_LIST: break;
    case ACT_MAKE_JOB: do_job(w, j, a); break;
    case ACT_END_JOB:
        object = json_object_get(w->jobs, a->name);
        if (object != NULL)
            json_object_set(w->ended, a->name, object);
        json_object_del(w->jobs, a->name);
        response_ended(&j->job);
        break;
    case ACT_HEARTBEAT:
        object = json_object_get(w->jobs, a->name);
        if (object != NULL)
            json_object_set_new(object, "silent_ms", json_integer(0));
        break;
    case ACT_KINDS: fail();
    }
    return w->left < 0 || w->left-- > 0;
}

bool world_round(struct world *w, const char *kind, const char *name, bool *did)
{
    struct observed o;
    bool again = true, lives = true;

    if (world_get(w, kind, name) == NULL)
        return true;
    world_observe(w, kind, name, &o);
    for (int i = 0; again && lives && o.object != NULL; i++) {
        struct actions a = ACTIONS_INIT;

        if (i == RECONCILE_ROUNDS)
            fail_msg("%s: it does not end", name);
        reconcile(&o, &a);
        again = a.again;
        for (size_t k = 0; lives && k < a.n; k++) {
            if (is_rejected(w, &o, &a.v[k])) { /* decide again, at once */
                again = true;
                break;
            }
            lives = world_act(w, &o, &a.v[k]);
            *did = true;
        }
        actions_release(&a);
    }
    world_unobserve(&o);
    if (!lives)
        w->left = -1;
    return lives;
}

/* ---- what others do ---- */

static bool list_buckets(struct world *w)
{
    bool did = false;
    const char *name;
    json_t *d;

    json_object_foreach(w->datasets, name, d)
    {
        if (strcmp(text(d, "state"), "new") != 0)
            continue;
        did = true;
        if (w->bad_url != NULL && strcmp(text(d, "url"), w->bad_url) == 0) {
            set_text(d, "state", "failed");
            set_text(d, "error", "the bucket does not exist");
            continue;
        }
        set_text(d, "state", "ready");
        json_object_set_new(d, "snapshot",
                            json_pack("{s:s, s:i, s:i}", "id", "s1", "samples", 10, "bytes", 1000));
    }
    return did;
}

static bool admit_jobs(struct world *w)
{
    bool did = false;
    const char *id;
    json_t *j;

    json_object_foreach(w->jobs, id, j)
    {
        const json_t *d = json_object_get(w->datasets, text(j, "dataset"));

        if (strcmp(text(j, "state"), "queued") != 0 || json_object_get(d, "snapshot") == NULL)
            continue;
        did = true;
        set_text(j, "state", "running");
        json_object_set_new(j, "placement",
                            json_pack("[{s:s, s:f}, {s:s, s:f}]", "node", "n1", "weight", 2.0,
                                      "node", "n2", "weight", 1.0));
    }
    return did;
}

static bool is_ready(const struct world *w, const char *node)
{
    return strcmp(world_text(w, "Node", node, "status.conditions.0.status"), "True") == 0;
}

static bool run_pod(struct world *w, json_t *p)
{
    json_t *spec = json_object_get(p, "spec"), *status = json_object_get(p, "status");
    const char *node = text(spec, "nodeName");

    if (text(meta(p), "deletionTimestamp")[0] != '\0') {
        if (node[0] != '\0' && !is_ready(w, node))
            return false; /* nobody is there to end it */
        drop(w, p);
        return true;
    }
    if (strcmp(text(status, "phase"), "Pending") != 0)
        return false;
    if (node[0] == '\0')
        set_text(spec, "nodeName", is_ready(w, "n1") ? "n1" : "n2");
    set_text(status, "phase", "Running");
    set_time(status, "startTime", w->now);
    return true;
}

static bool collect(struct world *w)
{
    bool did = false;
    const char *key;
    json_t *o;
    void *next;

    json_object_foreach_safe(w->objects, next, key, o)
    {
        json_t *owner = json_array_get(json_object_get(meta(o), "ownerReferences"), 0);
        json_t *was = owner != NULL ? world_get(w, "DLTPod", text(owner, "name")) : NULL;

        if (owner == NULL ||
            (was != NULL && strcmp(text(meta(was), "uid"), text(owner, "uid")) == 0))
            continue;
        json_object_del(w->objects, key);
        did = true;
    }
    return did;
}

bool world_nature(struct world *w)
{
    bool did = collect(w);
    json_t *pods = of_kind(w, "Pod"), *p;
    size_t i;

    if (!w->deaf && !w->away)
        did |= list_buckets(w);
    if (!w->away)
        did |= admit_jobs(w);
    json_array_foreach(pods, i, p)
    {
        if (!w->idle)
            did |= run_pod(w, p);
    }
    json_decref(pods);
    return did;
}

void world_settle(struct world *w)
{
    static const char *const all[] = {"CachedDataset", "DLTPod"};
    int quiet = 0;

    for (int turn = 0; quiet < 3; turn++) {
        bool did = false;

        if (turn == 200)
            fail_msg("it does not come to rest");
        for (size_t k = 0; k < unit_count(all); k++) {
            json_t *objects = of_kind(w, all[k]), *o;
            size_t i;

            json_array_foreach(objects, i, o)
            {
                char *name = mem_str(text(meta(o), "name"));

                did |= !world_round(w, all[k], name, &did);
                mem_free(&name);
            }
            json_decref(objects);
        }
        did |= world_nature(w);
        w->now++;
        quiet = did ? 0 : quiet + 1;
    }
}

/* ---- as text ---- */

char *world_say(const struct actions *a)
{
    struct buf b = BUF_INIT;

    for (size_t i = 0; i < a->n; i++) {
        const struct action *x = &a->v[i];

        buf_addf(&b, "%s%s", b.len > 0 ? "; " : "", action_infos[x->kind].name);
        if (x->kind == ACT_APPLY || x->kind == ACT_DELETE)
            buf_addf(&b, " %s %s%s", kinds[x->object], x->name, x->grace_s == 0 ? " now" : "");
        else if (x->kind == ACT_STATUS)
            buf_addf(&b, " %s", text(x->body, "phase"));
        else if (x->kind == ACT_EVENT)
            buf_addf(&b, " %s%s", x->reason, x->warning ? "!" : "");
    }
    if (a->again)
        buf_adds(&b, b.len > 0 ? "; again" : "again");
    return buf_take(&b);
}

/* Members whose values tell of times, versions and numbers. */
static bool is_chance(const char *name)
{
    static const char *const names[] = {"resourceVersion",
                                        "uid",
                                        "creationTimestamp",
                                        "lastTransitionTime",
                                        "endTime",
                                        "warmTime",
                                        "startTime",
                                        "figuresTime",
                                        "id",
                                        "lastUsed",
                                        "deletionTimestamp",
                                        ANNOTATION_JOB_ID,
                                        "evictedTime",
                                        "listTime",
                                        ANNOTATION_CREDENTIALS};

    for (size_t i = 0; i < unit_count(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void blank(json_t *v)
{
    const char *key;
    json_t *m;
    void *next;
    size_t i;

    json_object_foreach_safe(v, next, key, m)
    {
        if (is_chance(key))
            json_object_del(v, key);
        else if (strcmp(text(v, "name"), "DLCACHE_JOB") == 0 && strcmp(key, "value") == 0)
            json_object_del(v, key);
        else
            blank(m);
    }
    json_array_foreach(v, i, m) blank(m);
}

char *world_sum(const struct world *w)
{
    json_t *jobs = json_object(), *all, *j;
    const char *id;
    char *out;

    json_object_foreach(w->jobs, id, j) /* by what they are, not by number */
    {
        json_t *bare = json_deep_copy(j);
        char *key;

        blank(bare);
        json_object_del(bare, "placement");
        json_object_del(bare, "silent_ms");
        key = json_dumps(bare, JSON_COMPACT | JSON_SORT_KEYS);
        json_object_set_new(jobs, key,
                            json_integer(json_integer_value(json_object_get(jobs, key)) + 1));
        free(key);
        json_decref(bare);
    }
    all = json_pack("{s:o, s:o, s:o}", "objects", json_deep_copy(w->objects), "datasets",
                    json_deep_copy(w->datasets), "jobs", jobs);
    blank(all);
    out = json_dumps(all, JSON_INDENT(1) | JSON_SORT_KEYS);
    json_decref(all);
    return out;
}
