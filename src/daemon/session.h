// SPDX-License-Identifier: Apache-2.0
/* A client's session on a dataset: its ring of requests, its pins, its waiting readers. */
#ifndef DLC_DAEMON_SESSION_H
#define DLC_DAEMON_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/event_loop.h"
#include "base/list.h"
#include "base/usage.h"
#include "cache/memory/memory.h"
#include "daemon/figures.h"
#include "daemon/prefetch/read_outcomes.h"
#include "daemon/prefetch/reader_rate.h"

struct conn;
struct dataset;
struct dlc_err;
struct mem_uploads;
struct mem_session;
struct mem_session_stats;
struct decoded_cache;
struct schedule;
struct job_weights;

/* A session whose order is known. */
struct reader_state {
    bool active;
    bool idle; /* it has not read for a while: its next uses do not count */
    struct dlc_mono last_read;
    struct dlc_dur pause; /* the longest between two reads, lately */
    struct schedule *schedule;
    uint64_t pos;       /* the client's position at the last look */
    uint64_t in_hand;   /* samples from pos on that its workers read now or next */
    uint64_t overtaken; /* samples from pos on that it has read already (relaxed orders) */
    uint64_t ahead;     /* everything before it is resident or asked for */
    uint64_t window;    /* how far ahead may be */
    uint64_t asked;     /* how far the client wants it to be; 0: not said */
    uint64_t counted, counted_reading; /* in tenant_memory.ahead and ahead_reading */
    bool short_of_memory; /* the window should be larger, but memory does not allow it */
    bool swapping;        /* its positions may change places: substitution.c */
    uint64_t settled;     /* positions before it are final */
    uint64_t swaps_head;  /* swaps taken; our own copy */
    uint64_t swaps_tail;  /* swaps that were in the ring at the last look */
    uint64_t held; /* the first position whose swap is too far ahead; SUBSTITUTION_NONE: none */
    struct rate rate;
    struct dlc_mono waiting_since; /* a reader of the session waits; 0: none does */
    uint64_t waited_ns;            /* the client's figure for its workers at the last look */
};

struct session {
    uint32_t tag;
    struct conn *conn;
    struct dataset *ds;
    struct dlc_list link; /* in dataset.sessions */
    struct mem_session *mem;
    uint64_t user; /* of memory.h: the uid of another user than the daemon's; or MEM_OWNER */
    struct watch doorbell;
    struct timer again;      /* the ring holds more than one turn's work */
    struct dlc_list waiters; /* struct waiter.of_session */
    unsigned n_waiters;      /* an honest client has at most one per cell */
    struct reader_state reader;
    bool bypasses_cache; /* cache_bypass.c: its job bypasses the cache ... */
    uint64_t part;       /* ... and may hold this many bytes at a time on this node; 0: no limit */
    struct decoded_cache *decoded;                /* NULL: it reads samples */
    struct mem_uploads *uploads;                  /* with decoded */
    unsigned n_uploads;                           /* that are being copied */
    struct job_weights *job_weights;              /* NULL: the client has no weights */
    struct outcomes_epoch reads[OUTCOMES_EPOCHS]; /* the latest first */
    unsigned n_reads;
    struct usage
        waited; /* stall.c: the tiers that its readers waited for, and how long, by reason */
    struct usage accounted; /* cluster/usage.c: reported so far */
    struct session_figures figures;
    bool abandoned;
    uint32_t head; /* our own copy: the one in shared memory is for the client to read */
};

/* A waiter for a fetch: a reader of a session, or a peer. */
struct waiter {
    struct dlc_list of_fetch, of_session;
    struct session *session; /* NULL: a peer's */
    uint32_t cell;
    struct dlc_mono asked;
    void (*done)(struct waiter *w, int rc, const char *text); /* once; may free w */
};

/* Answer the waiter: its fetch has ended. */
static inline void session_answer(struct waiter *w, int rc, const char *text)
{
    w->done(w, rc, text);
}

int session_new(struct conn *c, struct dataset *ds, struct dlc_err *err); /* answers the client */
void session_free(struct session **sp);
/* Does it read samples as they are, not decoded ones? False for NULL: no dataset is open. */
bool session_reads_samples(const struct session *s);
/* Stop serving it. Its pins count, and its dataset stays, until session_free(). */
void session_abandon(struct session *s);
void session_add_stats(const struct session *s, struct mem_session_stats *sum);
#endif
