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

static enum kube_kind kind_of(const struct pass *p)
{
    return p->seen.is_dataset ? KUBE_DATASET : KUBE_DLTPOD;
}

static struct seen_job *job_of(struct pass *p, const struct action *a)
{
    return &p->seen.jobs[a->job];
}

/* What a manager that does not do as asked makes of a pass. */
static enum action_result away(struct pass *p, const struct dlc_err *err)
{
    observe_manager_away(p, err);
    return ACTION_MANAGER_AWAY;
}

/* ---- the object itself ---- */

/* It is another version now: what is decided next is decided on that one. Takes object. */
static void see_object(struct pass *p, json_t *object)
{
    json_t *copy = json_deep_copy(object); /* the cache's own, trimmed and shared */

    p->seen.object = object;
    json_array_append_new(p->own, object);
    objects_note(p->reconciler->objects, kind_of(p), &copy);
}

static enum action_result do_finalizer(struct pass *p, bool on, struct dlc_err *err)
{
    const json_t *was = json_at(p->seen.object, "metadata.finalizers"), *one;
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
    body = json_pack("{s:{s:s, s:o}}", "metadata", "resourceVersion", kube_version(p->seen.object),
                     "finalizers", list);
    rc = kube_patch(p->reconciler->kube, kind_of(p), p->seen.tenant, kube_name(p->seen.object),
                    body, 0, &out, err);
    json_decref(body);
    if (rc == 0 && on)
        see_object(p, out);
    else
        json_decref(out);
    return rc == 0 || (!on && rc == DLC_ENOTFOUND) ? ACTION_DONE : ACTION_FAILED;
}

static enum action_result do_status(struct pass *p, const struct action *a, struct dlc_err *err)
{
    json_t *whole = json_copy((json_t *)p->seen.object), *out = NULL;
    int rc;

    json_object_set(whole, "status", a->body);
    rc = kube_replace(p->reconciler->kube, kind_of(p), p->seen.tenant, kube_name(p->seen.object),
                      whole, KUBE_STATUS, &out, err);
    json_decref(whole);
    if (rc == 0)
        see_object(p, out);
    return rc == 0 || rc == DLC_ENOTFOUND ? ACTION_DONE
                                          : ACTION_FAILED; /* gone: the watch will tell */
}

static enum action_result do_event(struct pass *p, const struct action *a)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (kube_event(p->reconciler->kube, p->seen.object, a->warning ? "Warning" : "Normal",
                   a->reason, &err, "%s", a->text) < 0)
        log_warn("no event about %s: %s", p->key, err.text); /* nothing waits for it */
    return ACTION_DONE;
}

/* ---- others ---- */

/* The name is taken: by one of ours that the watch has not shown yet, or by somebody else's. */
static enum action_result see_taken(struct pass *p, const struct action *a, struct dlc_err *err)
{
    json_t *there = NULL;
    int rc;

    if (a->object == KUBE_DATASET)
        return ACTION_DONE; /* whoever made it keeps the data */
    rc = kube_get(p->reconciler->kube, a->object, p->seen.tenant, a->name, &there, err);
    if (rc < 0)
        return ACTION_FAILED;
    observe_add(p, a->object, there);
    return ACTION_OBSERVED;
}

/* A namespace that is going away takes nothing new. That we may not write, or that the server does
 * not know the kind at the moment, says nothing of it. */
static bool is_namespace_going(int rc, const struct dlc_err *err)
{
    return (rc == DLC_ENOTFOUND && strstr(err->text, "namespaces ") != NULL) ||
           (rc == DLC_EDENIED && strstr(err->text, "is being terminated") != NULL);
}

/* There the data is given up, not kept. */
static enum action_result give_up_data(struct pass *p, const struct action *a, struct dlc_err *err)
{
    char name[SPEC_NAME_LEN];
    enum manager_said s = manager_end_dataset(p->reconciler->manager,
                                              spec_dataset(p->seen.tenant, a->name, name), err);

    return s == MANAGER_AWAY ? away(p, err) : ACTION_DONE;
}

/* Will it never be taken as it is? Data that is to be kept is not given up for a 403: that passes.
 */
static bool is_rejected(const struct pass *p, const struct action *a, int rc)
{
    return rc == DLC_EINVAL || (rc == DLC_EDENIED && kube_status(p->reconciler->kube) == 403 &&
                                a->object != KUBE_DATASET);
}

static enum action_result do_apply(struct pass *p, const struct action *a, struct dlc_err *err)
{
    json_t *have = objects_get(p->reconciler->objects, a->object, p->seen.tenant, a->name),
           *out = NULL;
    json_t *body = json_deep_copy(a->body);
    bool there = have != NULL && is_owned(have, p->seen.object);
    int rc;

    if (there) { /* this one, and no other that took its place */
        json_object_set_new(json_object_get(body, "metadata"), "uid", json_string(kube_uid(have)));
        rc = kube_apply(p->reconciler->kube, a->object, p->seen.tenant, a->name, body, KUBE_FORCE,
                        &out, err);
    } else {
        rc = kube_create(p->reconciler->kube, a->object, p->seen.tenant, body, &out, err);
    }
    objects_put(p->reconciler->objects, &have);
    json_decref(body);
    if (rc == 0)
        objects_note(p->reconciler->objects, a->object, &out);
    if (rc == DLC_EBUSY && !there)
        return see_taken(p, a, err);
    if (a->object == KUBE_DATASET && is_namespace_going(rc, err))
        return give_up_data(p, a, err);
    if (is_rejected(p, a, rc)) {
        p->seen.rejected = (struct rejection){a->object, kube_status(p->reconciler->kube), "", ""};
        snprintf(p->seen.rejected.name, sizeof(p->seen.rejected.name), "%s", a->name);
        snprintf(p->seen.rejected.message, sizeof(p->seen.rejected.message), "%s", err->text);
        return ACTION_OBSERVED;
    }
    return rc == 0 ? ACTION_DONE : ACTION_FAILED;
}

static enum action_result do_delete(struct pass *p, const struct action *a, struct dlc_err *err)
{
    const struct kube_delete_options o = {.uid = a->uid, .grace_s = a->grace_s};
    int rc = kube_delete(p->reconciler->kube, a->object, p->seen.tenant, a->name, &o, err);

    return rc == 0 || rc == DLC_ENOTFOUND || rc == DLC_ECHANGED ? ACTION_DONE : ACTION_FAILED;
}

/* ---- tenant and credentials ---- */

/* Takes object. */
static void see_tenant(struct pass *p, json_t *object)
{
    fetched_note(p->reconciler->fetched, KUBE_SECRET, object);
    p->seen.tenant_secret = object;
    json_array_append_new(p->own, object);
}

static bool is_same_version(const json_t *a, const json_t *b)
{
    return strcmp(kube_version(a), kube_version(b)) == 0;
}

/* The tenant's Secret as it is now, not as it is remembered. NULL: there is none. */
static int observe_tenant(struct pass *p, const char *ns, json_t **out, struct dlc_err *err)
{
    fetched_forget(p->reconciler->fetched, KUBE_SECRET, ns, TENANT_SECRET);
    return fetched_get(p->reconciler->fetched, p->reconciler->kube, KUBE_SECRET, ns, TENANT_SECRET,
                       out, err);
}

/* Its Secret, or another token in the one that is there: that token is not known any more, nor
 * are the credentials. */
static int write_tenant(struct pass *p, const struct action *a, const char *token,
                        const json_t *have, json_t **out, struct dlc_err *err)
{
    json_t *body = have == NULL
                       ? json_deep_copy(a->body)
                       : json_pack("{s:{s:s, s:{s:n}}}", "metadata", "resourceVersion",
                                   kube_version(have), "annotations", ANNOTATION_CREDENTIALS);
    int rc;

    json_object_set_new(body, "stringData", json_pack("{s:s}", "token", token));
    rc = have == NULL ? kube_create(p->reconciler->kube, KUBE_SECRET, a->name, body, out, err)
                      : kube_patch(p->reconciler->kube, KUBE_SECRET, a->name, TENANT_SECRET, body,
                                   0, out, err);
    json_decref(body);
    return rc;
}

/* Locked: tenants. */
static enum action_result make_tenant(struct pass *p, const struct action *a, struct dlc_err *err)
{
    bool again = a->key[0] != '\0';
    json_t *secret = NULL, *out = NULL;
    char *token = NULL;
    int rc = observe_tenant(p, a->name, &secret, err);

    if (rc < 0)
        return ACTION_FAILED;
    if (secret != NULL && !(again && is_same_version(secret, p->seen.tenant_secret))) {
        see_tenant(p, secret);
        return ACTION_DONE; /* somebody was first */
    }
    if (manager_tenant(p->reconciler->manager, a->name, &token, err) != MANAGER_OK) {
        json_decref(secret);
        return away(p, err);
    }
    rc = write_tenant(p, a, token, secret, &out, err);
    secret_free(&token);
    json_decref(secret);
    if (rc < 0)
        return ACTION_FAILED;
    see_tenant(p, out);
    return ACTION_DONE;
}

static enum action_result do_tenant(struct pass *p, const struct action *a, struct dlc_err *err)
{
    enum action_result e;

    dlc_mtx_lock(p->reconciler->tenants);
    e = make_tenant(p, a, err);
    dlc_mtx_unlock(p->reconciler->tenants);
    return e;
}

/* The file of a service account of Google has line ends, which the manager does not take: gives it
 * as one line, and all else as it is. */
static json_t *one_line(const char *text)
{
    json_t *doc = text[0] == '{' ? json_loads(text, 0, NULL) : NULL, *out;
    char *line;

    if (doc == NULL)
        return json_string(text);
    line = json_dumps(doc, JSON_COMPACT);
    out = json_string(line != NULL ? line : text);
    if (line != NULL)
        explicit_bzero(line, strlen(line));
    free(line);
    secret_json_wipe(doc);
    json_decref(doc);
    return out;
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
            json_object_set_new(out, fields[i], one_line(str_trim(text.data)));
        secret_buf_release(&text);
    }
    return out;
}

/* Locked: tenants. Whoever sends credentials also writes down whose they are, before another does.
 */
static enum action_result send_credentials(struct pass *p, const struct action *a,
                                           struct dlc_err *err)
{
    json_t *body, *now = NULL, *out = NULL;
    enum manager_said s;
    int rc = observe_tenant(p, a->name, &now, err);

    if (rc < 0)
        return ACTION_FAILED;
    if (now == NULL || !is_same_version(now, p->seen.tenant_secret)) { /* somebody was first */
        p->seen.tenant_secret = now;
        if (now != NULL)
            json_array_append_new(p->own, now);
        return ACTION_OBSERVED;
    }
    json_decref(now);
    body = credentials_of(p->seen.secret_object);
    s = manager_credentials(p->reconciler->manager, a->name, body, err);
    json_decref(body);
    if (s == MANAGER_REFUSED || s == MANAGER_ABSENT) {
        p->seen.credentials_refused = manager_client_status(p->reconciler->manager);
        snprintf(p->seen.credentials_error, sizeof(p->seen.credentials_error), "%s", err->text);
        return ACTION_DONE;
    }
    if (s != MANAGER_OK)
        return away(p, err);
    body = json_pack("{s:{s:s, s:{s:s}}}", "metadata", "resourceVersion",
                     kube_version(p->seen.tenant_secret), "annotations", ANNOTATION_CREDENTIALS,
                     a->key);
    rc = kube_patch(p->reconciler->kube, KUBE_SECRET, a->name, TENANT_SECRET, body, 0, &out, err);
    json_decref(body);
    if (rc < 0)
        return ACTION_FAILED;
    see_tenant(p, out);
    return ACTION_DONE;
}

static enum action_result do_credentials(struct pass *p, const struct action *a,
                                         struct dlc_err *err)
{
    enum action_result e;

    dlc_mtx_lock(p->reconciler->tenants);
    e = send_credentials(p, a, err);
    dlc_mtx_unlock(p->reconciler->tenants);
    return e;
}

/* ---- datasets and jobs ---- */

/* A question whose answer is a body or a refusal. Takes body. */
static enum action_result put(struct pass *p, struct response *to, enum manager_said s,
                              json_t *body, const struct dlc_err *err)
{
    if (s == MANAGER_AWAY)
        return away(p, err);
    if (s == MANAGER_OK)
        response_set(to, body);
    else
        response_refused(to, manager_client_status(p->reconciler->manager), err->text);
    return ACTION_DONE;
}

static enum action_result do_make(struct pass *p, const struct action *a, struct dlc_err *err)
{
    struct seen_job *j = job_of(p, a);
    json_t *body = NULL;
    enum manager_said s;

    if (a->kind == ACT_MAKE_DATASET) {
        s = manager_make_dataset(p->reconciler->manager, a->body, &body, err);
        return put(p, &j->data, s, body, err);
    }
    s = manager_make_job(p->reconciler->manager, a->key, a->body, &body, err);
    return put(p, &j->job, s, body, err);
}

static enum action_result do_end(struct pass *p, const struct action *a, struct dlc_err *err)
{
    bool job = a->kind == ACT_END_JOB;
    struct response *to = job ? &job_of(p, a)->job : &job_of(p, a)->data;
    enum manager_said s = job ? manager_end_job(p->reconciler->manager, a->name, err)
                              : manager_end_dataset(p->reconciler->manager, a->name, err);

    if (s == MANAGER_AWAY)
        return away(p, err);
    if (s == MANAGER_REFUSED)
        response_refused(to, manager_client_status(p->reconciler->manager), err->text);
    else
        response_ended(to);
    return ACTION_DONE;
}

static enum action_result do_order(struct pass *p, const struct action *a, struct dlc_err *err)
{
    const char *what = a->kind == ACT_WARM ? "warm" : a->kind == ACT_EVICT ? "evict" : "snapshot";
    enum manager_said s = manager_order(p->reconciler->manager, a->name, what, a->body, err);

    if (s == MANAGER_AWAY)
        return away(p, err);
    if (s == MANAGER_REFUSED &&
        !(a->kind == ACT_EVICT && manager_client_status(p->reconciler->manager) == 409))
        response_refused(&job_of(p, a)->data, manager_client_status(p->reconciler->manager),
                         err->text);
    return ACTION_DONE;
}

static enum action_result do_heartbeat(struct pass *p, const struct action *a, struct dlc_err *err)
{
    enum manager_said s = manager_heartbeat(p->reconciler->manager, a->name, err);

    if (s == MANAGER_AWAY)
        return away(p, err);
    if (s == MANAGER_ABSENT)
        response_absent(&job_of(p, a)->job);
    return ACTION_DONE;
}

/* ---- all ---- */

enum action_result action_execute(struct pass *p, const struct action *a, struct dlc_err *err)
{
    switch (a->kind) {
    case ACT_ADD_FINALIZER: return do_finalizer(p, true, err);
    case ACT_DROP_FINALIZER: return do_finalizer(p, false, err);
    case ACT_APPLY: return do_apply(p, a, err);
    case ACT_DELETE: return do_delete(p, a, err);
    case ACT_STATUS: return do_status(p, a, err);
    case ACT_EVENT: return do_event(p, a);
    case ACT_TENANT: return do_tenant(p, a, err);
    case ACT_CREDENTIALS: return do_credentials(p, a, err);
    case ACT_MAKE_DATASET:
    case ACT_MAKE_JOB: return do_make(p, a, err);
    case ACT_END_DATASET:
    case ACT_END_JOB: return do_end(p, a, err);
    case ACT_WARM:
    case ACT_EVICT:
    case ACT_LIST: return do_order(p, a, err);
    case ACT_HEARTBEAT: return do_heartbeat(p, a, err);
    case ACT_KINDS: break;
    }
    dlc_check(false);
    return ACTION_DONE;
}
