// SPDX-License-Identifier: Apache-2.0
/*
 * A struct patching collects the operations of one pod. They are applied in order, so each
 * operation sees the pod after the previous ones: an array is created once, by the first operation
 * that needs it, and appended to from then on.
 */
#include "operator/webhook/webhook.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "operator/csi/csi_driver.h"
#include "operator/reconcile/manifest.h"
#include "operator/webhook/webhook_i.h"

#define TOKEN_PATH    TOKEN_DIR "/token"
#define VOLUME_SOCKET "dlcache-socket"
#define VOLUME_TOKEN  "dlcache-token"
#define DATASET_MAX   253
#define MIRROR        "kubernetes.io/config.mirror" /* annotation: a copy of a kubelet's own pod */
#define WARNING_MAX   256                           /* what the API server passes on of each */
#define WARNINGS_MAX  8

const char *const webhook_outcomes[WEBHOOK_OUTCOMES] = {"patched", "alone", "odd"};

struct patching {
    json_t *ops, *warnings;
};

struct volumes {
    char socket[64], token[64]; /* names in this pod */
};

__attribute__((format(printf, 2, 3))) static void warn(struct patching *p, const char *fmt, ...)
{
    char text[WARNING_MAX];
    struct buf b = BUF_INIT;
    va_list ap;

    if (json_array_size(p->warnings) == WARNINGS_MAX)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    str_printable(text, strlen(text), &b);
    json_array_append_new(p->warnings, json_string(buf_str(&b)));
    buf_release(&b);
}

/* -------- operations -------- */

/* Takes value. */
static void add(struct patching *p, const char *path, json_t *value)
{
    json_array_append_new(p->ops,
                          json_pack("{s:s, s:s, s:o}", "op", "add", "path", path, "value", value));
}

/* Takes value. *made: the array at the path is there, in the pod or by an operation before. */
static void append(struct patching *p, const char *path, bool *made, json_t *value)
{
    char *end = mem_fmt("%s/-", path);

    if (*made)
        add(p, end, value);
    else
        add(p, path, json_pack("[o]", value));
    *made = true;
    mem_free(&end);
}

/* Has `have` all that `want` has? The API server adds defaults to what we wrote. */
static bool covers(const json_t *have, const json_t *want)
{
    const char *key;
    json_t *v;
    size_t i;

    if (json_is_object(want)) {
        json_object_foreach((json_t *)want, key, v)
        {
            if (!covers(json_object_get(have, key), v))
                return false;
        }
        return json_is_object(have);
    }
    if (json_is_array(want)) {
        json_array_foreach(want, i, v)
        {
            if (!covers(json_array_get(have, i), v))
                return false;
        }
        return json_array_size(have) == json_array_size(want);
    }
    return have != NULL && json_equal(have, want);
}

/* -------- volumes -------- */

/* A volume with this source, under its own name or a free one. Takes source. */
static void need_volume(struct patching *p, const json_t *have, bool *made, const char *like,
                        json_t *source, char name[static 64])
{
    json_t *v;
    size_t i;

    json_array_foreach(have, i, v)
    {
        const char *its = json_string_value(json_object_get(v, "name"));

        if (its != NULL && strlen(its) < 64 && covers(v, source)) {
            snprintf(name, 64, "%s", its);
            json_decref(source);
            return;
        }
    }
    snprintf(name, 64, "%s", like);
    for (unsigned n = 2; json_find(have, "name", name) != NULL; n++)
        snprintf(name, 64, "%s-%u", like, n);
    json_object_set_new(source, "name", json_string(name));
    append(p, "/spec/volumes", made, source);
}

static void need_volumes(struct patching *p, const json_t *spec, struct volumes *out)
{
    const json_t *have = json_object_get(spec, "volumes");
    bool made = json_is_array(have);

    need_volume(p, have, &made, VOLUME_SOCKET,
                json_pack("{s:{s:s, s:b}}", "csi", "driver", CSI_DRIVER_NAME, "readOnly", 1),
                out->socket);
    need_volume(p, have, &made, VOLUME_TOKEN,
                json_pack("{s:{s:i, s:[{s:{s:s, s:b, s:[{s:s, s:s}]}}]}}", "projected",
                          "defaultMode", 0444, "sources", "secret", "name", TENANT_SECRET,
                          "optional", 1, "items", "key", "token", "path", "token"),
                out->token);
}

/* -------- containers -------- */

static void need_mount(struct patching *p, const json_t *container, const char *at, bool *made,
                       const char *path, const char *volume)
{
    const json_t *there = json_find(json_object_get(container, "volumeMounts"), "mountPath", path);
    const char *name = json_string_value(json_object_get(container, "name"));
    const char *its = json_string_value(json_object_get(there, "name"));
    char *mounts;

    if (there != NULL) {
        if (its == NULL || strcmp(its, volume) != 0)
            warn(p, "dlcache: container %.63s has something else at %s; it is left there",
                 name != NULL ? name : "?", path);
        return;
    }
    mounts = mem_fmt("%s/volumeMounts", at);
    append(p, mounts, made,
           json_pack("{s:s, s:s, s:b}", "name", volume, "mountPath", path, "readOnly", 1));
    mem_free(&mounts);
}

static void need_variable(struct patching *p, const json_t *container, const char *at, bool *made,
                          const char *name, const char *value)
{
    char *env;

    if (json_find(json_object_get(container, "env"), "name", name) != NULL)
        return;
    env = mem_fmt("%s/env", at);
    append(p, env, made, json_pack("{s:s, s:s}", "name", name, "value", value));
    mem_free(&env);
}

static void need_container(struct patching *p, const json_t *c, const char *at,
                           const struct volumes *v, const char *url)
{
    bool mounts = json_is_array(json_object_get(c, "volumeMounts"));
    bool env = json_is_array(json_object_get(c, "env"));

    need_mount(p, c, at, &mounts, SOCKET_DIR, v->socket);
    need_mount(p, c, at, &mounts, TOKEN_DIR, v->token);
    need_variable(p, c, at, &env, "DLCACHE_SOCKET", SOCKET_PATH);
    need_variable(p, c, at, &env, "DLCACHE_ALLOW_UID", NODE_UID);
    need_variable(p, c, at, &env, "DLCACHE_DATASET", url);
    need_variable(p, c, at, &env, "DLCACHE_TOKEN_FILE", TOKEN_PATH);
}

static void need_containers(struct patching *p, const json_t *spec, const char *member,
                            const struct volumes *v, const char *url)
{
    const json_t *list = json_object_get(spec, member);
    json_t *c;
    size_t i;

    json_array_foreach(list, i, c)
    {
        char *at = mem_fmt("/spec/%s/%zu", member, i);

        need_container(p, c, at, v, url);
        mem_free(&at);
    }
}

/* -------- nodes -------- */

static json_t *ready_nodes(void)
{
    return json_pack("{s:s, s:s, s:[s]}", "key", LABEL_NODE, "operator", "In", "values", "ready");
}

/* Terms are alternatives: each has to ask for it. One that is empty matches no node, and goes on
 * to. */
static void need_term(struct patching *p, const json_t *term, size_t i)
{
    const json_t *asks = json_object_get(term, "matchExpressions");
    bool made = json_is_array(asks);
    json_t *ours = ready_nodes(), *e;
    bool there = json_array_size(asks) + json_array_size(json_object_get(term, "matchFields")) == 0;
    size_t k;
    char *at = mem_fmt("/spec/affinity/nodeAffinity/" REQUIRED "/nodeSelectorTerms/%zu/"
                       "matchExpressions",
                       i);

    json_array_foreach(asks, k, e) there = there || covers(e, ours);
    if (there)
        json_decref(ours);
    else
        append(p, at, &made, ours);
    mem_free(&at);
}

/* A pod that names its node goes there, whatever the node is. */
static void need_nodes(struct patching *p, const json_t *spec)
{
    const json_t *affinity = json_object_get(spec, "affinity");
    const json_t *node = json_object_get(affinity, "nodeAffinity");
    const json_t *required = json_object_get(node, REQUIRED);
    const json_t *terms = json_object_get(required, "nodeSelectorTerms");
    const char *name = json_string_value(json_object_get(spec, "nodeName"));
    json_t *value, *term;
    size_t i;

    if (name != NULL && name[0] != '\0')
        return;
    if (json_is_object(required)) {
        json_array_foreach(terms, i, term) need_term(p, term, i);
        return;
    }
    value = json_pack("{s:[{s:[o]}]}", "nodeSelectorTerms", "matchExpressions", ready_nodes());
    if (json_is_object(node)) {
        add(p, "/spec/affinity/nodeAffinity/" REQUIRED, value);
    } else if (json_is_object(affinity)) {
        add(p, "/spec/affinity/nodeAffinity", json_pack("{s:o}", REQUIRED, value));
    } else {
        add(p, "/spec/affinity", json_pack("{s:{s:o}}", "nodeAffinity", REQUIRED, value));
    }
}

/* -------- what is asked -------- */

static bool dataset_ok(const char *s)
{
    size_t len = strlen(s);

    return len >= 1 && len <= DATASET_MAX && s[0] != '-' && s[0] != '.' && s[len - 1] != '-' &&
           s[len - 1] != '.' && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-") == len;
}

/* Of the annotation, else of the label; NULL: it asks for nothing. */
static const json_t *asked_for(const json_t *pod)
{
    const json_t *meta = json_object_get(pod, "metadata");
    const json_t *v = json_object_get(json_object_get(meta, "annotations"), ANNOTATION_DATASET);

    return v != NULL ? v : json_object_get(json_object_get(meta, "labels"), ANNOTATION_DATASET);
}

static bool is_creation(const json_t *request)
{
    const json_t *kind = json_object_get(request, "kind");
    const char *group = json_string_value(json_object_get(kind, "group"));
    const char *name = json_string_value(json_object_get(kind, "kind"));
    const char *what = json_string_value(json_object_get(request, "operation"));
    const char *sub = json_string_value(json_object_get(request, "subResource"));

    return name != NULL && strcmp(name, "Pod") == 0 && (group == NULL || group[0] == '\0') &&
           what != NULL && strcmp(what, "CREATE") == 0 && (sub == NULL || sub[0] == '\0');
}

/* Pods that cannot have what we would give them; NULL: none of those. */
static const char *cannot(const json_t *pod)
{
    const json_t *notes = json_at(pod, "metadata.annotations");
    const json_t *os = json_at(pod, "spec.os");
    const char *name = json_string_value(json_object_get(os, "name"));

    if (json_object_get(notes, MIRROR) != NULL)
        return "a static pod can have no Secret; write the volumes into its file";
    if (name != NULL && strcmp(name, "linux") != 0)
        return "dlcache runs on Linux alone";
    return NULL;
}

static enum webhook_outcome patch_pod(struct patching *p, const json_t *request)
{
    const json_t *pod = json_object_get(request, "object");
    const char *ns = json_string_value(json_object_get(request, "namespace"));
    const json_t *asked = asked_for(pod);
    const char *dataset = json_string_value(asked), *why;
    char full[SPEC_NAME_LEN];
    struct volumes v;
    char *url;

    if (!is_creation(request) || asked == NULL)
        return WEBHOOK_ALONE;
    why = !json_is_object(pod) || ns == NULL || !dataset_ok(ns) || !webhook_pod_ok(pod)
              ? "this is not a pod that the webhook understands"
          : dataset == NULL || !dataset_ok(dataset) ? ANNOTATION_DATASET
              " must name a CachedDataset of this namespace"
                                                    : cannot(pod);
    if (why != NULL) {
        warn(p, "dlcache: the pod gets no socket: %s", why);
        return WEBHOOK_ODD;
    }
    url = mem_fmt("dlcache://%s", spec_dataset(ns, dataset, full));
    pod = json_object_get(pod, "spec");
    need_volumes(p, pod, &v);
    need_containers(p, pod, "initContainers", &v, url);
    need_containers(p, pod, "containers", &v, url);
    need_nodes(p, pod);
    mem_free(&url);
    return json_array_size(p->ops) > 0 ? WEBHOOK_PATCHED : WEBHOOK_ALONE;
}

/* -------- the answer -------- */

static void put_patch(json_t *response, const json_t *ops)
{
    char *text = json_dumps(ops, JSON_COMPACT);
    struct buf b = BUF_INIT;

    dlc_check(text != NULL);
    str_base64(text, strlen(text), &b);
    json_object_set_new(response, "patchType", json_string("JSONPatch"));
    json_object_set_new(response, "patch", json_string(buf_str(&b)));
    buf_release(&b);
    free(text);
}

json_t *webhook_review(const json_t *review, enum webhook_outcome *outcome)
{
    const json_t *request = json_object_get(review, "request");
    const json_t *uid = json_object_get(request, "uid");
    struct patching p = {json_array(), json_array()};
    enum webhook_outcome what = patch_pod(&p, request);
    json_t *response =
        json_pack("{s:o, s:b}", "uid",
                  json_is_string(uid) ? json_copy((json_t *)uid) : json_string(""), "allowed", 1);

    if (what == WEBHOOK_PATCHED)
        put_patch(response, p.ops);
    if (json_array_size(p.warnings) > 0)
        json_object_set(response, "warnings", p.warnings);
    json_decref(p.ops);
    json_decref(p.warnings);
    if (outcome != NULL)
        *outcome = what;
    return json_pack("{s:s, s:s, s:o}", "apiVersion", "admission.k8s.io/v1", "kind",
                     "AdmissionReview", "response", response);
}
