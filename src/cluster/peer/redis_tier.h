// SPDX-License-Identifier: Apache-2.0
/*
 * Redis, one server or a Cluster, as a memory tier that nodes share: samples by dataset, snapshot
 * and number. Optional, and never a reason for a read to fail: a sample that is missing, late,
 * damaged or unreachable is a miss.
 *
 * (REDIS-TIER-1) done() is called exactly once, on a thread of the tier, also when it closes; it
 *                must not block.
 * (REDIS-TIER-2) dst is not touched after done().
 * (REDIS-TIER-3) shared_put() never blocks: a put that does not fit into the queue is dropped and
 *                counted.
 * (REDIS-TIER-4) A sample is returned completely or not at all: its length and checksum are
 *                compared.
 *
 * A Redis that failed three times in a row is not asked for one second, then two, up to 30.
 *
 * Expected use decides what stays when its memory is full (docs/design/0024): a sample lives the
 * longer the likelier it is read again, and Redis evicts what would end first (maxmemory-policy
 * volatile-ttl; another one is warned of, once). A read gives the sample its life anew.
 */
#ifndef DLC_CLUSTER_PEER_REDIS_TIER_H
#define DLC_CLUSTER_PEER_REDIS_TIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"

struct shared;

struct shared_config {
    const char *url;         /* as store_open(): "redis://[user:password@]HOST:PORT,.../PREFIX" */
    struct dlc_dur deadline; /* of a question; 0: 200 ms */
    struct dlc_dur keep;     /* time to live of a sample that is surely read again; 0: a day */
    size_t value_max;        /* larger samples are not stored; 0: 8 MiB */
    size_t queue_max;        /* bytes of puts that wait; 0: 64 MiB */
    unsigned threads;        /* 0: 4 */
};

/* DLC_EINVAL: bad URL. Does not connect yet: the figures show whether Redis answers. */
int shared_new(const struct shared_config *c, struct shared **out, struct dlc_err *err);
void shared_free(struct shared **sp); /* waiting reads miss, waiting puts are dropped */

struct shared_read {
    const char *dataset; /* borrowed until done; with its tenant */
    uint64_t snapshot, sample;
    void *dst;
    uint64_t length; /* exact */
    double likely;   /* that it is read again, 0 to 1 */
    void (*done)(struct shared_read *r);
    void *priv;

    int rc;            /* 0 or DLC_EMISS */
    uint64_t checksum; /* of the sample's bytes: hash64() */
    struct dlc_dur took;
    struct dlc_mono asked; /* the tier's, and what follows */
    struct dlc_list link;
};
void shared_read(struct shared *s, struct shared_read *r);  /* any thread */
bool shared_takes(const struct shared *s, uint64_t length); /* false: it is too large */
/* Copies data, which had this checksum when it came. likely: as in shared_read. Any thread. */
void shared_put(struct shared *s, const char *dataset, uint64_t snapshot, uint64_t sample,
                const void *data, uint64_t length, uint64_t checksum, double likely);

struct shared_figures {
    uint64_t hits, misses, bytes_read;
    uint64_t puts, bytes_put, dropped; /* dropped: puts that never reached Redis */
    uint64_t failures, damaged;        /* failed requests; samples with a wrong checksum */
    double p50_ms, p99_ms;             /* of answered requests, hits and misses */
    bool skipping;
    char evicts[24]; /* maxmemory-policy of the Redis; "": not known, or it has no limit */
    char why[200];   /* of the last failure; "": none */
};
void shared_figures(struct shared *s, struct shared_figures *out);

#endif
