// SPDX-License-Identifier: Apache-2.0
/* Verbs of the Kubernetes API: get, list, create, patch, delete. Transport: kube_http.c. */
#include "operator/kube/kube.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "operator/kube/kube_i.h"

#define JSON_TYPE  "application/json"
#define MERGE_TYPE "application/merge-patch+json"
#define APPLY_TYPE "application/apply-patch+yaml" /* JSON is YAML */

/* -------- paths -------- */

/* A name that cannot lead elsewhere: others are the caller's input, not ours. */
static int check_name(const char *what, const char *name, struct dlc_err *err)
{
    static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:";
    size_t n = name != NULL ? strlen(name) : 0;

    if (n == 0 || n > 253 || strspn(name, fine) != n || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0)
        return dlc_err_set(err, DLC_EINVAL, "'%.100s' cannot be the %s of an object",
                           name != NULL ? name : "", what);
    return 0;
}

static int check_place(struct kube *k, enum kube_kind kind, const char *ns, const char *name,
                       struct dlc_err *err)
{
    int rc = kube_kinds[kind].namespaced ? check_name("namespace", ns, err) : 0;

    kube_forget(k);
    return rc == 0 && name != NULL ? check_name("name", name, err) : rc;
}

static char *path_of(enum kube_kind kind, const char *ns, const char *name, unsigned flags)
{
    char *all = kube_path(kind, ns);
    char *path = mem_fmt("%s/%s%s", all, name, flags & KUBE_STATUS ? "/status" : "");

    mem_free(&all);
    return path;
}

/* -------- bodies -------- */

static void set_if_absent(json_t *in, const char *name, const char *value)
{
    if (value != NULL && json_object_get(in, name) == NULL)
        json_object_set_new(in, name, json_string(value));
}

/* With what the caller may leave out: apiVersion, kind and (NULL: as it is) the name. */
static char *text_of(enum kube_kind kind, const char *name, const json_t *body)
{
    json_t *whole = json_copy((json_t *)body);
    json_t *meta = json_copy(json_object_get(whole, "metadata"));
    char *text;

    if (meta == NULL)
        meta = json_object();
    json_object_set_new(whole, "metadata", meta);
    set_if_absent(meta, "name", name);
    set_if_absent(whole, "apiVersion", kube_kinds[kind].api);
    set_if_absent(whole, "kind", kube_kinds[kind].kind);
    text = json_dumps(whole, JSON_COMPACT);
    dlc_check(text != NULL);
    json_decref(whole);
    return text;
}

/* Send c, whose text may be set, and give the object that comes back. Takes *path. */
static int exchange(struct kube_call *c, char **path, json_t **out, struct dlc_err *err)
{
    json_t *j = NULL;
    int rc;

    c->path = *path;
    rc = kube_call(c, err);
    if (rc == 0 && out != NULL)
        rc = kube_call_json(c, &j, err);
    if (out != NULL)
        *out = j;
    kube_call_release(c);
    c->path = NULL;
    mem_free(path);
    return rc;
}

/* A write with a body. Takes *path. */
static int write_body(struct kube_call *c, enum kube_kind kind, const char *name, char **path,
                      const json_t *body, json_t **out, struct dlc_err *err)
{
    int rc = kube_ask_to_write(c->kube, err);

    if (out != NULL)
        *out = NULL;
    if (rc == 0) {
        c->text = text_of(kind, name, body);
        if (strlen(c->text) > KUBE_OBJECT_MAX)
            rc = dlc_err_set(err, DLC_EINVAL, "%s %s: the object is larger than %u bytes",
                             c->method, *path, KUBE_OBJECT_MAX);
    }
    if (rc < 0) {
        kube_call_release(c);
        mem_free(path);
        return rc;
    }
    return exchange(c, path, out, err);
}

/* -------- verbs -------- */

int kube_get(struct kube *k, enum kube_kind kind, const char *ns, const char *name, json_t **out,
             struct dlc_err *err)
{
    struct kube_call c = {.kube = k, .method = "GET"};
    int rc = check_place(k, kind, ns, name, err);
    char *path;

    *out = NULL;
    if (rc < 0)
        return rc;
    path = path_of(kind, ns, name, 0);
    return exchange(&c, &path, out, err);
}

int kube_create(struct kube *k, enum kube_kind kind, const char *ns, const json_t *body,
                json_t **out, struct dlc_err *err)
{
    struct kube_call c = {.kube = k, .method = "POST", .type = JSON_TYPE};
    int rc = check_place(k, kind, ns, NULL, err);
    char *all, *path;

    if (rc < 0)
        return rc;
    all = kube_path(kind, ns);
    path = mem_fmt("%s?fieldManager=" KUBE_MANAGER, all);
    mem_free(&all);
    return write_body(&c, kind, NULL, &path, body, out, err);
}

/* PATCH and PUT. */
static int change(struct kube_call *c, enum kube_kind kind, const char *ns, const char *name,
                  const json_t *body, unsigned flags, json_t **out, struct dlc_err *err)
{
    int rc = check_place(c->kube, kind, ns, name, err);
    char *at, *path;

    if (out != NULL)
        *out = NULL;
    if (rc < 0)
        return rc;
    at = path_of(kind, ns, name, flags);
    path =
        mem_fmt("%s?fieldManager=" KUBE_MANAGER "%s%s", at, flags & KUBE_FORCE ? "&force=true" : "",
                flags & KUBE_DRY_RUN ? "&dryRun=All" : "");
    mem_free(&at);
    return write_body(c, kind, name, &path, body, out, err);
}

int kube_apply(struct kube *k, enum kube_kind kind, const char *ns, const char *name,
               const json_t *body, unsigned flags, json_t **out, struct dlc_err *err)
{
    struct kube_call c = {.kube = k, .method = "PATCH", .type = APPLY_TYPE};

    return change(&c, kind, ns, name, body, flags, out, err);
}

int kube_patch(struct kube *k, enum kube_kind kind, const char *ns, const char *name,
               const json_t *body, unsigned flags, json_t **out, struct dlc_err *err)
{
    struct kube_call c = {.kube = k, .method = "PATCH", .type = MERGE_TYPE};

    return change(&c, kind, ns, name, body, flags & ~(unsigned)KUBE_FORCE, out, err);
}

int kube_replace(struct kube *k, enum kube_kind kind, const char *ns, const char *name,
                 const json_t *body, unsigned flags, json_t **out, struct dlc_err *err)
{
    struct kube_call c = {.kube = k, .method = "PUT", .type = JSON_TYPE};

    return change(&c, kind, ns, name, body, flags & ~(unsigned)KUBE_FORCE, out, err);
}

static char *delete_text(const struct kube_delete_options *o)
{
    json_t *j = json_pack("{s:s, s:s}", "apiVersion", "v1", "kind", "DeleteOptions");
    char *text;

    if (o->uid != NULL || o->version != NULL)
        json_object_set_new(
            j, "preconditions",
            json_pack("{s:s*, s:s*}", "uid", o->uid, "resourceVersion", o->version));
    if (o->propagation != NULL)
        json_object_set_new(j, "propagationPolicy", json_string(o->propagation));
    if (o->grace_s >= 0)
        json_object_set_new(j, "gracePeriodSeconds", json_integer(o->grace_s));
    text = json_dumps(j, JSON_COMPACT);
    dlc_check(text != NULL);
    json_decref(j);
    return text;
}

int kube_delete(struct kube *k, enum kube_kind kind, const char *ns, const char *name,
                const struct kube_delete_options *o, struct dlc_err *err)
{
    struct kube_delete_options any = KUBE_DELETE_INIT;
    struct kube_call c = {.kube = k, .method = "DELETE", .type = JSON_TYPE};
    int rc = check_place(k, kind, ns, name, err);
    char *path;

    if (rc == 0)
        rc = kube_ask_to_write(k, err);
    if (rc < 0)
        return rc;
    c.text = delete_text(o != NULL ? o : &any);
    path = path_of(kind, ns, name, 0);
    return exchange(&c, &path, NULL, err);
}

int kube_raw(struct kube *k, const char *method, const char *path, const json_t *body, json_t **out,
             struct dlc_err *err)
{
    struct kube_call c = {.kube = k, .method = method, .path = path, .type = JSON_TYPE};
    bool reads = strcmp(method, "GET") == 0;
    int rc = reads ? 0 : kube_ask_to_write(k, err);

    *out = NULL;
    if (rc < 0)
        return rc;
    if (body != NULL) {
        c.text = json_dumps(body, JSON_COMPACT);
        dlc_check(c.text != NULL);
    }
    rc = kube_call(&c, err);
    if (rc == 0 && c.http.body.len > 0)
        *out = json_loadb(c.http.body.data, c.http.body.len, JSON_DECODE_ANY, NULL);
    if (rc == 0 && *out == NULL)
        *out = json_string(
            str_is_utf8(buf_str(&c.http.body), c.http.body.len) ? buf_str(&c.http.body) : "");
    kube_call_release(&c);
    return rc;
}

int kube_lines(struct kube *k, const char *path, struct dlc_dur silence,
               bool (*each)(const char *line, size_t len, void *arg), void *arg,
               struct dlc_err *err)
{
    struct kube_call c = {
        .kube = k,
        .method = "GET",
        .path = path,
        .http = {
            .each = each, .arg = arg, .silence = silence, .most = KUBE_OBJECT_MAX + (64u << 10)}};
    int rc;

    rc = kube_call(&c, err);
    kube_call_release(&c);
    return rc;
}
