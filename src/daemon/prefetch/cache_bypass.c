// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs that bypass the cache: those that do not use it, and those that read it in parts
 * (docs/jobs.md). The view names them. A session belongs to the job that its client names
 * (DLCACHE_JOB), if that job uses the session's dataset.
 *
 * Misses of such a session are read from the bucket only, not from other nodes, and are not stored
 * on disk. They are evicted once the session's cursor has passed them; without an announced order
 * they are evicted before everything else, and when the last such session ends. Samples that are
 * already here are read as usual, and stay.
 *
 * (CACHE-BYPASS-1) Only samples that were fetched for such sessions alone (`samples`) are evicted
 *                  in this way: a fetch of another session, or one that another session joined,
 *                  makes a sample stay.
 */
#include "daemon/prefetch/cache_bypass.h"

#include <string.h>

#include "base/mem.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/session.h"
#include "catalog/catalog.h"
#include "cluster/peer/view.h"
#include "daemon/client_conn.h"
#include "daemon/state.h"

#define STEP 4096u /* samples looked at in one turn of the loop */

static bool is_bypass_only(const struct dataset *ds, uint64_t sample)
{
    return ds->bypass.samples != NULL && (ds->bypass.samples[sample / 8] >> (sample % 8) & 1u) != 0;
}

static bool has_bypass_sessions(const struct dataset *ds)
{
    dlc_list_each (l, &ds->sessions)
        if (dlc_container(l, struct session, link)->bypasses_cache)
            return true;
    return false;
}

static void bypass_sample_resident(struct dataset *ds, uint64_t sample, bool bypass)
{
    uint8_t bit = (uint8_t)(1u << (sample % 8));

    if (bypass && !has_bypass_sessions(ds)) { /* who asked for it is gone */
        memory_evict(dataset_memory(ds), ds->index, sample);
        return;
    }
    if (ds->bypass.samples == NULL && bypass)
        ds->bypass.samples = mem_zero(catalog_count(ds->catalog) / 8 + 1);
    if (bypass)
        ds->bypass.samples[sample / 8] |= bit;
    else if (ds->bypass.samples != NULL)
        ds->bypass.samples[sample / 8] &= (uint8_t)~bit;
}

bool bypass_evict_read(struct dataset *ds, uint64_t sample)
{
    return is_bypass_only(ds, sample) && memory_evict_soon(ds->index, sample);
}

/* ---- who ---- */

void bypass_update(struct session *s)
{
    const struct dataset *ds = s->ds;
    struct cluster_job job = {false, 0};

    if (s->conn->job != NULL && ds->cid != NULL && ds->node->cluster != NULL)
        job = cluster_job(ds->node->cluster, s->conn->job, ds->cid);
    s->bypasses_cache = job.bypasses_cache;
    s->part = job.part;
}

void bypass_changed(struct dataset *ds)
{
    dlc_list_each (l, &ds->sessions)
        bypass_update(dlc_container(l, struct session, link));
}

bool bypass_evict_some(struct dataset *ds)
{
    uint64_t n, end;

    if (ds->bypass.samples == NULL || has_bypass_sessions(ds)) {
        ds->bypass.evicted_to = 0;
        return false;
    }
    n = catalog_count(ds->catalog);
    end = DLC_MIN(n, ds->bypass.evicted_to + STEP);
    for (; ds->bypass.evicted_to < end; ds->bypass.evicted_to++)
        bypass_evict_read(ds, ds->bypass.evicted_to);
    if (end < n)
        return true;
    ds->bypass.evicted_to = 0;
    mem_free(&ds->bypass.samples);
    return false;
}

/* Its job's sessions here have one part together. */
uint64_t bypass_part(const struct session *s)
{
    uint64_t sharing = 0;

    if (s->part == 0)
        return UINT64_MAX;
    dlc_list_each (l, &s->ds->sessions) {
        const struct session *o = dlc_container(l, struct session, link);

        sharing += o->reader.active && o->part > 0 && strcmp(o->conn->job, s->conn->job) == 0;
    }
    return s->part / DLC_MAX(sharing, 1u);
}

static void bypass_free(struct dataset *ds)
{
    mem_free(&ds->bypass.samples);
}

const struct node_events bypass_events = {.dataset_freed = bypass_free,
                                          .sample_resident = bypass_sample_resident};
