// SPDX-License-Identifier: Apache-2.0
/*
 * Manifests of objects other than pods: ConfigMap, Service, Secret, and request bodies for the
 * manager.
 */
#include "operator/reconcile/manifest_i.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#define DURATION_MOST 999999999

const struct spec_job *input_job(const struct build_input *in)
{
    dlc_check(in->job < in->spec->n_jobs);
    return &in->spec->jobs[in->job];
}

const char *build_hash(const json_t *v, char out[static HASH_LEN])
{
    char *text = json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    unsigned char hash[SHA256_LEN];

    dlc_check(text != NULL);
    sha256(text, strlen(text), hash);
    str_hex(hash, (HASH_LEN - 1) / 2, out);
    free(text);
    return out;
}

/* ---- metadata ---- */

json_t *build_labels(const struct build_input *in)
{
    return json_pack("{s:s, s:s, s:s}", LABEL_MANAGED, MANAGED_BY, LABEL_DLTPOD,
                     json_text_at(in->object, "metadata.name"), LABEL_JOB, input_job(in)->name);
}

json_t *build_owners(const json_t *object)
{
    return json_pack("[{s:s, s:s, s:s, s:s, s:b, s:b}]", "apiVersion", "dlcache.io/v1alpha1",
                     "kind", "DLTPod", "name", json_text_at(object, "metadata.name"), "uid",
                     json_text_at(object, "metadata.uid"), "controller", 1, "blockOwnerDeletion",
                     1);
}

static json_t *metadata(const struct build_input *in)
{
    char name[SPEC_NAME_LEN];

    spec_service(json_text_at(in->object, "metadata.name"), input_job(in)->name, name);
    return json_pack("{s:s, s:s, s:o, s:o}", "name", name, "namespace",
                     json_text_at(in->object, "metadata.namespace"), "labels", build_labels(in),
                     "ownerReferences", build_owners(in->object));
}

/* ---- objects ---- */

/* For the program: what it reads, in one file. */
static json_t *program_config(const struct build_input *in)
{
    const struct spec_job *j = input_job(in);
    json_t *o = json_pack("{s:s, s:s, s:I}", "dataset", in->dataset, "job", j->name, "epochs",
                          (json_int_t)in->spec->epochs);

    if (j->data.keys_json != NULL)
        json_object_set_new(o, "keys", json_deep_copy(j->data.keys_json));
    return o;
}

json_t *build_configmap(const struct build_input *in)
{
    json_t *config = program_config(in), *out;
    char *text = json_dumps(config, JSON_INDENT(2));

    dlc_check(text != NULL);
    out = json_pack("{s:s, s:s, s:o, s:{s:s}}", "apiVersion", "v1", "kind", "ConfigMap", "metadata",
                    metadata(in), "data", "job.json", text);
    free(text);
    json_decref(config);
    return out;
}

json_t *build_service(const struct build_input *in)
{
    json_t *meta = metadata(in);
    char port[16];

    snprintf(port, sizeof(port), "%d", in->spec->master_port);
    json_object_set_new(meta, "annotations", json_pack("{s:s}", ANNOTATION_PORT, port));
    return json_pack("{s:s, s:s, s:o, s:{s:s, s:b, s:{s:s, s:s}, s:[{s:s, s:i, s:i, s:s}]}}",
                     "apiVersion", "v1", "kind", "Service", "metadata", meta, "spec", "clusterIP",
                     "None", "publishNotReadyAddresses", 1, "selector", LABEL_DLTPOD,
                     json_text_at(in->object, "metadata.name"), LABEL_JOB, input_job(in)->name,
                     "ports", "name", "master", "port", in->spec->master_port, "targetPort",
                     in->spec->master_port, "protocol", "TCP");
}

json_t *build_tenant_secret(const char *ns)
{
    return json_pack("{s:s, s:s, s:{s:s, s:s, s:{s:s}}, s:s}", "apiVersion", "v1", "kind", "Secret",
                     "metadata", "name", TENANT_SECRET, "namespace", ns, "labels", LABEL_MANAGED,
                     MANAGED_BY, "type", "Opaque");
}

/* As the CRD takes it: nine digits and a unit. What is longer is as good as for ever. */
static const char *retention_text(int64_t seconds, char out[static 32])
{
    int64_t hours = seconds / 3600 + (seconds % 3600 > 0);

    if (seconds <= DURATION_MOST)
        snprintf(out, 32, "%llds", (long long)seconds);
    else if (hours <= DURATION_MOST)
        snprintf(out, 32, "%lldh", (long long)hours);
    else
        snprintf(out, 32, "forever");
    return out;
}

json_t *build_retained(const struct build_input *in)
{
    const struct spec_job *j = input_job(in);
    char name[SPEC_NAME_LEN], retention[32], *url = spec_url(&j->data);
    json_t *spec;

    spec_data_name(json_text_at(in->object, "metadata.name"), j, name);
    spec = json_pack("{s:s, s:s}", "bucket", url, "retention",
                     retention_text(in->spec->retention_s, retention));
    if (j->data.endpoint != NULL)
        json_object_set_new(spec, "endpoint", json_string(j->data.endpoint));
    if (in->spec->secret != NULL)
        json_object_set_new(spec, "secretRef", json_pack("{s:s}", "name", in->spec->secret));
    mem_free(&url);
    return json_pack("{s:s, s:s, s:{s:s, s:s, s:{s:s}, s:{s:s}, s:[s]}, s:o}", "apiVersion",
                     "dlcache.io/v1alpha1", "kind", "CachedDataset", "metadata", "name", name,
                     "namespace", json_text_at(in->object, "metadata.namespace"), "labels",
                     LABEL_MANAGED, MANAGED_BY, "annotations", ANNOTATION_RETAINED, "true",
                     "finalizers", FINALIZER, "spec", spec);
}

/* ---- for the control plane ---- */

json_t *build_dataset_body(const char *ns, const char *name, const struct spec_data *d)
{
    char *url = spec_url(d);
    json_t *b = json_pack("{s:s, s:s, s:s}", "name", name, "url", url, "tenant", ns);

    if (d->endpoint != NULL)
        json_object_set_new(b, "endpoint", json_string(d->endpoint));
    mem_free(&url);
    return b;
}

json_t *build_dataset_body_of(const char *ns, const char *name, const struct dataset_spec *s)
{
    json_t *b = build_dataset_body(ns, name, &s->data);

    if (s->splits != NULL)
        json_object_set_new(b, "splits", json_deep_copy(s->splits));
    if (s->node_names != NULL)
        json_object_set_new(b, "nodes", json_deep_copy(s->node_names));
    if (s->node_count > 0)
        json_object_set_new(b, "node_count", json_integer(s->node_count));
    return b;
}

static json_t *splits_of(const struct spec_job *j)
{
    unsigned found = j->data.ref == NULL ? spec_url_splits(&j->data) : 0;
    json_t *out = json_array();

    for (unsigned i = 0; i < SPEC_SPLITS; i++)
        if (found & 1u << i)
            json_array_append_new(out, json_string(spec_splits[i]));
    return out;
}

json_t *build_job_body(const struct build_input *in)
{
    const struct spec *s = in->spec;
    const struct spec_qos *q = in->qos;
    json_t *splits = splits_of(input_job(in));
    json_t *b = json_pack("{s:s, s:{s:b, s:s, s:I, s:i, s:I}, s:i, s:b}", "dataset", in->dataset,
                          "qos", "cache", q->use_cache, "mode", q->lazy ? "lazy" : "partitioned",
                          "memory_limit", (json_int_t)q->partition_limit, "priority", q->priority,
                          "epochs", (json_int_t)s->epochs, "gpus", input_job(in)->gpus, "queue", 1);

    if (json_array_size(splits) > 0)
        json_object_set(b, "splits", splits);
    json_decref(splits);
    if (s->node_name != NULL)
        json_object_set_new(b, "nodes", json_pack("[s]", s->node_name));
    else if (s->node_sequence != NULL)
        json_object_set_new(b, "nodes", json_deep_copy(s->node_sequence));
    else if (s->replicas > 1 && !q->lazy)
        json_object_set_new(b, "node_count", json_integer(s->replicas));
    return b;
}
