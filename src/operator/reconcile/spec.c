// SPDX-License-Identifier: Apache-2.0
#include "operator/reconcile/spec.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "operator/reconcile/container_fields.h"

const char *const spec_splits[SPEC_SPLITS] = {"train", "validation", "test"};

/* Where we are in the object, for errors: "spec.jobs[1].qos". */
struct at {
    const json_t *o;
    char path[160];
    struct dlc_err *err;
};

static bool wrong(const struct at *a, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static bool wrong(const struct at *a, const char *field, const char *fmt, ...)
{
    char text[300];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    dlc_err_set(a->err, DLC_EINVAL, "%s%s%s: %s", a->path, field[0] != '\0' ? "." : "", field,
                text);
    return false;
}

/* The member that is an object; .o is NULL when it is absent. */
static bool into(struct at *to, const struct at *from, const char *field)
{
    to->o = json_object_get(from->o, field);
    to->err = from->err;
    snprintf(to->path, sizeof(to->path), "%.120s.%s", from->path, field);
    return to->o == NULL || json_is_object(to->o) || wrong(from, field, "must be an object");
}

static bool read_text(const struct at *a, const char *field, size_t most, const char **out)
{
    const json_t *v = json_object_get(a->o, field);
    const char *s = json_string_value(v);

    if (v == NULL)
        return true;
    if (s == NULL || s[0] == '\0' || strlen(s) > most)
        return wrong(a, field, "must be a text of 1 to %zu characters", most);
    *out = s;
    return true;
}

/* "host[:port]" before the path: not empty, no user name, one word. */
static bool is_authority(const char *s)
{
    size_t len = strcspn(s, "/?#");

    return len > 0 && strcspn(s, "@ \t\r\n\\") >= len;
}

static bool has_scheme(const char *s, const char *const *schemes)
{
    for (; *schemes != NULL; schemes++)
        if (str_starts(s, *schemes))
            return is_authority(s + strlen(*schemes));
    return false;
}

/* The schema says so too, but an object may be older than the schema, and the schema than us: what
 * tenants must not make nodes read is judged here, whatever let the object in. */
static bool read_bucket(const struct at *a, size_t most, const char **out)
{
    static const char *const schemes[] = {"s3://", "gs://", "az://", "http://", "https://", NULL};
    const char *s = NULL;

    if (!read_text(a, "bucket", most, &s) || s == NULL)
        return s == NULL && json_object_get(a->o, "bucket") == NULL;
    if (str_starts(s, "file:"))
        return wrong(a, "bucket",
                     "file:// is a path on the nodes themselves, which is not for namespaces; an "
                     "admin may register it at the manager");
    if (!has_scheme(s, schemes) && s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-")] != '\0')
        return wrong(
            a, "bucket",
            "must be s3://BUCKET/PREFIX/, gs://BUCKET/PREFIX/, az://CONTAINER/PREFIX/, an http(s) "
            "URL without user name, or the name of a bucket");
    *out = s;
    return true;
}

static bool read_endpoint(const struct at *a, const char **out)
{
    static const char *const schemes[] = {"http://", "https://", NULL};

    if (!read_text(a, "endpoint", 1024, out))
        return false;
    return *out == NULL || has_scheme(*out, schemes) ||
           wrong(a, "endpoint", "must be http://HOST[:PORT] or https://HOST[:PORT]");
}

/* Pods are made by the operator, so rules for users who make pods do not see them: only volumes that
 * give no access to the machine, as the Pod Security level "restricted" has them. */
static bool is_allowed_volume(const char *kind)
{
    static const char *const allowed[] = {"configMap", "csi",       "downwardAPI",
                                          "emptyDir",  "ephemeral", "image",
                                          "projected", "secret",    "persistentVolumeClaim"};

    for (size_t i = 0; i < DLC_COUNT(allowed); i++)
        if (strcmp(kind, allowed[i]) == 0)
            return true;
    return false;
}

static bool check_volumes(const struct at *a)
{
    json_t *list = json_object_get(a->o, "volumes"), *one, *v;
    const char *key;
    size_t i;

    if (list != NULL && !json_is_array(list))
        return wrong(a, "volumes", "must be a list");
    json_array_foreach(list, i, one)
    {
        if (!json_is_object(one))
            return wrong(a, "volumes", "must be a list of objects");
        json_object_foreach(
            one, key,
            v) if (strcmp(key, "name") != 0 &&
                   !is_allowed_volume(key)) return wrong(a, "volumes",
                                                         "a volume of kind %.40s is not allowed; "
                                                         "use configMap, csi, "
                                                         "downwardAPI, emptyDir, ephemeral, image, "
                                                         "persistentVolumeClaim, "
                                                         "projected or secret",
                                                         key);
    }
    return true;
}

static bool read_int(const struct at *a, const char *field, int64_t least, int64_t most,
                     int64_t *out)
{
    const json_t *v = json_object_get(a->o, field);

    if (v == NULL)
        return true;
    if (!json_is_integer(v) || json_integer_value(v) < least || json_integer_value(v) > most)
        return wrong(a, field, "must be a number from %lld to %lld", (long long)least,
                     (long long)most);
    *out = json_integer_value(v);
    return true;
}

static bool read_bool(const struct at *a, const char *field, bool *out)
{
    const json_t *v = json_object_get(a->o, field);

    if (v != NULL && !json_is_boolean(v))
        return wrong(a, field, "must be true or false");
    if (v != NULL)
        *out = json_is_true(v);
    return true;
}

/* An array of texts; an empty one is none. */
static bool read_texts(const struct at *a, const char *field, const json_t **out)
{
    const json_t *v = json_object_get(a->o, field), *one;
    size_t i;

    if (v != NULL && !json_is_array(v))
        return wrong(a, field, "must be a list");
    json_array_foreach(v, i, one)
    {
        if (!json_is_string(one))
            return wrong(a, field, "must be a list of texts");
    }
    *out = json_array_size(v) > 0 ? v : NULL;
    return true;
}

/* {name: NAME} */
static bool read_ref(const struct at *a, const char *field, const char **out)
{
    struct at in;

    if (!into(&in, a, field))
        return false;
    if (in.o == NULL)
        return true;
    if (json_object_get(in.o, "name") == NULL)
        return wrong(&in, "name", "is missing");
    return read_text(&in, "name", 253, out);
}

static bool read_choice(const struct at *a, const char *field, const char *const *choices, size_t n,
                        size_t *out)
{
    const char *s = NULL;

    if (!read_text(a, field, 32, &s))
        return false;
    for (size_t i = 0; s != NULL && i < n; i++)
        if (strcmp(s, choices[i]) == 0) {
            *out = i;
            return true;
        }
    return s == NULL || wrong(a, field, "\"%s\" is not a valid choice", s);
}

static bool read_retention(const struct at *a, int64_t *out)
{
    const char *s = NULL;

    if (!read_text(a, "retention", 64, &s))
        return false;
    return s == NULL || spec_duration(s, out) ||
           wrong(a, "retention", "must be a duration such as 90s, 1h30m or 0s, or forever");
}

/* A label: letters, digits and '-'. */
static bool is_label(const char *s)
{
    size_t n = strlen(s);

    return n > 0 && n <= SPEC_NAME_MAX && s[0] != '-' && s[n - 1] != '-' &&
           strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

/* ---- a job ---- */

/* What cannot be an option of the dataset's URL would select something else. */
static bool check_prefix(const struct at *a, const char *field, const json_t *one)
{
    const char *s = json_string_value(one);

    if (s == NULL || s[0] == '\0' || strlen(s) > 1024)
        return wrong(a, field, "must be a prefix of 1 to 1024 characters, or a list of them");
    if (s[0] == '/')
        return wrong(a, field, "'%.60s': a key does not begin with '/'", s);
    if (strpbrk(s, "&?") != NULL)
        return wrong(a, field, "'%.60s' has '&' or '?' in it, which cannot be selected", s);
    for (; *s != '\0'; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7f)
            return wrong(a, field, "has a control character in it");
    return true;
}

static bool read_prefixes(const struct at *a, const char *field, const json_t **out)
{
    const json_t *v = json_object_get(a->o, field), *one;
    size_t i;

    if (v == NULL)
        return true;
    if (json_is_array(v) && (json_array_size(v) == 0 || json_array_size(v) > SPEC_PREFIXES_MAX))
        return wrong(a, field, "must have 1 to %d prefixes", SPEC_PREFIXES_MAX);
    if (!json_is_array(v) && !check_prefix(a, field, v))
        return false;
    json_array_foreach(v, i, one)
    {
        if (!check_prefix(a, field, one))
            return false;
    }
    *out = v;
    return true;
}

/* Of a split: targets and samples are of something, and manifests are of all splits or of none. */
static bool check_keys(const struct at *one, const struct spec_data *d, unsigned split)
{
    const struct spec_keys *k = &d->keys[split];

    if (k->samples == NULL && k->manifests == NULL)
        return wrong(one, "", "samples or manifests must be said");
    for (unsigned i = 0; i < split; i++)
        if (d->has_keys[i] && (d->keys[i].manifests == NULL) != (k->manifests == NULL))
            return wrong(one, "", "of several splits all have manifests, or none has");
    return true;
}

static bool check_url(const struct at *keys, const struct spec_data *d)
{
    char *url;
    size_t len;

    if (keys->o == NULL || d->bucket == NULL)
        return true;
    url = spec_url(d);
    if (str_starts(url, "http") && strchr(url, '#') != NULL) {
        mem_free(&url);
        return wrong(keys, "", "of an http bucket cannot have '#' in them");
    }
    len = strlen(url);
    mem_free(&url);
    return len <= SPEC_URL_MAX ||
           wrong(keys, "", "with the bucket they are a URL of %zu bytes; at most %d", len,
                 SPEC_URL_MAX);
}

static bool read_keys(const struct at *data, struct spec_data *d)
{
    struct at keys, one;

    if (!into(&keys, data, "keys"))
        return false;
    d->keys_json = keys.o;
    for (unsigned i = 0; keys.o != NULL && i < SPEC_SPLITS; i++) {
        if (!into(&one, &keys, spec_splits[i]) ||
            !read_prefixes(&one, "samples", &d->keys[i].samples) ||
            !read_prefixes(&one, "targets", &d->keys[i].targets) ||
            !read_prefixes(&one, "manifests", &d->keys[i].manifests) ||
            (one.o != NULL && !check_keys(&one, d, i)))
            return false;
        d->has_keys[i] = one.o != NULL;
    }
    return check_url(&keys, d);
}

static bool read_data(const struct at *job, struct spec_data *d)
{
    struct at a;

    if (!into(&a, job, "dataSource"))
        return false;
    if (a.o == NULL)
        return wrong(&a, "", "is missing");
    if (!read_ref(&a, "datasetRef", &d->ref) || !read_text(&a, "name", SPEC_NAME_MAX, &d->name) ||
        !read_bucket(&a, 2048, &d->bucket) || !read_endpoint(&a, &d->endpoint) || !read_keys(&a, d))
        return false;
    if ((d->ref != NULL) == (d->bucket != NULL))
        return wrong(&a, "", "say exactly one of datasetRef (a CachedDataset) and bucket");
    return true;
}

static bool read_qos(const struct at *job, struct spec_job *j)
{
    int64_t priority = 0;
    const json_t *limit;
    struct at a;

    if (!into(&a, job, "qosFrom"))
        return false;
    if (a.o != NULL && !read_ref(&a, "configMapRef", &j->qos_from))
        return false;
    if (a.o != NULL && j->qos_from == NULL)
        return wrong(&a, "configMapRef", "is missing");
    if (!into(&a, job, "qos"))
        return false;
    if (a.o != NULL && j->qos_from != NULL)
        return wrong(job, "", "qos and qosFrom exclude each other");
    limit = json_object_get(a.o, "partitionLimit");
    if (limit != NULL && !spec_quantity(limit, &j->qos.partition_limit))
        return wrong(&a, "partitionLimit", "must be a number of bytes such as 1Gi or 500M");
    if (!read_bool(&a, "useCache", &j->qos.use_cache) ||
        !read_bool(&a, "lazyLoading", &j->qos.lazy) ||
        !read_int(&a, "priority", -1000, 1000, &priority))
        return false;
    j->qos.priority = (int)priority;
    return true;
}

static bool read_job(const struct at *spec, const struct spec *s, size_t i, struct spec_job *j)
{
    static const char *const policies[] = {"OnFailure", "Never"};
    struct at a = {json_array_get(json_object_get(spec->o, "jobs"), i), "", spec->err};
    int64_t gpus = 0;
    size_t policy = 0;

    snprintf(a.path, sizeof(a.path), "spec.jobs[%zu]", i);
    *j = (struct spec_job){.json = a.o, .qos = SPEC_QOS_INIT};
    if (!json_is_object(a.o))
        return wrong(&a, "", "must be an object");
    if (!read_text(&a, "name", SPEC_NAME_MAX, &j->name) ||
        !read_text(&a, "image", 1024, &j->image) || !read_int(&a, "gpus", 0, 1024, &gpus) ||
        !read_choice(&a, "restartPolicy", policies, DLC_COUNT(policies), &policy))
        return false;
    if (j->name == NULL || !is_label(j->name))
        return wrong(&a, "name", "must be made of a-z, 0-9 and '-', at most %d of them",
                     SPEC_NAME_MAX);
    if (j->image == NULL)
        return wrong(&a, "image", "is missing");
    for (size_t k = 0; k < i; k++)
        if (strcmp(s->jobs[k].name, j->name) == 0)
            return wrong(&a, "name", "there are two jobs \"%s\"", j->name);
    j->gpus = (int)gpus;
    j->restart_policy = policies[policy];
    return read_data(&a, &j->data) && read_qos(&a, j) &&
           container_check_job(a.o, a.path, a.err) == 0;
}

/* ---- the whole ---- */

static bool read_spec(struct spec *s, const struct at *a)
{
    static const char *const warm_ups[] = {"none", "start", "complete"};
    int64_t replicas = 1, port = SPEC_MASTER_PORT;
    size_t warm_up = WARM_UP_NONE, n = json_array_size(json_object_get(a->o, "jobs"));

    if (!read_ref(a, "secretRef", &s->secret) ||
        !read_int(a, "epochs", 0, 1000000000, &s->epochs) ||
        !read_int(a, "replicas", 1, SPEC_REPLICAS, &replicas) ||
        !read_int(a, "masterPort", 1, 65535, &port) ||
        !read_choice(a, "warmUp", warm_ups, DLC_COUNT(warm_ups), &warm_up) ||
        !read_retention(a, &s->retention_s) || !read_text(a, "nodeName", 253, &s->node_name) ||
        !read_texts(a, "nodeSequence", &s->node_sequence) || !check_volumes(a))
        return false;
    if (s->node_name != NULL && s->node_sequence != NULL)
        return wrong(a, "", "nodeName and nodeSequence exclude each other");
    if (n < 1 || n > SPEC_JOBS_MAX)
        return wrong(a, "jobs", "must have 1 to %d jobs", SPEC_JOBS_MAX);
    s->replicas = (int)replicas;
    s->master_port = (int)port;
    s->warm_up = (enum spec_warm_up)warm_up;
    for (; s->n_jobs < n; s->n_jobs++)
        if (!read_job(a, s, s->n_jobs, &s->jobs[s->n_jobs]))
            return false;
    return true;
}

static bool begin(struct at *a, const json_t *object, struct dlc_err *err)
{
    *a = (struct at){json_object_get(object, "spec"), "spec", err};
    return json_is_object(a->o) || wrong(a, "", "is missing");
}

int spec_parse(struct spec *s, const json_t *object, struct dlc_err *err)
{
    const char *name = json_string_value(json_at(object, "metadata.name"));
    struct at a;

    memset(s, 0, sizeof(*s));
    s->retention_s = 3600;
    s->json = json_object_get(object, "spec");
    if (name == NULL || !is_label(name) || (name[0] >= '0' && name[0] <= '9'))
        return dlc_err_set(err, DLC_EINVAL,
                           "metadata.name: must be made of a-z, 0-9 and '-', at most %d of them, "
                           "and begin with a letter",
                           SPEC_NAME_MAX);
    return begin(&a, object, err) && read_spec(s, &a) ? 0 : DLC_EINVAL;
}

static bool read_data_of(const struct at *a, struct dataset_spec *s)
{
    s->data = (struct spec_data){.bucket = s->bucket, .endpoint = s->endpoint};
    return read_keys(a, &s->data);
}

int dataset_spec_parse(struct dataset_spec *s, const json_t *object, struct dlc_err *err)
{
    static const char *const tiers[] = {"memory", "disk"};
    int64_t count = 0;
    size_t tier = 0;
    struct at a;

    *s = (struct dataset_spec){.retention_s = SPEC_FOREVER};
    if (!begin(&a, object, err) || !read_bucket(&a, SPEC_URL_MAX, &s->bucket) ||
        !read_endpoint(&a, &s->endpoint) || !read_data_of(&a, s) ||
        !read_ref(&a, "secretRef", &s->secret) || !read_texts(&a, "splits", &s->splits) ||
        !read_texts(&a, "nodeNames", &s->node_names) ||
        !read_int(&a, "nodeCount", 1, 1000, &count) || !read_bool(&a, "warm", &s->warm) ||
        !read_choice(&a, "tier", tiers, DLC_COUNT(tiers), &tier) ||
        !read_retention(&a, &s->retention_s))
        return DLC_EINVAL;
    s->node_count = (int)count;
    s->tier = tiers[tier];
    if (s->bucket == NULL)
        wrong(&a, "bucket", "is missing");
    else if (s->node_count > 0 && s->node_names != NULL)
        wrong(&a, "", "nodeNames and nodeCount exclude each other");
    else
        return 0;
    return DLC_EINVAL;
}

/* ---- from a ConfigMap: texts ---- */

static bool text_bool(const struct at *a, const char *field, bool *out)
{
    const char *s = json_string_value(json_object_get(a->o, field));

    if (s == NULL)
        return json_object_get(a->o, field) == NULL || wrong(a, field, "must be a text");
    if (strcmp(s, "true") != 0 && strcmp(s, "false") != 0)
        return wrong(a, field, "must be true or false, not \"%.40s\"", s);
    *out = s[0] == 't';
    return true;
}

int spec_qos_from(struct spec_qos *q, const json_t *configmap, struct dlc_err *err)
{
    struct at a = {json_object_get(configmap, "data"), "data", err};
    const json_t *limit = json_object_get(a.o, "partitionLimit");
    const char *priority = json_string_value(json_object_get(a.o, "priority"));
    char more;

    *q = (struct spec_qos)SPEC_QOS_INIT;
    if (!text_bool(&a, "useCache", &q->use_cache) || !text_bool(&a, "lazyLoading", &q->lazy))
        return DLC_EINVAL;
    if (limit != NULL && !spec_quantity(limit, &q->partition_limit)) {
        wrong(&a, "partitionLimit", "must be a number of bytes such as 1Gi or 500M");
        return DLC_EINVAL;
    }
    if (priority != NULL && (sscanf(priority, "%5d%c", &q->priority, &more) != 1 ||
                             q->priority < -1000 || q->priority > 1000)) {
        wrong(&a, "priority", "must be a number from -1000 to 1000");
        return DLC_EINVAL;
    }
    return 0;
}
