// SPDX-License-Identifier: Apache-2.0
/*
 * Internals of the memory tier; private to this directory. All of it belongs to the node loop.
 *
 * One descriptor (struct mem_fill) goes with one sample's memory from memory_reserve() until the
 * memory is free again. Where it can be found depends on its state:
 *
 *     state      index->samples   policy   list (block.node)   slot
 *     FILLING    yes, or detached no       none                EMPTY
 *     RESIDENT   yes              yes      none                READY
 *     RETIRED    no               no       memory->retired     EMPTY, or READY for a later fill
 *
 * (MEMORY-1) Memory goes from RESIDENT to free only through RETIRED, and leaves it only after a
 *            scan of the index's pins that began after the slot was EMPTY saw no pin, with no hold
 *            left: (ONE-NODE-2).
 * (MEMORY-2) mem_fill.seen says which pass of the scan saw a pin of a sample that is FILLING or
 *            RESIDENT. It may be out of date, so it only advises the choice of victims.
 * (MEMORY-3) At most one copy of a sample has holds at a time, so a sample number says which.
 * (MEMORY-4) A sample's place in the policy is right while its `known` is its index's `version`;
 *            else evict.c asks for what the policy uses (next use, weight or runs) before it makes
 *            it a victim, as far as that stays cheap.
 */
#ifndef DLC_CACHE_MEMORY_MEMORY_I_H
#define DLC_CACHE_MEMORY_MEMORY_I_H

#include <linux/futex.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/u64map.h"
#include "cache/memory/arena_i.h"
#include "cache/memory/extents_i.h"
#include "cache/memory/memory.h"
#include "cache/memory/segment_i.h"
#include "cache/policy/policy.h"

#define MEMORY_TAG      DLC_TAG4('m', 'e', 'm', 'o')
#define MEM_INDEX_TAG   DLC_TAG4('m', 'i', 'd', 'x')
#define MEM_SESSION_TAG DLC_TAG4('m', 's', 'e', 's')

/* user_pins.c: bytes that passes of the scan saw pinned, by all or by one user. */
struct pin_sum {
    struct {
        uint64_t pass, bytes;
    } now, before; /* of the last pass that saw some, and of the one before that */
};

/* One user of the daemon; the one with the id MEM_OWNER is part of struct memory. */
struct mem_user {
    uint64_t id;
    uint16_t number;       /* of MEM_OWNER 0; in mem_fill.seen_by */
    unsigned n_sessions;   /* 0: it is freed, unless it is MEM_OWNER */
    struct dlc_list *last; /* mem_session.of_scan: sessions of one user are neighbours; or NULL */
    struct pin_sum pinned;
};

/* pin_scan.c. Passes are numbered from 1. */
struct pin_scan {
    struct dlc_list sessions; /* of all indexes: mem_session.of_scan */
    int phase;
    bool all;                /* the pass under way looks at indexes without retired samples, too */
    uint64_t pass;           /* begun last */
    uint64_t done;           /* ended last */
    uint64_t advice;         /* the last one of `all` that ended: what it saw pinned is no victim */
    struct dlc_list *next;   /* session, or retired sample, to look at next */
    unsigned block;          /* of that session */
    uint64_t covered, fresh; /* retired bytes that the pass under way decides on; later ones */
    uint64_t cost;           /* steps of the last pass */
    struct dlc_dur took;     /* its time */
    struct dlc_mono window;  /* began then, */
    struct dlc_dur left;     /* and so much of it is left for scans */
    unsigned sums;           /* blocks that may still be summed up in it */
    struct pin_sum pinned;   /* bytes of samples that somebody pins */
};

struct memory {
    uint32_t tag;
    struct extents extents;
    struct robust_list *owner_entry; /* owner.c; NULL: no thread owns it */
    struct arena arena;
    uint64_t wanted;  /* where the ceiling is going */
    bool above;       /* a fill was published above the ceiling */
    bool giving_back; /* pages of large holes below the ceiling, too */
    struct dlc_list indexes;
    struct dlc_list sessions; /* of all indexes: mem_session.of_memory; those to be told first */
    unsigned n_sessions;
    unsigned untold;       /* sessions at the head that may not know of all extents */
    unsigned n_behind;     /* sessions whose channel was full */
    const double *clock;   /* of the policy; NULL: the machine's */
    struct policy *policy; /* which of the RESIDENT goes next, */
    struct policy
        *decoded_order;      /* after all those that are in decoded indexes, the lowest first */
    struct dlc_list freed;   /* indexes without owner that still hold samples: mem_index.node */
    struct dlc_list retired; /* RETIRED, the oldest first */
    uint64_t retired_bytes;
    uint64_t retired_held; /* retired samples with holds */
    uint64_t residents;
    uint64_t known;                  /* of those: (MEMORY-4) */
    uint32_t serials;                /* given to indexes */
    uint64_t decoded, decoded_bytes; /* RESIDENT in decoded indexes: how many, and their blocks */
    uint64_t to_come, unused;        /* sums over indexes: mem_index_expect(), _set_unused() */
    struct pin_scan scan;
    struct mem_user owner; /* sessions of no other user */
    struct map users;      /* id -> struct mem_user: others that have sessions */
    uint16_t last_number;
};

/* All retired copies of one sample: a pin does not say which one it holds. */
struct mem_retired {
    uint64_t seen; /* the last pass that saw a pin, ... */
    uint64_t bytes;
    unsigned copies;
    uint16_t seen_by; /* ... and mem_user.number of the last that was seen */
};

struct mem_index {
    uint32_t tag;
    struct dlc_list node;
    struct memory *m;
    struct segment seg;
    struct shm_slot *slots;
    uint64_t n;
    bool decoded;               /* of decoded samples: they leave first */
    uint64_t freeing;           /* in memory.freed: the samples before this one have left */
    uint64_t released;          /* in memory.freed: bytes of `fills` given back */
    struct mem_fill **fills;    /* of each sample that is FILLING or RESIDENT; else NULL. Sparse */
    struct map retired_samples; /* number -> struct mem_retired */
    struct dlc_list sessions;
    uint64_t resident, bytes;  /* of RESIDENT samples: index_count() */
    uint64_t expected;         /* mem_index_expect() */
    bool unused;               /* mem_index_set_unused() */
    uint64_t filling, retired; /* samples FILLING, RETIRED */
    mem_next_use_f *next_use;  /* NULL: nobody knows */
    void *next_use_arg;
    const struct mem_value_ops *value; /* NULL: nobody knows */
    void *value_arg;
    uint32_t serial;  /* no other index of this memory has it, until there were 2^24 */
    uint64_t known;   /* RESIDENT samples that are: (MEMORY-4) */
    uint32_t version; /* of next uses; never 0 */
};

struct mem_session {
    uint32_t tag;
    struct dlc_list node;
    struct mem_index *x;
    struct mem_user *user;
    struct segment seg;
    uint32_t *given; /* of each extent the generation whose descriptor it got last; 0: none */
    /* announce.c */
    struct dlc_list of_memory;
    struct dlc_list of_scan;                    /* pin_scan.c */
    struct mem_session_stats stats, next_stats; /* of the last pass over it, and of this one */
    int channel, client_end;                    /* -1: closed */
    uint32_t told_made;                         /* extents.generations */
    uint64_t told_drops;                        /* extents.drops */
    bool behind;                                /* there is more to tell */
    uint64_t log_seen[SHM_BLOCKS]; /* of each block: the log_seq up to which it was read */
};

enum mem_state { MEM_FILLING, MEM_RESIDENT, MEM_RETIRED };

struct mem_fill {
    struct arena_block block; /* first: the arena allocates the whole */
    struct policy_item item;
    struct mem_index *x;
    uint64_t sample;
    union {
        uint64_t checksum;   /* of the bytes as they came; 0: nobody will ask */
        uint64_t retired_in; /* RETIRED: the pass that had begun last then */
    };
    uint64_t seen; /* not RETIRED: the last pass that saw a pin; 0: none */
    uint32_t len;
    uint32_t holds;
    uint32_t known;   /* version of the index when next_use was asked; 0: never */
    uint8_t state;    /* enum mem_state */
    bool waited;      /* has been seen pinned while retired */
    uint16_t seen_by; /* with seen: mem_user.number of the last that was seen */
};
static_assert(offsetof(struct mem_fill, block) == 0, "the arena's descriptor comes first");

static inline struct mem_fill *mem_fill_of(struct dlc_list *node)
{
    return dlc_container(node, struct mem_fill, block.node);
}

static inline struct mem_fill *mem_fill_of_item(struct policy_item *it)
{
    return dlc_container(it, struct mem_fill, item);
}

/* The policy that decides when it is evicted. */
static inline struct policy *mem_fill_policy(const struct mem_fill *f)
{
    return f->x->decoded ? f->x->m->decoded_order : f->x->m->policy;
}

static inline struct mem_fill *mem_fill_of_block(struct arena_block *b)
{
    dlc_check(b->kind == ARENA_USED);
    return dlc_container(b, struct mem_fill, block);
}

/* Does the client have this extent mapped, as far as it says? */
static inline bool session_holds(const struct mem_session *s, uint32_t k, uint32_t generation,
                                 uint64_t number)
{
    const struct shm_session_hdr *h = s->seg.map;

    /* acquire: pairs with the client's store after it unmapped */
    return s->given[k] == generation &&
           atomic_load_explicit(&h->drops_seen, memory_order_acquire) < number;
}

/* ---- pin_scan.c: pins and logs of all sessions, in slices; what clients wrote is hostile ---- */

/* The pin blocks that may be in use: [0, *n). */
struct shm_pin_block *session_blocks(const struct mem_session *s, unsigned *n);
void pin_scan_init(struct pin_scan *p);
void pin_scan_join(struct mem_session *s);
void pin_scan_leave(struct mem_session *s);
void pin_scan_last_hits(struct mem_session *s); /* it ends: hear of hits since the last look */
void pin_scan_retired(struct mem_fill *f);      /* goes to the end of memory.retired */
bool mem_fill_pinned(const struct mem_fill *f); /* (MEMORY-2) */
/* Begin a pass, or go on with the one under way and then begin one, as far as this turn may. True:
 * all that was retired before the call was looked at. */
bool memory_scan(struct memory *m, bool all);
void memory_scan_on(struct memory *m);       /* go on with the one that somebody waits for */
void memory_scan_tick(struct memory *m);     /* begin one, or go on with the one under way */
bool memory_scan_is_short(struct memory *m); /* a pass would probably end in this turn */

/* ---- user_pins.c ---- */

void user_pins_release(struct memory *m);
void user_join(struct mem_session *s, uint64_t user); /* before it joins the scan */
void user_leave(struct mem_session *s);               /* after it left the scan */
/* A pass of `all` sees a pin of the session on `bytes` of memory; seen and seen_by are those of that
 * memory before. */
void user_pins_seen(struct mem_session *s, uint64_t bytes, uint64_t seen, uint16_t seen_by);
/* How much of memory may be in use after a reservation for the user. UINT64_MAX: all of it. */
uint64_t user_pins_limit(const struct memory *m, uint64_t user);
uint64_t user_pins_total(const struct memory *m); /* bytes that the last pass of `all` saw pinned */

/* The policy's time: seconds that never run backwards. */
static inline double memory_now(const struct memory *m)
{
    return m->clock != NULL ? *m->clock : (double)dlc_mono_now().ns / 1e9;
}

/* ---- owner.c ---- */

void memory_end_owner(struct memory *m); /* its clients are told that the owner has ended */

/* ---- announce.c ---- */

int channel_open(struct mem_session *s); /* 0, or -1 with errno */
void channel_join(struct mem_session *s);
void channel_leave(struct mem_session *s);
void memory_announce(struct memory *m);      /* extents were made or dropped: begin to tell */
bool memory_announce_some(struct memory *m); /* a step; true: there is more to do at once */

/* ---- evict.c ---- */

/* Ask for what the policy uses of it, and place it by that. *steps: as mem_next_use_f. */
void memory_ask(struct mem_fill *f, unsigned *steps);

/* RESIDENT to RETIRED. */
/* So many more samples of that length are RESIDENT: 1 or -1. */
void index_count(struct mem_index *x, int samples, uint64_t bytes);
void memory_retire(struct mem_fill *f);
/* Scan the pins of the indexes that have retired samples and free samples without pins and holds,
 * as far as this turn may. */
void memory_sweep_retired(struct memory *m);
/* A step: move the ceiling, retire what lies above it, sweep, and give pages back. True: there is
 * more to do at once. */
bool memory_settle_ceiling(struct memory *m);
/* Make a hole of len bytes by evicting, and allocate it. NULL: the rest is in use. */
bool memory_is_closing(const struct memory *m);
struct arena_block *memory_make_room(struct memory *m, uint64_t len, uint64_t user);
/* Allocate if at most `limit` bytes are in use then. */
struct arena_block *memory_alloc_below(struct memory *m, uint64_t len, uint64_t limit);

/* (MEMORY-4) */
static inline bool mem_fill_known(const struct mem_fill *f)
{
    return f->known == f->x->version;
}

static inline void mem_fill_set_known(struct mem_fill *f, bool known)
{
    uint64_t more = (uint64_t)known - (uint64_t)mem_fill_known(f); /* 1, 0 or -1 */

    f->x->known += more;
    f->x->m->known += more;
    f->known = known ? f->x->version : 0;
}

#endif
