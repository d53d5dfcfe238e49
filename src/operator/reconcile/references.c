// SPDX-License-Identifier: Apache-2.0
#include "operator/reconcile/references.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "operator/reconcile/reconcile.h"

struct users {
    struct objects *objects;
    struct dlc_mtx mtx;
    json_t *names;   /* G: mtx; key of an object -> what it names: {"data/X": true, ...} */
    json_t *by_name; /* G: mtx; "data/X" -> {key: does it read?} */
};

struct users *users_new(struct objects *objects)
{
    struct users *u = mem_zero(sizeof(*u));

    u->objects = objects;
    dlc_mtx_init(&u->mtx, LCK_users);
    u->names = json_object();
    u->by_name = json_object();
    return u;
}

void users_free(struct users **up)
{
    if (*up == NULL)
        return;
    json_decref((*up)->names);
    json_decref((*up)->by_name);
    dlc_mtx_release(&(*up)->mtx);
    mem_free(up);
}

/* ---- what an object names ---- */

/* What status.jobs says of a dataset: is it true for one of the jobs on it (NULL: any)? */
static bool status_says(const json_t *object, const char *dataset, const char *field)
{
    const json_t *jobs = json_at(object, "status.jobs"), *one;
    size_t i;

    json_array_foreach(jobs, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "dataset"));
        bool same = dataset == NULL || (name != NULL && strcmp(name, dataset) == 0);

        if (same && json_is_true(json_object_get(one, field)))
            return true;
    }
    return false;
}

/* Nothing of it will read any more. */
static bool is_over(const json_t *object)
{
    const char *phase = json_string_value(json_at(object, "status.phase"));

    return phase != NULL && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0) &&
           !status_says(object, NULL, "registered");
}

static void add_name(json_t *to, char *name, bool reads)
{
    json_object_set_new(to, name, json_boolean(reads));
    mem_free(&name);
}

/* Gives {"data/DATASET": does it read, "secret/NS/NAME": false}. Who only waits for data does not
 * read it; who has given it up does not name it. */
static json_t *names_of(const json_t *object)
{
    json_t *out = json_object();
    struct observed o;

    if (object == NULL || kube_is_deleted(object))
        return out;
    observed_init(&o, object, 0);
    for (size_t i = 0; i < o.n_jobs; i++)
        if (!status_says(object, o.jobs[i].dataset, "released"))
            add_name(out, mem_fmt("data/%s", o.jobs[i].dataset),
                     status_says(object, o.jobs[i].dataset, "registered"));
    if (o.secret[0] != '\0' && !(is_over(object) && !o.is_dataset))
        add_name(out, mem_fmt("secret/%s/%s", o.tenant, o.secret), false);
    observed_release(&o);
    return out;
}

/* ---- the index ---- */

static void unlink_locked(struct users *u, const char *key)
{
    json_t *was = json_object_get(u->names, key), *v;
    const char *name;

    json_object_foreach(was, name, v)
    {
        json_t *all = json_object_get(u->by_name, name);

        json_object_del(all, key);
        if (json_object_size(all) == 0)
            json_object_del(u->by_name, name);
    }
    json_object_del(u->names, key);
}

/* Takes names. */
static void link_locked(struct users *u, const char *key, json_t *names)
{
    const char *name;
    json_t *v;

    json_object_foreach(names, name, v)
    {
        if (json_object_get(u->by_name, name) == NULL)
            json_object_set_new(u->by_name, name, json_object());
        json_object_set(json_object_get(u->by_name, name), key, v);
    }
    if (json_object_size(names) > 0)
        json_object_set_new(u->names, key, names);
    else
        json_decref(names);
}

void users_changed(struct users *u, enum kube_kind kind, const char *ns, const char *name)
{
    char *key = object_key(kind, ns, name);
    json_t *object;

    dlc_mtx_lock(&u->mtx);
    object = objects_get(u->objects, kind, ns, name);
    unlink_locked(u, key);
    link_locked(u, key, names_of(object));
    objects_put(u->objects, &object);
    dlc_mtx_unlock(&u->mtx);
    mem_free(&key);
}

/* ---- questions ---- */

/* Takes name. */
static bool is_named_by_other(struct users *u, char *name, const char *key)
{
    const json_t *all;
    size_t n;

    dlc_mtx_lock(&u->mtx);
    all = json_object_get(u->by_name, name);
    n = json_object_size(all) - (json_object_get(all, key) != NULL ? 1 : 0);
    dlc_mtx_unlock(&u->mtx);
    mem_free(&name);
    return n > 0;
}

bool users_others(struct users *u, const char *dataset, const char *key)
{
    return is_named_by_other(u, mem_fmt("data/%s", dataset), key);
}

bool users_of_secret(struct users *u, const char *ns, const char *secret, const char *key)
{
    return is_named_by_other(u, mem_fmt("secret/%s/%s", ns, secret), key);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Keys of DLTPods at this dataset, sorted: an array of texts of the index. Locked. */
static const char **keys_locked(struct users *u, const char *dataset, bool readers, size_t *n)
{
    char *name = mem_fmt("data/%s", dataset);
    json_t *all = json_object_get(u->by_name, name), *v;
    const char **out = mem_zero((json_object_size(all) + 1) * sizeof(*out)), *key;
    struct object_key k;

    *n = 0;
    json_object_foreach(all, key, v)
    {
        if (object_key_parse(key, &k) && k.kind == KUBE_DLTPOD && (!readers || json_is_true(v)))
            out[(*n)++] = key;
    }
    qsort(out, *n, sizeof(*out), by_text);
    mem_free(&name);
    return out;
}

json_t *users_keys(struct users *u, const char *dataset)
{
    json_t *out = json_array();
    const char **keys;
    size_t n;

    dlc_mtx_lock(&u->mtx);
    keys = keys_locked(u, dataset, false, &n);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(out, json_string(keys[i]));
    mem_free(&keys);
    dlc_mtx_unlock(&u->mtx);
    return out;
}

json_t *users_of(struct users *u, const char *dataset)
{
    json_t *out = json_array();
    struct object_key k;
    const char **keys;
    size_t n;

    dlc_mtx_lock(&u->mtx);
    keys = keys_locked(u, dataset, true, &n);
    for (size_t i = 0; i < n; i++)
        if (object_key_parse(keys[i], &k))
            json_array_append_new(out, json_string(k.name));
    mem_free(&keys);
    dlc_mtx_unlock(&u->mtx);
    return out;
}
