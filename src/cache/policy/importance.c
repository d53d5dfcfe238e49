// SPDX-License-Identifier: Apache-2.0
/*
 * Importance of samples, as in SHADE: the item with the least (weight, frequency) is evicted first,
 * and no item replaces one that weighs more. Weights come from the owner (policy_weight). An
 * evicted item leaves a ghost, its weight and frequency by id, which is used when the item comes
 * back under a new record. The oldest ghosts are forgotten first.
 */
#include "base/u64map.h"
#include "base/mem.h"
#include "cache/policy/policy_i.h"

struct ghost {
    struct dlc_list link;
    uint64_t id;
    double weight;
    uint32_t uses;
};

struct ghost_list {
    struct map by_id;
    struct dlc_list by_age; /* the oldest first */
};

static struct ghost *ghost_of(const struct policy *p, uint64_t id)
{
    return p->own == NULL ? NULL : map_get(&p->own->by_id, id);
}

static void forget(struct policy *p, struct ghost *g)
{
    map_remove(&p->own->by_id, g->id);
    dlc_list_remove(&g->link);
    mem_free(&g);
}

static void importance_close(struct policy *p)
{
    if (p->own == NULL)
        return;
    while (!dlc_list_empty(&p->own->by_age))
        forget(p, dlc_container(p->own->by_age.next, struct ghost, link));
    map_release(&p->own->by_id);
    mem_free(&p->own);
}

/* A record that has seen less than its ghost is a new one, and takes up what the ghost knows. */
static void revive(const struct policy *p, struct policy_item *it)
{
    const struct ghost *g = ghost_of(p, it->id);

    if (g == NULL || it->uses > g->uses)
        return;
    it->uses += g->uses;
    if (!(it->weight > 0))
        it->weight = g->weight;
}

static void importance_inserted(struct policy *p, struct policy_item *it)
{
    struct ghost *g = ghost_of(p, it->id);

    revive(p, it);
    if (g != NULL)
        forget(p, g);
}

static void importance_removed(struct policy *p, struct policy_item *it)
{
    struct ghost *g = mem_new(struct ghost);

    if (p->own == NULL) {
        p->own = mem_new(struct ghost_list);
        dlc_list_init(&p->own->by_age);
    }
    if (p->own->by_id.n >= p->ghosts)
        forget(p, dlc_container(p->own->by_age.next, struct ghost, link));
    *g = (struct ghost){.id = it->id, .weight = it->weight, .uses = it->uses};
    dlc_list_push_tail(&p->own->by_age, &g->link);
    map_set(&p->own->by_id, g->id, g);
}

static double importance_key(const struct policy *p, const struct policy_item *it)
{
    (void)p;
    return it->weight;
}

/* Frequency first, then the turn it was used in. */
static uint64_t importance_tie(const struct policy_item *it)
{
    return (uint64_t)it->uses << 32 | (it->turn & UINT32_MAX);
}

static bool weighs_less(struct policy *p, const struct policy_item *victim, void *priv)
{
    const struct policy_item *it = priv;

    (void)p;
    if (victim->weight < it->weight || victim->weight > it->weight)
        return victim->weight < it->weight;
    return victim->uses <= it->uses;
}

static bool importance_admit(struct policy *p, const struct policy_item *it, uint64_t bytes,
                             double now)
{
    struct policy_item judged = *it;

    revive(p, &judged);
    return policy_walk(p, bytes, now, weighs_less, &judged);
}

const struct policy_ops policy_importance = {
    .name = "importance",
    .summary = "The sample of least weight, then frequency, goes first (as in SHADE).",
    .input = POLICY_WEIGHT,
    .key = importance_key,
    .tie = importance_tie,
    .admit = importance_admit,
    .inserted = importance_inserted,
    .removed = importance_removed,
    .close = importance_close,
};
