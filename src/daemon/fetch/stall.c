// SPDX-License-Identifier: Apache-2.0
/* Stall accounting: counts for how long readers waited, by cause (counters stall_*_ns). */
#include "daemon/fetch/source.h"

#include "base/counters.h"
#include "daemon/dataset.h"
#include "daemon/prefetch/reader_state.h"
#include "daemon/session.h"

static enum stalled stall_cause(const struct fetch *f, const struct waiter *w)
{
    const struct reader_state *reader = reader_state_of(w->session);
    struct bucket_figures b;

    if (f->from == TIER_DISK)
        return STALLED_DISK;
    if (reader != NULL && reader->short_of_memory)
        return STALLED_MEMORY;
    if (reader == NULL && f->on_demand)
        return STALLED_CLIENT;
    bucket_figures(f->ds->bucket, &b);
    return b.queued > 0 ? STALLED_BANDWIDTH : STALLED_LATENCY;
}

void stall_count(const struct fetch *f, const struct waiter *w, int rc)
{
    static _Atomic uint64_t *const counter[N_STALLED] = {
        [STALLED_LATENCY] = &counters.stall_latency_ns,
        [STALLED_BANDWIDTH] = &counters.stall_bandwidth_ns,
        [STALLED_DISK] = &counters.stall_disk_ns,
        [STALLED_MEMORY] = &counters.stall_memory_ns,
        [STALLED_CLIENT] = &counters.stall_client_ns,
    };
    static const enum usage_counter usage_of_cause[N_STALLED] = {
        [STALLED_LATENCY] = USAGE_stall_latency_ns, [STALLED_BANDWIDTH] = USAGE_stall_bandwidth_ns,
        [STALLED_DISK] = USAGE_stall_disk_ns,       [STALLED_MEMORY] = USAGE_stall_memory_ns,
        [STALLED_CLIENT] = USAGE_stall_client_ns,
    };
    static const enum usage_counter usage_of_tier[] = {
        [TIER_MEMORY] = USAGE_memory_hits,   [TIER_DISK] = USAGE_disk_hits,
        [TIER_PEER] = USAGE_peer_hits,       [TIER_REDIS] = USAGE_redis_hits,
        [TIER_BUCKET] = USAGE_bucket_misses,
    };
    enum stalled cause = stall_cause(f, w);
    uint64_t ns = (uint64_t)dlc_mono_since(w->asked).ns;

    f->ds->readers.stall_ns[cause] += ns;
    w->session->waited.n[usage_of_cause[cause]] += ns;
    if (rc == 0 || rc == DLC_ELARGE) /* f->err may be of a source that was tried before */
        w->session->waited.n[usage_of_tier[f->from]]++;
    atomic_fetch_add_explicit(counter[cause], ns, memory_order_relaxed); /* as count_add() */
}
