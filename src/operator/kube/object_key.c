// SPDX-License-Identifier: Apache-2.0
/* Keys of objects, as the queue has them: "DLTPod/ns/name", "Node//name". */
#include "operator/kube/object_cache.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

char *object_key(enum kube_kind kind, const char *ns, const char *name)
{
    bool in = kube_kinds[kind].namespaced && ns != NULL;

    return mem_fmt("%s/%s/%s", kube_kinds[kind].kind, in ? ns : "", name);
}

char *object_key_of(enum kube_kind kind, const json_t *object)
{
    return object_key(kind, kube_namespace(object), kube_name(object));
}

/* Is this reference to an object of this kind, in any version of its group? */
static bool is_of(const json_t *reference, const struct kube_kind_info *i)
{
    const char *api = json_string_value(json_object_get(reference, "apiVersion"));
    const char *kind = json_string_value(json_object_get(reference, "kind"));
    const char *slash = strchr(i->api, '/');
    size_t group = slash != NULL ? (size_t)(slash - i->api) + 1 : 0;

    return api != NULL && kind != NULL && strcmp(kind, i->kind) == 0 &&
           (group > 0 ? strncmp(api, i->api, group) == 0 : strchr(api, '/') == NULL);
}

char *object_key_of_owner(enum kube_kind owner, const json_t *object)
{
    const json_t *owners = json_at(object, "metadata.ownerReferences"), *one;
    const char *name = NULL;
    size_t i;

    json_array_foreach((json_t *)owners, i, one)
    {
        const char *n = json_string_value(json_object_get(one, "name"));

        if (n == NULL || !is_of(one, &kube_kinds[owner]))
            continue;
        if (name == NULL || json_true_at(one, "controller"))
            name = n;
    }
    return name != NULL ? object_key(owner, kube_namespace(object), name) : NULL;
}

bool object_key_parse(const char *key, struct object_key *out)
{
    const char *ns = strchr(key, '/'), *name = ns != NULL ? strchr(ns + 1, '/') : NULL;

    memset(out, 0, sizeof(*out));
    if (name == NULL || name[1] == '\0' || strchr(name + 1, '/') != NULL ||
        (size_t)(name - ns) > sizeof(out->ns) || strlen(name + 1) >= sizeof(out->name))
        return false;
    for (int i = 0; i < KUBE_KINDS; i++) {
        const char *kind = kube_kinds[i].kind;

        if (strlen(kind) == (size_t)(ns - key) && strncmp(kind, key, (size_t)(ns - key)) == 0) {
            out->kind = (enum kube_kind)i;
            snprintf(out->ns, sizeof(out->ns), "%.*s", (int)(name - ns - 1), ns + 1);
            snprintf(out->name, sizeof(out->name), "%s", name + 1);
            return kube_kinds[i].namespaced == (out->ns[0] != '\0');
        }
    }
    return false;
}
