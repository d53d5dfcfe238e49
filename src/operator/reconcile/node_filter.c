// SPDX-License-Identifier: Apache-2.0
/*
 * Which Kubernetes nodes may run a pod of a DLTPod. The scheduler decides the same again; this is
 * for the order of preference, and for a message when there is none.
 */
#include "operator/reconcile/reconcile_i.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"

#define NODES_MAX 10 /* as many as a pod prefers */

/* ---- one node ---- */

static const json_t *ready_condition(const json_t *node)
{
    return json_find(json_at(node, "status.conditions"), "type", "Ready");
}

static bool is_ready(const json_t *node)
{
    return strcmp(json_text_at(ready_condition(node), "status"), "True") == 0;
}

static bool has_labels(const json_t *node, const json_t *selector)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)selector, key, v)
    {
        if (strcmp(label(node, key), json_string_value(v)) != 0)
            return false;
    }
    return true;
}

static bool tolerates(const json_t *t, const json_t *taint)
{
    const char *effect = json_text_at(t, "effect"), *key = json_text_at(t, "key");
    bool exists = strcmp(json_text_at(t, "operator"), "Exists") == 0;

    if (effect[0] != '\0' && strcmp(effect, json_text_at(taint, "effect")) != 0)
        return false;
    if (key[0] == '\0')
        return exists;
    return strcmp(key, json_text_at(taint, "key")) == 0 &&
           (exists || strcmp(json_text_at(t, "value"), json_text_at(taint, "value")) == 0);
}

static bool is_tolerated(const json_t *node, const json_t *tolerations)
{
    const json_t *taint, *t;
    size_t i, k;

    json_array_foreach(json_at(node, "spec.taints"), i, taint)
    {
        bool fine = strcmp(json_text_at(taint, "effect"), "PreferNoSchedule") == 0;

        json_array_foreach(tolerations, k, t) fine |= tolerates(t, taint);
        if (!fine)
            return false;
    }
    return true;
}

enum verdict { GOOD, NOT_READY, CORDONED, NO_DLCACHE, OTHER_LABELS, TAINTED, NOT_NAMED, VERDICTS };

static enum verdict judge(const struct spec *s, const json_t *node)
{
    if (s->node_sequence != NULL &&
        !json_has_text(s->node_sequence, json_text_at(node, "metadata.name")))
        return NOT_NAMED;
    if (!is_ready(node) || is_deleted(node))
        return NOT_READY;
    if (json_true_at(node, "spec.unschedulable"))
        return CORDONED;
    if (strcmp(label(node, LABEL_NODE), "ready") != 0)
        return NO_DLCACHE;
    if (!has_labels(node, json_object_get(s->json, "nodeSelector")))
        return OTHER_LABELS;
    return is_tolerated(node, json_object_get(s->json, "tolerations")) ? GOOD : TAINTED;
}

/* ---- all of them ---- */

static void explain(const int count[static VERDICTS], size_t n, char why[static 300])
{
    static const char *const words[VERDICTS] = {
        "",
        "not ready",
        "cordoned",
        "without dlcache (label dlcache.io/node)",
        "without the labels of nodeSelector",
        "with a taint that is not tolerated",
        "not in nodeSequence",
    };
    int used = snprintf(why, 300, "none of %zu nodes can be used", n);

    for (int v = 1; v < VERDICTS; v++)
        if (count[v] > 0 && used < 300)
            used += snprintf(why + used, 300 - (size_t)used, "%s %d %s",
                             strchr(why, ':') != NULL ? "," : ":", count[v], words[v]);
}

static bool is_good(const struct observed *o, const char *name)
{
    const json_t *node = json_find(o->nodes, "metadata.name", name);

    return node != NULL && judge(&o->spec, node) == GOOD;
}

json_t *nodes_for(const struct observed *o, const json_t *placement, bool *any,
                  char why[static 300])
{
    const json_t *order = o->spec.node_sequence != NULL ? o->spec.node_sequence : placement, *one;
    json_t *out = json_array();
    int count[VERDICTS] = {0};
    size_t i;

    json_array_foreach(o->nodes, i, one) count[judge(&o->spec, one)]++;
    *any = count[GOOD] > 0;
    explain(count, json_array_size(o->nodes), why);
    json_array_foreach(order, i, one)
    {
        const char *name = json_is_string(one) ? json_string_value(one) : json_text_at(one, "node");

        if (json_array_size(out) == NODES_MAX)
            break;
        if (is_good(o, name))
            json_array_append_new(out, json_string(name));
    }
    return out;
}

bool node_lost(const struct observed *o, const char *name, int64_t *in)
{
    const json_t *node = json_find(o->nodes, "metadata.name", name), *ready = ready_condition(node);
    int64_t silent = o->now - time_at(ready, "lastTransitionTime");

    *in = 0;
    if (node == NULL)
        return true;
    if (is_ready(node))
        return false;
    *in = RECON_NODE_LOST_S - silent;
    return silent >= RECON_NODE_LOST_S;
}
