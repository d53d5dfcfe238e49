// SPDX-License-Identifier: Apache-2.0
/*
 * libdlcache inside. A dataset is open for as long as the caller likes; its *attachment* to a
 * daemon comes and goes below it.
 *
 *     cur == NULL --attach--> cur = attachment --daemon lost--> retired --no pins left--> unmapped
 *
 * (A1) A thread pins in the attachment it found in `cur`, or counts itself among its `users`,
 * then looks at `cur` again before it touches index or descriptors. Who retires an attachment
 * changes `cur` first and looks at pins and users then. All seq_cst, so memory is unmapped and
 * descriptors are closed only when nobody uses or will use them; until then the daemon, if it still
 * lives, keeps the session and what it pins. (A2) The session's own memory (pins, cells) and the
 * struct stay until dlc_close(), so that a late store or a view put late lands somewhere harmless;
 * its pages go back when the attachment is unmapped.
 * (A3) After fork() the child's attachments are `foreign`: it never writes to the parent's session
 * and attaches for itself when it first reads. What they map is unmapped at once, or when it has
 * put the views that were held at the fork.
 */
#ifndef DLC_CLIENT_CLIENT_I_H
#define DLC_CLIENT_CLIENT_I_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/err.h"
#include "base/list.h"
#include "ipc/frame.h"
#include "base/mutex.h"
#include "catalog/catalog.h"
#include "client/last_error.h"
#include "client/daemon.h"
#include "dlcache.h"
#include "importance/sample.h"
#include "order/schedule.h"
#include "importance/weights.h"
#include "bucket/bucket.h"
#include "ipc/shm.h"

#define CELL_FREE      0 /* ours to give out */
#define CELL_WAITED    1 /* a thread waits for it */
#define CELL_UNWATCHED 2 /* free again as soon as the daemon has let go of it */

struct attachment {
    uint64_t generation;  /* unique in this process */
    struct dlc_list link; /* in dataset.retired */
    bool foreign;         /* inherited over fork */
    uint64_t inherited;   /* G: the process-wide lock: pins at the last fork; in the child: views of
                           * them that it has not put */
    bool unmapped;        /* segment, index and descriptors are gone; G: the process-wide lock */
    int sock, doorbell;
    uint64_t snapshot;

    const char *segment;
    const struct shm_slot *slots;
    uint64_t segment_size, index_size, n;
    const void *index_map;

    struct shm_session_hdr *session; /* SHM_SESSION_SIZE bytes */
    _Atomic uint32_t *ring;
    struct shm_cell *cells;
    struct shm_pin_block *blocks;
    char *uploads; /* SHM_UPLOADS_SIZE bytes; NULL: not of a decoded cache */

    struct dlc_mtx rpc;          /* rank LCK_rpc: one question at a time over the socket */
    struct dlc_mtx mtx;          /* rank LCK_session */
    uint8_t cell_use[SHM_CELLS]; /* G: mtx */
    uint8_t upload_used[SHM_UPLOAD_SLOTS]; /* G: mtx: 1: a thread fills it */
    uint8_t block_owned[SHM_BLOCKS];       /* G: mtx: a thread claims pins there */
    uint32_t overflow;       /* G: mtx: block for threads that hold more than a block of pins */
    uint32_t tail;           /* G: mtx */
    uint64_t swaps_tail;     /* the one thread's that reads in an order */
    struct catalog *catalog; /* until the dataset takes it */
    char *place, *place_endpoint; /* the same */
    _Atomic uint32_t users;       /* threads in their slow path; seq_cst: (A1) */
    _Atomic uint64_t hung_at; /* the heartbeat at which waiting was given up; 0: none. relaxed */
};

#define DATASET_TAG DLC_TAG4('o', 'p', 'e', 'n')

#define READING_WORDS 16 /* a relaxed order looks at most 1024 samples ahead */

/* The order that dlc_next() follows. Positions are absolute: they run on from the first epoch. */
struct reading {
    struct schedule
        *schedule; /* NULL: no order is set. Its lists: G: dataset.mtx and the process-wide
                        * lock; its swaps: G: the process-wide lock */
    struct order_spec spec;
    uint64_t epoch, epochs; /* the first one, and how many are left from there; 0: no end */
    bool relaxed;
    uint64_t pos;         /* all before it was read */
    uint64_t schedule_at; /* the end of an epoch that was told to the caller */
    uint64_t dealt;       /* dlc_take(): what is read before it was said to the caller */
    bool swaps;           /* relaxed and computed: positions may change places: substitution.c */
    uint64_t settled;     /* with swaps: positions before it do not any more */
    uint64_t look;        /* where the look over the slots goes on */
    uint64_t taken[READING_WORDS]; /* bit k: pos + k was read */
    uint64_t ahead, waited_ns;     /* as in struct dlc_progress */
    struct dlc_mono look_again;    /* whether the daemon is still there */
};

/* What dlc_learn() and dlc_draw() work with. */
struct importance {
    struct dlc_mtx mtx;         /* rank LCK_weights */
    char *job;                  /* NULL: none was begun. G: dataset.mtx and the process-wide lock */
    bool own;                   /* the job has no name: the process's. G: dataset.mtx */
    struct draw_spec spec;      /* one thread at a time, by contract */
    uint64_t *samples;          /* what places of the spec mean; NULL: themselves. The same */
    enum weights_rule rule;     /* G: mtx */
    struct weights_scale scale; /* G: mtx */
    struct weighed *weighed;    /* G: mtx; changed under the process-wide lock too */
};

static inline bool reading_is_taken(const struct reading *r, uint64_t k)
{
    return r->taken[k / 64] >> (k % 64) & 1;
}

struct dlc_dataset {
    uint32_t tag;
    struct dlc_list link; /* G: the process-wide lock */
    char *url, *endpoint;
    char *token;   /* or NULL; never shown */
    char *decoded; /* decoded_cache.c: the policy of the decoded samples that it reads; else NULL */
    /* Where a named dataset lies, as the daemon said at first; else NULL. Fixed once it is open. */
    char *place, *place_endpoint;
    char *shown;            /* the URL as messages show it */
    struct dlc_options opt; /* strings are not used from here */
    struct config config;
    struct dlc_dur timeout;
    uint64_t n;
    struct catalog *catalog; /* of the first attachment: what numbers mean */

    /* Changed under the process-wide lock, which is held for moments, so that fork() finds them
     * whole whatever other threads do. */
    _Atomic(struct attachment *) cur;
    struct dlc_list retired;
    _Atomic bool unreaped; /* some of them may still be mapped; relaxed where it is only read */
    struct dlc_mono spawn_from; /* the daemon was told to stop: do not start another before */
    bool lost;                  /* had one, and lost it */
    struct dlc_stats past;      /* hits, misses, bytes and stall_ns of sessions that are over */

    struct dlc_mtx mtx;        /* rank LCK_dataset */
    _Atomic bool attaching;    /* a thread looks for a daemon, without the lock. W: under mtx */
    struct dlc_mono try_again; /* G: mtx: do not look for a daemon before */
    struct dlc_dur patience;   /* G: mtx: between looks, growing while none is found */
    _Atomic bool refused; /* W mtx: a daemon answers, but does not have our snapshot; relaxed */
    struct dlc_mtx direct_mtx; /* rank LCK_direct */
    struct bucket *direct;     /* G: direct_mtx; made when first needed */

    /* One thread at a time, by contract; replaced under mtx and the process-wide lock. */
    struct reading reading;
    _Atomic uint64_t at; /* reading.pos, for any thread that finds the daemon again */
    _Atomic bool said;   /* that it waits for a daemon; relaxed: once in the log */
    struct importance importance;

    /* relaxed: statistics */
    _Atomic uint64_t reconnects, without_daemon, direct_reads, direct_bytes, direct_ns;
};

/* ---- attach.c ---- */

#define NO_DEADLINE ((struct dlc_mono){INT64_MAX}) /* a listing takes as long as it takes */

/* How a daemon is looked for. */
struct attach_how {
    bool may_spawn; /* start one where none answers */
    bool refresh;
    /* A daemon that says nothing for so long hangs: after it was called or greeted, and while it
     * opens the dataset (it tells how far a listing is). */
    struct dlc_dur greeting, silence;
    struct dlc_mono deadline; /* of all */
};
#define ATTACH_SILENCE DLC_SEC(30)

/* Connect, open, map. DLC_ETIMEDOUT: the daemon hangs. Gives *out. */
int attachment_new(struct dlc_dataset *ds, const struct attach_how *how, struct attachment **out,
                   struct dlc_err *err);
void attachment_unmap(struct attachment *a); /* segment, index and descriptors */
void attachment_free(struct attachment **ap);
/* Has the daemon gone? The caller is a user of `a`, or has pinned there: (A1). */
bool attachment_lost(const struct attachment *a);
static inline bool attachment_died(const struct attachment *a) /* the same, for hits: one load */
{
    const struct shm_segment_hdr *seg = (const void *)a->segment;

    /* relaxed: no data goes with it */
    return (atomic_load_explicit(&seg->owner, memory_order_relaxed) & SHM_OWNER_DIED) != 0;
}
/* It hung when somebody waited for it, and has not moved since. */
bool attachment_hangs(struct attachment *a);
/*
 * One question over the socket, with a descriptor unless fd is negative, and its answer in *m,
 * which was MSG_INIT. After DLC_ENODAEMON and DLC_ETIMEDOUT (also of a daemon that hangs, before
 * the deadline) the attachment must not be asked again: the answer may still come.
 */
int attach_call(struct attachment *a, const json_t *ask, int fd, struct dlc_mono deadline,
                struct msg *m, struct dlc_err *err);

/* ---- pins.c: which pin block is this thread's ---- */

struct shm_pin_block *pins_slow(struct attachment *a); /* NULL: none left */
/* Claim an entry outside the thread's own block. The entry is marked with `sample`. */
_Atomic uint64_t *pins_overflow(struct attachment *a, uint64_t sample);
void pins_attachment_gone(const struct attachment *a);

struct pins_cached {
    uint64_t generation;
    struct shm_pin_block *block;
    unsigned hint;
};
#define PINS_CACHE 4
extern _Thread_local struct pins_cached pins_cache[PINS_CACHE]
    __attribute__((tls_model("initial-exec")));

static inline struct shm_pin_block *pins_block(struct attachment *a, unsigned **hint)
{
    struct pins_cached *c = &pins_cache[a->generation % PINS_CACHE];

    *hint = &c->hint;
    return c->generation == a->generation ? c->block : pins_slow(a);
}

/* ---- miss.c ---- */

#define LOOK_EVERY DLC_MS(100) /* at the daemon, while one waits for it */

/*
 * What one wait saw of the daemon's heartbeat. Looks are counted, not time: a process that was
 * stopped together with the daemon has not looked.
 */
struct hang_watch {
    struct dlc_mono next; /* look */
    uint64_t beat;
    unsigned still; /* looks that saw the same */
};
/* Looks when it is time to. True: the daemon hangs. */
bool hang_watch_look(struct hang_watch *w, struct attachment *a, struct dlc_mono now);

/* Ask for one sample and wait. DLC_ENODAEMON: the daemon was lost. DLC_EBYPASS: also, unless
 * patient, that it hangs. */
int miss_wait(struct attachment *a, uint64_t sample, struct dlc_mono deadline, bool patient,
              struct dlc_err *err);
/* Ask for one sample and do not wait; nothing happens when all cells are in use. */
void miss_ask(struct attachment *a, uint64_t sample);
int miss_prefetch(struct attachment *a, const uint64_t *idx, size_t n);
/* The cell is filled: hand it to the daemon. */
void miss_submit(struct attachment *a, int cell);

/* ---- large_samples.c ---- */

/* A view of a sample that lies in a file of the disk tier. Returns as attach_call(); DLC_ECORRUPT:
 * the daemon has dropped that file. DLC_EBYPASS: it cannot be read from here. */
int miss_map(struct attachment *a, uint64_t sample, struct dlc_mono deadline, struct dlc_view *out,
             struct dlc_err *err);
void large_free(void *p, uint64_t len); /* of VIEW_MAPPED */

/* ---- bypass.c ---- */

/* How the bucket is read from here. Borrows from ds. */
struct bucket_config direct_config(const struct dlc_dataset *ds);
/* Read from the bucket into private memory. DLC_ETIMEDOUT: not before the deadline. */
int direct_get(struct dlc_dataset *ds, uint64_t sample, struct dlc_mono deadline,
               struct dlc_view *out, struct dlc_err *err);

/* ---- dataset.c ---- */

/* The attachment to use; attaches or re-attaches as allowed. NULL: none now. Gives; return it with
 * dataset_detach(). */
struct attachment *dataset_attached(struct dlc_dataset *ds);
/* The same without attaching. */
struct attachment *dataset_current(struct dlc_dataset *ds);
/* As dataset_attached(), and looks whether its daemon has gone. */
struct attachment *dataset_checked(struct dlc_dataset *ds);
/* The same, and attaching may take until the deadline. */
struct attachment *dataset_checked_until(struct dlc_dataset *ds, struct dlc_mono deadline);
void dataset_detach(struct dlc_dataset *ds, struct attachment *a);
/* Stops using an attachment whose daemon has gone, and looks for no other one. */
void dataset_drop_lost(struct dlc_dataset *ds);
/* No daemon is to be had, and *err says why: look for one later. */
void dataset_back_off(struct dlc_dataset *ds, const struct dlc_err *err);
/* Somebody cannot do without a daemon: look for one soon. */
void dataset_hurry(struct dlc_dataset *ds);
/* `a` has lost its daemon: stop using it. */
void dataset_lost(struct dlc_dataset *ds, struct attachment *a);
/* A view that was got before the fork is put. */
void dataset_put_inherited(struct dlc_dataset *ds, struct attachment *a);
/* Unmap retired attachments that nobody uses any more. */
void dataset_reap(struct dlc_dataset *ds);
/* The process-wide lock, for what fork() must find whole: for moments. */
void client_lock(void);
void client_unlock(void);

/* ---- order.c ---- */

/* Tell a daemon the order that is set, if any. Returns as attach_call(), or that it was refused. */
int reading_tell(struct dlc_dataset *ds, struct attachment *a, struct dlc_err *err);
void reading_release(struct reading *r);
int reading_no_such_position(const struct reading *r, uint64_t epoch,
                             uint64_t position); /* fails */

/* ---- importance.c ---- */

/* Have the weights that a daemon keeps for the job, if one was begun, and bring those along that
 * are new to it. The caller holds dataset.mtx. Returns as reading_tell(). */
int importance_tell(struct dlc_dataset *ds, struct attachment *a, struct dlc_err *err);
void importance_init(struct importance *im);    /* anew: also in a child, whatever was locked */
void importance_release(struct importance *im); /* nobody uses it */

/* ---- substitution.c ---- */

/* Decide what is read at the positions that come near, and in any case at the next n that will be
 * dealt. */
void swap_settle(struct dlc_dataset *ds, size_t n);

void client_init(void); /* before the first descriptor that a child must not have */
/* Take part in fork(), and in what the watch thread does, until it is closed. */
void dataset_enlist(struct dlc_dataset *ds);
void dataset_delist(struct dlc_dataset *ds);
/* Takes a new attachment into use. */
void dataset_attach_to(struct dlc_dataset *ds, struct attachment *a);

/* What kind of view: view.priv[1] */
#define VIEW_NONE   0u
#define VIEW_HEAP   1u
#define VIEW_MAPPED 2u
/* VIEW_MAPPED: priv[0] is the length of its memory;
 * anything else: pointer to the attachment, and priv[0] to the pin */

#endif
