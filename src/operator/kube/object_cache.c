// SPDX-License-Identifier: Apache-2.0
/*
 * The cache is made of JSON itself: for each kind an object "namespace/name" -> the object, and one
 * uid of an owner -> {"namespace/name": true}. jansson's tables are seeded, so nobody who picks
 * names can make them slow.
 *
 * `upto` is the version up to which the watch has shown everything of a kind. It decides about what
 * we do not have: an answer to our write that is older than it belongs to an object that is gone.
 */
#include "operator/kube/object_cache.h"

#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/str.h"

#define OBJECTS_TAG DLC_TAG4('o', 'b', 'j', 's')

/* All objects of one kind. */
struct kind_cache {
    json_t *by_name;  /* "ns/name" -> object */
    json_t *by_owner; /* uid -> {"ns/name": true} */
    json_t *listed;   /* {"ns/name": true} while a list is read, else NULL */
    uint64_t upto;
    bool synced;
    bool fresh; /* versions mean nothing until the next list has ended */
};

struct objects {
    uint32_t tag;
    struct objects_config config;
    struct dlc_mtx mtx;                  /* rank LCK_objects */
    struct kind_cache kinds[KUBE_KINDS]; /* G: mtx */
};

/* A change, told when the lock is released. Both are references or NULL. */
struct change {
    json_t *before, *after;
};

/* Versions are numbers of one store, whatever the API's text says; 0: this one is none. */
static uint64_t number(const char *version)
{
    uint64_t v;

    return str_parse_u64(version, &v) ? v : 0;
}

static char *namespaced_key(const char *ns, const char *name)
{
    return mem_fmt("%s/%s", ns != NULL ? ns : "", name);
}

/* -------- owners -------- */

static void index_owners(struct kind_cache *s, const json_t *object, const char *key, bool in)
{
    const json_t *owners = json_at(object, "metadata.ownerReferences"), *one;
    size_t i;

    json_array_foreach((json_t *)owners, i, one)
    {
        const char *uid = json_string_value(json_object_get(one, "uid"));
        json_t *keys = uid != NULL ? json_object_get(s->by_owner, uid) : NULL;

        if (uid == NULL)
            continue;
        if (in && keys == NULL) {
            keys = json_object();
            json_object_set_new(s->by_owner, uid, keys);
        }
        if (in)
            json_object_set_new(keys, key, json_true());
        else
            json_object_del(keys, key);
        if (!in && json_object_size(keys) == 0)
            json_object_del(s->by_owner, uid);
    }
}

/* -------- changes -------- */

static void tell(struct objects *o, enum kube_kind kind, struct change *c)
{
    if ((c->before != NULL || c->after != NULL) && o->config.changed != NULL)
        o->config.changed(kind, c->before, c->after, o->config.arg);
    objects_put(o, &c->before);
    objects_put(o, &c->after);
}

/* Put `object` under its key; with NULL, remove the one that is there. */
static void replace_locked(struct kind_cache *s, const char *key, json_t *object, struct change *c)
{
    c->before = json_incref(json_object_get(s->by_name, key));
    c->after = json_incref(object);
    if (c->before != NULL)
        index_owners(s, c->before, key, false);
    if (object == NULL) {
        json_object_del(s->by_name, key);
        return;
    }
    json_object_set(s->by_name, key, object);
    index_owners(s, object, key, true);
}

/* Does this state say more than what we know? */
static bool is_news(const struct kind_cache *s, const char *key, uint64_t version, bool watched)
{
    const json_t *old = json_object_get(s->by_name, key);

    if (version == 0 || (watched && s->fresh))
        return true;
    if (old != NULL)
        return version > number(kube_version(old));
    return watched || (s->synced && version > s->upto);
}

static void slim(struct objects *o, enum kube_kind kind, json_t *object)
{
    json_t *meta = json_object_get(object, "metadata");

    json_object_del(meta, "managedFields");
    json_object_del(json_object_get(meta, "annotations"),
                    "kubectl.kubernetes.io/last-applied-configuration");
    if (o->config.trim != NULL)
        o->config.trim(kind, object, o->config.arg);
}

static void keep(struct objects *o, enum kube_kind kind, json_t **object, bool watched)
{
    struct kind_cache *s = &o->kinds[kind];
    char *key = namespaced_key(kube_namespace(*object), kube_name(*object));
    uint64_t version = number(kube_version(*object));
    struct change c = {NULL, NULL};

    slim(o, kind, *object);
    dlc_mtx_lock(&o->mtx);
    dlc_check(o->tag == OBJECTS_TAG);
    if (is_news(s, key, version, watched))
        replace_locked(s, key, *object, &c);
    if (watched && s->listed != NULL)
        json_object_set_new(s->listed, key, json_true());
    else if (watched)
        s->upto = DLC_MAX(s->upto, version);
    json_decref(*object);
    *object = NULL;
    dlc_mtx_unlock(&o->mtx);
    tell(o, kind, &c);
    mem_free(&key);
}

void objects_note(struct objects *o, enum kube_kind kind, json_t **object)
{
    keep(o, kind, object, false);
}

void objects_seen(struct objects *o, enum kube_kind kind, json_t **object)
{
    keep(o, kind, object, true);
}

void objects_gone(struct objects *o, enum kube_kind kind, json_t **object)
{
    struct kind_cache *s = &o->kinds[kind];
    char *key = namespaced_key(kube_namespace(*object), kube_name(*object));
    uint64_t version = number(kube_version(*object));
    struct change c = {NULL, NULL};
    const json_t *old;

    dlc_mtx_lock(&o->mtx);
    old = json_object_get(s->by_name, key);
    if (old != NULL && (version == 0 || version >= number(kube_version(old))))
        replace_locked(s, key, NULL, &c); /* else: made again since, as an answer showed */
    s->upto = DLC_MAX(s->upto, version);
    json_decref(*object);
    *object = NULL;
    dlc_mtx_unlock(&o->mtx);
    tell(o, kind, &c);
    mem_free(&key);
}

void objects_upto(struct objects *o, enum kube_kind kind, const char *version)
{
    struct kind_cache *s = &o->kinds[kind];

    dlc_mtx_lock(&o->mtx);
    s->upto = DLC_MAX(s->upto, number(version));
    dlc_mtx_unlock(&o->mtx);
}

/* -------- lists -------- */

void objects_list_begin(struct objects *o, enum kube_kind kind)
{
    struct kind_cache *s = &o->kinds[kind];

    dlc_mtx_lock(&o->mtx);
    json_decref(s->listed);
    s->listed = json_object();
    dlc_mtx_unlock(&o->mtx);
}

/* The names of what the list of this version did not show and should have. Gives. */
static json_t *missing_locked(struct kind_cache *s, uint64_t version)
{
    json_t *missing = json_array(), *object;
    const char *key;

    json_object_foreach(s->by_name, key, object)
    {
        bool older = s->fresh || version == 0 || number(kube_version(object)) <= version;

        if (older && json_object_get(s->listed, key) == NULL)
            json_array_append_new(missing, json_string(key));
    }
    return missing;
}

bool objects_list_end(struct objects *o, enum kube_kind kind, const char *version)
{
    struct kind_cache *s = &o->kinds[kind];
    uint64_t v = number(version);
    json_t *missing = NULL, *key;
    struct change *changes;
    bool backwards;
    size_t i, n = 0;

    dlc_mtx_lock(&o->mtx);
    dlc_check(s->listed != NULL);
    backwards = !s->fresh && v != 0 && v < s->upto;
    if (!backwards) {
        missing = missing_locked(s, v);
        s->upto = v;
        s->synced = true;
    }
    s->fresh = backwards;
    n = json_array_size(missing);
    changes = mem_zero((n + 1) * sizeof(*changes));
    json_array_foreach(missing, i, key)
        replace_locked(s, json_string_value(key), NULL, &changes[i]);
    json_decref(s->listed);
    s->listed = NULL;
    dlc_mtx_unlock(&o->mtx);
    for (i = 0; i < n; i++)
        tell(o, kind, &changes[i]);
    mem_free(&changes);
    json_decref(missing);
    return !backwards;
}

/* -------- reading -------- */

json_t *objects_get(struct objects *o, enum kube_kind kind, const char *ns, const char *name)
{
    char *key = namespaced_key(ns, name);
    json_t *found;

    dlc_mtx_lock(&o->mtx);
    dlc_check(o->tag == OBJECTS_TAG);
    found = json_incref(json_object_get(o->kinds[kind].by_name, key));
    dlc_mtx_unlock(&o->mtx);
    mem_free(&key);
    return found;
}

static bool is_in(const json_t *object, const char *ns)
{
    return ns == NULL || strcmp(kube_namespace(object), ns) == 0;
}

json_t *objects_all(struct objects *o, enum kube_kind kind, const char *ns)
{
    json_t *found = json_array(), *object;
    const char *key;

    dlc_mtx_lock(&o->mtx);
    json_object_foreach(o->kinds[kind].by_name, key, object)
    {
        if (is_in(object, ns))
            json_array_append(found, object);
    }
    dlc_mtx_unlock(&o->mtx);
    return found;
}

json_t *objects_owned(struct objects *o, enum kube_kind kind, const char *uid)
{
    struct kind_cache *s = &o->kinds[kind];
    json_t *found = json_array(), *mark;
    const char *key;

    dlc_mtx_lock(&o->mtx);
    json_object_foreach(json_object_get(s->by_owner, uid), key, mark)
        json_array_append(found, json_object_get(s->by_name, key));
    dlc_mtx_unlock(&o->mtx);
    return found;
}

void objects_put(struct objects *o, json_t **jp)
{
    json_t *j = *jp;

    *jp = NULL;
    if (j == NULL)
        return;
    dlc_mtx_lock(&o->mtx);
    json_decref(j);
    dlc_mtx_unlock(&o->mtx);
}

size_t objects_count(struct objects *o, enum kube_kind kind)
{
    size_t n;

    dlc_mtx_lock(&o->mtx);
    n = json_object_size(o->kinds[kind].by_name);
    dlc_mtx_unlock(&o->mtx);
    return n;
}

bool objects_synced(struct objects *o, enum kube_kind kind)
{
    bool synced;

    dlc_mtx_lock(&o->mtx);
    synced = o->kinds[kind].synced;
    dlc_mtx_unlock(&o->mtx);
    return synced;
}

/* -------- the whole -------- */

struct objects *objects_new(const struct objects_config *c)
{
    struct objects *o = mem_new(struct objects);

    o->tag = OBJECTS_TAG;
    if (c != NULL)
        o->config = *c;
    dlc_mtx_init(&o->mtx, LCK_objects);
    for (int i = 0; i < KUBE_KINDS; i++) {
        o->kinds[i].by_name = json_object();
        o->kinds[i].by_owner = json_object();
    }
    return o;
}

void objects_free(struct objects **op)
{
    struct objects *o = *op;

    *op = NULL;
    if (o == NULL)
        return;
    dlc_check(o->tag == OBJECTS_TAG);
    for (int i = 0; i < KUBE_KINDS; i++) {
        json_decref(o->kinds[i].by_name);
        json_decref(o->kinds[i].by_owner);
        json_decref(o->kinds[i].listed);
    }
    dlc_mtx_release(&o->mtx);
    o->tag = 0;
    mem_free(&o);
}
