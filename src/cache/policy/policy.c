// SPDX-License-Identifier: Apache-2.0
#include "cache/policy/policy.h"

#include <math.h>

#include "base/check.h"
#include "base/mem.h"
#include "cache/policy/policy_i.h"

#define POLICY_TAG     DLC_TAG4('p', 'o', 'l', 'i')
#define DEFAULT_GHOSTS 65536

struct policy *policy_new(const struct policy_ops *ops, const struct policy_options *o)
{
    static const struct policy_options none;
    struct policy *p = mem_new(struct policy);
    double half_life;

    if (o == NULL)
        o = &none;
    half_life = o->half_life > 0 ? o->half_life : ops->half_life;
    p->tag = POLICY_TAG;
    p->ops = ops;
    p->decay = half_life > 0 ? 1 / half_life : 0;
    p->cost_factor = o->cost_factor < 0 || o->cost_factor > 0 ? o->cost_factor : ops->cost_factor;
    p->rng.state = o->seed;
    p->ghosts = o->ghosts > 0 ? o->ghosts : DEFAULT_GHOSTS;
    p->turns = o->turns != NULL ? o->turns : &p->own_turns;
    dlc_list_init(&p->held);
    return p;
}

void policy_free(struct policy **pp)
{
    struct policy *p = *pp;

    *pp = NULL;
    if (p == NULL)
        return;
    dlc_check(p->tag == POLICY_TAG);
    if (p->ops->close != NULL)
        p->ops->close(p);
    heap_release(&p->order[0]);
    heap_release(&p->order[1]);
    p->tag = 0;
    mem_free(&p);
}

enum policy_input policy_input_of(const struct policy *p)
{
    return p->ops->input;
}

void policy_item_init(struct policy_item *it, uint64_t id, uint64_t size, double cost)
{
    *it = (struct policy_item){
        .id = id, .size = size, .cost = cost, .expected = POLICY_UNKNOWN, .asked = true};
}

struct policy_item *policy_item_of(struct heap_node *n)
{
    return n == NULL ? NULL : dlc_container(n, struct policy_item, node);
}

/* ---- the order ---- */

static struct heap *order_of(struct policy *p, const struct policy_item *it)
{
    return &p->order[p->ops->side != NULL ? p->ops->side(it) : 0];
}

static uint64_t tie_of(const struct policy *p, const struct policy_item *it)
{
    return p->ops->tie != NULL ? p->ops->tie(it) : it->turn;
}

static void enter(struct policy *p, struct policy_item *it)
{
    heap_push_tied(order_of(p, it), &it->node, p->ops->key(p, it), tie_of(p, it));
}

/* Resident and not held: it stands in the order. */
static bool in_order(const struct policy_item *it)
{
    return it->resident && it->holds == 0;
}

static void place_again(struct policy *p, struct policy_item *it)
{
    if (in_order(it))
        heap_update_tied(order_of(p, it), &it->node, p->ops->key(p, it), tie_of(p, it));
}

/* The link lies where the heap's node does. */
static void unlink_held(struct policy_item *it)
{
    dlc_list_remove(&it->link);
    it->node = (struct heap_node){0};
}

static struct policy_item *least(struct policy *p, double now)
{
    return p->ops->least != NULL ? p->ops->least(p, now) : policy_item_of(heap_top(&p->order[0]));
}

/* ---- what the owner calls ---- */

void policy_access(struct policy *p, struct policy_item *it, double now)
{
    dlc_check(p->tag == POLICY_TAG);
    ++*p->turns;
    if (it->uses < UINT32_MAX)
        it->uses++;
    if (!p->ops->by_arrival)
        it->turn = *p->turns;
    if (p->ops->used != NULL)
        p->ops->used(p, it, now);
    place_again(p, it);
}

void policy_insert(struct policy *p, struct policy_item *it)
{
    dlc_check(p->tag == POLICY_TAG && !it->resident);
    if (p->ops->by_arrival)
        it->turn = ++*p->turns;
    if (p->ops->inserted != NULL)
        p->ops->inserted(p, it);
    it->resident = true;
    if (it->holds > 0)
        dlc_list_push_tail(&p->held, &it->link);
    else
        enter(p, it);
}

void policy_remove(struct policy *p, struct policy_item *it)
{
    dlc_check(p->tag == POLICY_TAG);
    if (!it->resident)
        return;
    if (it->holds > 0)
        unlink_held(it);
    else
        heap_remove(order_of(p, it), &it->node);
    it->resident = false;
    if (p->ops->removed != NULL)
        p->ops->removed(p, it);
}

struct policy_item *policy_victim(struct policy *p, double now, bool pressure)
{
    struct policy_item *it;

    dlc_check(p->tag == POLICY_TAG);
    it = least(p, now);
    if (it == NULL && pressure && !dlc_list_empty(&p->held))
        it = dlc_container(p->held.prev, struct policy_item, link);
    return it;
}

bool policy_admit(struct policy *p, const struct policy_item *it, uint64_t bytes, double now)
{
    dlc_check(p->tag == POLICY_TAG && !it->resident);
    if (bytes == 0 || it->holds > 0 || p->ops->admit == NULL)
        return true;
    return p->ops->admit(p, it, bytes, now);
}

void policy_hold(struct policy *p, struct policy_item *it)
{
    dlc_check(p->tag == POLICY_TAG && it->holds < UINT32_MAX);
    if (in_order(it)) {
        heap_remove(order_of(p, it), &it->node);
        dlc_list_push_tail(&p->held, &it->link);
    }
    it->holds++;
}

void policy_unhold(struct policy *p, struct policy_item *it)
{
    dlc_check(p->tag == POLICY_TAG && it->holds > 0);
    it->holds--;
    if (in_order(it)) {
        unlink_held(it);
        enter(p, it);
    }
}

void policy_next_use(struct policy *p, struct policy_item *it, double when)
{
    if (p->ops->input != POLICY_NEXT_USE)
        return;
    it->next_use = when;
    it->asked = true;
    place_again(p, it);
}

void policy_forget_use(struct policy *p, struct policy_item *it)
{
    if (p->ops->input != POLICY_NEXT_USE || !it->asked)
        return;
    it->next_use = INFINITY;
    it->asked = false;
    place_again(p, it);
}

size_t policy_some(struct policy *p, struct policy_item **out, size_t most)
{
    struct heap *h = &p->order[0];
    size_t n = DLC_MIN(h->n, most);

    for (size_t i = 0; i < n; i++)
        out[i] = policy_item_of(h->places[h->n <= most ? i : rng_below(&p->rng, h->n)].node);
    return n;
}

void policy_weight(struct policy *p, struct policy_item *it, double weight)
{
    if (p->ops->input != POLICY_WEIGHT)
        return;
    it->weight = weight;
    place_again(p, it);
}

void policy_expect(struct policy *p, struct policy_item *it, int32_t runs)
{
    bool placed = in_order(it);

    if (p->ops->input != POLICY_EXPECTED)
        return;
    if (placed)
        heap_remove(order_of(p, it), &it->node);
    it->expected = runs < 0 ? POLICY_UNKNOWN : runs;
    if (placed)
        enter(p, it); /* perhaps on the other side */
}

void policy_set_cost(struct policy *p, struct policy_item *it, double cost)
{
    it->cost = cost;
    place_again(p, it);
}

void policy_resize(struct policy *p, struct policy_item *it, uint64_t size, double cost)
{
    it->size = size;
    policy_set_cost(p, it, cost);
}

void policy_stand_for(struct policy *p, struct policy_item *it, const struct policy_item *top,
                      double cost)
{
    it->size = top->size;
    it->cost = cost;
    it->score = top->score;
    it->turn = top->turn;
    it->uses = top->uses;
    place_again(p, it);
}

/* ---- what policies share ---- */

void policy_refer(const struct policy *p, struct policy_item *it, double now)
{
    double one = now * p->decay, hi, lo;

    if (it->uses <= 1) {
        it->score = one;
        return;
    }
    hi = fmax(it->score, one);
    lo = fmin(it->score, one);
    it->score = hi + log2(1 + exp2(lo - hi));
}

bool policy_walk(struct policy *p, uint64_t bytes, double now, policy_visit_f *visit, void *priv)
{
    struct policy_item **out = NULL;
    size_t n = 0, cap = 0;
    uint64_t freed = 0;
    bool go = true;

    while (go && freed < bytes) {
        struct policy_item *it = least(p, now);

        go = it != NULL && visit(p, it, priv);
        if (!go)
            break;
        freed += it->size;
        heap_remove(order_of(p, it), &it->node);
        mem_reserve(out, n, cap);
        out[n++] = it;
    }
    for (size_t i = 0; i < n; i++)
        enter(p, out[i]);
    mem_free(&out);
    return go;
}
