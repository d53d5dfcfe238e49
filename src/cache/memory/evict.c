// SPDX-License-Identifier: Apache-2.0
/*
 * Eviction: which samples leave memory, and when their memory may be used again.
 *
 * Evicting is retire (slot EMPTY, state RETIRED) and sweep (look at the pins, free samples without
 * pins): (MEMORY-1) of memory_i.h. A sweep reads every pin of the index, so victims are retired in
 * batches, 1/64 of the ceiling or BATCH_MAX samples at a time, and one sweep serves the batch. With
 * many sessions a sweep takes several turns of the loop (pin_scan.c), and whoever needs room waits.
 * Retiring a pinned sample frees nothing and makes its next reader miss, so the pins are looked at
 * before victims are chosen too; those that get pinned in between stay retired.
 *
 * A sample's next use (or its weight, or the runs to come: what the policy uses) is asked for when
 * it is about to be a victim (MEMORY-4): of the policy's
 * choices until one has a known next use, and of some at random, because a sample whose use has
 * moved later is far from the front of the policy's order. Answers stay known, so while orders do
 * not change the choice is exact, and after a change it becomes exact at the pace of evictions (at
 * once where there are FEW). The work is bounded for each victim and for each batch; if the bound
 * is reached, the best of those asked is evicted.
 *
 * Samples of decoded indexes are evicted first, then the policy's victims. When that leaves no hole
 * that is large enough, or the sample is larger than a batch, a contiguous window of blocks is
 * evicted instead: the cheapest (fewest bytes to evict) of those around some cold samples, else the
 * cheapest there is. So allocation fails only when no window without a pinned, held or filling
 * sample is large enough.
 */
#include <math.h>

#include "base/counters.h"
#include "base/u64map.h"
#include "cache/memory/memory_i.h"

#define BATCH_SHIFT 6                   /* a batch is ceiling >> this */
#define BATCH_MAX   64                  /* samples in a batch: each may cost 128 looks */
#define BATCHES     4                   /* at most are retired while a look at the pins goes on */
#define BATCH_STEPS 8192                /* looks into orders for a batch: 0.5 ms */
#define STEPS_MAX   256                 /* for one victim */
#define AT_RANDOM   8                   /* samples asked about at random for one victim */
#define FEW         64                  /* residents that are all asked about */
#define CANDIDATES  32                  /* cold samples around which a window is tried */
#define PASS_MAX    16384               /* blocks looked at for a window anywhere */
#define GIVE_BACK   ((uint64_t)8 << 20) /* bytes dropped in one step, in whole extents: 1 ms */
#define WINDOWS     4 /* windows evicted before giving up: each failed because a reader was quick */

/* ---- retired samples ---- */

void memory_retire(struct mem_fill *f)
{
    struct mem_index *x = f->x;
    struct memory *m = x->m;
    struct shm_slot *s = &x->slots[f->sample];
    /* Only we write slots. */
    uint32_t gen = shm_where_generation(atomic_load_explicit(&s->where, memory_order_relaxed));

    dlc_check(f->state == MEM_RESIDENT);
    /* Pairs with the reader's load after its pin. (SHM-1) */
    atomic_store_explicit(&s->where, shm_where_make(SHM_EMPTY, 0, gen + 1), memory_order_seq_cst);
    mem_fill_set_known(f, false);
    f->state = MEM_RETIRED;
    policy_remove(mem_fill_policy(f), &f->item);
    pin_scan_retired(f);
    x->fills[f->sample] = NULL;
    index_count(x, -1, f->len);
    x->retired++;
    if (x->decoded) {
        m->decoded--;
        m->decoded_bytes -= f->block.size;
        count(decoded_evictions);
    } else {
        m->residents--;
        count(mem_evictions);
    }
    m->retired_bytes += f->block.size;
    m->retired_held += f->holds > 0;
}

void memory_sweep_retired(struct memory *m)
{
    if (!dlc_list_empty(&m->retired))
        memory_scan(m, false);
}

/* ---- ceiling ---- */

/* Drops at most one extent. */
static uint64_t give_back(void *arg, uint64_t off, uint64_t len)
{
    struct memory *m = arg;

    /* A daemon that ends leaves its bytes to readers that hold views (they cannot keep a session);
     * the kernel takes the memory with the last mapping. */
    return memory_is_closing(m) ? len : extents_release(&m->extents, off, len);
}

/* (EXTENT-3) */
static bool held_by_client(void *arg, uint32_t k, uint32_t generation, uint64_t number)
{
    struct memory *m = arg;

    dlc_list_each (i, &m->indexes) {
        struct mem_index *x = dlc_container(i, struct mem_index, node);

        dlc_list_each (s, &x->sessions)
            if (session_holds(dlc_container(s, struct mem_session, node), k, generation, number))
                return true;
    }
    return false;
}

static void retire_above(struct arena_block *b)
{
    if (mem_fill_of_block(b)->state == MEM_RESIDENT)
        memory_retire(mem_fill_of_block(b));
}

/* Few: what was filled or pinned when the ceiling passed it. */
static void retire_published_above(struct memory *m)
{
    const struct arena *a = &m->arena;

    if (!m->above)
        return;
    m->above = false;
    for (struct arena_block *b = a->last; b != NULL && arena_block_end(b) > a->ceiling; b = b->prev)
        if (b->kind == ARENA_USED)
            retire_above(b);
}

/* Where the ceiling may go now: by (EXTENT-3) not up over dropped extents that clients may map. */
static uint64_t reachable_ceiling(const struct memory *m)
{
    uint64_t now = m->arena.ceiling, all = m->extents.dropped_bytes;

    if (m->wanted <= now || all == 0)
        return m->wanted;
    return DLC_MAX(now, (m->wanted - DLC_MIN(m->wanted, all)) & ~(m->arena.page - 1));
}

static unsigned drops_of_step(const struct memory *m)
{
    return (unsigned)DLC_MAX(GIVE_BACK / extents_granularity(&m->extents), 1u);
}

/* Nothing is used: every extent can go, also one that the ceiling cuts and holes that are small.
 * True: there are more. */
static bool drop_all(struct memory *m)
{
    uint64_t drops = m->extents.drops, most = drops + drops_of_step(m);

    if (memory_is_closing(m) || m->arena.used > 0)
        return false;
    if (!m->giving_back && m->arena.ceiling >= extents_granularity(&m->extents))
        return false;
    do
        drops = m->extents.drops;
    while (extents_release(&m->extents, 0, m->extents.size) > 0 && m->extents.drops != drops &&
           m->extents.drops < most);
    return m->extents.drops != drops;
}

bool memory_settle_ceiling(struct memory *m)
{
    uint64_t drops = m->extents.drops;
    bool there, more;

    extents_forget_dropped(&m->extents, held_by_client, m);
    there = arena_move_ceiling(&m->arena, reachable_ceiling(m), retire_above);
    retire_published_above(m);
    memory_sweep_retired(m);
    more = arena_drain(&m->arena, m->giving_back, drops_of_step(m), give_back, m);
    more = more || drop_all(m);
    if (m->extents.drops != drops) {
        memory_announce(m); /* clients unmap them, however idle they are */
        extents_look_freed(&m->extents);
        extents_forget_dropped(&m->extents, held_by_client, m); /* those that nobody mapped */
    }
    if (there && !more)
        m->giving_back = false;
    more = memory_announce_some(m) || more;
    return !there || more;
}

void memory_give_back(struct memory *m)
{
    m->giving_back = true;
}

/* ---- next uses, weights, runs ---- */

/* What a batch of victims has cost, and the pinned ones that were met. */
struct choice {
    unsigned steps;
    struct dlc_list aside;
};

static double ask_next_use(const struct mem_fill *f, unsigned *steps)
{
    const struct mem_index *x = f->x;

    return x->next_use == NULL ? INFINITY : x->next_use(x->next_use_arg, f->sample, steps);
}

static double ask_weight(const struct mem_fill *f)
{
    const struct mem_index *x = f->x;

    return x->value == NULL ? 0 : x->value->weight(x->value_arg, f->sample);
}

static int32_t ask_runs(const struct mem_fill *f)
{
    return f->x->value == NULL ? POLICY_UNKNOWN : f->x->value->runs(f->x->value_arg);
}

void memory_ask(struct mem_fill *f, unsigned *steps)
{
    struct policy *p = mem_fill_policy(f);

    *steps += 1;
    mem_fill_set_known(f, true);
    switch (policy_input_of(p)) {
    case POLICY_NEXT_USE: policy_next_use(p, &f->item, ask_next_use(f, steps)); break;
    case POLICY_WEIGHT: policy_weight(p, &f->item, ask_weight(f)); break;
    case POLICY_EXPECTED: policy_expect(p, &f->item, ask_runs(f)); break;
    case POLICY_NO_INPUT: break;
    }
}

static void ask_some(struct memory *m, struct policy *p, unsigned *steps)
{
    struct policy_item *some[FEW];
    size_t n;

    if (m->known == m->residents + m->decoded)
        return;
    n = policy_some(p, some, m->residents <= FEW ? FEW : AT_RANDOM);
    for (size_t i = 0; i < n; i++)
        if (!mem_fill_known(mem_fill_of_item(some[i])))
            memory_ask(mem_fill_of_item(some[i]), steps);
}

/* The policy's choice, asked about. */
static struct policy_item *choose(struct memory *m, struct policy *p, struct choice *c)
{
    unsigned most = DLC_MIN(STEPS_MAX, BATCH_STEPS - DLC_MIN(c->steps, BATCH_STEPS)), steps = 0;
    bool by_next_use = policy_input_of(p) == POLICY_NEXT_USE;
    struct policy_item *best = NULL, *it;

    if (most > 0)
        ask_some(m, p, &steps);
    while ((it = policy_victim(p, memory_now(m), false)) != NULL &&
           !mem_fill_known(mem_fill_of_item(it)) && steps < most) {
        memory_ask(mem_fill_of_item(it), &steps);
        if (by_next_use && (best == NULL || it->next_use > best->next_use))
            best = it;
    }
    c->steps += steps;
    return it == NULL || mem_fill_known(mem_fill_of_item(it)) || best == NULL ? it : best;
}

/* ---- victims ---- */

static struct mem_fill *next_victim_of(struct memory *m, struct policy *p, struct choice *c)
{
    struct policy_item *it;

    while ((it = choose(m, p, c)) != NULL) {
        struct mem_fill *f = mem_fill_of_item(it);

        if (!mem_fill_pinned(f))
            return f;
        policy_hold(p, it);
        dlc_list_push_tail(&c->aside, &f->block.node);
    }
    return NULL;
}

/* The policy's next victim that nobody reads, a decoded one if there is one; those read now are
 * held until the choice is released. */
static struct mem_fill *next_victim(struct memory *m, struct choice *c)
{
    struct mem_fill *f = next_victim_of(m, m->decoded_order, c);

    return f != NULL ? f : next_victim_of(m, m->policy, c);
}

static void choice_init(struct choice *c)
{
    c->steps = 0;
    dlc_list_init(&c->aside);
}

static void choice_release(struct choice *c)
{
    struct dlc_list *n;

    while ((n = dlc_list_pop_head(&c->aside)) != NULL)
        policy_unhold(mem_fill_policy(mem_fill_of(n)), &mem_fill_of(n)->item);
}

/* Retire at least `bytes`, or BATCH_MAX samples. */
static void retire_cold(struct memory *m, uint64_t bytes)
{
    struct choice c;
    struct mem_fill *f;
    uint64_t retired = 0;

    if (!dlc_list_empty(&m->freed) &&
        dlc_container(m->freed.next, struct mem_index, node)->resident > 0) {
        memory_free_some(m);
        return;
    }
    choice_init(&c);
    for (unsigned n = 0; n < BATCH_MAX && retired < bytes; n++) {
        f = next_victim(m, &c);
        if (f == NULL)
            break;
        retired += f->block.size;
        memory_retire(f);
    }
    choice_release(&c);
}

/* A run of neighbouring blocks that eviction can turn into one hole. */
struct window {
    struct arena_block *lo, *hi; /* inclusive; lo NULL: none */
    uint64_t span, cost;         /* bytes, and those of them that hold samples to be evicted */
};

/* May this block be part of a hole? Not what is pinned, filling or beyond the ceiling. */
static bool clearable(const struct arena *a, struct arena_block *b)
{
    if (b == NULL || arena_block_end(b) > a->ceiling)
        return false;
    if (b->kind == ARENA_FREE)
        return true;
    return mem_fill_of_block(b)->state == MEM_RESIDENT && !mem_fill_pinned(mem_fill_of_block(b));
}

static uint64_t block_cost(struct arena_block *b)
{
    return b->kind == ARENA_USED && !mem_fill_of_block(b)->x->decoded ? b->size : 0;
}

/* Widen a window around b, to the cheaper side first, until it spans len. lo is NULL if it cannot.
 */
static struct window window_around(const struct arena *a, struct arena_block *b, uint64_t len)
{
    struct window w = {b, b, b->size, block_cost(b)};

    while (w.span < len) {
        struct arena_block *l = clearable(a, w.lo->prev) ? w.lo->prev : NULL;
        struct arena_block *r = clearable(a, w.hi->next) ? w.hi->next : NULL;

        if (l == NULL && r == NULL)
            return (struct window){0};
        bool left = r == NULL || (l != NULL && block_cost(l) <= block_cost(r));
        struct arena_block *add = left ? l : r;

        w.lo = left ? add : w.lo;
        w.hi = left ? w.hi : add;
        w.span += add->size;
        w.cost += block_cost(add);
    }
    return w;
}

static struct window window_near_cold(struct memory *m, uint64_t len)
{
    struct window best = {0};
    struct choice c;

    choice_init(&c);
    for (unsigned tries = 0; tries < CANDIDATES; tries++) {
        struct mem_fill *f = next_victim(m, &c);

        if (f == NULL)
            break;
        policy_hold(mem_fill_policy(f), &f->item);
        dlc_list_push_tail(&c.aside, &f->block.node);
        if (!clearable(&m->arena, &f->block))
            continue;
        struct window w = window_around(&m->arena, &f->block, len);
        if (w.lo != NULL && (best.lo == NULL || w.cost < best.cost))
            best = w;
    }
    choice_release(&c);
    return best;
}

/* The cheapest window of all, by one pass over the arena; of a large one by a pass over PASS_MAX
 * blocks of it, from somewhere on: then the next who asks looks elsewhere. */
static struct window window_anywhere(struct memory *m, uint64_t len)
{
    const struct arena *a = &m->arena;
    struct policy_item *it = NULL;
    struct arena_block *b = a->first;
    struct window w, best = {0};

    if (m->residents + m->decoded > PASS_MAX / 4 && policy_some(m->policy, &it, 1) == 1)
        b = &mem_fill_of_item(it)->block;
    w = (struct window){.lo = b};
    for (unsigned steps = 0; b != NULL && steps < PASS_MAX; b = b->next, steps++) {
        if (!clearable(a, b)) {
            w = (struct window){.lo = b->next};
            continue;
        }
        w.hi = b;
        w.span += b->size;
        w.cost += block_cost(b);
        while (w.span - w.lo->size >= len) {
            w.span -= w.lo->size;
            w.cost -= block_cost(w.lo);
            w.lo = w.lo->next;
        }
        if (w.span >= len && (best.lo == NULL || w.cost < best.cost))
            best = w;
    }
    return best;
}

static void retire_window(struct window w)
{
    for (struct arena_block *b = w.lo;; b = b->next) {
        if (b->kind == ARENA_USED)
            memory_retire(mem_fill_of_block(b));
        if (b == w.hi)
            break;
    }
}

/* Is there so much that nobody has looked at since it was retired? */
static bool many_retired(const struct memory *m, uint64_t batch)
{
    return memory_room_is_coming(m) && m->scan.covered + m->scan.fresh >= BATCHES * batch;
}

struct arena_block *memory_alloc_below(struct memory *m, uint64_t len, uint64_t limit)
{
    uint64_t used = m->arena.used, size = arena_rounded(len);

    return size > limit || used > limit - size ? NULL : arena_alloc(&m->arena, len);
}

/* What may be in use after a reservation for the user. When another user has just come, there is
 * more: then each reservation must leave less. 0: pins take it all, and nothing is to be evicted. */
static uint64_t limit_for(const struct memory *m, uint64_t size, uint64_t user)
{
    uint64_t limit = user_pins_limit(m, user);

    if (user_pins_total(m) + size > limit)
        return 0;
    return DLC_MAX(limit, m->arena.used);
}

struct arena_block *memory_make_room(struct memory *m, uint64_t len, uint64_t user)
{
    uint64_t batch = m->arena.ceiling >> BATCH_SHIFT;
    uint64_t size = arena_rounded(len), limit;

    bool at_once = memory_scan_is_short(m); /* else what the last tick saw must do */
    if (at_once)
        memory_scan(m, true);
    limit = limit_for(m, size, user);
    if (limit == 0)
        return NULL;
    struct arena_block *b = memory_alloc_below(m, len, limit);
    if (b == NULL && (size <= batch || m->arena.used > limit - DLC_MIN(limit, size))) {
        if (!many_retired(m, batch))
            retire_cold(m, DLC_MAX(size, at_once ? batch : BATCHES * batch));
        memory_sweep_retired(m);
        b = memory_alloc_below(m, len, limit);
    }
    for (int i = 0; b == NULL && i < WINDOWS && !memory_room_is_coming(m); i++) {
        struct window w = window_near_cold(m, size);

        if (w.lo == NULL || (w.cost > 0 && m->decoded > 0)) /* no sample goes for want of looking */
            w = window_anywhere(m, size);
        if (w.lo == NULL)
            break;
        retire_window(w);
        memory_sweep_retired(m);
        b = memory_alloc_below(m, len, limit);
    }
    return b;
}
