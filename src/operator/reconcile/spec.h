// SPDX-License-Identifier: Apache-2.0
/*
 * A DLTPod or a CachedDataset as C: what the CRD (deploy/crd) lets through, with its defaults.
 * Pure.
 *
 * (SPEC-1) What the schema refuses is refused here too, with the same field's name: an object may
 *          be older than the schema. (SPEC-2) Texts and JSON in a spec are borrowed from the
 *          object, which outlives it; a default is a literal.
 *
 * Fields that only pass through to the pod (env, volumes, ...) stay JSON.
 */
#ifndef DLC_OPERATOR_RECONCILE_SPEC_H
#define DLC_OPERATOR_RECONCILE_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

#define SPEC_JOBS_MAX     16
#define SPEC_REPLICAS     1000
#define SPEC_NAME_MAX     63 /* of a DLTPod, a job, a dataset: they become labels and host names */
#define SPEC_URL_MAX      4096 /* of a CachedDataset's bucket: as long as the control plane takes it */
#define SPEC_PREFIXES_MAX 64 /* of one kind and split */
#define SPEC_FOREVER      INT64_MAX
#define SPEC_MASTER_PORT  29500

enum spec_warm_up { WARM_UP_NONE, WARM_UP_START, WARM_UP_COMPLETE };

struct spec_keys {
    const json_t *samples, *targets, *manifests; /* a text or a list of texts; NULL: not said */
};
enum { SPEC_TRAIN, SPEC_VALIDATION, SPEC_TEST, SPEC_SPLITS };
extern const char *const spec_splits[SPEC_SPLITS]; /* "train", ... */

struct spec_data {
    const char *ref;                      /* a CachedDataset's name; NULL: what follows */
    const char *name, *bucket, *endpoint; /* name NULL: spec_data_name() */
    const json_t *keys_json;              /* for the program; NULL: none */
    bool has_keys[SPEC_SPLITS];           /* train, validation, test */
    struct spec_keys keys[SPEC_SPLITS];
};

struct spec_qos {
    bool use_cache, lazy;
    uint64_t partition_limit; /* bytes; 0: the control plane's default */
    int priority;
};
#define SPEC_QOS_INIT                                                                              \
    {                                                                                              \
        true, true, 0, 0                                                                           \
    }

struct spec_job {
    const char *name, *image, *restart_policy;
    const json_t *json; /* the whole of it, for what passes through */
    int gpus;
    struct spec_data data;
    struct spec_qos qos;
    const char *qos_from; /* ConfigMap; NULL: qos above counts */
};

struct spec {
    const char *secret; /* NULL: none */
    int64_t epochs;     /* 0: not said */
    int replicas, master_port;
    enum spec_warm_up warm_up;
    int64_t retention_s; /* SPEC_FOREVER */
    const char *node_name;
    const json_t *node_sequence; /* NULL or not empty */
    const json_t *json;          /* the whole of it */
    struct spec_job jobs[SPEC_JOBS_MAX];
    size_t n_jobs;
};

/* `object` is a DLTPod. Returns 0 or DLC_EINVAL with "spec.jobs[0].image: what is wrong". */
int spec_parse(struct spec *s, const json_t *object, struct dlc_err *err);

/* Quality of service from a ConfigMap's data: useCache, lazyLoading, partitionLimit, priority. */
int spec_qos_from(struct spec_qos *q, const json_t *configmap, struct dlc_err *err);

struct dataset_spec {
    const char *bucket, *endpoint, *secret, *tier; /* tier: "memory" or "disk" */
    const json_t *splits, *node_names;             /* NULL or not empty */
    struct spec_data data;                         /* bucket, endpoint and keys */
    int node_count;                                /* 0: not said */
    bool warm;
    int64_t retention_s; /* after the last use; SPEC_FOREVER */
};
int dataset_spec_parse(struct dataset_spec *s, const json_t *object, struct dlc_err *err);

/* ---- what people write ---- */

/* A Kubernetes quantity as whole bytes: "1Gi", "500M", "1e9", "1.5Gi", 1024. */
bool spec_quantity(const json_t *v, uint64_t *bytes);
/* A Go duration as whole seconds, "forever" as SPEC_FOREVER: "1h30m", "90s", "0s", "1.5h". Parts of
 * a second are dropped. */
bool spec_duration(const char *s, int64_t *seconds);
/* "2026-11-15T17:24:16Z", fractions and offsets included; and back, always Z. */
#define SPEC_TIME_LEN 32
bool spec_time_parse(const char *s, int64_t *unix_s);
const char *spec_time(int64_t unix_s, char out[static SPEC_TIME_LEN]);

/* ---- names in the control plane and in Kubernetes ---- */

#define SPEC_NAME_LEN (SPEC_NAME_MAX + 1)
/*
 * `a`, `sep`, `b` joined, if that is at most 63 bytes; otherwise its first 46, '-', and 16 digits
 * of its SHA-256: a label and a host name if a and b are. Two pairs have the same name only by
 * chance of 2^-64 where one is longer.
 */
const char *spec_join(const char *a, char sep, const char *b, char out[static SPEC_NAME_LEN]);
/* "NAMESPACE.NAME": a dataset in the control plane. Where that is too long, a namespace of more
 * than 40 characters is its first 23, '_', and 16 digits of its own SHA-256: whatever people call
 * their data, names of two namespaces do not meet. */
const char *spec_dataset(const char *ns, const char *name, char out[static SPEC_NAME_LEN]);
/* What a job's own data is called in its namespace: its name, or "DLTPOD-JOB". */
const char *spec_data_name(const char *dltpod, const struct spec_job *j,
                           char out[static SPEC_NAME_LEN]);
/* Of one job: its headless Service "DLTPOD-JOB", and its pods "DLTPOD-JOB-RANK". */
const char *spec_service(const char *dltpod, const char *job, char out[static SPEC_NAME_LEN]);
const char *spec_pod(const char *dltpod, const char *job, int rank, char out[static SPEC_NAME_LEN]);
/* Where the data is, and which objects of it: "s3://bucket/?samples-train=PREFIX". Gives. */
char *spec_url(const struct spec_data *d);
/* Bit i: the keys select split i. 0: there are no keys; read everything. */
unsigned spec_url_splits(const struct spec_data *d);

#endif
