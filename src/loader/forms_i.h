// SPDX-License-Identifier: Apache-2.0
/*
 * Forms: samples decoded, kept in the memory of this process (docs/design/0007). A sample that has
 * one is made from it: neither its bytes are needed nor a decoder.
 *
 *     off --the consumer waits while all threads are busy, and epochs are still to come--> on
 *      on --memory gets short--> off: all forms are dropped; on again when there is room
 *
 * (F1) They take at most half of the memory that is free, within the limits of the cgroup, looked
 *      at every second.
 * (F2) None is evicted for another: in a random order every one is as good as the next.
 *
 * Threads: any, but forms_step(), which is the consumer's.
 */
#ifndef DLC_LOADER_FORMS_I_H
#define DLC_LOADER_FORMS_I_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mtx.h"
#include "dlcache.h"

struct form {
    uint32_t refs; /* G: forms.mtx */
    size_t len;
    char data[];
};

struct forms {
    enum dlc_switch wish;
    _Atomic bool on;    /* W the consumer, R any, relaxed: seen a little later */
    struct dlc_mtx mtx; /* rank LCK_forms */
    struct map map;     /* G: mtx, and so are those below */
    uint64_t bytes, limit;
    uint64_t used;   /* samples that were made from forms */
    double waited_s; /* the consumer, in vain; its own */
    struct dlc_mono look, again;
};

/* What the consumer saw with one batch. */
struct forms_batch {
    double waited_s, step_s;
    bool busy; /* all threads there may be were at work */
    bool more; /* epochs are still to come, after this one */
};

void forms_init(struct forms *f, enum dlc_switch wish);
void forms_release(struct forms *f);
void forms_step(struct forms *f, const struct forms_batch *b);

/* Gives the sample's form; return it with forms_put(). NULL: none. */
struct form *forms_get(struct forms *f, uint64_t sample);
void forms_put(struct forms *f, struct form **fp);

/* Should one be made? */
static inline bool forms_wanted(const struct forms *f)
{
    return atomic_load_explicit(&f->on, memory_order_relaxed); /* as said above */
}

/* Memory for a form of at most so many bytes. Gives; NULL: there is no room. */
struct form *forms_room(struct forms *f, size_t len);
/* Keep it, of its final length. It stays the caller's too: forms_put(). */
void forms_keep(struct forms *f, uint64_t sample, struct form *form);

void forms_stats(struct forms *f, struct dlc_loader_stats *out);

#endif
