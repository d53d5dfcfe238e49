// SPDX-License-Identifier: Apache-2.0
#include "operator/reconcile/container_fields.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/str.h"

static const char *const passed[] = {
    "lifecycle", "livenessProbe", "readinessProbe", "startupProbe", "stdin", "stdinOnce", "tty"};

/* Of an init container, beside these and securityContext. */
static const char *const init_fields[] = {
    "name",         "image",         "imagePullPolicy", "command",   "args",
    "workingDir",   "env",           "envFrom",         "resources", "ports",
    "volumeMounts", "restartPolicy", "securityContext"};

struct where {
    char path[200];
    struct dlc_err *err;
};

static bool wrong(const struct where *w, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static bool wrong(const struct where *w, const char *field, const char *fmt, ...)
{
    char text[300];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    dlc_err_set(w->err, DLC_EINVAL, "%s.%s: %s", w->path, field, text);
    return false;
}

static bool is_one_of(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

/* ---- handlers of probes and hooks ---- */

static bool check_handler(const struct where *w, const char *field, const json_t *h)
{
    static const char *const net[] = {"httpGet", "tcpSocket"};

    if (!json_is_object(h))
        return wrong(w, field, "must be an object");
    for (size_t i = 0; i < DLC_COUNT(net); i++)
        if (json_object_get(json_object_get(h, net[i]), "host") != NULL)
            return wrong(w, field,
                         "%s.host is not allowed: the node itself would connect there; without it "
                         "the pod's own address is meant",
                         net[i]);
    return true;
}

static bool check_lifecycle(const struct where *w, const json_t *l)
{
    const char *key;
    json_t *v;

    if (l == NULL)
        return true;
    if (!json_is_object(l))
        return wrong(w, "lifecycle", "must be an object");
    json_object_foreach((json_t *)l, key, v)
    {
        if (strcmp(key, "stopSignal") != 0 && !check_handler(w, "lifecycle", v))
            return false;
    }
    return true;
}

/* ---- securityContext ---- */

static bool check_capabilities(const struct where *w, const json_t *c)
{
    json_t *add = json_object_get(c, "add"), *one;
    size_t i;

    json_array_foreach(add, i, one)
    {
        const char *name = json_string_value(one);

        if (name == NULL || strcmp(name, "NET_BIND_SERVICE") != 0)
            return wrong(w, "securityContext.capabilities.add",
                         "only NET_BIND_SERVICE may be added: others give power over the node");
    }
    return true;
}

static bool check_profile(const struct where *w, const char *field, const json_t *p)
{
    const char *type = json_string_value(json_object_get(p, "type"));

    if (p == NULL || (type != NULL && strcmp(type, "Unconfined") != 0))
        return true;
    return wrong(w, field, "must have a type, RuntimeDefault or Localhost");
}

static bool check_security(const struct where *w, const json_t *s)
{
    static const char *const known[] = {"runAsUser",
                                        "runAsGroup",
                                        "runAsNonRoot",
                                        "capabilities",
                                        "seccompProfile",
                                        "appArmorProfile",
                                        "privileged",
                                        "allowPrivilegeEscalation",
                                        "readOnlyRootFilesystem"};
    const char *key;
    json_t *v;

    if (s == NULL)
        return true;
    if (!json_is_object(s))
        return wrong(w, "securityContext", "must be an object");
    json_object_foreach((json_t *)s, key, v)
    {
        if (!is_one_of(key, known, DLC_COUNT(known)))
            return wrong(w, "securityContext",
                         "%.40s is not allowed: it loosens what keeps containers apart", key);
    }
    if (json_is_true(json_object_get(s, "privileged")) ||
        json_is_true(json_object_get(s, "allowPrivilegeEscalation")))
        return wrong(w, "securityContext",
                     "privileged and allowPrivilegeEscalation give power over the node; only false "
                     "is allowed");
    return check_capabilities(w, json_object_get(s, "capabilities")) &&
           check_profile(w, "securityContext.seccompProfile",
                         json_object_get(s, "seccompProfile")) &&
           check_profile(w, "securityContext.appArmorProfile",
                         json_object_get(s, "appArmorProfile"));
}

/* ---- containers ---- */

static bool check_common(const struct where *w, const json_t *c)
{
    static const char *const probes[] = {"livenessProbe", "readinessProbe", "startupProbe"};
    static const char *const flags[] = {"stdin", "stdinOnce", "tty"};

    for (size_t i = 0; i < DLC_COUNT(flags); i++) {
        const json_t *v = json_object_get(c, flags[i]);

        if (v != NULL && !json_is_boolean(v))
            return wrong(w, flags[i], "must be true or false");
    }
    for (size_t i = 0; i < DLC_COUNT(probes); i++) {
        const json_t *v = json_object_get(c, probes[i]);

        if (v != NULL && !check_handler(w, probes[i], v))
            return false;
    }
    return check_lifecycle(w, json_object_get(c, "lifecycle")) &&
           check_security(w, json_object_get(c, "securityContext"));
}

static bool check_ports(const struct where *w, const json_t *ports)
{
    json_t *one;
    size_t i;

    json_array_foreach(ports, i, one)
    {
        if (json_object_get(one, "hostPort") != NULL || json_object_get(one, "hostIP") != NULL)
            return wrong(w, "ports", "hostPort and hostIP take a port of the node: not allowed");
    }
    return true;
}

static bool check_init(const struct where *w, const json_t *c, const json_t *job)
{
    const char *name = json_string_value(json_object_get(c, "name"));
    const char *policy = json_string_value(json_object_get(c, "restartPolicy")), *key;
    json_t *v;

    json_object_foreach((json_t *)c, key, v)
    {
        if (!is_one_of(key, init_fields, DLC_COUNT(init_fields)) &&
            !is_one_of(key, passed, DLC_COUNT(passed)))
            return wrong(w, key, "this field of a container is not allowed");
    }
    if (name == NULL || json_string_value(json_object_get(c, "image")) == NULL)
        return wrong(w, "name", "a container has a name and an image");
    if (str_starts(name, "dlcache-") ||
        strcmp(name, json_string_value(json_object_get(job, "name"))) == 0)
        return wrong(w, "name", "'%.63s' is the job's container, or the operator's", name);
    if (json_object_get(c, "restartPolicy") != NULL &&
        (policy == NULL || strcmp(policy, "Always") != 0))
        return wrong(w, "restartPolicy", "must be Always, which makes it a sidecar, or absent");
    return check_ports(w, json_object_get(c, "ports")) && check_common(w, c);
}

int container_check_job(const json_t *job, const char *path, struct dlc_err *err)
{
    const json_t *list = json_object_get(job, "initContainers"), *one;
    struct where w = {.err = err};
    size_t i;

    snprintf(w.path, sizeof(w.path), "%s", path);
    if (!check_common(&w, job))
        return DLC_EINVAL;
    if (list != NULL && (!json_is_array(list) || json_array_size(list) > CONTAINER_INIT_MAX)) {
        wrong(&w, "initContainers", "must be a list of at most %d containers", CONTAINER_INIT_MAX);
        return DLC_EINVAL;
    }
    json_array_foreach(list, i, one)
    {
        snprintf(w.path, sizeof(w.path), "%.150s.initContainers[%zu]", path, i);
        if (!json_is_object(one) ? !wrong(&w, "", "must be an object") : !check_init(&w, one, job))
            return DLC_EINVAL;
    }
    return 0;
}

/* ---- building ---- */

void container_pass(json_t *to, const json_t *job)
{
    for (size_t i = 0; i < DLC_COUNT(passed); i++) {
        const json_t *v = json_object_get(job, passed[i]);

        if (v != NULL && !json_is_null(v))
            json_object_set_new(to, passed[i], json_deep_copy(v));
    }
}

json_t *container_security(const json_t *from)
{
    const json_t *said = json_object_get(from, "securityContext");
    json_t *s = json_is_object(said) ? json_deep_copy(said) : json_object(), *caps;

    caps = json_object_get(s, "capabilities");
    caps = json_is_object(caps) ? json_incref(caps) : json_object();
    json_object_set_new(caps, "drop", json_pack("[s]", "ALL"));
    json_object_set_new(s, "allowPrivilegeEscalation", json_false());
    json_object_set_new(s, "capabilities", caps);
    return s;
}

json_t *container_inits(const json_t *job)
{
    json_t *out = json_array(), *one;
    size_t i;

    json_array_foreach(json_object_get(job, "initContainers"), i, one)
    {
        json_t *c = json_deep_copy(one);

        json_object_set_new(c, "securityContext", container_security(one));
        json_array_append_new(out, c);
    }
    return out;
}

#define REQUIRED  "requiredDuringSchedulingIgnoredDuringExecution"
#define PREFERRED "preferredDuringSchedulingIgnoredDuringExecution"

/* Of terms one must hold: each of the user's together with each of ours. */
static json_t *both_terms(const json_t *user, const json_t *ours)
{
    static const char *const kinds[] = {"matchExpressions", "matchFields"};
    json_t *out = json_array(), *a, *b;
    size_t i, k;

    json_array_foreach(user, i, a)
    {
        json_array_foreach(ours, k, b)
        {
            json_t *term = json_deep_copy(a);

            for (size_t n = 0; n < DLC_COUNT(kinds); n++) {
                json_t *list = json_object_get(term, kinds[n]);

                if (list == NULL && json_object_get(b, kinds[n]) != NULL) {
                    list = json_array();
                    json_object_set_new(term, kinds[n], list);
                }
                if (json_is_array(list) && json_object_get(b, kinds[n]) != NULL)
                    json_array_extend(list, json_object_get(b, kinds[n]));
            }
            json_array_append_new(out, term);
        }
    }
    return out;
}

json_t *container_affinity(const json_t *user, json_t *ours)
{
    json_t *all = json_is_object(user) ? json_deep_copy(user) : json_object();
    json_t *theirs = json_object_get(all, "nodeAffinity"),
           *node = json_object_get(ours, "nodeAffinity");
    json_t *terms = json_object_get(json_object_get(theirs, REQUIRED), "nodeSelectorTerms");
    json_t *preferred = json_object_get(theirs, PREFERRED);

    if (json_array_size(terms) > 0)
        json_object_set_new(json_object_get(node, REQUIRED), "nodeSelectorTerms",
                            both_terms(terms, json_object_get(json_object_get(node, REQUIRED),
                                                              "nodeSelectorTerms")));
    if (json_array_size(preferred) > 0) {
        json_t *list = json_deep_copy(preferred);

        json_array_extend(list, json_object_get(node, PREFERRED));
        json_object_set_new(node, PREFERRED, list);
    }
    json_object_set(all, "nodeAffinity", node);
    json_decref(ours);
    return all;
}
