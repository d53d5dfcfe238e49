// SPDX-License-Identifier: Apache-2.0
/* A fetch brings one sample into a tier; all readers that want the sample share it. */
#ifndef DLC_DAEMON_FETCH_FETCH_H
#define DLC_DAEMON_FETCH_FETCH_H

#include <stdbool.h>
#include <stdint.h>

struct dataset;
struct dlc_err;
struct fetch_pipeline;
struct fetch_source;
struct node;
struct waiter;

enum fetch_goal {
    FETCH_MEMORY, /* resident; also stored on disk when there is one */
    FETCH_DISK,   /* on disk only */
};

/* The node's fetches: the sources in the order in which they are tried (borrowed). room() is called
 * after each fetch: others may start. */
struct fetch_pipeline *fetch_pipeline_new(struct node *n, const struct fetch_source *const *sources,
                                          unsigned n_sources, void (*room)(struct node *n));
void fetch_pipeline_free(struct fetch_pipeline **pp); /* no fetch is under way */
void fetch_room(struct node *n);                      /* calls room() */

/* One that starts many fetches and is told of each: a warm-up. */
struct fetch_listener {
    /* DLC_EBYPASS: there was no room. */
    void (*ended)(struct fetch_listener *l, uint64_t bytes, int rc, const struct dlc_err *err);
};

/*
 * Bring a sample in. `w` (may be NULL) is answered and `l` (may be NULL) is told when it ended,
 * perhaps before this returns. Joins a fetch that is under way.
 */
void fetch_start(struct dataset *ds, uint64_t sample, enum fetch_goal goal, struct waiter *w,
                 struct fetch_listener *l);
/* For a session that bypasses the cache: the same, if it is not here, from the bucket alone. */
void fetch_bypass(struct dataset *ds, uint64_t sample);
/* A read that came from a peer: it is not passed on to another. False: it was, before; `w` is not
 * told. */
bool fetch_for_peer(struct dataset *ds, uint64_t sample, struct waiter *w);

#endif
