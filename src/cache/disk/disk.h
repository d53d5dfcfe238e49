// SPDX-License-Identifier: Apache-2.0
/*
 * The disk tier: chunks as files below a root (local SSD or any mounted path).
 *
 * A chunk is named by 128 bits (dataset, object key, ETag) and holds an object's bytes and nothing
 * else, in one contiguous file whose name also carries size and checksum:
 *     root/chunks/ab/abcd...-<size hex>-<xxh3 hex>      root/tmp/...: being written
 * It is written under tmp/, synced as configured, and renamed. Files in chunks/ are complete.
 *
 * All functions are X and may block on the disk; call them on threads of a work class. Those of
 * groups and figures, and disk_lookup(), wait neither for the disk nor for a lock that others hold
 * for longer than a few instructions: event loops may call them too. A restarted tier finds its
 * files without reading them: directories are scanned in the background and on first use.
 *
 * Each chunk belongs to the group of a dataset, which has jobs and a cool-down. When space is
 * short, chunks are evicted in this order: of groups that no job needs, of groups that are cooling
 * down, of groups that jobs read, and this is logged. Among chunks of equal standing the policy
 * decides (cache/policy); by default `worth`. Under `worth` a chunk that jobs read is evicted only
 * for chunks that are worth far more. A chunk that would evict only chunks of its own group, while
 * jobs read them, is not stored at all: if everything is read once per epoch, keeping the old
 * chunks hits as often as the share that fits; replacing them hardly ever hits.
 */
#ifndef DLC_CACHE_DISK_DISK_H
#define DLC_CACHE_DISK_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "cache/policy/lifecycle.h"
#include "cache/policy/policy.h"

struct disk;

struct chunk_id {
    uint64_t hi, lo;
    /* Not a part of the name: */
    uint32_t group; /* that uses it, of disk_group(); 0: none */
    float cost;     /* of bringing it, in the unit of policy_cost(); 0: not known */
};

/* In group 0. `place` names bucket and tenant. */
struct chunk_id chunk_id_of(struct name_hash place, const char *key, const char *etag);

struct disk_config {
    const char *root;
    uint64_t limit;           /* bytes of chunks at most; 0: no limit but keep_free */
    uint64_t keep_free;       /* bytes of the file system that stay free */
    bool sync;                /* fsync before rename: survive a power cut, not only a crash */
    struct dlc_dur cool_down; /* how long a group is spared after its last job */
    const struct policy_ops *policy; /* NULL: worth. disk_policy_refusal() says NULL of it */
    struct policy_options policy_options;
};

/* Why the disk tier cannot feed this policy, and which to choose instead; NULL: it can. */
const char *disk_policy_refusal(const struct policy_ops *ops);

/* DLC_EDENIED, DLC_ENOSPACE...: the caller may continue without a disk tier. DLC_EBUSY: another
 * process has the root. */
int disk_open(const struct disk_config *c, struct disk **out, struct dlc_err *err);
void disk_close(struct disk **dp);

/* ---- groups ---- */

/*
 * The group of a key, for as long as the tier is open: found, or made with that name (for
 * messages). 0 if there are 65,535 already: the group of chunks that are unused since a restart.
 */
uint32_t disk_group(struct disk *d, uint64_t key, const char *name);
/* A job begins to need the group's chunks, or ends. They nest. No-ops for group 0. */
void disk_group_join(struct disk *d, uint32_t group);
void disk_group_leave(struct disk *d, uint32_t group);
/* Its jobs will read it this many times more; POLICY_UNKNOWN: they did not say. */
void disk_group_expect(struct disk *d, uint32_t group, int32_t runs);
/* This many of its bytes were fetched from the bucket at this cost (policy_cost). The mean stands
 * for chunks whose own cost is not known. */
void disk_group_cost(struct disk *d, uint32_t group, double cost, uint64_t bytes);

/* What it cost to bring this chunk, if it is there. */
void disk_chunk_cost(struct disk *d, struct chunk_id id, double cost);

struct disk_group_figures {
    enum life_state state;
    uint32_t jobs;
    uint64_t chunks, bytes;
    uint64_t by_state[LIFE_STATES]; /* chunks; those that are PREPARE are not among `chunks` */
};
void disk_group_figures(struct disk *d, uint32_t group, struct disk_group_figures *out);

/* ---- chunks ---- */

/* Lookup in the table of chunks in memory. Never waits: not for a file, and not for a lock. */
enum disk_presence {
    DISK_ABSENT,
    DISK_PRESENT,
    DISK_UNKNOWN, /* its directory was not read yet, or somebody changes the table just now */
};
enum disk_presence disk_lookup(struct disk *d, struct chunk_id id);

/* Is the chunk there? If so, it belongs to the group of `id` from now on. */
bool disk_has(struct disk *d, struct chunk_id id);
/* The state of a chunk; DLC_EMISS: it is not there, and not being put there. */
int disk_chunk_state(struct disk *d, struct chunk_id id, enum life_state *out);

/* Read a chunk of exactly len bytes into dst and verify it. DLC_EMISS: not there. DLC_ECORRUPT: it
 * was damaged and has been dropped. */
int disk_read(struct disk *d, struct chunk_id id, void *dst, uint64_t len, struct dlc_err *err);
/* The same, and returns the checksum of its bytes: XXH3, 64 bits, hash64(). */
int disk_read_sum(struct disk *d, struct chunk_id id, void *dst, uint64_t len, uint64_t *checksum,
                  struct dlc_err *err);

/* Store len bytes. Evicts to make room; DLC_ENOSPACE if that cannot help, or is not worth it. */
int disk_store(struct disk *d, struct chunk_id id, const void *data, uint64_t len,
               struct dlc_err *err);
/* The same for bytes that had this checksum on arrival. DLC_ECORRUPT: they do not have it any more,
 * and nothing is stored. */
int disk_store_sum(struct disk *d, struct chunk_id id, const void *data, uint64_t len,
                   uint64_t checksum, struct dlc_err *err);

/* A chunk that is filled in place, for objects too large for memory. */
struct disk_fill;
int disk_fill_begin(struct disk *d, struct chunk_id id, uint64_t len, struct disk_fill **out,
                    struct dlc_err *err);
void disk_fill_set_cost(struct disk_fill *f, double cost); /* as chunk_id.cost; before the commit */
void *disk_fill_data(struct disk_fill *f); /* len bytes, mapped writable, space reserved */
/* The file system failed to write some of it: the file differs from the mapping and cannot be
 * committed. */
bool disk_fill_failed(const struct disk_fill *f);
/* For a chunk of unknown length: begin it with length 0, append, commit. Such a chunk is essential:
 * it is kept whatever must be evicted for it. */
int disk_fill_append(struct disk *d, struct disk_fill *f, const void *data, size_t len,
                     struct dlc_err *err);
int disk_fill_commit(struct disk *d, struct disk_fill **fp, struct dlc_err *err); /* checksums it */
/* The same for bytes that must have this checksum (NULL: any). DLC_ECORRUPT: they do not, and the
 * file is deleted. */
int disk_fill_commit_sum(struct disk *d, struct disk_fill **fp, const uint64_t *checksum,
                         struct dlc_err *err);
void disk_fill_abandon(struct disk *d, struct disk_fill **fp);

/* Read n bytes at off of a chunk of exactly len bytes into dst and verify them. The first range of
 * a chunk since the tier was opened writes the chunk to the device and reads it back from there,
 * not from the page cache that wrote it, and keeps a checksum of each block; others wait for it
 * meanwhile. Every range is compared with those checksums. DLC_EMISS, DLC_ECORRUPT: as
 * disk_read(). */
int disk_read_range(struct disk *d, struct chunk_id id, uint64_t len, uint64_t off, void *dst,
                    uint64_t n, struct dlc_err *err);
/* A read-only descriptor of an unverified chunk: the reader compares the checksum. Gives *fd. If
 * the chunk is evicted meanwhile, the descriptor stays valid. */
int disk_open_chunk(struct disk *d, struct chunk_id id, uint64_t len, int *fd, uint64_t *checksum,
                    struct dlc_err *err);
/* A reader found the chunk damaged: verify the bytes on the device. DLC_ECORRUPT: it was damaged
 * and has been dropped. */
int disk_verify(struct disk *d, struct chunk_id id, uint64_t len, struct dlc_err *err);

void disk_drop(struct disk *d, struct chunk_id id); /* no-op when absent */
/* Drop everything; returns the bytes freed. */
uint64_t disk_drop_all(struct disk *d);

void disk_set_limit(struct disk *d, uint64_t limit);

/* Call it periodically from an event loop: is an operation overdue? Then the tier is bypassed:
 * chunks count as absent, and nothing is stored, until it answers again. */
void disk_tick(struct disk *d);
bool disk_is_bypassed(const struct disk *d);

struct disk_figures {
    uint64_t chunks, bytes, limit, keep_free;
    uint64_t fs_free;    /* as the file system said last: a thread asks it every second */
    bool scanning;       /* the background scan has not finished: chunks and bytes may still rise */
    bool read_only;      /* writing failed for good; reading goes on */
    const char *breaker; /* closed, open, half-open: all but the first bypass the tier */
    const char *breaker_why; /* "" while it is closed */
};
void disk_figures(struct disk *d, struct disk_figures *out);

#endif
