// SPDX-License-Identifier: Apache-2.0
/*
 * Copies in memory of the same object, as sources: another dataset of the same tenant, at the same
 * place, has the sample resident under the same key and ETag. Its bytes are copied by a worker and
 * compared with their checksum; the bucket is not read. On disk there is one copy for both
 * (dataset_chunk()).
 *
 * (SAME-OBJECT-1) Only within the memory of one tenant (docs/design/0013).
 */
#include "daemon/fetch/source.h"

#include <string.h>

#include "base/counters.h"
#include "daemon/dataset.h"
#include "daemon/state.h"

struct same_state {
    struct dataset *of; /* counted */
    uint64_t sample;
    const void *bytes; /* held in memory */
    struct work work;
    struct task task;
};

static struct same_state *same_state(struct fetch_attempt *a)
{
    return (struct same_state *)a->state;
}

/* A bucket with a shape, for tests and demonstrations, is another place than the same one without. */
static bool has_shape_of(const struct url *a, const struct url *b)
{
    return a->shape.active == b->shape.active && a->shape.latency.ns == b->shape.latency.ns &&
           a->shape.jitter.ns == b->shape.jitter.ns && a->shape.bandwidth == b->shape.bandwidth &&
           a->shape.errors == b->shape.errors && a->shape.seed == b->shape.seed;
}

static bool overlaps(const struct dataset *ds, const struct dataset *of)
{
    return has_shape_of(&of->url, &ds->url) && of->state == DATASET_READY &&
           of->tenant_memory == ds->tenant_memory && of->disk.id.hi == ds->disk.id.hi &&
           of->disk.id.lo == ds->disk.id.lo && mem_index_resident(of->index) > 0;
}

struct same_search {
    struct fetch *f;
    uint64_t *sample; /* its number in the other dataset */
};

static bool has_resident(struct dataset *of, void *arg)
{
    const struct same_search *w = arg;
    struct catalog_entry e;

    return overlaps(w->f->ds, of) && catalog_find(of->catalog, w->f->entry.key, w->sample) == 0 &&
           mem_index_ready(of->index, *w->sample) &&
           catalog_get(of->catalog, *w->sample, &e, NULL) == 0 && e.size == w->f->size &&
           strcmp(e.etag, w->f->entry.etag) == 0;
}

/* A dataset that has it resident. NULL: none. */
static struct dataset *find_same(struct fetch *f, uint64_t *sample)
{
    return object_index_find(f->ds, f->entry.key, has_resident, &(struct same_search){f, sample});
}

static bool same_can_serve(struct fetch *f)
{
    uint64_t sample;

    return !f->bypass && f->size > 0 && find_same(f, &sample) != NULL;
}

static void same_on_loop(struct task *t)
{
    struct same_state *s = dlc_container(t, struct same_state, task);
    struct fetch_attempt *a = dlc_container((void *)s, struct fetch_attempt, state);

    memory_unhold(dataset_memory(s->of), s->of->index, s->sample);
    dataset_put(&s->of);
    fetch_attempt_ended(a);
}

static void same_on_worker(struct work *w)
{
    struct same_state *s = dlc_container(w, struct same_state, work);
    struct fetch_attempt *a = dlc_container((void *)s, struct fetch_attempt, state);

    memcpy(a->dst, s->bytes, a->size);
    loop_post(a->ds->node->loop, &s->task);
}

static bool same_start(struct fetch_attempt *a)
{
    struct same_state *s = same_state(a);
    uint64_t len;

    s->of = find_same(a->f, &s->sample);
    if (s->of == NULL)
        return false;
    s->bytes = memory_hold(dataset_memory(s->of), s->of->index, s->sample, &len);
    if (s->bytes == NULL) /* a copy that was evicted is still held */
        return false;
    dlc_check(len == a->size);
    dataset_ref(s->of);
    a->checksum = mem_index_checksum(s->of->index, s->sample);
    a->sum = FETCH_SUM_CLAIMED;
    s->work.run = same_on_worker;
    s->task.run = same_on_loop;
    work_run(a->ds->node->work, WORK_COPY, &s->work);
    return true;
}

const struct fetch_source fetch_from_same_object = {
    .name = "same object",
    .tier = TIER_MEMORY,
    .remote = true, /* the disk goal needs a file to write to */
    .state_size = sizeof(struct same_state),
    .hits = &counters.same_object_hits,
    .can_serve = same_can_serve,
    .start = same_start,
};
