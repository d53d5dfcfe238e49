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

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/check.h"
#include "base/config.h"
#include "base/hash.h"
#include "base/histogram.h"
#include "base/list.h"
#include "base/event_loop.h"
#include "base/u64map.h"
#include "ipc/frame.h"
#include "catalog/catalog.h"
#include "cluster/view.h"
#include "daemon/daemon.h"
#include "daemon/prefetch/reader_rate.h"
#include "daemon/work.h"
#include "order/schedule.h"
#include "importance/weights.h"
#include "bucket/bucket.h"
#include "cache/disk/disk.h"
#include "cache/memory/limits.h"
#include "cache/memory/memory.h"

#define PROTOCOL_VERSION 1

#define RESERVE 16 /* descriptors: reserve.c */

/* budget.c */
enum budget {
    BUDGET_FETCHES, /* under way */
    BUDGET_FILLING, /* bytes of memory reserved by them */
    BUDGET_STORING, /* bytes of memory held while they are written to disk */
};
#define N_BUDGETS 3

struct node {
    const struct config *config;
    struct loop *loop;
    struct work *work;
    struct memory *memory;
    struct disk *disk;          /* NULL: no disk tier */
    struct dlc_list disk_reads; /* struct disk_reading.link: of fetches that wait for the disk */
    struct timer disk_late;     /* looks for those that are late */
    struct hist disk_latency;   /* microseconds */
    struct mem_machine machine;

    struct watch listener, signals;
    struct timer looking; /* prefetch.c */
    struct timer tick;    /* memory, progress, idle */
    struct timer pump;    /* goes on with what fetch_pump() left for the next turn */
    struct timer freeing; /* gives memory back in steps */
    bool pumping;         /* a fetch that ends at once must not pump again */
    struct dlc_mono started, limits_checked, last_client;
    int lock_fd;
    bool stopping;
    _Atomic bool ending;         /* the same for workers that would take long; W loop */
    struct ending *ending_watch; /* ending.c */

    struct dlc_list conns;    /* struct conn.link */
    struct dlc_list datasets; /* struct dataset.link */
    struct dlc_list backlogs; /* struct dataset.backlogs: of those that have one */
    struct dlc_list warms;    /* struct warm.link */
    struct dlc_list deriving; /* assemble.c */
    unsigned n_conns;
    struct dlc_list zombies; /* struct conn.link: (C4) */
    unsigned n_zombies;
    bool pauses; /* a connection is paused: the tick looks for it */
    int reserve[RESERVE];
    uint64_t next_id;   /* of conns and datasets */
    unsigned n_reading; /* sessions that follow an order and are not idle */

    /* NULL: not of a cluster */
    struct cluster *cluster;
    struct agent *agent;
    struct peers *peers;   /* threads of its own */
    struct shared *shared; /* a Redis in common, or NULL */
    struct door *door;     /* peer_server.c */
    const struct node_cluster *membership;
    char *token;      /* the node's own: for manager and peers */
    bool leaving;     /* a thread leaves the cluster; then we end */
    bool stop_again;  /* we are to end, but there was no thread to leave with: the tick tries */
    bool agent_left;  /* also when there is no agent */
    bool left_opened; /* left_open() was called */
    pthread_t leaver;
    struct task left;
    struct dlc_list asks;    /* struct ask.link */
    struct dlc_list askings; /* struct asking.link: questions to the manager */
    unsigned n_askings;
    struct dlc_list orders;     /* struct order_given.link */
    struct batch *batch;        /* report.c: rows under way to the manager */
    bool sending_weights;       /* weight_exchange.c: a call is on its way */
    struct past_job *past_jobs; /* report.c: what sessions that have ended read for their jobs */
    size_t n_past_jobs, cap_past_jobs;
    struct spent *spent; /* cost.c: on datasets that have been freed */
    size_t n_spent, cap_spent;

    uint64_t used[N_BUDGETS];  /* budget.c: by all datasets */
    unsigned n_sharing;        /* datasets that use or want some, at the last count ... */
    struct dlc_mono shared_at; /* ... which was then */
    uint64_t jobs;             /* worker jobs and bucket reads that will still post to the loop */
};

/* ---- client_conn.c ---- */

struct session;
struct dataset;

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
    unsigned errands;  /* jobs on the disk tier under way for it */
    bool asking;       /* the manager, whether it may open what it wants to open */
    char *job;         /* as the client calls it; or NULL */
    uint64_t snapshot; /* what it opens must be this one; 0: the newest */
    bool wants_shelf;  /* it opens a dataset for its forms, ... */
    unsigned char shelf_key[SHA256_LEN]; /* ... these */
    unsigned char owner[SHA256_LEN];     /* user and token: whose weights it may have */
    bool closing;                        /* to be ended by its next event, ... */
    const char *why;                     /* ... for this reason; a literal */
    struct timer ender;                  /* that event */
    bool paused; /* out of memory or descriptors: the tick goes on with it */
    bool zombie; /* (C4) */
};

int server_open(struct node *n, struct dlc_err *err);
int server_listen(struct node *n); /* again, after descriptors ran out; 0 or -1 */
void server_close(struct node *n);
void conn_close(struct conn **cp);
/* The daemon ends the connection: (C4). `why` is a literal. */
void conn_end(struct conn **cp, const char *why);
void conns_resume(struct node *n); /* those that were paused; by the tick */
/* May it open a session? Not if it, or its user, has too many that the daemon had to end. */
int conn_may_open(const struct conn *c, struct dlc_err *err);
struct conn *conn_by_id(struct node *n, uint64_t id); /* NULL: gone */
/* Takes body. Descriptors are borrowed (duplicated if they must wait). If they cannot be sent, the
 * client is told why instead. */
void conn_send(struct conn *c, json_t *body, const int *fds, unsigned n_fds);
/* The same; when it fails, nothing was sent: tell the client. */
int conn_send_fds(struct conn *c, json_t *body, const int *fds, unsigned n_fds,
                  struct dlc_err *err);
/* Takes progress; says nothing to a client that has not read what it was told before. */
void conn_progress(struct conn *c, json_t *progress);
void conn_fail(struct conn *c, int code, const char *text);
void conn_fail_err(struct conn *c, const struct dlc_err *err);

/* ---- reserve.c ---- */

void reserve_init(struct node *n);
void reserve_fill(struct node *n); /* as far as it can */
void reserve_release(struct node *n);
bool reserve_leaves_slack(void);   /* false: what is left is for fetches; errno */
void reserve_lend(struct node *n); /* one: so that something can be opened now */
bool is_shortage(int e);           /* an errno: of descriptors or memory */
/* Something failed for want of descriptors or memory: count it, say so, open the reserve. */
void node_short(struct node *n, const char *what);

/* ---- client_commands.c ---- */

/* Handle one message of a greeted connection. */
void control_handle(struct conn *c, struct msg *m);

/* ---- stat.c ---- */

void stat_handle(struct conn *c, struct msg *m); /* the message `stat` */

/* ---- read_outcomes.c ---- */

/* What became of samples that cursors have passed: each is in one of the three. */
struct reads_sum {
    uint64_t reuse;  /* in memory since somebody used it before */
    uint64_t ahead;  /* fetched before it was asked for */
    uint64_t waited; /* asked for before it was there */
};

#define READS_EPOCHS 4 /* are remembered of a session */

struct reads_epoch {
    uint64_t epoch;
    struct reads_sum sum;
};

void reads_begin(struct session *s); /* another order: what was counted stays as it is */
/* Its cursor has passed absolute position a. */
void reads_passed(struct session *s, uint64_t a, uint64_t sample);
void reads_waits(struct session *s, uint64_t sample); /* a reader asks for it and waits */
void reads_came(struct dataset *ds, uint64_t sample); /* it has become resident */
json_t *reads_json(const struct reads_sum *sum);      /* Gives */
json_t *reads_epochs(const struct session *s);        /* the latest first. Gives */

/* ---- dataset.c ---- */

enum dataset_state { DATASET_LISTING, DATASET_READY, DATASET_FAILED };

/* Why a reader had to wait: the counters stall_*_ns. */
enum stalled { STALLED_LATENCY, STALLED_BANDWIDTH, STALLED_DISK, STALLED_MEMORY, STALLED_CLIENT };
#define N_STALLED 5

/* How far a dataset has been evicted from memory: shelf 0 are its samples. */
struct evict_place {
    uint64_t shelf, sample;
};

struct dataset {
    uint32_t tag;
    struct node *node;
    struct dlc_list link;
    uint64_t id;
    enum dataset_state state;
    struct url url;
    char *name;     /* what was asked for, with shape and endpoint: finds it again */
    char *given;    /* the URL with its shape */
    char *endpoint; /* as the client asked, or NULL */
    bool anonymous;
    char *cid;                /* what the cluster calls it; NULL: it is nobody's */
    char *tenant, *region;    /* with cid; region may be NULL */
    char *shared_as;          /* its name in a Redis in common: with the tenant, as disk_id */
    struct bucket_keys *keys; /* NULL: it has no credentials of its own */
    unsigned keys_version;    /* grows when they change */
    struct dlc_list agains;   /* struct again.link: the bucket refused them, the manager is asked */
    bool asking_again;
    struct dlc_mono asked_again;
    uint64_t wanted;     /* the snapshot that the manager named when it was opened; 0: none */
    uint64_t instead_of; /* it could not be had, or the client wanted it listed anew */
    uint64_t pinned;     /* opened for readers that asked for this snapshot; 0: it is the newest */
    bool loading;        /* LISTING: its stored catalog is looked for; nobody lists */
    uint64_t stored;     /* the newest stored snapshot, when that was done; 0: none */
    bool stale;          /* not the newest: goes when its last session does */
    uint64_t disk_id;    /* names its chunks: independent of shape */
    uint32_t group;      /* of its chunks in the disk tier */
    struct adoption *adoption;
    char *catalog_path;
    struct catalog *catalog;
    struct bucket *bucket;
    struct mem_index *index;
    struct dlc_err error; /* DATASET_FAILED */

    struct map fetching;       /* sample -> struct fetch */
    struct dlc_list sessions;  /* struct session.link */
    struct dlc_list shelves;   /* struct shelf.link */
    struct dlc_list weighings; /* struct weighing.link */
    struct dlc_list openers;   /* struct conn.waiting */
    struct dlc_list needers;   /* struct needer.link */
    struct listing *listing;
    unsigned refs; /* sessions, openers, warms, fetches */

    uint64_t used[N_BUDGETS]; /* budget.c */
    unsigned n_warms;         /* warm-ups of it */

    /* Prefetch requests that wait for their turn: a queue of sample numbers. */
    uint64_t *backlog;
    size_t backlog_head, backlog_len, backlog_cap;
    struct dlc_list backlogs; /* in node.backlogs while there are any */

    /* read_outcomes.c */
    uint8_t *seen;          /* two bits per sample; NULL: nobody has told an order yet */
    struct reads_sum reads; /* of all cursors there were */
    uint64_t fetched;       /* samples that came from the bucket */

    /* What prefetch.c knows. */
    struct hist latency;      /* of fetches, in microseconds */
    unsigned n_following;     /* sessions that told their order */
    unsigned n_reading;       /* of those the ones that are not idle; node.n_reading has all */
    unsigned n_waiting;       /* sessions whose readers wait */
    double progress;          /* how far they are, on average: the clock of next uses */
    double pace;              /* seconds per sample, to compare with other datasets, ... */
    double anchor;            /* ... from this progress on, which was reached ... */
    struct dlc_mono anchored; /* ... then */

    struct dlc_mono last_used;  /* when its last session ended */
    struct evict_place emptied; /* daemon.c: what is before this has left memory */

    /* of sessions that have ended */
    struct mem_session_stats past;

    /* peer_server.c, ownership.c: only with cid */
    uint8_t *whose;         /* two bits per sample: enum whose; forgotten with each view */
    uint64_t whose_version; /* cluster_owners_version() of them */
    uint64_t passing_left;  /* cache_bypass.c: of those below, the ones before this have left */
    uint8_t *passing; /* cache_bypass.c: a bit per sample that leaves when it was read; or NULL */
    bool read_elsewhere;   /* by others in the cluster, lately */
    bool joined_elsewhere; /* and the disk tier counts them as a job */
    struct dlc_mono served_at;
    uint64_t peer_hits, peer_misses, peer_bytes, served, served_bytes;
    struct report *report; /* report.c */

    struct bucket_tally *tally;   /* of all its buckets: its own and those that make catalogs */
    uint64_t stall_ns[N_STALLED]; /* how long readers waited, and why */
};

/* What is to be opened. All borrowed. */
struct wanted {
    const char *url, *endpoint; /* endpoint may be NULL */
    bool anonymous, refresh;
    uint64_t snapshot;         /* 0: the newest */
    const struct grant *grant; /* of a cluster; NULL: nobody's */
};

/* Find or start; the connection is answered when the dataset is READY or FAILED. */
void dataset_open(struct conn *c, const struct wanted *w);

/* One of the daemon itself that needs a dataset. */
struct needer {
    struct dlc_list link;
    /* Once, perhaps before dataset_need() returns. ds is NULL when *err says why. */
    void (*ready)(struct needer *d, struct dataset *ds, const struct dlc_err *err);
};
/* Whose it is and what it is read with; again whenever the manager was asked. */
void dataset_take_grant(struct dataset *ds, const struct grant *g);
void dataset_need(struct node *n, const struct wanted *w, struct needer *d);
/* The one of the cluster's that is ready; snapshot 0: the newest. tenant: NULL: whoever's it is: a
 * name that was freed may be another one's by now (K2). NULL: none. */
struct dataset *dataset_of_cluster(struct node *n, const char *cid, const char *tenant,
                                   uint64_t snapshot);
/* Have it ready by the catalog that is stored here, if that one counts; else nothing happens. */
void dataset_reopen(struct node *n, const struct wanted *w);
struct dataset *dataset_find(struct node *n, const char *url);
void dataset_put(struct dataset **dp);
/* Its listing has ended. Takes the catalog, NULL when rc says why there is none. */
void dataset_listed(struct dataset *ds, int rc, struct catalog **catalog, struct dlc_err *err);
/* A peer has given its catalog, or none has it. */
void dataset_borrowed(struct dataset *ds, int rc, struct catalog **catalog);
struct bucket_config dataset_bucket_config(const struct dataset *ds);
/* End listings and buckets so that nothing more is posted; frees those nobody uses. */
void dataset_shutdown(struct dataset *ds);

/* ---- backlog.c ---- */

void dataset_backlog_add(struct dataset *ds, uint64_t sample);
bool dataset_backlog_next(struct dataset *ds, uint64_t *sample);

/* ---- listing.c ---- */

void listing_start(struct dataset *ds);    /* dataset_listed() is called when it has ended */
void listing_stop(struct dataset *ds);     /* ask it to end soon */
void dataset_progress(struct dataset *ds); /* tell those who wait how far it is */
json_t *listing_progress(const struct dataset *ds); /* how far it is. Gives */

/* ---- snapshot.c ---- */

/* The open dataset of that name and snapshot, or the one that is being opened for it. NULL: none.
 */
struct dataset *snapshot_find(struct node *n, const char *name, uint64_t snapshot);
/* The snapshot that other sessions of the client's job read of that dataset; 0: there is none. */
uint64_t snapshot_of_job(const struct conn *c, const char *name);
/* 0, or DLC_ECHANGED when `wanted` is not 0 and not that of the dataset. */
int snapshot_check(const struct dataset *ds, uint64_t wanted, struct dlc_err *err);
int snapshot_refuse(const char *shown, uint64_t have, uint64_t wanted, struct dlc_err *err);
/* Of the newest catalog that is stored; 0: there is none. */
/* X, blocks: a new catalog is in `file`. */
int snapshot_install(const struct dataset *ds, const char *file, struct dlc_err *err);
void snapshot_prune(struct dataset *ds); /* away with old catalogs, on a worker */

/* ---- disk_hints.c ---- */

/* What the disk tier should know of the dataset. All are no-ops without a disk tier. */
void dataset_enter_group(struct dataset *ds);
void dataset_join(struct dataset *ds); /* a job begins to need it: a session, a warm-up */
void dataset_leave(struct dataset *ds);
/* A sample of that many bytes came from the bucket. */
void dataset_fetched(struct dataset *ds, uint64_t sample, struct dlc_dur took, uint64_t bytes);
/* An object of that many bytes was downloaded and its derived form made. */
void dataset_derived(struct dataset *ds, uint64_t object, struct dlc_dur took, uint64_t bytes);
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
    bool swapping;        /* its positions may change places: substitution.c */
    uint64_t settled;     /* those before it do not any more */
    uint64_t swaps_head;  /* swaps taken; our own copy */
    uint64_t swaps_tail;  /* swaps that were in the ring at the last look */
    uint64_t held;        /* the first position whose swap is too far ahead; SWAPPING_NONE: none */
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
    bool past;                 /* cache_bypass.c: its job keeps nothing of what it reads, ... */
    uint64_t part;             /* ... and has so many bytes at a time on this node; 0: no limit */
    struct shelf *shelf;       /* NULL: it reads samples */
    struct mem_gifts *gifts;   /* with shelf */
    unsigned n_gifts;          /* that are being copied */
    struct weighing *weighing; /* NULL: it has told no weights */
    struct reads_epoch reads[READS_EPOCHS]; /* the latest first */
    unsigned n_reads;
    bool abandoned;
    uint32_t head; /* our own copy: the one in shared memory is for the client to read */
};

struct waiter {
    struct dlc_list of_fetch, of_session;
    struct session *session; /* NULL: a peer's, which is told by done() */
    uint32_t cell;
    struct dlc_mono asked;
    void (*done)(struct waiter *w, int rc, const char *text);
};

int session_new(struct conn *c, struct dataset *ds, struct dlc_err *err); /* answers the client */
void session_free(struct session **sp);
/* Serve it no more. Its pins count, and its dataset stays, until session_free(). */
void session_abandon(struct session *s);
void session_add_stats(const struct session *s, struct mem_session_stats *sum);
/* Tell one waiter how its fetch ended. Takes w, unless it is a peer's. */
void session_answer(struct waiter *w, int rc, const char *text);

void session_gift_done(struct session *s, uint32_t gift, int rc);

/* ---- decoded_cache.c ---- */

/* The forms of one owner and one way of decoding. */
struct shelf {
    struct dlc_list link; /* in dataset.shelves */
    unsigned char key[SHA256_LEN];
    uint64_t id;
    struct mem_index *index;
    uint64_t cleared; /* (G4): the forms before this one have left */
    unsigned users;   /* sessions, and gifts on their way */
    struct dlc_mono last_used;
};

void shelf_key(unsigned char key[static SHA256_LEN], uid_t uid, const char *token,
               const char *form);
/* Find or make. Gives. */
int shelf_get(struct dataset *ds, const unsigned char key[static SHA256_LEN], struct shelf **out,
              struct dlc_err *err);
void shelf_put(struct shelf **sp);
/* A form of len bytes, header and all. 1: session_gift_done() will be called. 0: it is there
 * already. DLC_EBUSY: there is no room. */
int shelf_give(struct session *s, uint64_t sample, uint32_t gift, uint64_t len);
void shelves_tell_room(struct node *n); /* now and then */
void shelves_free(struct dataset *ds);
/* Its samples and forms leave memory in steps, from *at on, which begins as zeros; *bytes grows.
 * False: that was all; then memory_give_back(). */
bool dataset_evict_some(struct dataset *ds, struct evict_place *at, uint64_t *bytes);
void shelves_figures(const struct dataset *ds, uint64_t *forms, uint64_t *bytes);

/* ---- job_weights.c ---- */

/* What other nodes are to hear of, and what of theirs has come: weight_exchange.c. */
struct sending {
    uint64_t number;            /* who we are to the manager; 0: nobody yet */
    char after[36];             /* the newest that came, as the manager calls it */
    struct dlc_mono last, next; /* when it was sent, and will be, not before */
    uint64_t place;             /* of the marks: where to go on */
    uint64_t round, stored;     /* weights_stored() when this round over them began, and the last */
    uint64_t *samples;          /* taken and not heard of yet, ascending */
    size_t n, cap;
    uint64_t sent, received; /* samples */
    bool refused;            /* the manager does not want them, as was said */
};

/* The weights of one job on a dataset: docs/design/0008. */
struct weighing {
    struct dlc_list link; /* in dataset.weighings */
    char *job;
    bool own; /* of a process without a job: it goes with its last session */
    unsigned char owner[SHA256_LEN];
    struct mem_common *memory; /* written by clients */
    struct weights w;          /* over it */
    uint16_t *uses;            /* how often each sample was read, also of those that have left */
    uint64_t place, round;     /* of the marks: where to go on; weights_stored() at 0 */
    double mean;               /* of the weights that are known; 0: none is */
    uint64_t learnt;           /* how many those are */
    struct {                   /* the mean is counted a slice at a time */
        uint64_t at, stored, learnt;
        double sum;
    } count;
    struct sending send;
    unsigned users; /* sessions */
    struct dlc_mono last_used;
};

/* Find or make the session's: its own until another one is asked for. */
int weighing_get(struct session *s, const char *job, bool own, struct dlc_err *err);
void weighing_put(struct weighing **wp);
void weighings_free(struct dataset *ds);
/* A sample whose weight has changed. False: that was all for now, or for so many steps. */
bool weighing_take(struct weighing *w, uint64_t *steps, uint64_t *sample);
void weighing_measure(struct weighing *w);               /* some more of the mean; at each look */
void weighing_used(struct weighing *w, uint64_t sample); /* a cursor has passed it */
json_t *weighings_json(const struct dataset *ds);        /* Gives */

/* ---- weight_exchange.c ---- */

void weighings_send(struct node *n);         /* now and then */
void weighing_send_soon(struct weighing *w); /* an epoch ends, or its ranks do; NULL is allowed */
void weighing_send_json(const struct weighing *w, json_t *to); /* adds how much it was */
void weighing_send_release(struct weighing *w);

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
/* For a session that keeps nothing: the same, if it is not here, from the bucket alone. */
void fetch_past(struct dataset *ds, uint64_t sample);
/* A read that came from a peer: it is not passed on to another. False: it was, before; `w` is not
 * told. */
bool fetch_for_peer(struct dataset *ds, uint64_t sample, struct waiter *w);
/* Start queued prefetches and warm-ups while there is room for more; a turn's worth at most. */
void fetch_pump(struct node *n);
void fetch_pump_again(struct timer *t); /* node.pump fires */
void fetch_disk_late(struct timer *t);  /* node.disk_late fires */

/* ---- budget.c ---- */

void budget_take(struct dataset *ds, enum budget b, uint64_t amount);
void budget_give(struct dataset *ds, enum budget b, uint64_t amount);
void budget_count(struct node *n); /* who shares; before a round of prefetches */
/* May another prefetch of it start? Demand misses never ask. */
bool budget_for_prefetch(const struct dataset *ds);
/* May so many more bytes of it wait for the disk? */
bool budget_for_store(const struct dataset *ds, uint64_t bytes);

/* ---- assemble.c ---- */

/* checksum: of the sample's bytes, XXH3; NULL: it was not taken. */
typedef void parts_done_f(void *arg, int rc, const struct dlc_err *err, bool from_disk,
                          const uint64_t *checksum);
/* Put the pieces of a sample into dst; done() is called on the loop, perhaps before this returns.
 * reads: the class of disk reads. */
void parts_read(struct dataset *ds, uint64_t sample, enum work_class reads, void *dst,
                parts_done_f *done, void *arg);
/* Names the chunk of an object's derived form. */
struct chunk_id parts_derived_id(const struct dataset *ds, const struct catalog_entry *object);
void parts_stop(struct dataset *ds); /* end soon what is being made for it */

/* ---- ownership.c ---- */

/* Does this node read the sample's object for all? Also when there is no cluster. */
bool dataset_owns(struct dataset *ds, uint64_t sample);
/* The peer that does, and answers. False: none, so use the bucket. */
bool dataset_peer(struct dataset *ds, uint64_t sample, struct cluster_peer *out);
/* Does anybody in the cluster, besides our own sessions, read it? */
bool dataset_read_elsewhere(const struct dataset *ds);
/* About how many bytes this node should keep for all; 0: nobody reads it, or it is not shared. */
uint64_t dataset_owned_bytes(const struct dataset *ds);
void ownership_changed(struct node *n); /* there is a new view */

/* ---- disk_inventory.c ---- */

/* L: the newest that is open of those with this name in the cluster, of this tenant, at this URL
 * ("": at any). NULL: none. */
struct dataset *left_still_open(struct node *n, const char *name, const char *tenant,
                                const char *url);
/* X, blocks: drop what the disk tier has of it. Bytes. */
uint64_t dataset_drop_chunks(const struct dataset *ds);
/* The same of one that is not open: 0 when nothing is known of it. */
uint64_t left_drop(struct node *n, const char *name, const char *tenant, const char *url);
void left_note(const struct dataset *ds); /* it is open: remember where its chunks are */
/* The manager took us in: open what an earlier daemon had open and the manager still knows. */
void left_open(struct node *n);

/* ---- cache_bypass.c ---- */

void qos_look_up(struct session *s);  /* it begins */
void qos_changed(struct dataset *ds); /* there is a new view */
/* When no such session is left, some of what came for them leaves. True: there is more. */
bool qos_leave_some(struct dataset *ds);
/* A sample is resident; past: only sessions that keep nothing have asked for it. */
void qos_came(struct dataset *ds, uint64_t sample, bool past);
/* Such a session has read it, and nobody is known to need it. True: it is gone. */
bool qos_passed(struct dataset *ds, uint64_t sample);
uint64_t qos_part(const struct session *s); /* bytes that may be ahead; UINT64_MAX: no limit */

/* ---- access.c ---- */

typedef void resolve_f(struct node *n, const struct grant *g, const struct dlc_err *err, void *arg);
/* Which dataset is it, and may the holder of the token (NULL: we ourselves) read it? `what`: its
 * URL (dlcache://NAME, or that of its bucket). An answer younger than `life` will do. done() may be
 * called before this returns. */
void resolve(struct node *n, const char *token, const char *what, const char *endpoint,
             struct dlc_dur life, resolve_f *done, void *arg);
/* The bucket refuses what the dataset is read with: perhaps the manager has other credentials by
 * now. done() is called with whether it has, perhaps before this returns. */
struct again {
    struct dlc_list link;
    void (*done)(struct again *a, bool changed);
};
void resolve_again(struct dataset *ds, struct again *a);
/* A client wants to open something: asks the manager where that is needed. */
void resolve_open(struct conn *c, const json_t *body);

/* ---- catalog_load.c ---- */

/* X, blocks: the stored catalog of this snapshot; 0: the newest. */
int load_catalog(const struct dataset *ds, uint64_t snapshot, struct catalog **out,
                 struct dlc_err *err);
/* The same on a worker, of ds->pinned or, if that counts, the newest. done() is called on the loop
 * when ds->catalog (NULL: none) and ds->stored are set. */
void load_start(struct dataset *ds, void (*done)(struct dataset *ds));

/* ---- catalog_from_peer.c ---- */

/* Get the catalog of this snapshot from a peer; dataset_borrowed() is called when that has ended.
 * False: there is no peer. */
bool borrow_start(struct dataset *ds, uint64_t snapshot);

/* ---- report.c ---- */

struct report;
void report_free(struct report **rp);
void report_tick(struct node *n); /* look at some more chunks */
/* A session ends: what it read stays in the figures of its job. */
void report_session_ended(const struct session *s, const struct mem_session_stats *st);
void report_close(struct node *n);
/* What it took to bring this sample in, or to make the derived form of this object. */
void report_cost(struct dataset *ds, uint64_t sample, double cost);
void report_derived_cost(struct dataset *ds, uint64_t object, double cost);
void report_again(struct node *n); /* a manager that knows nothing: tell it all */
/* Rows for the manager: {"put", "gone"}, or NULL when there are none. Gives; they count as told
 * when report_heard(true) is called. *more: there are others. */
json_t *report_chunks(struct node *n, bool *more);
void report_heard(struct node *n, bool well);
json_t *report_figures(struct node *n);  /* of heart-beats. Gives */
json_t *report_progress(struct node *n); /* the same */

/* ---- cost.c ---- */

/* A dataset is freed: what was spent on it stays in the figures. */
void spent_keep(const struct dataset *ds);
/* {"TENANT/NAME": {"money_nano", "requests", "bytes"}}, since the node was started. Gives */
json_t *spent_figures(const struct node *n);
void spent_close(struct node *n);

/* ---- commands.c ---- */

void orders_take(struct node *n, const json_t *orders); /* begin those that are new */
json_t *orders_done(struct node *n);                    /* for the heart-beat. Gives */
void orders_heard(struct node *n, const json_t *done);  /* the manager has heard of these */
void orders_free(struct node *n);

/* ---- prefetch.c ---- */

/* From now on the session reads in this order, from position pos on. Takes t. */
void prefetch_follow(struct session *s, struct told *t, uint64_t pos, bool swapping);
/* Is it an explicit order that it reads in? Then here is one more of its lists: takes *l when it
 * succeeds. Returns: as told_give(). */
bool prefetch_follows_lists(const struct session *s);
int prefetch_follow_more(struct session *s, struct told_list **l, struct dlc_err *err);
void prefetch_unfollow(struct session *s); /* no-op when it told no order */
void prefetch_look(struct session *s);     /* how far is it? no-op when it told no order */
/* Readers of the session begin, or cease, to wait. */
void prefetch_waits(struct session *s, bool waits);
/* The order that a sample of this session is fetched by: its own, or that of the leader whose
 * worker it is. NULL: none was told. */
const struct follow *prefetch_of(const struct session *s);
#define PREFETCH_IDLE_AFTER DLC_SEC(1)

/* ---- next_use.c ---- */

void next_use_begin(struct dataset *ds); /* the first session follows an order in it */
/* Sessions, their orders or owners have changed: what the memory tier was answered is wrong. Also
 * once when the dataset's index is new. O(1) */
void next_use_changed(struct dataset *ds);
bool next_use_known(struct dataset *ds, uint64_t sample); /* does anybody need it? */
void next_use_heed_weights(struct dataset *ds);           /* they may have changed */
/* Keep its clock near the time. Only where there are others to compare with: within one dataset the
 * order of next uses is right. */
void next_use_keep_time(struct dataset *ds);

/* ---- substitution.c ---- */

/* The session has told an order, in which it may swap or not. */
void swapping_begin(struct session *s, bool may);
#define SWAPPING_NONE UINT64_MAX

/* Take over what it has swapped. After the cursor was loaded, before it is acted upon. Returns
 * where the epoch begins whose swaps are too far ahead as yet; SWAPPING_NONE: that was all. */
uint64_t swapping_look(struct session *s);
uint64_t swapping_drain(struct session *s); /* the cursor has moved: the rest of what was there */
/* How many samples it will read before the one at position `at`, which is to come. */
double swapping_distance(const struct follow *f, uint64_t at);
/* Say how far ahead it should settle what it reads. */
void swapping_tell(struct session *s);

/* ---- warm.c ---- */

struct warm {
    uint32_t tag;
    struct node *node;
    struct dlc_list link;
    uint64_t conn; /* id; when it went away the walk goes on to its end */
    struct dataset *ds;
    enum fetch_goal goal;
    uint64_t next, end; /* samples [next, end) are still to be started */
    uint64_t done, failed, bytes, running, total;
    struct dlc_err first_error;
    void (*ended)(struct warm *w, void *arg); /* instead of an answer to a connection; or NULL */
    void *arg;
};

/* The connection is answered when the walk ends. false: too many are under way. */
bool warm_start(struct conn *c, struct dataset *ds, enum fetch_goal goal);
/* The same for an order of the manager: samples [first, first + count) as far as they are ours. */
bool warm_start_order(struct dataset *ds, enum fetch_goal goal, uint64_t first, uint64_t count,
                      void (*ended)(struct warm *w, void *arg), void *arg);
/* Orders to warm this dataset of the cluster end soon: it is to be evicted. */
void warm_cut(struct node *n, const char *cid, const char *tenant);
json_t *warm_figures(const struct warm *w);
/* Start one more fetch; false: nothing left to start. */
bool warm_step(struct warm *w);
/* One of its fetches ended. DLC_EBYPASS: there was no room. May end the walk. */
void warm_told(struct warm *w, uint64_t bytes, int rc, const struct dlc_err *err);
void warm_progress(struct warm *w);
void warm_free(struct warm **wp);

/* ---- ending.c ---- */

void ending_begin(struct node *n); /* from now on there is little time; again is a no-op */
void ending_over(struct node *n);  /* everything has ended */

/* ---- daemon.c ---- */

/* X: workers that would take long look at it, and give up. */
static inline bool node_is_ending(const struct node *n)
{
    return atomic_load_explicit(&n->ending, memory_order_relaxed); /* with wind_down() */
}

void node_stop(struct node *n);

#endif
