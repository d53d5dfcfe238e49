// SPDX-License-Identifier: Apache-2.0
/*
 * Internals of the disk tier: definitions that its files share. The rules are in disk.c.
 *
 *     chunk_name.c    names of files              chunk_table.c      chunks in memory
 *     space.c         limits and eviction         eviction_groups.c  order of eviction
 *     recovery.c      chunks after a restart      notes.c            changes without the lock
 *     watch.c         free space                  breaker.c          a disk that hangs or fails
 *     write.c         writing                     read.c             reading
 *     block_sums.c    checksums of ranges
 */
#ifndef DLC_CACHE_DISK_DISK_I_H
#define DLC_CACHE_DISK_DISK_I_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "cache/disk/disk.h"
#include "cache/disk/chunk_name_i.h"
#include "cache/disk/chunk_table_i.h"
#include "cache/disk/eviction_groups_i.h"

#define DISK_TAG DLC_TAG4('d', 'i', 's', 'k')

enum shard_state {
    SHARD_UNKNOWN,
    SHARD_SCANNING, /* by some thread */
    SHARD_KNOWN,
};

/* notes.c */
enum note_kind { NOTE_NEW, NOTE_JOIN, NOTE_LEAVE, NOTE_EXPECT, NOTE_COST, NOTE_CHUNK };

struct note {
    enum note_kind kind;
    uint32_t group;
    double at;
    uint64_t key; /* NEW */
    char *name;   /* NEW */
    int32_t runs; /* EXPECT */
    double cost;  /* COST */
    uint64_t bytes;
    struct chunk_id id; /* CHUNK, with cost */
};

struct notes {
    struct dlc_mtx mtx; /* rank LCK_disk_notes */
    struct note *v;     /* G: mtx */
    size_t n, cap;      /* G: mtx */
    struct map by_key;  /* G: mtx: key -> number of the group */
    uint32_t n_groups;  /* G: mtx: numbers given out */
    _Atomic bool any;   /* W under mtx, R any: spares a lock where there are none */
};

/* breaker.c */
enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };
enum breaker_reason { BREAKER_WELL, BREAKER_HANGS, BREAKER_FAILS };
#define BREAKER_OPS 64 /* threads that use the tier at once; more are not watched */

/* Apart: where reads fail and writes do not, reads still fail. */
enum disk_op_kind { DISK_OP_READ, DISK_OP_WRITE, DISK_OP_ASK };
#define N_DISK_OPS 3

struct breaker {
    _Atomic int state;                     /* enum breaker_state */
    _Atomic int why;                       /* enum breaker_reason */
    _Atomic int64_t opened;                /* when */
    _Atomic unsigned failures[N_DISK_OPS]; /* in a row, by enum disk_op_kind */
    _Atomic int64_t due[BREAKER_OPS];      /* until when operations under way should end; 0: none */
    struct dlc_dur wait;                   /* the watch thread's */
};

struct disk_op {
    enum disk_op_kind kind;
    int64_t began;
    uint64_t bytes;
    int slot;
};

struct disk {
    uint32_t tag;
    char *root;
    bool sync;
    int lock_fd;
    uint64_t keep_free;
    pthread_t scanner, watcher;
    _Atomic bool stop;        /* W disk_close, R scanner, relaxed: only asks it to hurry */
    _Atomic bool read_only;   /* W any, R any, relaxed: late sight costs one failed write */
    _Atomic bool shard_open;  /* W any, R any: a new shard's name was not synced, see write.c */
    _Atomic uint64_t serial;  /* of temporary names; relaxed: only has to differ */
    _Atomic uint32_t n_fills; /* not yet committed or abandoned; relaxed: for a check */

    /* W under mtx (fs_free: by the thread that asked), R any, relaxed: figures */
    struct {
        _Atomic uint64_t chunks, bytes, limit, fs_free;
        _Atomic bool scanning;
    } seen;
    struct notes notes;
    struct breaker breaker;

    /* rank LCK_disk; disk_lock() takes it. Not held over any system call: the file system may hang
     */
    struct dlc_mtx mtx;
    struct dlc_cond changed;     /* a chunk stopped being busy, or a shard being scanned */
    struct chunks table;         /* G: mtx */
    struct groups groups;        /* G: mtx */
    struct map sums;             /* G: mtx: id of a chunk -> struct block_sums */
    uint8_t shards[DISK_SHARDS]; /* enum shard_state; G: mtx */
    bool scanning;               /* G: mtx: the background scan has not ended */
    uint64_t limit;              /* G: mtx */
    uint64_t bytes;              /* G: mtx: of all chunks in the table */
    uint64_t writing;            /* G: mtx: reserved by stores and fills that are not chunks yet */
    uint64_t unallocated; /* G: mtx: the part of writing that the file system does not know yet */
    uint32_t leaving;     /* G: mtx: chunks whose files are being unlinked */
    uint64_t fs_free;     /* G: mtx: as of fs_asked, and our own changes since */
    struct dlc_mono fs_asked; /* G: mtx */
    bool fs_asking;           /* G: mtx: a thread waits for the file system's answer */
    struct dlc_cond stopping; /* d->stop was set, under mtx */
};

static inline struct disk *disk_check(struct disk *d)
{
    dlc_check(d != NULL && d->tag == DISK_TAG);
    return d;
}

static inline struct chunk_name chunk_name_of(const struct chunk *c)
{
    return (struct chunk_name){{.hi = c->hi, .lo = c->lo, .group = c->group}, c->size, c->checksum};
}

/* Is it we who lack something, not the device that fails? Then the chunk is none the worse, and the
 * breaker does not count it. */
static inline bool disk_we_lack(int e)
{
    return e == EMFILE || e == ENFILE || e == ENOMEM;
}

/* dlc_err_sys() was called for such an error: it has the right words, and EIO for EMFILE. */
static inline int disk_lacking(struct dlc_err *err)
{
    if (err != NULL)
        err->code = DLC_ENOMEM;
    return DLC_ENOMEM;
}

/* The time of lives and policies. */
static inline double disk_now(void)
{
    return (double)dlc_mono_now().ns / 1e9;
}

/* The chunk when it is there and not busy, else CHUNK_NONE. */
static inline uint32_t disk_find_locked(struct disk *d, struct chunk_id id)
{
    dlc_mtx_assert_held(&d->mtx);
    return chunks_find_idle(&d->table, id);
}

/* notes.c: applies pending notes; the only function that takes d->mtx. */
void disk_lock(struct disk *d);
void disk_unlock(struct disk *d); /* publishes figures */
void notes_init(struct notes *n);
void notes_release(struct notes *n);

/* recovery.c: make sure that the files of id's shard are in the table. 0 or DLC_E*. */
int disk_shard_ready(struct disk *d, struct chunk_id id, struct dlc_err *err);
void *disk_scan_thread(void *arg);

/* space.c: reserve len bytes of `writing` for that chunk, evicting as needed. `must`: it
 * is worth whatever has to go. */
int disk_reserve(struct disk *d, struct chunk_id id, uint64_t len, bool must, struct dlc_err *err);
/* The file system has allocated (or never will) what was reserved. */
void disk_allocated(struct disk *d, uint64_t len);
void disk_unreserve(struct disk *d, uint64_t len); /* give back; was allocated */
/* The file system had less space than reported: evict len more bytes, at least a MB. True if
 * anything was evicted. */
bool disk_evict_more(struct disk *d, struct chunk_id id, uint64_t len);
void disk_trim(struct disk *d); /* down to the limit */
/* Unlink a chunk's file and forget it. Releases the lock meanwhile; false if the file stays. */
bool disk_remove_locked(struct disk *d, uint32_t slot);
/* Ask the file system for its free space if the last answer is old. Waits for it, without the lock;
 * other callers use the last answer meanwhile. */
void disk_refresh(struct disk *d);
/* breaker.c: the file system refuses writes: remember it, log it once. */
void disk_note_write_error(struct disk *d, int e);
/* Around everything that waits for the file system. rc: DLC_EIO and DLC_ETIMEDOUT count against the
 * device, bytes that were read or written count for it. */
struct disk_op disk_op_begin(struct disk *d, enum disk_op_kind kind, uint64_t bytes);
void disk_op_end(struct disk *d, const struct disk_op *op, bool well);
void disk_op_end_rc(struct disk *d, const struct disk_op *op, int rc);
void breaker_look(struct disk *d); /* the watch thread */
void breaker_figures(const struct disk *d, struct disk_figures *out);
/* watch.c: asks every second. */
void *disk_watch_thread(void *arg);

/* read.c: the checksum of an open file. -1 with errno */
int disk_sum_file(int fd, uint64_t len, uint64_t *checksum);

/* disk.c: drop the chunk if it is still this one. */
void disk_forget(struct disk *d, const struct chunk_name *n);

#endif
