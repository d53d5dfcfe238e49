// SPDX-License-Identifier: Apache-2.0
/* The pod of one rank. */
#include "operator/reconcile/container_fields.h"
#include "operator/reconcile/manifest_i.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "operator/csi/csi_driver.h"

#define GPU         "nvidia.com/gpu"
#define PREFERRED   10 /* nodes: weights 100, 90, ..., 10 */
#define READ_BY_ALL 0444

#define TEMPLATE_VERSION 1

/* ---- environment ---- */

/* What the user has said stays. */
static void set_env(json_t *env, const char *name, const char *value)
{
    if (json_find(env, "name", name) == NULL)
        json_array_append_new(env, json_pack("{s:s, s:s}", "name", name, "value", value));
}

static void set_env_int(json_t *env, const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", value);
    set_env(env, name, text);
}

/* For torchrun, which reads its options from PET_*, and for programs that begin without it. */
static void add_ranks(json_t *env, const struct build_input *in, int rank)
{
    const struct spec_job *j = input_job(in);
    const char *dltpod = json_text_at(in->object, "metadata.name");
    char pod[SPEC_NAME_LEN], service[SPEC_NAME_LEN], *master;

    master = mem_fmt("%s.%s.%s.svc", spec_pod(dltpod, j->name, 0, pod),
                     spec_service(dltpod, j->name, service),
                     json_text_at(in->object, "metadata.namespace"));
    set_env_int(env, "RANK", rank);
    set_env_int(env, "WORLD_SIZE", in->spec->replicas);
    set_env(env, "MASTER_ADDR", master);
    set_env_int(env, "MASTER_PORT", in->spec->master_port);
    set_env_int(env, "PET_NNODES", in->spec->replicas);
    set_env_int(env, "PET_NODE_RANK", rank);
    set_env(env, "PET_MASTER_ADDR", master);
    set_env_int(env, "PET_MASTER_PORT", in->spec->master_port);
    set_env_int(env, "PET_NPROC_PER_NODE", j->gpus > 1 ? j->gpus : 1);
    mem_free(&master);
}

static bool is_ours(const char *name)
{
    static const char *const ours[] = {"DLCACHE_SOCKET", "DLCACHE_JOB", "DLCACHE_TOKEN_FILE",
                                       "DLCACHE_TOKEN", "DLCACHE_DATASET"};

    for (size_t i = 0; i < DLC_COUNT(ours); i++)
        if (strcmp(name, ours[i]) == 0)
            return true;
    return false;
}

static json_t *environment(const struct build_input *in, int rank)
{
    json_t *env = json_array(), *one;
    char url[SPEC_NAME_LEN + sizeof("dlcache://")];
    size_t i;

    snprintf(url, sizeof(url), "dlcache://%s", in->dataset);
    json_array_foreach(json_object_get(input_job(in)->json, "env"), i, one)
    {
        if (!is_ours(json_text_at(one, "name")))
            json_array_append_new(env, json_deep_copy(one));
    }
    set_env(env, "DLCACHE_SOCKET", SOCKET_PATH);
    if (json_find(env, "name", "DLCACHE_ALLOW_UID") == NULL)
        set_env(env, "DLCACHE_ALLOW_UID", NODE_UID);
    set_env(env, "DLCACHE_TOKEN_FILE", TOKEN_DIR "/token");
    set_env(env, "DLCACHE_JOB", in->job_id);
    set_env(env, "DLCACHE_DATASET", url);
    if (in->spec->replicas > 1)
        add_ranks(env, in, rank);
    return env;
}

/* ---- the container ---- */

/* A member of the user's, as it is. */
static void pass(json_t *to, const json_t *from, const char *field)
{
    const json_t *v = json_object_get(from, field);

    if (v != NULL && !json_is_null(v))
        json_object_set_new(to, field, json_deep_copy(v));
}

static json_t *array_of(const json_t *from, const char *field)
{
    const json_t *v = json_object_get(from, field);

    return json_is_array(v) ? json_deep_copy(v) : json_array();
}

static json_t *object_of(const json_t *from, const char *field)
{
    const json_t *v = json_object_get(from, field);

    return json_is_object(v) ? json_deep_copy(v) : json_object();
}

static json_t *resources(const struct spec_job *j)
{
    json_t *r = object_of(j->json, "resources"), *limits;

    if (j->gpus > 0) {
        limits = object_of(r, "limits");
        if (json_object_get(limits, GPU) == NULL)
            json_object_set_new(limits, GPU, json_integer(j->gpus));
        json_object_set_new(r, "limits", limits);
    }
    return r;
}

static json_t *mounts(const struct spec_job *j)
{
    json_t *m = array_of(j->json, "volumeMounts");

    json_array_append_new(m, json_pack("{s:s, s:s, s:b}", "name", "dlcache-socket", "mountPath",
                                       SOCKET_DIR, "readOnly", 1));
    json_array_append_new(m, json_pack("{s:s, s:s, s:b}", "name", "dlcache-token", "mountPath",
                                       TOKEN_DIR, "readOnly", 1));
    json_array_append_new(m, json_pack("{s:s, s:s, s:b}", "name", "dlcache-config", "mountPath",
                                       CONFIG_DIR, "readOnly", 1));
    return m;
}

static json_t *container(const struct build_input *in, int rank)
{
    static const char *const passed[] = {"imagePullPolicy", "command", "args",
                                         "workingDir",      "envFrom", "ports"};
    const struct spec_job *j = input_job(in);
    json_t *c = json_pack("{s:s, s:s}", "name", j->name, "image", j->image), *r = resources(j);

    for (size_t i = 0; i < DLC_COUNT(passed); i++)
        pass(c, j->json, passed[i]);
    json_object_set_new(c, "env", environment(in, rank));
    if (json_object_size(r) > 0)
        json_object_set(c, "resources", r);
    json_decref(r);
    json_object_set_new(c, "volumeMounts", mounts(j));
    container_pass(c, j->json);
    json_object_set_new(c, "securityContext", container_security(j->json));
    return c;
}

static json_t *volumes(const struct build_input *in)
{
    json_t *v = array_of(in->spec->json, "volumes");
    char name[SPEC_NAME_LEN];

    spec_service(json_text_at(in->object, "metadata.name"), input_job(in)->name, name);
    json_array_append_new(v, json_pack("{s:s, s:{s:s, s:b}}", "name", "dlcache-socket", "csi",
                                       "driver", CSI_DRIVER_NAME, "readOnly", 1));
    json_array_append_new(v, json_pack("{s:s, s:{s:i, s:[{s:{s:s, s:[{s:s, s:s}]}}]}}", "name",
                                       "dlcache-token", "projected", "defaultMode", READ_BY_ALL,
                                       "sources", "secret", "name", TENANT_SECRET, "items", "key",
                                       "token", "path", "token"));
    json_array_append_new(
        v, json_pack("{s:s, s:{s:s}}", "name", "dlcache-config", "configMap", "name", name));
    return v;
}

/* ---- where ---- */

/* A node that is called so and has dlcache. */
static json_t *term(const char *node)
{
    json_t *t = json_pack("{s:[{s:s, s:s, s:[s]}]}", "matchExpressions", "key", LABEL_NODE,
                          "operator", "In", "values", "ready");

    if (node != NULL)
        json_object_set_new(t, "matchFields",
                            json_pack("[{s:s, s:s, s:[s]}]", "key", "metadata.name", "operator",
                                      "In", "values", node));
    return t;
}

static json_t *required(const struct spec *s)
{
    json_t *terms = json_array();
    const json_t *one;
    size_t i;

    json_array_foreach(s->node_sequence, i, one)
        json_array_append_new(terms, term(json_string_value(one)));
    if (json_array_size(terms) == 0)
        json_array_append_new(terms, term(NULL));
    return json_pack("{s:o}", "nodeSelectorTerms", terms);
}

/* Ranks begin at different nodes. */
static json_t *preferred(const json_t *nodes, int rank)
{
    size_t n = json_array_size(nodes);
    json_t *out = json_array();

    for (size_t i = 0; i < n && i < PREFERRED; i++) {
        const char *node = json_string_value(json_array_get(nodes, (i + (size_t)rank) % n));

        json_array_append_new(out, json_pack("{s:i, s:{s:[{s:s, s:s, s:[s]}]}}", "weight",
                                             100 - (int)i * (100 / PREFERRED), "preference",
                                             "matchFields", "key", "metadata.name", "operator",
                                             "In", "values", node));
    }
    return out;
}

static json_t *affinity(const struct build_input *in, int rank)
{
    json_t *a =
        json_pack("{s:o}", "requiredDuringSchedulingIgnoredDuringExecution", required(in->spec));
    json_t *p = preferred(in->place.nodes, rank);

    if (json_array_size(p) > 0)
        json_object_set(a, "preferredDuringSchedulingIgnoredDuringExecution", p);
    json_decref(p);
    return json_pack("{s:o}", "nodeAffinity", a);
}

/* ---- the pod ---- */

static json_t *security(const struct spec *s)
{
    json_t *c = object_of(s->json, "securityContext");

    if (json_object_get(c, "seccompProfile") == NULL)
        json_object_set_new(c, "seccompProfile", json_pack("{s:s}", "type", "RuntimeDefault"));
    return c;
}

static json_t *pod_spec(const struct build_input *in, int rank, const char *name)
{
    static const char *const passed[] = {"nodeSelector",
                                         "tolerations",
                                         "priorityClassName",
                                         "serviceAccountName",
                                         "imagePullSecrets",
                                         "runtimeClassName",
                                         "terminationGracePeriodSeconds"};
    const struct spec_job *j = input_job(in);
    const struct spec *s = in->spec;
    json_t *inits = container_inits(j->json);
    char service[SPEC_NAME_LEN];
    json_t *p =
        json_pack("{s:s, s:b, s:b, s:o, s:[o], s:o}", "restartPolicy", j->restart_policy,
                  "automountServiceAccountToken", 0, "enableServiceLinks", 0, "securityContext",
                  security(s), "containers", container(in, rank), "volumes", volumes(in));

    for (size_t i = 0; i < DLC_COUNT(passed); i++)
        pass(p, s->json, passed[i]);
    if (json_true_at(s->json, "hostNetwork")) {
        json_object_set_new(p, "hostNetwork", json_true());
        json_object_set_new(p, "dnsPolicy", json_string("ClusterFirstWithHostNet"));
    }
    if (s->replicas > 1) {
        json_object_set_new(p, "hostname", json_string(name));
        json_object_set_new(
            p, "subdomain",
            json_string(spec_service(json_text_at(in->object, "metadata.name"), j->name, service)));
    }
    if (s->node_name != NULL) {
        json_object_set_new(p, "nodeName", json_string(s->node_name));
        pass(p, s->json, "affinity");
    } else {
        json_object_set_new(
            p, "affinity",
            container_affinity(json_object_get(s->json, "affinity"), affinity(in, rank)));
    }
    if (json_array_size(inits) > 0)
        json_object_set(p, "initContainers", inits);
    json_decref(inits);
    return p;
}

/* The user's, but for what is ours. */
static json_t *texts_of(const struct build_input *in, const char *field)
{
    json_t *all = object_of(in->spec->json, field), *v;
    const char *key;
    void *next;

    json_object_foreach_safe(all, next, key, v)
    {
        if (str_starts(key, "dlcache.io/") || strcmp(key, LABEL_MANAGED) == 0)
            json_object_del(all, key);
    }
    return all;
}

static json_t *make(const struct build_input *in, int rank, const char *template)
{
    char name[SPEC_NAME_LEN], text[16];
    json_t *labels = texts_of(in, "labels"), *annotations = texts_of(in, "annotations");

    spec_pod(json_text_at(in->object, "metadata.name"), input_job(in)->name, rank, name);
    snprintf(text, sizeof(text), "%d", rank);
    json_object_update_new(labels, build_labels(in));
    json_object_set_new(labels, LABEL_RANK, json_string(text));
    json_object_set_new(annotations, ANNOTATION_TEMPLATE, json_string(template));
    json_object_set_new(annotations, ANNOTATION_JOB_ID, json_string(in->job_id));
    return json_pack("{s:s, s:s, s:{s:s, s:s, s:o, s:o, s:o}, s:o}", "apiVersion", "v1", "kind",
                     "Pod", "metadata", "name", name, "namespace",
                     json_text_at(in->object, "metadata.namespace"), "labels", labels,
                     "annotations", annotations, "ownerReferences", build_owners(in->object),
                     "spec", pod_spec(in, rank, name));
}

/* In force, wherever it was said. */
static json_t *qos_json(const struct spec_qos *q)
{
    return json_pack("[b, b, I, i]", q->use_cache, q->lazy, (json_int_t)q->partition_limit,
                     q->priority);
}

/*
 * Of what the user has said, not of what we make of it: an operator of another version must not
 * restart what runs, nor end its jobs. TEMPLATE_VERSION is for the day when it has to. Fields that
 * come new into the schema get no default there, for the same reason.
 */
const char *build_template_hash(const struct build_input *in, char out[static HASH_LEN])
{
    static const char *const fields[] = {"epochs",
                                         "replicas",
                                         "masterPort",
                                         "nodeSelector",
                                         "nodeName",
                                         "nodeSequence",
                                         "hostNetwork",
                                         "tolerations",
                                         "priorityClassName",
                                         "serviceAccountName",
                                         "imagePullSecrets",
                                         "runtimeClassName",
                                         "securityContext",
                                         "labels",
                                         "annotations",
                                         "volumes"};
    json_t *spec = json_object(), *all;

    for (size_t i = 0; i < DLC_COUNT(fields); i++)
        pass(spec, in->spec->json, fields[i]);
    all = json_pack("[i, o, o, o]", TEMPLATE_VERSION, spec, json_deep_copy(input_job(in)->json),
                    qos_json(in->qos));
    build_hash(all, out);
    json_decref(all);
    return out;
}

const char *build_ask_hash(const struct build_input *in, char out[static HASH_LEN])
{
    static const char *const of_spec[] = {"epochs", "nodeName", "nodeSequence"};
    static const char *const of_job[] = {"gpus", "dataSource"};
    json_t *asked = json_object(), *all;

    for (size_t i = 0; i < DLC_COUNT(of_spec); i++)
        pass(asked, in->spec->json, of_spec[i]);
    for (size_t i = 0; i < DLC_COUNT(of_job); i++)
        pass(asked, input_job(in)->json, of_job[i]);
    if (!in->qos->lazy) /* each has a part of its own */
        json_object_set_new(asked, "replicas", json_integer(in->spec->replicas));
    all = json_pack("[i, o, o]", TEMPLATE_VERSION, asked, qos_json(in->qos));
    build_hash(all, out);
    json_decref(all);
    return out;
}

json_t *build_pod(const struct build_input *in, int rank)
{
    char template[HASH_LEN];

    dlc_check(rank >= 0 && rank < in->spec->replicas);
    return make(in, rank, build_template_hash(in, template));
}
