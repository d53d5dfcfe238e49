// SPDX-License-Identifier: Apache-2.0
/*
 * The life of a chunk, or of a dataset as a whole: who may evict it, and when.
 *
 *     PREPARE ──ready, n jobs──> ACTIVE <──join──┐
 *        │                         │             │
 *        │                     last leave        ├── INACTIVE ──evicted──> gone
 *        │                         v             │      ^
 *        └──ready, no jobs──> COOL_DOWN ─────────┘      │
 *                                  └──cool-down over────┘
 *
 * PREPARE: its bytes are being fetched or unpacked. ACTIVE: n jobs read it. COOL_DOWN: no job reads
 * it, but one did a short while ago and may come again. INACTIVE: may be evicted.
 *
 * A single chunk of a dataset whose jobs run is PENDING until one of them has read it, then ACTIVE:
 * life_of_chunk(). Both are evicted under the same pressure.
 *
 * (LIFECYCLE-1) Only INACTIVE is evicted; under pressure COOL_DOWN and then ACTIVE too, never
 *               PREPARE.
 * (LIFECYCLE-2) The count of jobs is right in every state: jobs may join and leave in
 *               mid-preparation.
 *
 * A pure state machine: time is passed in, in seconds.
 */
#ifndef DLC_CACHE_POLICY_LIFECYCLE_H
#define DLC_CACHE_POLICY_LIFECYCLE_H

#include <stdbool.h>
#include <stdint.h>

/* Stores have the numbers. */
enum life_state { LIFE_PREPARE, LIFE_ACTIVE, LIFE_COOL_DOWN, LIFE_INACTIVE, LIFE_PENDING };
#define LIFE_STATES (LIFE_PENDING + 1)

enum life_pressure {
    LIFE_CALM,  /* evict what nobody needs */
    LIFE_SHORT, /* ... and what is cooling down */
    LIFE_DIRE,  /* ... and what jobs are reading; log the reason */
};

struct life {
    enum life_state state;
    uint32_t jobs;
    double since; /* when it entered its state */
};

void life_init(struct life *l, double now);  /* PREPARE, no jobs */
void life_join(struct life *l, double now);  /* a job begins to need it */
void life_leave(struct life *l, double now); /* a job ends, or has read all of it */
void life_ready(struct life *l, double now); /* preparation has succeeded */

/* Let time pass. True when the state changed, from COOL_DOWN to INACTIVE. */
bool life_tick(struct life *l, double now, double cool_down);

/* The state of a complete chunk whose dataset is in this life. read: since the first of the jobs
 * that read it now has begun. */
enum life_state life_of_chunk(const struct life *dataset, bool read);

bool life_evictable(const struct life *l, enum life_pressure pressure);
const char *life_name(enum life_state state); /* "COOL_DOWN" */

#endif
