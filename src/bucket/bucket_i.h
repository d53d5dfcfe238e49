// SPDX-License-Identifier: Apache-2.0
/*
 * Internals of the bucket. Three things, each made of the next:
 *
 *     request   what a caller asked for: a read, a stat, a listing (read.c, stat.c, list.c)
 *     op        one question to the origin that must be answered, with retries, a deadline and a
 *               hedge (retry.c, hedge.c). A request has one op, or many: parts, pages
 *     try       one attempt of an op (origin.h)
 *
 *     op:  IDLE --op_submit--> QUEUED --sent--> FLYING --answer--> IDLE, ended()
 *                                ^                | retryable failure
 *                                +----timer---- BACKOFF
 *
 * A lane is a thread with a loop; it owns its requests, ops and tries from the moment their task
 * runs on it until done() has returned.
 *
 * (BUCKET-1) All but the fields marked X is touched on the lane's thread only.
 * (BUCKET-2) ended() of an op is called once per op_submit(), never from inside it, and not after
 *            op_cancel(). The op may be freed in it.
 * (BUCKET-3) When ended() or op_cancel() returns, no try of the op is left, so nobody writes into
 *            dst.
 * (BUCKET-4) Exactly the bytes of one answer are in dst: a hedge has its own buffer.
 * (BUCKET-5) A request is in lane->load from its submission until its done() has returned.
 */
#ifndef DLC_BUCKET_BUCKET_I_H
#define DLC_BUCKET_BUCKET_I_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/histogram.h"
#include "base/mutex.h"
#include "base/rng.h"
#include "bucket/bucket.h"
#include "bucket/limiter_i.h"
#include "bucket/origins/origin.h"

#define SPLIT_ABOVE (16ull << 20) /* longer reads are made in parts */
#define PART_BYTES  (8ull << 20)
#define PART_FLYING 16 /* parts of one read in flight */

struct
try {
    uint32_t tag;
    struct attempt a;
    struct op *op; /* NULL: abandoned, nobody waits for it */
    struct lane *lane;
    struct dlc_list link; /* lane->flying, by start; or next spare */
    struct dlc_mono started, progress;
    uint64_t progress_bytes; /* received when `progress` was taken */
    bool hedged;             /* a second one was sent beside it */
    void *buffer;            /* of a hedge */
};

enum op_state { OP_IDLE, OP_QUEUED, OP_FLYING, OP_BACKOFF };

struct op {
    /* what to ask; borrowed while submitted */
    enum attempt_op kind;
    const char *key, *etag;
    uint64_t offset, length;
    bool whole;
    bool want_sum; /* STAT */
    bool once;     /* no retries: it can be done without */
    void *dst;
    const char *prefix, *continuation;
    bool by_folder;
    struct dlc_err *err; /* text of the last failure; may be shared by ops of one request */
    void (*ended)(struct op *op);
    void *owner;

    /* the outcome, for ended() */
    int rc;
    unsigned attempts;
    struct attempt *answer;
    struct dlc_mono first_sent;

    enum op_state state;
    struct lane *lane;
    struct dlc_list link;  /* lane->queue */
    struct dlc_list begun; /* lane->begun */
    struct try *first, *hedge;
    unsigned failures;
    struct timer backoff;
};

struct request;

struct request_ops {
    void (*begin)(struct request *q);
    /* End it now with this failure: cancel its ops and call done(). */
    void (*abort)(struct request *q, int code, const char *why);
    void (*free)(struct request *q);
};

struct request {
    uint32_t tag;
    const struct request_ops *ops;
    struct lane *lane;
    struct task submit;
    struct dlc_list link; /* lane->requests */
    struct dlc_mono submitted;
    _Atomic unsigned refs; /* X: the lane's, and one for each cancel on its way */
};

/* Figures of a lane for other threads; W lane, R any, relaxed: statistics. */
struct lane_figures {
    _Atomic unsigned in_flight, limit;
    _Atomic unsigned unused; /* of the limit, with nothing left to send */
    _Atomic bool hungry;     /* has more to send than it may */
    _Atomic int64_t p50, p99, rate_at;
    _Atomic uint64_t rate;
};

struct lane {
    struct bucket *bucket;
    unsigned index;
    struct loop *loop;
    pthread_t thread;
    bool started;

    struct dlc_list requests;
    struct dlc_list queue;  /* ops that wait for the limiter; retries, stats, lists first */
    struct dlc_list begun;  /* ops by the time of their first try, hence by deadline */
    struct dlc_list flying; /* tries by start */
    struct dlc_list spare;  /* tries to use again */
    unsigned in_flight;
    unsigned borrowed; /* of other lanes' limits, which they do not need now */
    struct limiter limiter;
    struct hist ttfb, whole; /* of successful GETs, in nanoseconds */
    double hedge_tokens;
    double money_rest; /* less than one nano */
    struct rng rng;
    struct timer tick;
    bool ticking, closing;
    struct dlc_mono stall_scan; /* when next */
    struct dlc_mono rate_from;  /* bytes_per_s: this period's */
    uint64_t rate_bytes;        /* ... start and bytes */
    uint64_t mean_n, mean_sum;  /* lengths asked for, when there is no hint */
    struct task close_task;

    _Alignas(64) _Atomic unsigned load; /* X: requests given to this lane, see (BUCKET-5) */
    struct lane_figures figures;        /* X */
};

struct bucket {
    uint32_t tag;
    enum url_scheme scheme;
    struct origin *origin;
    char *place;                 /* what stands before keys in messages: s3://bucket/ */
    char *root;                  /* prefix of a listing that names none */
    struct bucket_config config; /* resolved; its strings are not kept */
    double nano_get, nano_list, nano_byte;
    _Atomic uint64_t hint; /* X: mean size told by the caller; 0: none */
    _Atomic int64_t ttfb;  /* X: lowest time to first byte in ns; 0: none. W, R lanes, relaxed */
    _Atomic bool closing;  /* X */
    struct dlc_mtx mtx;    /* rank LCK_sync: only for bucket_close() to wait with */
    struct dlc_cond drained;
    unsigned closed; /* G: mtx: lanes that have cancelled everything */
    unsigned n_lanes;
    struct lane *lanes;
};

/* Count for the process and for the caller's tally, if it gave one. */
#define bucket_count(b, field, name, n)                                                            \
    do {                                                                                           \
        count_add(name, n);                                                                        \
        if ((b)->config.tally != NULL)                                                             \
            atomic_fetch_add_explicit(&(b)->config.tally->field, (uint64_t)(n),                    \
                                      memory_order_relaxed); /* statistics */                      \
    } while (0)

/* bucket.c */
/* An origin of the caller's own (a test's fake). Takes origin. `root` as in struct bucket. */
int bucket_open_origin(struct origin *origin, const char *root, const struct bucket_config *c,
                       unsigned lanes, struct bucket **out, struct dlc_err *err);

/* io_thread.c */
int lane_open(struct lane *l, struct bucket *b, unsigned index, struct dlc_err *err);
void lane_stop(struct lane *l);  /* X: after it has drained; joins */
void lane_drain(struct lane *l); /* X: cancel everything, now and from now on */
void lane_pump(struct lane *l);
void lane_received(struct lane *l, const struct attempt *a); /* count bytes and money */

void request_submit(struct request *q, struct bucket *b, const struct request_ops *ops); /* X */
void request_end(struct request *q); /* done() has returned */
void request_put(struct request *q); /* X */

/* retry.c */
void op_submit(struct op *op, struct lane *l);
void op_cancel(struct op *op);
void op_send(struct op *op); /* for lane_pump: off the queue and out */
void op_check_deadlines(struct lane *l, struct dlc_mono now);
void op_check_stalls(struct lane *l, struct dlc_mono now);
void try_start(struct op *op, struct try **slot, void *dst);

/* hedge.c */
void hedge_earn(struct lane *l);
void hedge_check(struct lane *l, struct dlc_mono now);

#endif
