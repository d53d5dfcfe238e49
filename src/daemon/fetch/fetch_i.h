// SPDX-License-Identifier: Apache-2.0
/* The fetch pipeline (fetch.c) for those that begin fetches (request.c). All functions are L. */
#ifndef DLC_DAEMON_FETCH_FETCH_I_H
#define DLC_DAEMON_FETCH_FETCH_I_H

#include <stdint.h>

struct dataset;
struct fetch;

/* Entered as the fetch of its sample, which may have none. */
struct fetch *fetch_new(struct dataset *ds, uint64_t sample);
/* 0: the fetch has memory to write into. */
int fetch_reserve_memory(struct fetch *f);
void fetch_walk(struct fetch *f);        /* WALK, from f->row on */
void fetch_end(struct fetch *f, int rc); /* END; f is gone */

#endif
