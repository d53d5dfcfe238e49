// SPDX-License-Identifier: Apache-2.0
/*
 * The memory tier: one segment, the indexes of the datasets in it, and the sessions that read them.
 * Layout and the pin protocol are in shm.h; this is the daemon's side.
 *
 * All functions are L (the node loop's). The one exception: the bytes of a fill may be written by
 * any one thread between memory_reserve() and memory_publish().
 *
 *     absent --reserve--> FILLING --publish--> RESIDENT --evict--> RETIRED --no pins--> absent
 *                         FILLING --abandon--> absent
 */
#ifndef DLC_CACHE_MEMORY_MEMORY_H
#define DLC_CACHE_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "ipc/shm.h"

struct memory;
struct mem_index;
struct mem_session;
struct mem_fill;
struct policy_ops;
struct policy_options;

/* A segment that may grow to max bytes and uses at most `ceiling` of them now. */
int memory_new(uint64_t max, uint64_t ceiling, struct memory **out, struct dlc_err *err);
void memory_free(struct memory **mp); /* sessions and indexes must be gone */

/* A descriptor of the segment's header, which can only be mapped read-only. Borrowed. */
int memory_fd(const struct memory *m);
uint64_t memory_header_size(const struct memory *m); /* of its mapping */
uint64_t memory_size(const struct memory *m);        /* of the range of all extents */
/* The daemon is ending: clients are notified, and from now on no byte of the segment changes. */
void memory_set_closing(struct memory *m);

/* Clients are notified when the calling thread ends, also when it is killed. That thread frees it.
 */
void memory_set_owner(struct memory *m);

/* One dataset's slots. */
int mem_index_new(struct memory *m, uint64_t n, uint64_t snapshot, struct mem_index **out,
                  struct dlc_err *err);
/* Sessions must be gone and fills ended. Its samples are evicted in steps, before all others: when
 * room is needed, and by memory_free_some(). */
void mem_index_free(struct mem_index **xp);
int mem_index_fd(const struct mem_index *x);            /* read-only. Borrowed */
uint64_t mem_index_size(const struct mem_index *x);     /* bytes of the mapping */
uint64_t mem_index_resident(const struct mem_index *x); /* samples now READY */
uint64_t mem_index_bytes(const struct mem_index *x);    /* bytes of them */
bool mem_index_ready(const struct mem_index *x, uint64_t sample);
bool mem_index_known(const struct mem_index *x, uint64_t sample); /* or being filled */

/* Its samples are decoded and can be made again: they are added only by memory_reserve_decoded()
 * and evicted before any sample. Call it before the first one. */
void mem_index_set_decoded(struct mem_index *x);
void mem_index_tell_room(struct mem_index *x, uint64_t room); /* tells clients, and how many */

/* Sums over indexes, kept as they change: how many there are does not matter. */
/* Its dataset is in use, and would take so many bytes in all; 0: it is not in use. */
void mem_index_expect(struct mem_index *x, uint64_t bytes);
uint64_t memory_to_come(const struct memory *m); /* of what is expected: not RESIDENT */
/* Nobody uses its decoded samples. */
void mem_index_set_unused(struct mem_index *x, bool unused);
uint64_t memory_unused(const struct memory *m); /* bytes of them */

/* One client's pins and cells. */
int mem_session_new(struct mem_index *x, struct mem_session **out, struct dlc_err *err);
void mem_session_free(struct mem_session **sp); /* its pins no longer count */
int mem_session_fd(const struct mem_session *s);
void *mem_session_map(const struct mem_session *s); /* SHM_SESSION_SIZE bytes, hostile */
/* The client's end of its channel: a socket over which it hears of extents. Gives, once. */
int mem_session_take_channel(struct mem_session *s);
void mem_session_hang_up(struct mem_session *s); /* it hears no more of extents */

/* Whose it is; without this, of the daemon's own user, MEM_OWNER. Call it before the client reads. */
#define MEM_OWNER  ((uint64_t)0)
#define MEM_NOBODY UINT64_MAX
void mem_session_set_user(struct mem_session *s, uint64_t user);

/* Extents of the segment from number `from` on, in order: n of them, or as many as there are. */
struct mem_extent {
    uint32_t number, generation;
    int fd; /* read-only. Borrowed, until the next call that evicts */
};
unsigned mem_session_extents(struct mem_session *s, uint64_t from, struct mem_extent *out,
                             unsigned n);

/*
 * The upload slots of a session of the decoded cache: SHM_UPLOADS_SIZE bytes, sparse, which the
 * client may write at any time. Counted: a worker may still copy when the session has gone.
 */
struct mem_uploads;
int mem_uploads_new(struct mem_uploads **out, struct dlc_err *err);
struct mem_uploads *mem_uploads_ref(struct mem_uploads *g);
void mem_uploads_put(struct mem_uploads **gp);
int mem_uploads_fd(const struct mem_uploads *g);
/* X: copy `len` bytes of a slot; false: not read. They are hostile. Memory that the client has not
 * written stays without pages, so that nobody but the client pays for it. */
bool mem_upload_read(const struct mem_uploads *g, uint32_t number, void *to, uint64_t len);

/* Memory of a fixed size, sparse and zeroed, that the daemon and some clients write together. */
struct mem_common;
int mem_common_new(const char *name, uint64_t size, struct mem_common **out, struct dlc_err *err);
void mem_common_free(struct mem_common **cp);
int mem_common_fd(const struct mem_common *c);
void *mem_common_map(const struct mem_common *c); /* hostile */

/* Statistics the client keeps, summed over its blocks; where there are thousands, as of the
 * last look at its pins. */
struct mem_session_stats {
    uint64_t hits, misses, bypasses, bytes, stall_ns, pins;
};
void mem_session_stats(const struct mem_session *s, struct mem_session_stats *out);

/*
 * Allocate for a sample that is absent, evicting as needed. DLC_ELARGE: more than a quarter of the
 * ceiling. DLC_EBYPASS: everything else is pinned or being filled. DLC_EBUSY: it is not known yet
 * what is pinned; try again while memory_room_is_coming(), and once after it.
 */
int memory_reserve(struct memory *m, struct mem_index *x, uint64_t sample, uint64_t len,
                   struct mem_fill **out);
/* The same for a reader of that user (user_pins.c); MEM_NOBODY: for no reader, as above. */
int memory_reserve_for(struct memory *m, struct mem_index *x, uint64_t sample, uint64_t len,
                       uint64_t user, struct mem_fill **out);
/* The same for a decoded index, without evicting: leaves `keep` bytes and 1/16 of the ceiling free.
 * DLC_EBUSY: it does not fit. */
int memory_reserve_decoded(struct memory *m, struct mem_index *x, uint64_t sample, uint64_t len,
                           uint64_t keep, struct mem_fill **out);
uint64_t memory_room_decoded(const struct memory *m, uint64_t keep); /* bytes */
void *mem_fill_data(const struct mem_fill *f);
/* Set the checksum of its bytes on arrival: XXH3, 64 bits. Before memory_publish(), for samples
 * that go to disk or peers. */
void mem_fill_set_checksum(struct mem_fill *f, uint64_t checksum);
/* What it cost to bring it, in the unit of policy_cost(). Before memory_publish(). Default: 0. */
void mem_fill_set_cost(struct mem_fill *f, double cost);
void memory_publish(struct memory *m, struct mem_fill **fp); /* takes; the sample is READY */
void memory_abandon(struct memory *m, struct mem_fill **fp); /* takes; the sample stays absent */
/* A writer that cannot be stopped may still write into it: the sample may be reserved again, and
 * this memory stays until memory_abandon(). */
void memory_detach(struct memory *m, struct mem_fill *f);

/* The daemon's own pin, e.g. while a resident sample is written to disk; it outlasts an eviction.
 * NULL: not resident, or a copy that was evicted since is still held. */
const void *memory_hold(struct memory *m, struct mem_index *x, uint64_t sample, uint64_t *len);
void memory_unhold(struct memory *m, struct mem_index *x, uint64_t sample);
/* The checksum that was set for a resident sample: its bytes must still have it. */
uint64_t mem_index_checksum(const struct mem_index *x, uint64_t sample);

void memory_touch(struct memory *m, struct mem_index *x, uint64_t sample); /* used just now */

/*
 * When will the sample be used next, on any clock that all indexes share? INFINITY: unknown. Asked
 * while a victim is chosen, of few samples, so that changes of orders need not be pushed. *steps:
 * add the amount of work, in lookups in an order.
 */
typedef double mem_next_use_f(void *arg, uint64_t sample, unsigned *steps);
/* fn NULL: next uses are unknown, as initially. */
void mem_index_set_next_use(struct mem_index *x, mem_next_use_f *fn, void *arg);
/* What the policies `importance` and `worth` use of a sample; asked for like its next use. */
struct mem_value_ops {
    double (*weight)(void *arg, uint64_t sample); /* of the jobs that read it */
    int32_t (*runs)(void *arg); /* of the dataset, still to come; POLICY_UNKNOWN: not declared */
};
/* Borrows: ops, for good. NULL: nobody knows, as initially. */
void mem_index_set_value(struct mem_index *x, const struct mem_value_ops *ops, void *arg);
void mem_index_runs_changed(struct mem_index *x); /* runs() gives another answer now. O(1) */
/* Earlier answers may be wrong: of all samples; of one; of one, and it is sooner now. O(1), O(log
 * n), O(1). */
void mem_index_forget_uses(struct mem_index *x);
void memory_forget_use(struct mem_index *x, uint64_t sample);
void memory_use_is_sooner(struct mem_index *x, uint64_t sample);
/* Set the eviction policy. Default: clairvoyant, which is LRU where no next use is known. Only when
 * empty. o may be NULL. */
void memory_set_policy(struct memory *m, const struct policy_ops *ops,
                       const struct policy_options *o);
/* The policy's time is read from there, not from the machine: for simulations. Borrows: seconds. */
void memory_set_clock(struct memory *m, const double *seconds);
bool memory_evict(struct memory *m, struct mem_index *x, uint64_t sample); /* false: not resident */
/* Bytes; NULL: of all. Linear in what is resident: not for event loops. */
uint64_t memory_evict_all(struct memory *m, struct mem_index *x);
/* As memory_evict(), but the memory is free only after the next look at the pins. O(log n) */
bool memory_evict_soon(struct mem_index *x, uint64_t sample);
/* The same for one index in steps of bounded work: *place begins at 0, *bytes grows. False: all are
 * evicted; then call memory_give_back(). */
bool mem_index_evict_some(struct mem_index *x, uint64_t *place, uint64_t *bytes);
/* Also return the pages of large holes below the ceiling, in the steps of memory_free_some(). O(1)
 */
void memory_give_back(struct memory *m);

/* Raise or lower the ceiling. Lowering evicts and gives pages back, except where pins hold them.
 * This does the first step; memory_free_some() and memory_tick() do the others. */
void memory_set_ceiling(struct memory *m, uint64_t bytes);

/* A step of bounded work, about a millisecond: evict some samples of freed indexes, move the
 * ceiling, return pages. False: there is nothing to do. */
bool memory_free_some(struct memory *m);

/* Was something retired that nobody has looked at since? memory_free_some() does, in its steps. */
bool memory_room_is_coming(const struct memory *m);

/* Call it periodically, and before evicting: reads the clients' logs for recency, frees retired
 * samples without pins. Also does a step of memory_free_some(). */
void memory_tick(struct memory *m);

struct memory_figures {
    uint64_t max, ceiling, used, retired; /* bytes */
    uint64_t residents;                   /* samples */
    uint64_t decoded, decoded_bytes;      /* in decoded indexes; counted in used */
    uint64_t largest_free;
    uint64_t populated; /* bytes of memory the kernel has given to the segment, with dropped extents
                           that clients may still map: what counts in struct mem_wish as used */
};
void memory_beat(struct memory *m); /* tells clients that the loop runs; now and then */
uint64_t memory_ceiling(const struct memory *m); /* bytes; asks nobody */
/* What of it can be filled ahead of readers: user_pins.c keeps the rest. */
uint64_t memory_usable(const struct memory *m);
void memory_figures(const struct memory *m, struct memory_figures *out); /* a system call */

/* The whole tier as text, for people: segment, indexes, sessions and their pins, blocks, retired
 * samples. */
void memory_dump(const struct memory *m, struct buf *out);

#endif
