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
struct session;
struct waiter;

enum fetch_goal {
    FETCH_MEMORY, /* resident; also stored on disk when there is one */
    FETCH_DISK,   /* on disk only */
};

/* The node's fetches. sources: borrowed, in the order in which they are tried. room() is called
 * after each fetch: others may start. */
struct fetch_pipeline *fetch_pipeline_new(struct node *n, const struct fetch_source *const *sources,
                                          unsigned n_sources, void (*room)(struct node *n));
void fetch_pipeline_free(struct fetch_pipeline **pp); /* no fetch may be in progress */
void fetch_room(struct node *n);                      /* calls room() */

/* Starts many fetches and is notified of the end of each: a warm-up. */
struct fetch_listener {
    /* DLC_EBYPASS: there was no room. */
    void (*ended)(struct fetch_listener *l, uint64_t bytes, int rc, const struct dlc_err *err);
};

/*
 * Fetch a sample, or join a fetch in progress. When it ends, `w` is answered and `l` is notified
 * (both may be NULL), possibly before this returns.
 */
void fetch_start(struct dataset *ds, uint64_t sample, enum fetch_goal goal, struct waiter *w,
                 struct fetch_listener *l);
/* The same before a reader of the session wants it; if that bypasses the cache and the sample is not
 * here, from the bucket only. It is absent. */
void fetch_ahead(struct session *s, uint64_t sample);
/* A read for a peer: it is not forwarded to another peer. False: a peer is being asked for it, and
 * may wait for us in turn; `w` is not answered. */
bool fetch_for_peer(struct dataset *ds, uint64_t sample, struct waiter *w);
/* Is the bucket being read for it? */
bool fetch_from_bucket_now(const struct dataset *ds, uint64_t sample);
/* Copy a sample that this node owns from the peer `from`, which owned it before, and from no other
 * source but this node's own tiers. It is absent. `w` is answered as by fetch_start(). */
void fetch_take(struct dataset *ds, uint64_t sample, enum fetch_goal goal, const char *from,
                struct waiter *w);

#endif
