// SPDX-License-Identifier: Apache-2.0
/*
 * Manifests: the objects that a DLTPod needs, as JSON. Pure; the same input gives the same bytes:
 * members in a fixed order, nothing from the clock or a random generator.
 *
 * (MANIFEST-1) Every object names the DLTPod as its controller (except the tenant's Secret, which
 *              belongs to its namespace) and has LABEL_MANAGED.
 * (MANIFEST-2) The user's container settings go into the pod unchanged; the operator's additions
 *              come after them and never replace them, except for the variables DLCACHE_*.
 * (MANIFEST-3) Nothing is privileged: no escalation, no system calls beyond the runtime's default,
 *              no Kubernetes token; of the host only the directory with the node's socket,
 *              read-only.
 */
#ifndef DLC_OPERATOR_RECONCILE_MANIFEST_H
#define DLC_OPERATOR_RECONCILE_MANIFEST_H

#include <jansson.h>

#include "operator/reconcile/spec.h"

#define LABEL_MANAGED       "app.kubernetes.io/managed-by" /* MANAGED_BY */
#define MANAGED_BY          "dlcache"
#define LABEL_DLTPOD        "dlcache.io/dltpod"
#define LABEL_JOB           "dlcache.io/job"
#define LABEL_RANK          "dlcache.io/rank"
#define LABEL_NODE          "dlcache.io/node" /* on Nodes: "ready" while dlcache answers there */
#define ANNOTATION_TEMPLATE "dlcache.io/template" /* of a pod: build_template_hash() */
#define ANNOTATION_JOB_ID   "dlcache.io/job-id"   /* of a pod: the control plane's */
#define ANNOTATION_PORT     "dlcache.io/port"     /* of a Service: its port */
/* Of the tenant's Secret: which credentials the control plane was given, "NAME/VERSION". */
#define ANNOTATION_CREDENTIALS "dlcache.io/credentials"
/* Of a CachedDataset that outlives a DLTPod: it goes when its retention is over. */
#define ANNOTATION_RETAINED "dlcache.io/retained"
#define FINALIZER           "dlcache.io/operator"
#define TENANT_SECRET       "dlcache-tenant" /* key "token" */
#define SOCKET_DIR          "/run/dlcache"
#define SOCKET_PATH         SOCKET_DIR "/node/socket" /* operator/csi/volume.h */
#define NODE_UID            "43117" /* of nodes: runAsUser in deploy/base/node.yaml */
#define TOKEN_DIR           "/var/run/secrets/dlcache.io"
#define CONFIG_DIR          "/etc/dlcache.io"

#define HASH_LEN 17 /* 16 digits and NUL */

/* Where one job's pods go: names of nodes, best first. Borrowed. */
struct build_place {
    const json_t *nodes; /* array of texts; NULL or empty: anywhere with LABEL_NODE */
};

struct build_input {
    const json_t *object; /* the DLTPod */
    const struct spec *spec;
    size_t job;                 /* of spec->jobs */
    const char *job_id;         /* the control plane's */
    const char *dataset;        /* the control plane's name */
    const struct spec_qos *qos; /* in force: of the job, or of its ConfigMap */
    struct build_place place;
};

/* Each gives. Names: spec.h. */
json_t *build_pod(const struct build_input *in, int rank);
json_t *build_configmap(const struct build_input *in); /* named as the service */
json_t *build_service(const struct build_input *in);   /* for replicas > 1 */
/* Without its token: act puts it into stringData. */
json_t *build_tenant_secret(const char *ns);
/* A CachedDataset that keeps what a DLTPod read, for its retention. The CRD takes it: what the
 * control plane took as a URL, it takes as a bucket. */
json_t *build_retained(const struct build_input *in);

/* Of what makes a pod another one: what the user says of it, but not where it runs best, nor the
 * job's number. */
const char *build_template_hash(const struct build_input *in, char out[static HASH_LEN]);
/* Of what makes a job of the control plane another one, likewise: its data, epochs, GPUs, nodes and
 * quality of service. */
const char *build_ask_hash(const struct build_input *in, char out[static HASH_LEN]);
/* Of any JSON, members sorted. */
const char *build_hash(const json_t *v, char out[static HASH_LEN]);

/* Bodies for the control plane. Each gives. */
json_t *build_dataset_body(const char *ns, const char *name, const struct spec_data *d);
json_t *build_dataset_body_of(const char *ns, const char *name, const struct dataset_spec *s);
json_t *build_job_body(const struct build_input *in);

#endif
