// SPDX-License-Identifier: Apache-2.0
#include "operator/kube/get_cache.h"

#include "base/mem.h"
#include "base/mutex.h"
#include "operator/kube/object_cache.h"

struct fetched {
    struct dlc_mtx mtx;
    json_t *kept;          /* G: mtx; key -> object, or null: there is none */
    json_t *until;         /* G: mtx; key -> monotonic ns */
    struct dlc_mono swept; /* G: mtx */
};

struct fetched *fetched_new(void)
{
    struct fetched *f = mem_zero(sizeof(*f));

    dlc_mtx_init(&f->mtx, LCK_fetched);
    f->kept = json_object();
    f->until = json_object();
    return f;
}

void fetched_free(struct fetched **fp)
{
    if (*fp == NULL)
        return;
    json_decref((*fp)->kept);
    json_decref((*fp)->until);
    dlc_mtx_release(&(*fp)->mtx);
    mem_free(fp);
}

/* Is it remembered? Then *out is a copy, or NULL. */
static bool recall(struct fetched *f, const char *key, json_t **out)
{
    bool fresh;

    *out = NULL;
    dlc_mtx_lock(&f->mtx);
    fresh = json_integer_value(json_object_get(f->until, key)) > dlc_mono_now().ns;
    if (fresh && !json_is_null(json_object_get(f->kept, key)))
        *out = json_deep_copy(json_object_get(f->kept, key));
    dlc_mtx_unlock(&f->mtx);
    return fresh;
}

/* A Secret's credentials, a ConfigMap's QoS, and who it is. Gives. */
static json_t *part_of(const json_t *object)
{
    static const char *const meta[] = {"name",   "namespace",   "uid", "resourceVersion",
                                       "labels", "annotations", NULL};
    static const char *const data[] = {
        "access_key",  "secret_key", "session_token", "endpoint",       "region", "useCache",
        "lazyLoading", "priority",   "token",         "partitionLimit", NULL};
    json_t *out = json_pack("{s:{}, s:{}}", "metadata", "data");

    for (size_t i = 0; meta[i] != NULL; i++) {
        json_t *v = json_object_get(json_object_get(object, "metadata"), meta[i]);

        if (v != NULL)
            json_object_set_new(json_object_get(out, "metadata"), meta[i], json_deep_copy(v));
    }
    for (size_t i = 0; data[i] != NULL; i++) {
        json_t *v = json_object_get(json_object_get(object, "data"), data[i]);

        if (json_is_string(v) && json_string_length(v) <= FETCHED_VALUE)
            json_object_set_new(json_object_get(out, "data"), data[i], json_deep_copy(v));
    }
    return out;
}

/* Forget what is too old; and everything, if it is too much. Locked. */
static void sweep(struct fetched *f, int64_t now)
{
    bool all = json_object_size(f->kept) >= FETCHED_MOST;
    const char *key;
    json_t *v;
    void *next;

    if (!all && now < f->swept.ns + FETCHED_GOOD.ns)
        return;
    f->swept.ns = now;
    json_object_foreach_safe(f->until, next, key, v)
    {
        if (all || json_integer_value(v) <= now) {
            json_object_del(f->kept, key);
            json_object_del(f->until, key); /* and with it the text of the key */
        }
    }
}

/* Takes part (NULL: there is none). */
static void remember(struct fetched *f, const char *key, json_t *part)
{
    struct dlc_dur stay = part != NULL ? FETCHED_GOOD : FETCHED_MISSING;
    int64_t now = dlc_mono_now().ns;

    dlc_mtx_lock(&f->mtx);
    sweep(f, now);
    json_object_set_new(f->kept, key, part != NULL ? part : json_null());
    json_object_set_new(f->until, key, json_integer(now + stay.ns));
    dlc_mtx_unlock(&f->mtx);
}

int fetched_get(struct fetched *f, struct kube *k, enum kube_kind kind, const char *ns,
                const char *name, json_t **out, struct dlc_err *err)
{
    char *key = object_key(kind, ns, name);
    int rc = 0;

    if (!recall(f, key, out)) {
        json_t *whole = NULL;

        rc = kube_get(k, kind, ns, name, &whole, err);
        *out = rc == 0 ? part_of(whole) : NULL;
        json_decref(whole);
        rc = rc == DLC_ENOTFOUND ? 0 : rc;
        if (rc == 0)
            remember(f, key, json_deep_copy(*out));
    }
    mem_free(&key);
    return rc;
}

void fetched_note(struct fetched *f, enum kube_kind kind, const json_t *object)
{
    char *key = object_key_of(kind, object);

    remember(f, key, part_of(object));
    mem_free(&key);
}

void fetched_forget(struct fetched *f, enum kube_kind kind, const char *ns, const char *name)
{
    char *key = object_key(kind, ns, name);

    dlc_mtx_lock(&f->mtx);
    json_object_del(f->kept, key);
    json_object_del(f->until, key);
    dlc_mtx_unlock(&f->mtx);
    mem_free(&key);
}
