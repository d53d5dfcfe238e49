// SPDX-License-Identifier: Apache-2.0
/* Execute the actions that reconcile() returned, one at a time. */
#include "operator/reconcile/pass.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/api_token.h"
#include "operator/reconcile/reconcile_i.h"

static enum kube_kind kind_of(const struct turn *t)
{
    return t->seen.is_dataset ? KUBE_DATASET : KUBE_DLTPOD;
}

static struct seen_job *job_of(struct turn *t, const struct action *a)
{
    return &t->seen.jobs[a->job];
}

/* What a manager that does not do as asked makes of a turn. */
static enum act_end away(struct turn *t, const struct dlc_err *err)
{
    look_away(t, err);
    return ACT_AWAY;
}

/* ---- the object itself ---- */

/* It is another version now: what is decided next is decided on that one. Takes object. */
static void see_object(struct turn *t, json_t *object)
{
    json_t *copy = json_deep_copy(object); /* the cache's own, trimmed and shared */

    t->seen.object = object;
    json_array_append_new(t->own, object);
    objects_note(t->desk->objects, kind_of(t), &copy);
}

static enum act_end do_finalizer(struct turn *t, bool on, struct dlc_err *err)
{
    const json_t *was = json_at(t->seen.object, "metadata.finalizers"), *one;
    json_t *list = json_array(), *body, *out = NULL;
    size_t i;
    int rc;

    json_array_foreach(was, i, one)
    {
        if (strcmp(json_string_value(one), FINALIZER) != 0)
            json_array_append(list, (json_t *)one);
    }
    if (on)
        json_array_append_new(list, json_string(FINALIZER));
    body = json_pack("{s:{s:s, s:o}}", "metadata", "resourceVersion", kube_version(t->seen.object),
                     "finalizers", list);
    rc = kube_patch(t->desk->kube, kind_of(t), t->seen.tenant, kube_name(t->seen.object), body, 0,
                    &out, err);
    json_decref(body);
    if (rc == 0 && on)
        see_object(t, out);
    else
        json_decref(out);
    return rc == 0 || (!on && rc == DLC_ENOTFOUND) ? ACT_DONE : ACT_FAILED;
}

static enum act_end do_status(struct turn *t, const struct action *a, struct dlc_err *err)
{
    json_t *whole = json_copy((json_t *)t->seen.object), *out = NULL;
    int rc;

    json_object_set(whole, "status", a->body);
    rc = kube_replace(t->desk->kube, kind_of(t), t->seen.tenant, kube_name(t->seen.object), whole,
                      KUBE_STATUS, &out, err);
    json_decref(whole);
    if (rc == 0)
        see_object(t, out);
    return rc == 0 || rc == DLC_ENOTFOUND ? ACT_DONE : ACT_FAILED; /* gone: the watch will tell */
}

static enum act_end do_event(struct turn *t, const struct action *a)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (kube_event(t->desk->kube, t->seen.object, a->warning ? "Warning" : "Normal", a->reason,
                   &err, "%s", a->text) < 0)
        log_warn("no event about %s: %s", t->key, err.text); /* nothing waits for it */
    return ACT_DONE;
}

/* ---- others ---- */

/* The name is taken: by one of ours that the watch has not shown yet, or by somebody else's. */
static enum act_end see_taken(struct turn *t, const struct action *a, struct dlc_err *err)
{
    json_t *there = NULL;
    int rc;

    if (a->object == KUBE_DATASET)
        return ACT_DONE; /* whoever made it keeps the data */
    rc = kube_get(t->desk->kube, a->object, t->seen.tenant, a->name, &there, err);
    if (rc < 0)
        return ACT_FAILED;
    look_add(t, a->object, there);
    return ACT_LOOK;
}

/* A namespace that is going away takes nothing new. That we may not write, or that the server does
 * not know the kind at the moment, says nothing of it. */
static bool is_namespace_going(int rc, const struct dlc_err *err)
{
    return (rc == DLC_ENOTFOUND && strstr(err->text, "namespaces ") != NULL) ||
           (rc == DLC_EDENIED && strstr(err->text, "is being terminated") != NULL);
}

/* There the data is given up, not kept. */
static enum act_end give_up_data(struct turn *t, const struct action *a, struct dlc_err *err)
{
    char name[SPEC_NAME_LEN];
    enum manager_said s =
        manager_end_dataset(t->desk->manager, spec_dataset(t->seen.tenant, a->name, name), err);

    return s == MANAGER_AWAY ? away(t, err) : ACT_DONE;
}

/* Will it never be taken as it is? Data that is to be kept is not given up for a 403: that passes.
 */
static bool is_rejected(const struct turn *t, const struct action *a, int rc)
{
    return rc == DLC_EINVAL ||
           (rc == DLC_EDENIED && kube_status(t->desk->kube) == 403 && a->object != KUBE_DATASET);
}

static enum act_end do_apply(struct turn *t, const struct action *a, struct dlc_err *err)
{
    json_t *have = objects_get(t->desk->objects, a->object, t->seen.tenant, a->name), *out = NULL;
    json_t *body = json_deep_copy(a->body);
    bool there = have != NULL && is_owned(have, t->seen.object);
    int rc;

    if (there) { /* this one, and no other that took its place */
        json_object_set_new(json_object_get(body, "metadata"), "uid", json_string(kube_uid(have)));
        rc = kube_apply(t->desk->kube, a->object, t->seen.tenant, a->name, body, KUBE_FORCE, &out,
                        err);
    } else {
        rc = kube_create(t->desk->kube, a->object, t->seen.tenant, body, &out, err);
    }
    objects_put(t->desk->objects, &have);
    json_decref(body);
    if (rc == 0)
        objects_note(t->desk->objects, a->object, &out);
    if (rc == DLC_EBUSY && !there)
        return see_taken(t, a, err);
    if (a->object == KUBE_DATASET && is_namespace_going(rc, err))
        return give_up_data(t, a, err);
    if (is_rejected(t, a, rc)) {
        t->seen.rejected = (struct rejection){a->object, kube_status(t->desk->kube), "", ""};
        snprintf(t->seen.rejected.name, sizeof(t->seen.rejected.name), "%s", a->name);
        snprintf(t->seen.rejected.words, sizeof(t->seen.rejected.words), "%s", err->text);
        return ACT_LOOK;
    }
    return rc == 0 ? ACT_DONE : ACT_FAILED;
}

static enum act_end do_delete(struct turn *t, const struct action *a, struct dlc_err *err)
{
    const struct kube_delete_options o = {.uid = a->uid, .grace_s = a->grace_s};
    int rc = kube_delete(t->desk->kube, a->object, t->seen.tenant, a->name, &o, err);

    return rc == 0 || rc == DLC_ENOTFOUND || rc == DLC_ECHANGED ? ACT_DONE : ACT_FAILED;
}

/* ---- tenant and credentials ---- */

/* Takes object. */
static void see_tenant(struct turn *t, json_t *object)
{
    fetched_note(t->desk->fetched, KUBE_SECRET, object);
    t->seen.tenant_secret = object;
    json_array_append_new(t->own, object);
}

static bool is_same_version(const json_t *a, const json_t *b)
{
    return strcmp(kube_version(a), kube_version(b)) == 0;
}

/* The tenant's Secret as it is now, not as it is remembered. NULL: there is none. */
static int look_at_tenant(struct turn *t, const char *ns, json_t **out, struct dlc_err *err)
{
    fetched_forget(t->desk->fetched, KUBE_SECRET, ns, TENANT_SECRET);
    return fetched_get(t->desk->fetched, t->desk->kube, KUBE_SECRET, ns, TENANT_SECRET, out, err);
}

/* Its Secret, or another token in the one that is there: that token is not known any more, nor
 * are the credentials. */
static int write_tenant(struct turn *t, const struct action *a, const char *token,
                        const json_t *have, json_t **out, struct dlc_err *err)
{
    json_t *body = have == NULL
                       ? json_deep_copy(a->body)
                       : json_pack("{s:{s:s, s:{s:n}}}", "metadata", "resourceVersion",
                                   kube_version(have), "annotations", ANNOTATION_CREDENTIALS);
    int rc;

    json_object_set_new(body, "stringData", json_pack("{s:s}", "token", token));
    rc = have == NULL
             ? kube_create(t->desk->kube, KUBE_SECRET, a->name, body, out, err)
             : kube_patch(t->desk->kube, KUBE_SECRET, a->name, TENANT_SECRET, body, 0, out, err);
    json_decref(body);
    return rc;
}

/* Locked: tenants. */
static enum act_end make_tenant(struct turn *t, const struct action *a, struct dlc_err *err)
{
    bool again = a->key[0] != '\0';
    json_t *secret = NULL, *out = NULL;
    char *token = NULL;
    int rc = look_at_tenant(t, a->name, &secret, err);

    if (rc < 0)
        return ACT_FAILED;
    if (secret != NULL && !(again && is_same_version(secret, t->seen.tenant_secret))) {
        see_tenant(t, secret);
        return ACT_DONE; /* somebody was first */
    }
    if (manager_tenant(t->desk->manager, a->name, &token, err) != MANAGER_OK) {
        json_decref(secret);
        return away(t, err);
    }
    rc = write_tenant(t, a, token, secret, &out, err);
    secret_free(&token);
    json_decref(secret);
    if (rc < 0)
        return ACT_FAILED;
    see_tenant(t, out);
    return ACT_DONE;
}

static enum act_end do_tenant(struct turn *t, const struct action *a, struct dlc_err *err)
{
    enum act_end e;

    dlc_mtx_lock(t->desk->tenants);
    e = make_tenant(t, a, err);
    dlc_mtx_unlock(t->desk->tenants);
    return e;
}

/* A Secret's data as the manager wants it. Gives. */
static json_t *credentials_of(const json_t *secret)
{
    static const char *const fields[] = {"access_key", "secret_key", "session_token", "endpoint",
                                         "region"};
    json_t *out = json_object();

    for (size_t i = 0; i < DLC_COUNT(fields); i++) {
        const char *b64 =
            json_string_value(json_object_get(json_object_get(secret, "data"), fields[i]));
        struct buf text = BUF_INIT;

        if (b64 != NULL && str_unbase64(b64, &text) && text.len > 0 &&
            str_is_utf8(text.data, text.len))
            json_object_set_new(out, fields[i], json_string(str_trim(text.data)));
        secret_buf_release(&text);
    }
    return out;
}

/* Locked: tenants. Whoever sends credentials also writes down whose they are, before another does.
 */
static enum act_end send_credentials(struct turn *t, const struct action *a, struct dlc_err *err)
{
    json_t *body, *now = NULL, *out = NULL;
    enum manager_said s;
    int rc = look_at_tenant(t, a->name, &now, err);

    if (rc < 0)
        return ACT_FAILED;
    if (now == NULL || !is_same_version(now, t->seen.tenant_secret)) { /* somebody was first */
        t->seen.tenant_secret = now;
        if (now != NULL)
            json_array_append_new(t->own, now);
        return ACT_LOOK;
    }
    json_decref(now);
    body = credentials_of(t->seen.secret_object);
    s = manager_credentials(t->desk->manager, a->name, body, err);
    json_decref(body);
    if (s == MANAGER_REFUSED || s == MANAGER_ABSENT) {
        t->seen.credentials_refused = manager_status(t->desk->manager);
        snprintf(t->seen.credentials_words, sizeof(t->seen.credentials_words), "%s", err->text);
        return ACT_DONE;
    }
    if (s != MANAGER_OK)
        return away(t, err);
    body = json_pack("{s:{s:s, s:{s:s}}}", "metadata", "resourceVersion",
                     kube_version(t->seen.tenant_secret), "annotations", ANNOTATION_CREDENTIALS,
                     a->key);
    rc = kube_patch(t->desk->kube, KUBE_SECRET, a->name, TENANT_SECRET, body, 0, &out, err);
    json_decref(body);
    if (rc < 0)
        return ACT_FAILED;
    see_tenant(t, out);
    return ACT_DONE;
}

static enum act_end do_credentials(struct turn *t, const struct action *a, struct dlc_err *err)
{
    enum act_end e;

    dlc_mtx_lock(t->desk->tenants);
    e = send_credentials(t, a, err);
    dlc_mtx_unlock(t->desk->tenants);
    return e;
}

/* ---- datasets and jobs ---- */

/* A question whose answer is a body or a refusal. Takes body. */
static enum act_end put(struct turn *t, struct answer *to, enum manager_said s, json_t *body,
                        const struct dlc_err *err)
{
    if (s == MANAGER_AWAY)
        return away(t, err);
    if (s == MANAGER_OK)
        answer_set(to, body);
    else
        answer_refused(to, manager_status(t->desk->manager), err->text);
    return ACT_DONE;
}

static enum act_end do_make(struct turn *t, const struct action *a, struct dlc_err *err)
{
    struct seen_job *j = job_of(t, a);
    json_t *body = NULL;
    enum manager_said s;

    if (a->kind == ACT_MAKE_DATASET) {
        s = manager_make_dataset(t->desk->manager, a->body, &body, err);
        return put(t, &j->data, s, body, err);
    }
    s = manager_make_job(t->desk->manager, a->key, a->body, &body, err);
    return put(t, &j->job, s, body, err);
}

static enum act_end do_end(struct turn *t, const struct action *a, struct dlc_err *err)
{
    bool job = a->kind == ACT_END_JOB;
    struct answer *to = job ? &job_of(t, a)->job : &job_of(t, a)->data;
    enum manager_said s = job ? manager_end_job(t->desk->manager, a->name, err)
                              : manager_end_dataset(t->desk->manager, a->name, err);

    if (s == MANAGER_AWAY)
        return away(t, err);
    if (s == MANAGER_REFUSED)
        answer_refused(to, manager_status(t->desk->manager), err->text);
    else
        answer_ended(to);
    return ACT_DONE;
}

static enum act_end do_order(struct turn *t, const struct action *a, struct dlc_err *err)
{
    const char *what = a->kind == ACT_WARM ? "warm" : a->kind == ACT_EVICT ? "evict" : "snapshot";
    enum manager_said s = manager_order(t->desk->manager, a->name, what, a->body, err);

    if (s == MANAGER_AWAY)
        return away(t, err);
    if (s == MANAGER_REFUSED && !(a->kind == ACT_EVICT && manager_status(t->desk->manager) == 409))
        answer_refused(&job_of(t, a)->data, manager_status(t->desk->manager), err->text);
    return ACT_DONE;
}

static enum act_end do_heartbeat(struct turn *t, const struct action *a, struct dlc_err *err)
{
    enum manager_said s = manager_heartbeat(t->desk->manager, a->name, err);

    if (s == MANAGER_AWAY)
        return away(t, err);
    if (s == MANAGER_ABSENT)
        answer_absent(&job_of(t, a)->job);
    return ACT_DONE;
}

/* ---- all ---- */

enum act_end act(struct turn *t, const struct action *a, struct dlc_err *err)
{
    switch (a->kind) {
    case ACT_ADD_FINALIZER: return do_finalizer(t, true, err);
    case ACT_DROP_FINALIZER: return do_finalizer(t, false, err);
    case ACT_APPLY: return do_apply(t, a, err);
    case ACT_DELETE: return do_delete(t, a, err);
    case ACT_STATUS: return do_status(t, a, err);
    case ACT_EVENT: return do_event(t, a);
    case ACT_TENANT: return do_tenant(t, a, err);
    case ACT_CREDENTIALS: return do_credentials(t, a, err);
    case ACT_MAKE_DATASET:
    case ACT_MAKE_JOB: return do_make(t, a, err);
    case ACT_END_DATASET:
    case ACT_END_JOB: return do_end(t, a, err);
    case ACT_WARM:
    case ACT_EVICT:
    case ACT_LIST: return do_order(t, a, err);
    case ACT_HEARTBEAT: return do_heartbeat(t, a, err);
    case ACT_KINDS: break;
    }
    dlc_check(false);
    return ACT_DONE;
}
