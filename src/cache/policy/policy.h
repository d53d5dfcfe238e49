// SPDX-License-Identifier: Apache-2.0
/*
 * Eviction policies: the order in which a tier evicts its items.
 *
 * Pure code: no I/O, no locks, no clock of its own (time is passed in, in seconds of any epoch, and
 * never runs backwards). The daemon's tiers and the simulator use the same code. The state of
 * an item lies in a `struct policy_item` that the owner embeds in its own record, so no lookup is
 * needed.
 *
 * A policy gives each item a number, its key: the least is evicted first. A key changes only when
 * something happens to that very item, never by the passing of time, so the order is a heap, and
 * every call costs O(log n). Nothing is scanned.
 *
 * What the owner calls, and when:
 *
 *     policy_item_init   once, when the record is made
 *     policy_access      at every read, hit or miss
 *     policy_admit       at a miss, when room is missing; false: hand it over, do not keep it
 *     policy_victim      while room is missing: the next to go; it stays until policy_remove
 *     policy_remove      its bytes are gone, by eviction or otherwise
 *     policy_insert      its bytes are there
 *     policy_hold, policy_unhold
 *                        a running job needs it (lifecycle.h): no victim, but under pressure
 *     policy_next_use, policy_weight, policy_expect, policy_set_cost
 *                        what the owner knows, at any time, of items inside and outside; a policy
 *                        that does not use it ignores it
 *
 * An item may be inserted again after it was removed; what the policy knows of it then goes on,
 * where the policy is one that remembers (lfu is not). A record that is freed is removed first.
 *
 * (POLICY-1) policy_victim never returns a held item, unless `pressure` is set and no other is
 *            left.
 * (POLICY-2) Between two calls that change something, policy_victim returns the same item (but
 *            random).
 * (POLICY-3) policy_admit changes nothing that can be seen.
 */
#ifndef DLC_CACHE_POLICY_POLICY_H
#define DLC_CACHE_POLICY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"

struct policy;

#define POLICY_UNKNOWN   (-1)   /* policy_expect: nobody has declared anything */
#define POLICY_COST_TIES (-1.0) /* policy_options.cost_factor */

struct policy_item {
    union {
        struct heap_node node; /* in the order */
        struct dlc_list link;  /* held */
    };
    uint64_t id;   /* the owner's name for it, unique within the policy */
    uint64_t size; /* bytes that its removal frees */
    double cost;   /* of losing it: policy_cost() */
    double score;  /* the policy's own; of use to it when uses > 0 */
    union {
        double next_use; /* set by the owner; INFINITY: never again */
        double weight;   /* set by the owner: its importance */
    };
    uint64_t turn;    /* when it was used last, as a number of uses; or inserted, see by_arrival */
    uint32_t uses;    /* reads that the policy counts */
    uint32_t holds;   /* by running jobs */
    int32_t expected; /* set by the owner: runs still to come, or POLICY_UNKNOWN */
    bool resident;
    bool asked; /* next_use is known; else it must be asked for */
};

/* Zero leaves the choice to the policy. */
struct policy_options {
    uint64_t seed;    /* random */
    double half_life; /* lrfu, cost-aware-lrfu, worth: seconds after which a use counts half */
    size_t ghosts;    /* importance: absent items that it remembers */
    /* cost-aware-lrfu: references x cost ^ this decide; POLICY_COST_TIES: cost decides between
     * equal references only */
    double cost_factor;
    uint64_t *turns; /* uses so far, counted in common with other policies. Borrowed; or NULL */
};

/* What a policy uses of an item, beside its cost; the owner sets it. */
enum policy_input {
    POLICY_NO_INPUT,
    POLICY_NEXT_USE, /* policy_next_use(), policy_forget_use() */
    POLICY_WEIGHT,   /* policy_weight() */
    POLICY_EXPECTED, /* policy_expect() */
};

/* One policy. Members marked * may be NULL. Called by the functions below only. */
struct policy_ops {
    const char *name;
    const char *summary; /* one line, for people */
    double half_life;    /* when the options leave it open */
    double cost_factor;  /* likewise */
    enum policy_input input;
    bool by_arrival; /* among equal keys the first inserted goes first, not the least recent */

    /* A read; it is resident: a hit. `uses` and `turn` have been counted. * */
    void (*used)(struct policy *p, struct policy_item *it, double now);
    double (*key)(const struct policy *p, const struct policy_item *it);
    uint64_t (*tie)(const struct policy_item *it);  /* * among equal keys the least goes first */
    unsigned (*side)(const struct policy_item *it); /* * which of two orders, 0 or 1 */
    struct policy_item *(*least)(struct policy *p, double now); /* * NULL: the top of order 0 */
    bool (*admit)(struct policy *p, const struct policy_item *it, uint64_t bytes,
                  double now);                                  /* * */
    void (*inserted)(struct policy *p, struct policy_item *it); /* * before its key is asked for */
    void (*removed)(struct policy *p, struct policy_item *it);  /* * */
    void (*close)(struct policy *p);                            /* * */
};

extern const struct policy_ops policy_lru, policy_lfu, policy_lrfu, policy_random, policy_greedy,
    policy_cost_aware_lrfu, policy_clairvoyant, policy_importance, policy_worth;

extern const struct policy_ops *const policies[];       /* all of them; ends with NULL */
const struct policy_ops *policy_find(const char *name); /* NULL: there is none of that name */

enum policy_input policy_input_of(const struct policy *p); /* what the owner is to set */

/* Borrows: ops, for good. o may be NULL. Gives: a policy; return it with policy_free. */
struct policy *policy_new(const struct policy_ops *ops, const struct policy_options *o);
void policy_free(struct policy **pp); /* items that are still in it must not be used again */

void policy_item_init(struct policy_item *it, uint64_t id, uint64_t size, double cost);

void policy_access(struct policy *p, struct policy_item *it, double now);
void policy_insert(struct policy *p, struct policy_item *it);
void policy_remove(struct policy *p, struct policy_item *it); /* no-op when it is not resident */

/*
 * The next item to evict, or NULL. Under pressure also one that is held, if there is no other: the
 * one held last, so an owner that holds in the order of reading loses the item that is needed
 * latest.
 */
struct policy_item *policy_victim(struct policy *p, double now, bool pressure);

/*
 * Is `it`, which is not resident, worth those that would have to go to free `bytes` bytes?
 * Always yes for bytes == 0, for a held item, and by policies that keep whatever comes.
 */
bool policy_admit(struct policy *p, const struct policy_item *it, uint64_t bytes, double now);

/* A job needs the item, resident or not, until policy_unhold(). Calls nest. */
void policy_hold(struct policy *p, struct policy_item *it);
void policy_unhold(struct policy *p, struct policy_item *it);

void policy_next_use(struct policy *p, struct policy_item *it, double when); /* clairvoyant */
/* Its known next use is wrong, and the right one costs too much to find out before it matters: the
 * item moves to the front (the latest used first), after those that are known to be never needed
 * again, so that an owner that asks before it evicts meets it there. clairvoyant */
void policy_forget_use(struct policy *p, struct policy_item *it);
/* Some candidates for eviction: all if they are `most` or fewer, else that many at random, possibly
 * with one twice. Returns how many. */
size_t policy_some(struct policy *p, struct policy_item **out, size_t most);
void policy_weight(struct policy *p, struct policy_item *it, double weight); /* importance */
void policy_expect(struct policy *p, struct policy_item *it, int32_t runs);  /* worth */
void policy_set_cost(struct policy *p, struct policy_item *it, double cost); /* measured again */
/* The size of an item that stands for many has changed. */
void policy_resize(struct policy *p, struct policy_item *it, uint64_t size, double cost);

/* An item that stands for many is ranked as `top`, the first of them to go, at this cost. */
void policy_stand_for(struct policy *p, struct policy_item *it, const struct policy_item *top,
                      double cost);

/* The cost of losing an item: share x seconds + (1 - share) x money. */
struct policy_prices {
    double share;    /* a: how much of the cost is time, 0 to 1 */
    double request;  /* money for a request */
    double transfer; /* money for a byte */
};

double policy_money(const struct policy_prices *prices, uint64_t bytes);
double policy_cost(const struct policy_prices *prices, double seconds, uint64_t bytes);

#endif
