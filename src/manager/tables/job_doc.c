// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/job_doc.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/str.h"
#include "manager/store/wall_time.h"

static const char *const states[] = {"queued", "running", "refused"};
const char *const job_modes[2] = {"lazy", "partitioned"};

const char *job_state_name(enum job_state s)
{
    return states[s];
}

void job_copy(struct job *to, const struct job *from)
{
    *to = *from;
    to->splits = json_deep_copy(from->splits);
    to->nodes = json_deep_copy(from->nodes);
    to->snapshot = json_deep_copy(from->snapshot);
    to->lies_on = json_deep_copy(from->lies_on);
    to->figures = json_deep_copy(from->figures);
}

void job_release(struct job *j)
{
    json_decref(j->splits);
    json_decref(j->nodes);
    json_decref(j->snapshot);
    json_decref(j->lies_on);
    json_decref(j->figures);
    memset(j, 0, sizeof(*j));
}

bool job_keeps(const struct job *j)
{
    return j->qos.use_cache && j->qos.mode == QOS_LAZY;
}

uint64_t job_part(const struct job *j)
{
    if (!j->qos.use_cache || j->qos.mode != QOS_PARTITIONED)
        return 0;
    return j->qos.memory_limit > 0 ? j->qos.memory_limit : ADMISSION_PARTITION;
}

/* ---- documents ---- */

json_t *admission_json(const struct admission *a)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "need", (json_int_t)a->need, "free",
                     (json_int_t)a->free, "evictable", (json_int_t)a->evictable, "promised",
                     (json_int_t)a->promised);
}

static json_t *qos_json(const struct qos *q)
{
    return json_pack("{s:b, s:s, s:I, s:i, s:I}", "cache", q->use_cache, "mode", job_modes[q->mode],
                     "memory_limit", (json_int_t)q->memory_limit, "priority", q->priority, "epochs",
                     (json_int_t)q->epochs);
}

json_t *job_body(const struct job *j, const struct admission *a)
{
    json_t *b = json_pack("{s:s, s:O, s:o, s:i, s:b, s:s, s:I, s:o}", "dataset", j->dataset,
                          "splits", j->splits, "qos", qos_json(&j->qos), "gpus", (int)j->gpus,
                          "queue", j->queue, "state", states[j->state], "created_ms",
                          (json_int_t)j->created_ms, "admission", admission_json(a));

    if (j->nodes != NULL)
        json_object_set(b, "nodes", j->nodes);
    if (j->node_count > 0)
        json_object_set_new(b, "node_count", json_integer(j->node_count));
    if (j->state == JOB_RUNNING)
        json_object_set_new(b, "started_ms", json_integer((json_int_t)wall_ms()));
    return b;
}

int name_index(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; name != NULL && i < n; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

uint64_t job_doc_snapshot(const json_t *body)
{
    uint64_t id;

    return str_parse_hex64(json_text_at(body, "snapshot"), &id) ? id : 0;
}

bool job_of_doc(struct job *j, const struct store_doc *d)
{
    const json_t *qos = json_object_get(d->body, "qos");
    const char *dataset = json_text_at(d->body, "dataset");
    int state = name_index(states, DLC_COUNT(states), json_text_at(d->body, "state"));
    int mode = name_index(job_modes, DLC_COUNT(job_modes), json_text_at(qos, "mode"));

    memset(j, 0, sizeof(*j));
    if (!str_is_name(dataset) || state < 0 || mode < 0 || strlen(d->id) >= sizeof(j->id) ||
        strlen(d->tenant) >= sizeof(j->tenant))
        return false;
    snprintf(j->id, sizeof(j->id), "%s", d->id);
    snprintf(j->dataset, sizeof(j->dataset), "%s", dataset);
    snprintf(j->tenant, sizeof(j->tenant), "%s", d->tenant);
    j->state = (enum job_state)state;
    j->qos = (struct qos){.use_cache = json_is_true(json_object_get(qos, "cache")),
                          .mode = (enum qos_mode)mode,
                          .memory_limit = (uint64_t)json_int_at(qos, "memory_limit"),
                          .priority = (int)json_int_at(qos, "priority"),
                          .epochs = (uint64_t)json_int_at(qos, "epochs")};
    j->queue = json_is_true(json_object_get(d->body, "queue"));
    j->gpus = (unsigned)json_int_at(d->body, "gpus");
    j->node_count = (unsigned)json_int_at(d->body, "node_count");
    j->splits = json_deep_copy(json_object_get(d->body, "splits"));
    j->nodes = json_deep_copy(json_object_get(d->body, "nodes"));
    j->created_ms = json_int_at(d->body, "created_ms");
    j->reads = job_doc_snapshot(d->body);
    return true;
}
