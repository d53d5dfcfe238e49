// SPDX-License-Identifier: Apache-2.0
/*
 * Predicts what training costs before it runs: requests, bytes, money and seconds, through dlcache,
 * read directly, and from a copy on a local SSD. Pure arithmetic; `dlcache plan` measures and prints.
 *
 * Every sample is read once per epoch in an order that is known ahead, so the share of reads that
 * hit is the share that stays (docs/policies.md):
 *
 *     reuse = (memory - window) / (data - window)   the window holds what is read next
 *     disk  = (1 - reuse) x share of the data that fits on disk
 *     rest  = from the bucket; in the first epoch everything is
 *
 * An epoch lasts as long as the slowest of training, bandwidth, and requests in flight x latency.
 */
#ifndef DLC_SIM_TRAINING_COST_H
#define DLC_SIM_TRAINING_COST_H

#include <stdint.h>

/* The dataset; sums over its samples. */
struct cost_data {
    uint64_t samples, bytes;
    uint64_t gets;                     /* requests that read each sample once */
    uint64_t memory_bytes, disk_bytes; /* with what the tiers round up */
    uint64_t list_requests, list_bytes;
    double list_money, list_s; /* of finding out what there is, once */
};

/* The bucket, as one node sees it. */
struct cost_bucket {
    double latency_s, p99_s;
    double bytes_per_s;
    double price_get, price_byte;
    unsigned max_requests; /* in flight */
};

struct cost_setup {
    unsigned epochs, nodes;
    uint64_t memory, disk; /* of one node; disk 0: none */
    double samples_per_s;  /* that one node trains; 0: as many as come */
    unsigned batch;        /* samples that a node reads at once */
    unsigned workers;      /* of direct reading, on a node: each has one request in flight */
    unsigned gpus;         /* of a node */
    double price_gpu;      /* of one for an hour */
    double price_ssd;      /* of a GB for a month */
};

struct cost_epoch {
    double reuse, disk, bucket; /* shares of reads */
    double requests, bytes, money;
    double seconds, waiting_s; /* of the epoch; of those, without data */
};

/* A whole run. */
struct cost_run {
    double requests, bytes, money; /* of the bucket */
    double seconds, waiting_s;
    double waiting_money, storage_money; /* GPUs that wait; disks that are rented */
};

struct cost_forecast {
    struct cost_epoch first, later; /* all later ones are alike */
    struct cost_run cached, direct, ssd;
};

void cost_forecast(const struct cost_data *d, const struct cost_bucket *b,
                   const struct cost_setup *s, struct cost_forecast *out);

/* Bytes of memory that hold what a node reads next: daemon/prefetch/prefetch.c. */
double cost_window(const struct cost_data *d, const struct cost_bucket *b,
                   const struct cost_setup *s);
/* The sum of a run. */
double cost_money(const struct cost_run *r);

#endif
