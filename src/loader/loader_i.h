// SPDX-License-Identifier: Apache-2.0
/*
 * The loader inside: a ring of batches, threads that fill them, one consumer that takes them.
 *
 *     free --plan--> queued (some samples taken, some made) --all made--> ready --next--> held
 *       ^                                                                                   |
 *       +------------------------------------- put -----------------------------------------+
 *
 * A *slot* is the memory of a batch and all that is known of it. Batches are planned in the order's
 * sequence, across the ends of epochs, whenever a thread wants work and a slot is free. A thread
 * takes a few samples of the newest batch at a time, so that all work on the oldest batch that is
 * not finished; what is not resident is asked for and put aside (`late`), and a thread waits for
 * bytes only when there is nothing else to do.
 *
 * (LOADER-RING-1) What is in a batch follows from (data, spec, seed, epoch, order) alone. Threads
 *                 write only into places of their own; holes are closed when the batch is handed
 *                 out.
 * (LOADER-RING-2) Each sample of an epoch is in exactly one batch, or in the report as left out.
 * (LOADER-RING-3) No thread of the loader calls back: alloc and free are called by the caller's
 *                 threads.
 * (LOADER-RING-4) Memory is bounded by the ring, by what the consumer holds, and by scratch for
 *                 each thread.
 * (LOADER-RING-5) After fork() the child has no threads here: it may close, and put what it holds,
 *                 and both leave all to the parent.
 *
 * One lock, held for moments: never while bytes are waited for, decoded, or memory allocated.
 */
#ifndef DLC_LOADER_LOADER_I_H
#define DLC_LOADER_LOADER_I_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/cancel.h"
#include "base/list.h"
#include "base/mutex.h"
#include "dlcache/loader.h"
#include "loader/bad_samples_i.h"
#include "loader/decoded_policy_i.h"
#include "loader/sample_decoder.h"
#include "loader/autotune.h"
#include "loader/table_rows_i.h"
#include "order/order.h"

#define LOADER_TAG     DLC_TAG4('l', 'o', 'a', 'd')
#define LOADER_GRAIN   64u /* samples that a thread takes at a time, at most */
#define LOADER_THREADS 256u

struct slot {
    struct dlc_list link; /* in loader.queue or loader.spare; G: mtx */
    struct dlc_loader *loader;
    char *data; /* [batch][bytes] */
    uint64_t *index;
    int64_t *labels;
    uint32_t *lengths;
    uint8_t *bad; /* 1: this one is a hole */

    uint64_t epoch, begin; /* of its first sample in the order */
    uint32_t n;            /* samples in it */
    uint32_t taken;        /* by threads; G: mtx, and so are those below */
    uint32_t done;         /* made, or found bad */
    uint32_t n_bad;
    struct dlc_err err; /* of the first bad sample, if it is to be raised */
    uint32_t err_at;
    uint64_t busy_ns;
};

/* One sample that was not resident when its turn came. */
struct late {
    struct slot *slot;
    uint32_t k;
};

/* What an explicit order says of one epoch. */
struct listed {
    uint64_t *v; /* NULL: not given yet */
    uint64_t n;
};

struct worker {
    struct dlc_loader *loader;
    unsigned number;
    pthread_t thread;
    struct sample_decoder *decoder;
    struct interrupt interrupt; /* gives up waits when the loader closes or seeks */
};

struct dlc_loader {
    uint32_t tag;
    pid_t pid; /* (LOADER-RING-5) */
    struct dlc_dataset *ds;
    struct decode_spec decode;
    struct rows rows;
    struct dlc_order order; /* as it is told to the daemon */
    struct order_spec spec; /* the same, for computing */
    uint64_t first_epoch;
    uint64_t epochs; /* UINT64_MAX: no end */
    uint32_t batch, ring;
    bool drop_last;
    bool placed; /* what is random depends on the place too: a sample may come twice */
    enum dlc_on_bad on_bad;
    void *(*alloc)(size_t bytes, void *arg);
    void (*free)(void *p, size_t bytes, void *arg);
    void *alloc_arg;

    struct dlc_mtx mtx;         /* rank LCK_loader */
    struct dlc_cond work;       /* for threads: there may be something to do */
    struct dlc_cond spare_time; /* for threads beyond `wanted` */
    struct dlc_cond ready;      /* for the consumer: the oldest batch is finished */
    struct dlc_cond quiet;      /* for who seeks: no thread is at work */
    _Atomic bool stop;          /* close or seek; W under mtx, R any, relaxed: looked at again */
    bool closing;               /* G: mtx, and so are those below */
    uint32_t refs;              /* the caller's, and one for each batch that is held */
    uint32_t slots, held;
    struct dlc_list queue;  /* of slots, oldest first */
    struct dlc_list spare;  /* slots without a batch */
    struct order plan;      /* of plan.epoch; */
    uint64_t plan_at;       /* the next batch begins there */
    struct listed lists[2]; /* explicit: of the consumer's epoch, and of the next; position.c */
    struct late *late;
    uint32_t n_late, cap_late;
    uint32_t running; /* threads at work */
    uint32_t started, wanted;
    struct worker **workers;
    struct pace pace;
    bool fixed; /* threads are not to be changed */
    uint32_t grain;
    double sample_ns; /* smoothed */
    struct bad_list bad;
    struct decoded_policy decoded; /* has its own lock */
    struct dlc_loader_stats stats;

    /* The consumer's; the epoch is changed under mtx. */
    uint64_t epoch, position; /* all before was handed out */
    uint64_t length;          /* samples of this epoch, for this rank */
    struct dlc_mono left;     /* when it got the last batch; 0: none yet */
};

static inline struct dlc_loader *loader_of(struct dlc_loader *l)
{
    dlc_check(l != NULL && l->tag == LOADER_TAG);
    return l;
}

/* ---- position.c: the order, and where the loader stands in it ---- */

/* Begins where the spec says; no thread is there yet. */
int place_init(struct dlc_loader *l, const struct dlc_loader_spec *spec, struct dlc_err *err);
void place_release(struct dlc_loader *l);
/* Make the plan that of this epoch. False: there is none, or its list has not come yet. */
bool place_plan_locked(struct dlc_loader *l, uint64_t epoch);
/* Is known what this epoch has? DLC_EINVAL: its list has not come. */
int place_check(const struct dlc_loader *l, struct dlc_err *err);
/* Is the epoch over? From then on the loader stands at the beginning of the next one, if there is
 * one. */
bool place_at_end(struct dlc_loader *l);
/* Tell the daemon how far we are. */
void place_tell(struct dlc_loader *l);

/* ---- batch_ring.c: slots, and which samples they get. All but the first two need the lock. ----
 */

/* Gives a slot with its memory; NULL: *err. */
struct slot *slot_new(struct dlc_loader *l, struct dlc_err *err);
void slot_free(struct slot **sp);
/* The batch that threads take samples from: one that is begun, or a new one. NULL: none. */
struct slot *ring_fresh_locked(struct dlc_loader *l);
/* Plan from here on; what was planned is forgotten, and nobody is at work. */
void ring_restart_locked(struct dlc_loader *l, uint64_t epoch, uint64_t position);
/* Is there a batch at or behind this position of an epoch of so many samples? No lock. */
bool ring_has_batch(const struct dlc_loader *l, uint64_t length, uint64_t position);
/* Everything before was made, and so many samples from there on are in hand. */
void ring_progress_locked(struct dlc_loader *l, struct dlc_progress *p);
/* Close the holes of a finished batch. Returns how many samples are in it. No lock. */
uint32_t slot_settle(struct slot *s);

/* ---- threads.c: the threads ---- */

int crew_start(struct dlc_loader *l, unsigned threads, struct dlc_err *err);
void crew_want_locked(struct dlc_loader *l, unsigned threads);
/* Ends all threads. */
void crew_stop(struct dlc_loader *l);
/* No thread is at work when it returns; then `stop` stays set until crew_go_locked(). */
void crew_pause_locked(struct dlc_loader *l);
void crew_go_locked(struct dlc_loader *l);

#endif
