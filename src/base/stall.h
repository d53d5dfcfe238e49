// SPDX-License-Identifier: Apache-2.0
/*
 * Why readers wait: shares of their time by reason, and one sentence of advice. The daemon's page, its
 * metrics, `dlcache top`, `dlcache explain` and the manager all take it from here. Pure.
 */
#ifndef DLC_BASE_STALL_H
#define DLC_BASE_STALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/usage.h"

enum stall_reason {
    STALL_LATENCY,   /* of the bucket */
    STALL_BANDWIDTH, /* of the bucket */
    STALL_DISK,
    STALL_MEMORY, /* too little to fetch far enough ahead */
    STALL_ORDER,  /* of the reads: not known */
    STALL_REASONS
};

const char *stall_name(enum stall_reason r); /* "latency": a label of metrics and JSON */

/* What is known besides the waits; 0: not known. */
struct stall_facts {
    double reader_s;         /* time of all readers together, over which they waited */
    double bytes_per_s;      /* that the bucket gives now */
    double most_bytes_per_s; /* the most it was seen to give */
    double latency_s;        /* half of its answers take longer */
    uint64_t dataset_bytes;  /* all samples */
    uint64_t cache_bytes;    /* that memory and disk may hold */
};

/* Of the readers' time, from 0 to 1. */
double stall_share(const struct usage *u, enum stall_reason r, double reader_s);
double stall_share_all(const struct usage *u, double reader_s);

#define STALL_SMOOTH 0.01 /* waits below this share of the time need no advice */

/* Append a sentence on the largest reason to `out`: "waits for ...". False, and nothing: readers waited
 * for less than STALL_SMOOTH of their time, or nobody knows why. */
bool stall_advice(const struct usage *u, const struct stall_facts *f, struct buf *out);

#endif
