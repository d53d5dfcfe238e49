// SPDX-License-Identifier: Apache-2.0
#include "operator/fetched.h"

#include "base/mem.h"
#include "base/mtx.h"
#include "operator/objects.h"

struct fetched {
    struct dlc_mtx mtx;
    json_t *kept;  /* G: mtx; key -> object, or null: there is none */
    json_t *until; /* G: mtx; key -> monotonic ns */
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

/* object NULL: there is none. */
static void remember(struct fetched *f, const char *key, const json_t *object)
{
    struct dlc_dur stay = object != NULL ? FETCHED_GOOD : FETCHED_MISSING;

    dlc_mtx_lock(&f->mtx);
    if (json_object_size(f->kept) >= FETCHED_MOST) {
        json_object_clear(f->kept);
        json_object_clear(f->until);
    }
    json_object_set_new(f->kept, key, object != NULL ? json_deep_copy(object) : json_null());
    json_object_set_new(f->until, key, json_integer(dlc_mono_now().ns + stay.ns));
    dlc_mtx_unlock(&f->mtx);
}

int fetched_get(struct fetched *f, struct kube *k, enum kube_kind kind, const char *ns,
                const char *name, json_t **out, struct dlc_err *err)
{
    char *key = object_key(kind, ns, name);
    int rc = 0;

    if (!recall(f, key, out)) {
        rc = kube_get(k, kind, ns, name, out, err);
        rc = rc == DLC_ENOTFOUND ? 0 : rc;
        if (rc == 0)
            remember(f, key, *out);
    }
    mem_free(&key);
    return rc;
}

void fetched_note(struct fetched *f, enum kube_kind kind, const json_t *object)
{
    char *key = object_key_of(kind, object);

    remember(f, key, object);
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
