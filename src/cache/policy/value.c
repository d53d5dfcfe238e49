// SPDX-License-Identifier: Apache-2.0
/*
 * The policy of the disk tier: keep the items that are worth most per byte.
 *
 *     worth of an item = runs that will still read it x cost of bringing it back
 *
 * The runs are those that jobs have declared (policy_expect). Without a declaration the past
 * predicts the future: uses so far, counting half after each half-life. The item with the least
 * worth per byte is evicted first; of equals the one that was read last, because jobs scan, and the
 * item that was read last is needed last. An item that is worth less than all it would evict is not
 * admitted. Items that running jobs need are held by the owner (policy_hold) and not compared at
 * all.
 *
 * The worth of undeclared items fades, that of declared ones does not. So there are two orders,
 * each with constant keys, and only their tops are compared at a given time:
 *
 *     side 0, undeclared:  log2(references) + log2(cost / size)
 *     side 1, declared:    runs x cost / size
 */
#include <math.h>

#include "cache/policy/policy_i.h"

static unsigned worth_side(const struct policy_item *it)
{
    return it->expected != POLICY_UNKNOWN;
}

/* Cost of a byte. An empty item costs nothing to keep. */
static double density(const struct policy_item *it)
{
    return it->cost / (it->size > 0 ? (double)it->size : 1);
}

static double worth_key(const struct policy *p, const struct policy_item *it)
{
    (void)p;
    if (worth_side(it) == 1)
        return it->expected * density(it);
    if (it->uses == 0 || !(it->cost > 0))
        return -INFINITY;
    return it->score + log2(density(it));
}

static void worth_used(struct policy *p, struct policy_item *it, double now)
{
    policy_refer(p, it, now);
}

static uint64_t worth_tie(const struct policy_item *it)
{
    return UINT64_MAX - it->turn;
}

/* Worth of a byte at this time. */
static double value(const struct policy *p, const struct policy_item *it, double now)
{
    double key = worth_key(p, it);

    return worth_side(it) == 1 ? key : exp2(key - now * p->decay);
}

static struct policy_item *worth_least(struct policy *p, double now)
{
    struct policy_item *a = policy_item_of(heap_top(&p->order[0]));
    struct policy_item *b = policy_item_of(heap_top(&p->order[1]));

    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    return value(p, b, now) <= value(p, a, now) ? b : a;
}

struct purse {
    double left, now;
};

static bool spend(struct policy *p, const struct policy_item *victim, void *priv)
{
    struct purse *purse = priv;

    purse->left -= value(p, victim, purse->now) * (double)victim->size;
    return purse->left > 0;
}

static bool worth_admit(struct policy *p, const struct policy_item *it, uint64_t bytes, double now)
{
    struct purse purse = {value(p, it, now) * (double)it->size, now};

    return policy_walk(p, bytes, now, spend, &purse);
}

const struct policy_ops policy_worth = {
    .name = "worth",
    .summary = "What is worth least goes first: declared runs to come x cost / size (ours).",
    .half_life = 86400,
    .input = POLICY_EXPECTED,
    .used = worth_used,
    .key = worth_key,
    .tie = worth_tie,
    .side = worth_side,
    .least = worth_least,
    .admit = worth_admit,
};
