// SPDX-License-Identifier: Apache-2.0
/*
 * Reading in an order that the daemon knows: it fetches ahead of the reader, so that the reader
 * does not wait.
 *
 * Two ways to use it. A process that reads for itself calls dlc_follow() once, then dlc_next() for
 * each sample. A process that hands samples to workers calls dlc_follow() once, dlc_take() for the
 * numbers that the workers read with dlc_get(), and dlc_advance() to say how far they are.
 */
#ifndef DLCACHE_ORDER_H
#define DLCACHE_ORDER_H

#include "dlcache/core.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dlc_order_kind {
    DLC_SEQUENTIAL = 0, /* 0, 1, 2, ... */
    DLC_SHUFFLED = 1,   /* a new permutation per epoch, from the seed */
    DLC_EXPLICIT = 2,   /* the list of this rank, one per epoch; see dlc_follow_more() */
};

/*
 * Zero-initialise. All ranks read one global order: rank r takes positions r, r + world,
 * r + 2 world and so on, so the sequence of global batches is the same on any number of ranks. If
 * world does not divide the number of samples, the order is padded or cut, as PyTorch's
 * DistributedSampler does it.
 */
struct dlc_order {
    uint32_t kind;      /* enum dlc_order_kind */
    uint32_t rank;      /* of this process */
    uint32_t world;     /* number of ranks; 0 counts as 1 */
    uint32_t drop_last; /* 1: cut to a multiple of world; 0: pad */
    uint32_t relaxed;   /* 1: a resident sample may be read before a missing one; each once */
    uint32_t reserved0;
    uint64_t seed;
    uint64_t epochs;       /* how many will be read; 0: no end */
    uint64_t first, count; /* a range of samples, such as a split; count 0: to the last */
    const uint64_t *list;  /* DLC_EXPLICIT; borrowed for the call */
    uint64_t list_len;
    uint64_t
        window; /* samples to fetch ahead of the reader, within memory; 0: the daemon measures */
    uint64_t reserved[3];
};

/*
 * Read in this order from now on, beginning at `position` of `epoch`. A position counts samples of
 * this rank.
 * Borrows: order.   Threads: one at a time for this and all functions of this header.
 */
DLC_API int dlc_follow(struct dlc_dataset *ds, const struct dlc_order *order, uint64_t epoch,
                       uint64_t position);

/*
 * DLC_EXPLICIT: give the list of the next epoch, so that the daemon can fetch beyond the end of
 * this one. Lists may differ in length. The library keeps two: of the epoch that is being read and
 * of the one after it.
 * Borrows: list, for the call.
 * Returns: 0; DLC_EBUSY when the next list was given already (wait for the end of this epoch);
 * DLC_EINVAL after the last of order.epochs, or when the order is not explicit.
 */
DLC_API int dlc_follow_more(struct dlc_dataset *ds, const uint64_t *list, uint64_t n);

/* Number of samples of this rank in the epoch that is being read; DLC_E* when no order is set. At
 * the end of the last list that was given: the length of that list. */
DLC_API int64_t dlc_epoch_length(struct dlc_dataset *ds);

/*
 * The next sample of the order: as dlc_get(), and its number in *sample (may be NULL).
 * Returns: 1 and gives *out; 0 at the end of an epoch (the next call gives the first sample of the
 * next one); or DLC_E*, and the sample that failed is skipped.
 */
DLC_API int dlc_next(struct dlc_dataset *ds, struct dlc_view *out, uint64_t *sample);

/* The position of dlc_next(): with the order itself, all that a program must save to resume. */
DLC_API void dlc_tell(struct dlc_dataset *ds, uint64_t *epoch, uint64_t *position);

/*
 * A relaxed order has more state: the substitutions of this epoch (docs/orders.md). *epoch and
 * *position are those of dlc_tell(), except that samples that were read early count as read. buf
 * receives, up to cap, the positions from there on at which another sample is read than the order
 * says.
 * Returns: the number of substitutions; 0 in a strict order; DLC_EINVAL when no order is set.
 */
struct dlc_swap {
    uint64_t position, sample;
};
DLC_API int64_t dlc_tell_swaps(struct dlc_dataset *ds, uint64_t *epoch, uint64_t *position,
                               struct dlc_swap *buf, size_t cap);

/* As dlc_follow(), from a state that dlc_tell_swaps() returned: each sample that was not read yet
 * is read once.   Borrows: order, swaps.
 * Returns: 0; DLC_EINVAL: swaps do not belong to this epoch and position of this order. */
DLC_API int dlc_follow_swapped(struct dlc_dataset *ds, const struct dlc_order *order,
                               uint64_t epoch, uint64_t position, const struct dlc_swap *swaps,
                               size_t n);

/*
 * For programs that hand samples to workers: the samples of positions [position, position + n).
 * position must be at or after the last dlc_advance(). In a relaxed order the assignment becomes
 * final. The daemon fetches them ahead as with dlc_next(), which must not be used then.
 * Returns: how many samples, fewer at the end of the epoch; or DLC_EINVAL.
 */
DLC_API int64_t dlc_take(struct dlc_dataset *ds, uint64_t epoch, uint64_t position,
                         uint64_t *samples, size_t n);

/* How far the workers of a program are. Zero-initialise. */
struct dlc_progress {
    uint64_t epoch, position; /* all samples before were consumed */
    uint64_t ahead;           /* number of samples from there on that workers have */
    uint64_t waited_ns;       /* time that workers waited for samples since dlc_follow(): the mean
                               * over workers; must not shrink */
    uint64_t reserved[4];
};

/*
 * For programs whose workers read the samples: tell the daemon how far they are. It fetches beyond
 * the samples that workers have, and keeps those. Call it for every batch: a few times a second it
 * also checks whether the daemon was lost, and announces the order to the next one. In a relaxed
 * order, going back announces the order again; waited_ns then counts from there on.
 */
DLC_API int dlc_advance(struct dlc_dataset *ds, const struct dlc_progress *p);

#ifdef __cplusplus
}
#endif
#endif
