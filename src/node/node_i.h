// SPDX-License-Identifier: Apache-2.0
/*
 * The daemon's inner types. Everything here belongs to the node loop (docs/design/0001): functions
 * are L unless marked otherwise.
 *
 *   conn     one connected socket; becomes a session when it opens a dataset
 *   dataset  a catalog, its bucket and its slots; shared by sessions
 *   fetch    one sample on its way into a tier; joined by all who want it
 *   warm     a walk over a dataset that starts fetches
 */
#ifndef DLC_NODE_NODE_I_H
#define DLC_NODE_NODE_I_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/check.h"
#include "base/config.h"
#include "base/hist.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/msg.h"
#include "base/pool.h"
#include "catalog/catalog.h"
#include "node/rate.h"
#include "order/told.h"
#include "storage/bucket/bucket.h"
#include "storage/disk/disk.h"
#include "storage/memory/limits.h"
#include "storage/memory/memory.h"

#define PROTOCOL_VERSION 1

struct node {
    const struct config *config;
    struct loop *loop;
    struct pool *workers;
    struct memory *memory;
    struct disk *disk; /* NULL: no disk tier */
    struct mem_machine machine;

    struct watch listener, signals;
    struct timer looking; /* prefetch.c */
    struct timer tick;    /* memory, progress, idle */
    struct timer pump;    /* goes on with what fetch_pump() left for the next turn */
    bool pumping;         /* a fetch that ends at once must not pump again */
    struct dlc_mono started, limits_checked, last_client;
    int lock_fd;
    bool stopping;

    struct dlc_list conns;    /* struct conn.link */
    struct dlc_list datasets; /* struct dataset.link */
    struct dlc_list warms;    /* struct warm.link */
    struct dlc_list deriving; /* parts.c */
    unsigned n_conns;
    uint64_t next_id; /* of conns and datasets */

    uint64_t filling_bytes; /* memory reserved by fetches under way */
    uint64_t storing_bytes; /* memory held while it is written to disk */
    uint64_t jobs;          /* worker jobs and bucket reads that will still post to the loop */
};

/* ---- conn.c ---- */

struct session;

struct conn {
    uint32_t tag;
    struct node *node;
    struct dlc_list link;
    uint64_t id; /* for those who come back later and find it gone */
    struct watch watch;
    struct msg_reader reader;
    struct msg_writer writer;
    bool greeted;
    uid_t uid;
    pid_t pid;
    struct session *session; /* NULL: none yet */
    struct dlc_list waiting; /* in dataset.openers while it is being listed */
    struct dataset *opening;
    unsigned errands; /* jobs on the disk tier under way for it */
    bool closing;
};

int server_open(struct node *n, struct dlc_err *err);
int server_listen(struct node *n); /* again, after descriptors ran out; 0 or -1 */
void server_close(struct node *n);
void conn_close(struct conn **cp);
struct conn *conn_by_id(struct node *n, uint64_t id); /* NULL: gone */
/* Takes body. Descriptors are borrowed (duplicated if they must wait). */
void conn_send(struct conn *c, json_t *body, const int *fds, unsigned n_fds);
/* Takes progress; says nothing to a client that has not read what it was told before. */
void conn_progress(struct conn *c, json_t *progress);
void conn_fail(struct conn *c, int code, const char *text);
void conn_fail_err(struct conn *c, const struct dlc_err *err);

/* ---- control.c ---- */

/* Handle one message of a greeted connection. */
void control_handle(struct conn *c, struct msg *m);

/* ---- dataset.c ---- */

enum dataset_state { DATASET_LISTING, DATASET_READY, DATASET_FAILED };

/* Why a reader had to wait: the counters stall_*_ns. */
enum stalled { STALLED_LATENCY, STALLED_BANDWIDTH, STALLED_DISK, STALLED_MEMORY, STALLED_CLIENT };
#define N_STALLED 5

struct dataset {
    uint32_t tag;
    struct node *node;
    struct dlc_list link;
    uint64_t id;
    enum dataset_state state;
    struct url url;
    char *name;     /* what was asked for, with shape and endpoint: finds it again */
    char *endpoint; /* as the client asked, or NULL */
    bool anonymous;
    bool stale;       /* replaced by a refresh: goes when its last session does */
    uint64_t disk_id; /* names its chunks: independent of shape */
    uint32_t group;   /* of its chunks in the disk tier */
    struct adoption *adoption;
    char *catalog_path;
    struct catalog *catalog;
    struct bucket *bucket;
    struct mem_index *index;
    struct dlc_err error; /* DATASET_FAILED */

    struct map fetching;      /* sample -> struct fetch */
    struct dlc_list sessions; /* struct session.link */
    struct dlc_list openers;  /* struct conn.waiting */
    struct listing *listing;
    unsigned refs; /* sessions, openers, warms, fetches */

    /* Prefetch requests that wait for their turn: a queue of sample numbers. */
    uint64_t *backlog;
    size_t backlog_head, backlog_len, backlog_cap;

    /* What prefetch.c knows. */
    struct hist latency;      /* of fetches, in microseconds */
    unsigned n_following;     /* sessions that told their order */
    unsigned n_reading;       /* of those the ones that are not idle */
    double progress;          /* how far they are, on average: the clock of next uses */
    double pace;              /* seconds per sample, to compare with other datasets, ... */
    double anchor;            /* ... from this progress on, which was reached ... */
    struct dlc_mono anchored; /* ... then */

    struct dlc_mono last_used; /* when its last session ended */

    /* of sessions that have ended */
    struct mem_session_stats past;

    struct bucket_tally *tally;   /* of all its buckets: its own and those that make catalogs */
    uint64_t stall_ns[N_STALLED]; /* how long readers waited, and why */
};

/* Find or start; the connection is answered when the dataset is READY or FAILED. */
void dataset_open(struct conn *c, const char *url, const char *endpoint, bool anonymous,
                  bool refresh);
struct dataset *dataset_find(struct node *n, const char *url);
void dataset_put(struct dataset **dp);
/* Its listing has ended. */
void dataset_listed(struct dataset *ds, int rc, struct dlc_err *err);
struct bucket_config dataset_bucket_config(const struct dataset *ds);
/* End listings and buckets so that nothing more is posted; frees those nobody uses. */
void dataset_shutdown(struct dataset *ds);
void dataset_backlog_add(struct dataset *ds, uint64_t sample);
bool dataset_backlog_next(struct dataset *ds, uint64_t *sample);

/* ---- listing.c ---- */

void listing_start(struct dataset *ds);    /* dataset_listed() is called when it has ended */
void listing_stop(struct dataset *ds);     /* ask it to end soon */
void dataset_progress(struct dataset *ds); /* tell those who wait how far it is */

/* ---- residency.c ---- */

/* What the disk tier should know of the dataset. All are no-ops without a disk tier. */
void dataset_enter_group(struct dataset *ds);
void dataset_join(struct dataset *ds); /* a job begins to need it: a session, a warm-up */
void dataset_leave(struct dataset *ds);
/* A sample of that many bytes came from the bucket. */
void dataset_fetched(struct dataset *ds, struct dlc_dur took, uint64_t bytes);
void dataset_expect(struct dataset *ds); /* how often it will still be read; now and then */
/* Make its group's what an earlier daemon has left on disk, in the background, or end that. */
void dataset_adopt(struct dataset *ds);
void dataset_adopt_stop(struct dataset *ds);
struct chunk_id dataset_chunk(const struct dataset *ds, const char *key, const char *etag);

/* ---- session.c ---- */

/* A session whose order is known. */
struct follow {
    bool active;
    bool idle; /* it has not read for a while: what it needs next counts for nothing */
    struct dlc_mono last_read;
    struct dlc_dur pause; /* the longest between two reads, lately */
    struct told *told;
    uint64_t pos;         /* where the client was when we looked last */
    uint64_t in_hand;     /* samples from pos on that its workers read, or will at once */
    uint64_t overtaken;   /* samples from pos on that it has read already (relaxed orders) */
    uint64_t ahead;       /* everything before it is resident or asked for */
    uint64_t window;      /* how far ahead may be */
    bool short_of_memory; /* it should be farther, but memory does not allow it */
    struct rate rate;
    struct dlc_mono waiting_since; /* a reader of the session waits; 0: none does */
    uint64_t waited_ns;            /* what the client said of its workers when we looked last */
};

struct session {
    uint32_t tag;
    struct conn *conn;
    struct dataset *ds;
    struct dlc_list link; /* in dataset.sessions */
    struct mem_session *mem;
    struct watch doorbell;
    struct timer again;      /* the ring holds more than one turn's work */
    struct dlc_list waiters; /* struct waiter.of_session */
    unsigned n_waiters;      /* an honest client has at most one per cell */
    struct follow follow;
    uint32_t head; /* our own copy: the one in shared memory is for the client to read */
};

struct waiter {
    struct dlc_list of_fetch, of_session;
    struct session *session;
    uint32_t cell;
    struct dlc_mono asked;
};

int session_new(struct conn *c, struct dataset *ds, struct dlc_err *err); /* answers the client */
void session_free(struct session **sp);
void session_add_stats(const struct session *s, struct mem_session_stats *sum);
/* Tell one waiter how its fetch ended. Takes w. */
void session_answer(struct waiter *w, int rc, const char *text);

/* ---- fetch.c ---- */

enum fetch_goal {
    FETCH_MEMORY, /* resident; also stored on disk when there is one */
    FETCH_DISK,   /* on disk only */
};

struct fetch;
struct warm;

/*
 * Bring a sample in. `w` (may be NULL) is answered when it ended; `warm` (may be NULL) is told.
 * Joins a fetch that is under way.
 */
void fetch_start(struct dataset *ds, uint64_t sample, enum fetch_goal goal, struct waiter *w,
                 struct warm *warm);
/* Start queued prefetches and warm-ups while there is room for more; a turn's worth at most. */
void fetch_pump(struct node *n);
void fetch_pump_again(struct timer *t); /* node.pump fires */

/* ---- parts.c ---- */

typedef void parts_done_f(void *arg, int rc, const struct dlc_err *err, bool from_disk);
/* Put the pieces of a sample into dst; done() is called on the loop, perhaps before this returns.
 */
void parts_read(struct dataset *ds, uint64_t sample, void *dst, parts_done_f *done, void *arg);
/* Names the chunk of an object's derived form. */
struct chunk_id parts_derived_id(const struct dataset *ds, const struct catalog_entry *object);
void parts_stop(struct dataset *ds); /* end soon what is being made for it */

/* ---- prefetch.c ---- */

/* From now on the session reads in this order, from position pos on. Takes t. */
void prefetch_follow(struct session *s, struct told *t, uint64_t pos);
/* Is it an explicit order that it reads in? Then here is one more of its lists: takes *l when it
 * succeeds. Returns: as told_give(). */
bool prefetch_follows_lists(const struct session *s);
int prefetch_follow_more(struct session *s, struct told_list **l, struct dlc_err *err);
void prefetch_unfollow(struct session *s); /* no-op when it told no order */
/* Readers of the session begin, or cease, to wait. */
void prefetch_waits(struct session *s, bool waits);
/* The order that a sample of this session is fetched by: its own, or that of the leader whose
 * worker it is. NULL: none was told. */
const struct follow *prefetch_of(const struct session *s);
/* A sample has become resident: say when it will be used. */
void prefetch_published(struct dataset *ds, uint64_t sample);

/* ---- warm.c ---- */

struct warm {
    uint32_t tag;
    struct node *node;
    struct dlc_list link;
    uint64_t conn; /* id; when it went away the walk goes on to its end */
    struct dataset *ds;
    enum fetch_goal goal;
    uint64_t next, end; /* samples [next, end) are still to be started */
    uint64_t done, failed, bytes, running;
    struct dlc_err first_error;
};

/* The connection is answered when the walk ends. false: too many are under way. */
bool warm_start(struct conn *c, struct dataset *ds, enum fetch_goal goal);
/* Start one more fetch; false: nothing left to start. */
bool warm_step(struct warm *w);
/* One of its fetches ended. DLC_EBYPASS: there was no room. May end the walk. */
void warm_told(struct warm *w, uint64_t bytes, int rc, const struct dlc_err *err);
void warm_progress(struct warm *w);
void warm_free(struct warm **wp);

/* ---- node.c ---- */

void node_stop(struct node *n);

#endif
