// SPDX-License-Identifier: Apache-2.0
/*
 * Forms: samples decoded, kept by the daemon for all processes (docs/design/0007,
 * client/decoded_cache.h). A sample that has one is made from it: neither its bytes are needed nor
 * a decoder.
 *
 *     off --the consumer waits while all threads are busy, and epochs are still to come--> on
 *     on --it does not pay any more--> resting --as from off--> on
 *
 * On, forms that are there are used, and more are made while the daemon says that it has memory for
 * them. Making one costs more than decoding the sample alone; it does not pay when the consumer has
 * not waited for a minute, when no epoch is to come, or when memory is short and most of those that
 * were made have left. Resting, those that are there are still used, which costs nothing. DLC_ON
 * does not rest. Without a daemon there are no forms.
 *
 * (F1) A form that cannot be used is passed over: the sample is decoded, and nobody is told.
 *
 * Threads: any, but forms_begin() and forms_step(), which are the consumer's.
 */
#ifndef DLC_LOADER_DECODED_POLICY_I_H
#define DLC_LOADER_DECODED_POLICY_I_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "client/decoded_cache.h"
#include "dlcache.h"

/* One that is in hand: kept, or in the making. */
struct form {
    const void *data; /* NULL: none */
    size_t len;
    struct dlc_view view;
    struct upload upload;
    uint64_t sample;
};

struct forms {
    enum dlc_switch wish;
    struct dlc_dataset *ds;
    uint64_t policy;
    _Atomic(struct kept *) kept; /* NULL: off. W the consumer, once; R any, acquire */
    _Atomic bool making;         /* W the consumer, R any, relaxed: one form more or less */
    _Atomic uint64_t made;       /* forms that were given to the daemon; relaxed, as those below */
    _Atomic uint64_t used;       /* samples made from forms that were kept, and ... */
    _Atomic uint64_t decoded;    /* ... from their bytes: figures */

    /* The consumer's. */
    double waited_s;       /* in vain, without a pause */
    double easy_s;         /* did not wait, without a pause */
    uint64_t made_at;      /* made, when it was turned on */
    struct dlc_mono again; /* not to be turned on before; 0: at any time */
};

/* What the consumer saw with one batch. */
struct forms_batch {
    double waited_s, step_s;
    bool busy; /* all threads there may be were at work */
    bool more; /* epochs are still to come, after this one */
};

/* Borrows ds. */
void forms_begin(struct forms *f, enum dlc_switch wish, struct dlc_dataset *ds, uint64_t policy);
void forms_release(struct forms *f);
void forms_step(struct forms *f, const struct forms_batch *b);

/* The sample's form. False: none. Gives: *out; return it with forms_put(). */
bool forms_get(struct forms *f, uint64_t sample, struct form *out);
/* Takes. One that was made goes to the daemon. */
void forms_put(struct forms *f, struct form *form);

/* Shall more be made? */
static inline bool forms_wanted(const struct forms *f)
{
    return atomic_load_explicit(&f->making, memory_order_relaxed);
}

/* Memory to make a form of at most so many bytes in: out->upload. False: none is wanted. Gives:
 * *out, to forms_put(), where data and len were set if it was made. */
bool forms_room(struct forms *f, uint64_t sample, size_t len, struct form *out);

void forms_count(struct forms *f, bool from_kept); /* a sample was made */
void forms_stats(struct forms *f, struct dlc_loader_stats *out);

#endif
