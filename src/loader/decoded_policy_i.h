// SPDX-License-Identifier: Apache-2.0
/*
 * When the loader uses the decoded cache: decoded samples that the daemon keeps for all processes
 * (docs/design/0007, client/decoded_cache.h). A sample that is in it needs neither its bytes nor a
 * decoder.
 *
 *     off --the consumer waits while all threads are busy, and epochs are still to come--> on
 *     on --it does not pay any more--> resting --as from off--> on
 *
 * On, decoded samples that are there are used, and more are made while the daemon says that it has
 * memory for them. Making one costs more than decoding the sample alone; it does not pay when the
 * consumer has not waited for a minute, when no epoch is to come, or when memory is short and most
 * of those that were made have left. Resting, those that are there are still used, which costs
 * nothing. DLC_ON does not rest. Without a daemon there are no decoded samples.
 *
 * (DECODED-POLICY-1) A decoded sample that cannot be used is passed over: the sample is decoded,
 *                    and nobody is told.
 *
 * Threads: any, but decoded_policy_begin() and decoded_policy_step(), which are the consumer's.
 */
#ifndef DLC_LOADER_DECODED_POLICY_I_H
#define DLC_LOADER_DECODED_POLICY_I_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "client/decoded_cache.h"
#include "dlcache/loader.h"

/* One that is in hand: kept, or in the making. */
struct decoded_sample {
    const void *data; /* NULL: none */
    size_t len;
    struct dlc_view view;
    struct upload upload;
    uint64_t sample;
};

struct decoded_policy {
    enum dlc_switch wish;
    struct dlc_dataset *ds;
    uint64_t policy;
    _Atomic(struct decoded_handle *) handle; /* NULL: off. W the consumer, once; R any, acquire */
    _Atomic bool making;      /* W the consumer, R any, relaxed: one decoded sample more or less */
    _Atomic uint64_t made;    /* and uploaded to the daemon; relaxed, as those below */
    _Atomic uint64_t used;    /* samples made from the decoded cache, and ... */
    _Atomic uint64_t decoded; /* ... from their bytes: figures */

    /* The consumer's. */
    double waited_s;       /* in vain, without a pause */
    double easy_s;         /* did not wait, without a pause */
    uint64_t made_at;      /* made, when it was turned on */
    struct dlc_mono again; /* not to be turned on before; 0: at any time */
};

/* What the consumer saw with one batch. */
struct decoded_policy_batch {
    double waited_s, step_s;
    bool busy; /* all threads there may be were at work */
    bool more; /* epochs are still to come, after this one */
};

/* Borrows ds. */
void decoded_policy_begin(struct decoded_policy *f, enum dlc_switch wish, struct dlc_dataset *ds,
                          uint64_t policy);
void decoded_policy_release(struct decoded_policy *f);
void decoded_policy_step(struct decoded_policy *f, const struct decoded_policy_batch *b);

/* The sample's decoded sample. False: none. Gives: *out; return it with decoded_policy_put(). */
bool decoded_policy_get(struct decoded_policy *f, uint64_t sample, struct decoded_sample *out);
/* Takes. One that was made goes to the daemon. */
void decoded_policy_put(struct decoded_policy *f, struct decoded_sample *d);

/* Shall more be made? */
static inline bool decoded_policy_wanted(const struct decoded_policy *f)
{
    return atomic_load_explicit(&f->making, memory_order_relaxed);
}

/* Memory to make a decoded sample of at most so many bytes in: out->upload. False: none is wanted.
 * Gives: *out, to decoded_policy_put(), where data and len were set if it was made. */
bool decoded_policy_reserve(struct decoded_policy *f, uint64_t sample, size_t len,
                            struct decoded_sample *out);

void decoded_policy_count(struct decoded_policy *f, bool from_kept); /* a sample was made */
void decoded_policy_stats(struct decoded_policy *f, struct dlc_loader_stats *out);

#endif
