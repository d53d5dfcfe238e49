// SPDX-License-Identifier: Apache-2.0
#include "cache/disk/eviction_groups_i.h"

#include "base/check.h"
#include "base/mem.h"

#define COST_UNKNOWN 1e-8 /* of a byte, before anything was fetched: 100 MB a second */
#define BLOCK_SHIFT  12   /* 4096 ranks in a block */
#define BLOCK_MASK   ((1u << BLOCK_SHIFT) - 1)
#define WORTH_IT     2.0 /* what jobs read goes only for what is worth so many times as much */

/* After a change of its life or its chunks. relaxed: figures */
static void publish(const struct groups *gs, const struct group *g)
{
    struct group_seen *s = &gs->seen[g->number];

    atomic_store_explicit(&s->chunks, g->n, memory_order_relaxed);
    atomic_store_explicit(&s->bytes, g->bytes, memory_order_relaxed);
    atomic_store_explicit(&s->read, g->n_read, memory_order_relaxed);
    atomic_store_explicit(&s->jobs, g->life.jobs, memory_order_relaxed);
    atomic_store_explicit(&s->state, (uint8_t)g->life.state, memory_order_relaxed);
}

void groups_seen(const struct groups *gs, uint32_t number, struct disk_group_figures *out)
{
    struct group_seen *s = &gs->seen[number];

    dlc_check(number <= GROUPS_MAX);
    *out = (struct disk_group_figures){
        .state = (enum life_state)atomic_load_explicit(&s->state, memory_order_relaxed),
        .jobs = atomic_load_explicit(&s->jobs, memory_order_relaxed),
        .chunks = atomic_load_explicit(&s->chunks, memory_order_relaxed),
        .bytes = atomic_load_explicit(&s->bytes, memory_order_relaxed),
    };
    out->by_state[LIFE_PREPARE] = atomic_load_explicit(&s->preparing, memory_order_relaxed);
    if (out->state ==
        LIFE_ACTIVE) { /* each is loaded by itself: they may be of different moments */
        uint64_t read = atomic_load_explicit(&s->read, memory_order_relaxed);

        out->by_state[LIFE_ACTIVE] = DLC_MIN(read, out->chunks);
        out->by_state[LIFE_PENDING] = out->chunks - DLC_MIN(read, out->chunks);
    } else {
        out->by_state[out->state] = out->chunks;
    }
}

static struct group *group_new(struct groups *gs, const char *name, double now)
{
    struct group *g = mem_new(struct group);

    g->number = (uint16_t)gs->n;
    g->name = mem_str(name);
    g->chunks = (struct chunk_list)CHUNK_LIST_INIT;
    g->said = -1e9;
    dlc_list_init(&g->cooling);
    policy_item_init(&g->item, g->number, 0, 0);
    life_init(&g->life, now);
    life_ready(&g->life, now); /* its chunks come in one by one, each of them complete */
    mem_reserve(gs->v, gs->n, gs->cap);
    gs->v[gs->n++] = g;
    publish(gs, g);
    return g;
}

void groups_init(struct groups *gs, double cool_down, const struct policy_ops *ops,
                 const struct policy_options *o)
{
    *gs = (struct groups){.cool_down = cool_down, .ops = ops != NULL ? ops : &policy_worth};
    if (o != NULL)
        gs->options = *o;
    gs->options.turns = &gs->turns;
    gs->turns = UINT32_MAX; /* those before it are times of files: groups_link_oldest() */
    gs->rng.state = gs->options.seed;
    gs->seen = mem_zero((GROUPS_MAX + 1) * sizeof(*gs->seen));
    for (int i = 0; i <= LIFE_DIRE; i++)
        gs->order[i] = policy_new(gs->ops, &gs->options);
    dlc_list_init(&gs->cooling);
    life_tick(&group_new(gs, "what is left of earlier runs", 0)->life, 0, 0); /* INACTIVE */
    publish(gs, gs->v[GROUP_UNKNOWN]);
}

void groups_release(struct groups *gs)
{
    for (int i = 0; i <= LIFE_DIRE; i++)
        policy_free(&gs->order[i]);
    for (size_t i = 0; i < gs->n_blocks; i++)
        mem_free(&gs->ranks[i]);
    mem_free(&gs->ranks);
    for (size_t i = 0; i < gs->n; i++) {
        policy_free(&gs->v[i]->policy);
        mem_free(&gs->v[i]->name);
        mem_free(&gs->v[i]);
    }
    mem_free(&gs->v);
    mem_free(&gs->seen);
    map_release(&gs->by_key);
}

uint32_t groups_find(struct groups *gs, uint64_t key, const char *name, double now)
{
    struct group *g = map_get(&gs->by_key, key);

    if (g == NULL && gs->n <= GROUPS_MAX) {
        g = group_new(gs, name, now);
        dlc_list_push_tail(&gs->cooling, &g->cooling);
        map_set(&gs->by_key, key, g);
    }
    return g == NULL ? GROUP_UNKNOWN : g->number;
}

struct group *groups_get(struct groups *gs, uint32_t number)
{
    dlc_check(number < gs->n);
    return gs->v[number];
}

/* ---- the three orders ---- */

/* At which pressure may it go? */
static enum life_pressure pressure_of(const struct group *g)
{
    enum life_pressure p = LIFE_CALM;

    while (p < LIFE_DIRE && !life_evictable(&g->life, p))
        p++;
    return p;
}

static struct policy *order_of(struct groups *gs, const struct group *g)
{
    return gs->order[pressure_of(g)];
}

static double cost_of_byte(const struct group *g)
{
    return g->fetched == 0 ? COST_UNKNOWN : g->cost / (double)g->fetched;
}

/* Are the runs of a group a part of what its chunks are worth? */
static bool uses_runs(const struct groups *gs)
{
    return gs->ops->input == POLICY_EXPECTED;
}

static struct chunk_rank *rank_of(const struct groups *gs, uint32_t slot)
{
    return &gs->ranks[slot >> BLOCK_SHIFT][slot & BLOCK_MASK];
}

/* The chunk of a group that is evicted next. NULL: none can be, or it is group 0. */
static struct chunk_rank *first_to_go(const struct group *g)
{
    struct policy_item *it = g->policy == NULL ? NULL : policy_victim(g->policy, 0, false);

    return it == NULL ? NULL : dlc_container(it, struct chunk_rank, item);
}

/* After a change of its chunks, its life or its costs: its place among the groups. */
static void place(struct groups *gs, struct group *g)
{
    struct policy *order = order_of(gs, g);
    const struct chunk_rank *first = first_to_go(g);
    double cost;

    if (g->number == GROUP_UNKNOWN ? g->n == 0 : first == NULL) {
        policy_remove(order, &g->item);
        return;
    }
    if (!g->item.resident)
        policy_insert(order, &g->item);
    if (first == NULL) { /* group 0: it was never used, and costs nothing */
        policy_resize(order, &g->item, 1, 0);
        return;
    }
    cost = first->costed ? first->item.cost : (double)first->item.size * cost_of_byte(g);
    if (uses_runs(gs))
        policy_resize(order, &g->item, first->item.size, cost);
    else
        policy_stand_for(order, &g->item, &first->item, cost);
}

/* Around a change of its life. */
static void leave_order(struct groups *gs, struct group *g)
{
    policy_remove(order_of(gs, g), &g->item);
    dlc_list_remove(&g->cooling);
}

static void enter_order(struct groups *gs, struct group *g)
{
    if (g->life.state == LIFE_COOL_DOWN)
        dlc_list_push_tail(&gs->cooling, &g->cooling);
    place(gs, g);
    publish(gs, g);
}

/* ---- lives ---- */

void groups_join(struct groups *gs, struct group *g, double now)
{
    if (g->number == GROUP_UNKNOWN)
        return;
    leave_order(gs, g);
    /* those who join a run are its ranks, or share its reads */
    if (g->life.jobs == 0 && uses_runs(gs))
        policy_access(order_of(gs, g), &g->item, now);
    if (g->life.jobs == 0) { /* all that is there is PENDING */
        g->run++;
        g->n_read = 0;
    }
    life_join(&g->life, now);
    enter_order(gs, g);
}

void groups_leave(struct groups *gs, struct group *g, double now)
{
    if (g->number == GROUP_UNKNOWN)
        return;
    leave_order(gs, g);
    life_leave(&g->life, now);
    enter_order(gs, g);
}

void groups_tick(struct groups *gs, double now)
{
    while (!dlc_list_empty(&gs->cooling)) {
        struct group *g = dlc_container(gs->cooling.next, struct group, cooling);
        struct policy *from = order_of(gs, g);

        if (!life_tick(&g->life, now, gs->cool_down))
            break;
        policy_remove(from, &g->item);
        dlc_list_remove(&g->cooling);
        enter_order(gs, g);
    }
}

void groups_expect(struct groups *gs, struct group *g, int32_t runs)
{
    if (g->number != GROUP_UNKNOWN)
        policy_expect(order_of(gs, g), &g->item, runs);
}

void groups_cost(struct groups *gs, struct group *g, double cost, uint64_t bytes)
{
    g->cost += cost;
    g->fetched += bytes;
    place(gs, g);
}

/* ---- chunks ---- */

static struct group *group_of(struct groups *gs, struct chunks *t, uint32_t slot)
{
    return groups_get(gs, t->chunks[slot].group);
}

static struct chunk_rank *rank_made(struct groups *gs, uint32_t slot)
{
    while (gs->n_blocks <= slot >> BLOCK_SHIFT) {
        mem_reserve(gs->ranks, gs->n_blocks, gs->cap_blocks);
        gs->ranks[gs->n_blocks++] = mem_zero(sizeof(struct chunk_rank) << BLOCK_SHIFT);
    }
    return rank_of(gs, slot);
}

void groups_chunk_cost(struct groups *gs, struct chunks *t, uint32_t slot, double cost)
{
    struct group *g = group_of(gs, t, slot);
    struct chunk_rank *k = rank_made(gs, slot);

    k->costed = cost > 0;
    if (cost > 0 && k->item.resident) {
        policy_set_cost(g->policy, &k->item, cost);
        place(gs, g);
    } else {
        k->item.cost = cost;
    }
}

/* It is used: ACTIVE in this run, if jobs read it. */
static void mark_read(struct group *g, struct chunk_rank *k)
{
    if (g->life.jobs == 0 || k->run == g->run)
        return;
    k->run = g->run;
    g->n_read++;
}

/* It has come, in a list of its group already: rank it. `used`: just now. */
static void rank(struct groups *gs, struct chunks *t, uint32_t slot, bool used, double now)
{
    struct group *g = group_of(gs, t, slot);
    const struct chunk *c = &t->chunks[slot];
    struct chunk_rank *k = rank_made(gs, slot);
    double cost = k->costed ? k->item.cost : (double)c->size * cost_of_byte(g);

    if (g->policy == NULL)
        g->policy = policy_new(gs->ops, &gs->options);
    policy_item_init(&k->item, slot, c->size, cost);
    k->item.turn = c->stamped; /* when it was used, as far as its file tells */
    if (uses_runs(gs))
        policy_expect(g->policy, &k->item, 1); /* all of a group alike: cost decides */
    k->run = 0;
    if (used) {
        policy_access(g->policy, &k->item, now);
        mark_read(g, k);
    }
    policy_insert(g->policy, &k->item);
}

static void linked(struct groups *gs, struct group *g, uint64_t size)
{
    g->n++;
    g->bytes += size;
    place(gs, g);
    publish(gs, g);
}

void groups_link_newest(struct groups *gs, struct chunks *t, uint32_t slot, double now)
{
    struct group *g = group_of(gs, t, slot);

    chunks_link_newest(t, &g->chunks, slot);
    if (g->number != GROUP_UNKNOWN)
        rank(gs, t, slot, true, now);
    linked(gs, g, t->chunks[slot].size);
}

void groups_link_oldest(struct groups *gs, struct chunks *t, uint32_t slot)
{
    struct group *g = group_of(gs, t, slot);

    chunks_link_oldest(t, &g->chunks, slot);
    if (g->number != GROUP_UNKNOWN)
        rank(gs, t, slot, false, 0);
    linked(gs, g, t->chunks[slot].size);
}

void groups_link_stuck(struct groups *gs, struct chunks *t, uint32_t slot)
{
    struct group *g = group_of(gs, t, slot);

    chunks_link_newest(t, &g->chunks, slot);
    if (g->number != GROUP_UNKNOWN) {
        rank(gs, t, slot, false, 0);
        policy_hold(g->policy, &rank_of(gs, slot)->item); /* (EVICTION-GROUPS-4) */
    }
    linked(gs, g, t->chunks[slot].size);
}

void groups_unlink(struct groups *gs, struct chunks *t, uint32_t slot)
{
    struct group *g = group_of(gs, t, slot);

    chunks_unlink(t, &g->chunks, slot);
    if (g->number != GROUP_UNKNOWN) {
        const struct chunk_rank *k = rank_of(gs, slot);

        g->n_read -= g->life.jobs > 0 && k->run == g->run;
        policy_remove(g->policy, &rank_of(gs, slot)->item);
    }
    g->n--;
    g->bytes -= t->chunks[slot].size;
    place(gs, g);
    publish(gs, g);
}

void groups_forget(struct groups *gs, uint32_t slot)
{
    if (slot >> BLOCK_SHIFT < gs->n_blocks)
        *rank_of(gs, slot) = (struct chunk_rank){0};
}

void groups_touch(struct groups *gs, struct chunks *t, uint32_t slot, double now)
{
    struct group *g = group_of(gs, t, slot);
    struct chunk_rank *k;

    chunks_unlink(t, &g->chunks, slot);
    chunks_link_newest(t, &g->chunks, slot);
    if (g->number == GROUP_UNKNOWN)
        return;
    k = rank_of(gs, slot);
    while (k->item.holds > 0)
        policy_unhold(g->policy, &k->item);
    if (!k->costed)
        policy_set_cost(g->policy, &k->item, (double)k->item.size * cost_of_byte(g));
    policy_access(g->policy, &k->item, now);
    mark_read(g, k);
    place(gs, g);
    publish(gs, g);
}

enum life_state groups_chunk_state(struct groups *gs, struct chunks *t, uint32_t slot)
{
    const struct group *g = group_of(gs, t, slot);

    if ((t->chunks[slot].flags & CHUNK_BUSY) != 0)
        return LIFE_PREPARE;
    return life_of_chunk(&g->life, g->number != GROUP_UNKNOWN && rank_of(gs, slot)->run == g->run);
}

void groups_claim(struct groups *gs, struct chunks *t, uint32_t slot, uint32_t number)
{
    const struct group *g = group_of(gs, t, slot);

    if (number == GROUP_UNKNOWN || number == g->number || g->life.jobs > 0)
        return;
    groups_unlink(gs, t, slot);
    t->chunks[slot].group = groups_get(gs, number)->number;
    chunks_link_newest(t, &groups_get(gs, number)->chunks, slot);
    rank(gs, t, slot, false, 0); /* it is found, not read */
    linked(gs, groups_get(gs, number), t->chunks[slot].size);
}

/* ---- who goes ---- */

/* Any chunk of those that may go at this pressure, each as likely as any other. */
static struct policy_item *random_group(struct groups *gs, enum life_pressure p)
{
    uint64_t n = 0, at;

    for (size_t i = 0; i < gs->n; i++)
        n += gs->v[i]->item.resident && pressure_of(gs->v[i]) == p ? gs->v[i]->n : 0;
    if (n == 0)
        return NULL;
    at = rng_below(&gs->rng, n);
    for (size_t i = 0;; i++) {
        struct group *g = gs->v[i];

        n = g->item.resident && pressure_of(g) == p ? g->n : 0;
        if (at < n)
            return &g->item;
        at -= n;
    }
}

struct group *groups_victim(struct groups *gs, double now, enum life_pressure *pressure)
{
    struct policy_item *it = NULL;

    groups_tick(gs, now);
    for (enum life_pressure p = LIFE_CALM; it == NULL && p <= LIFE_DIRE; p++) {
        *pressure = p;
        it = gs->ops == &policy_random ? random_group(gs, p)
                                       : policy_victim(gs->order[p], now, false);
    }
    return it == NULL ? NULL : dlc_container(it, struct group, item);
}

uint32_t groups_victim_chunk(const struct group *victim)
{
    const struct chunk_rank *first = first_to_go(victim);

    return first == NULL ? victim->chunks.oldest : (uint32_t)first->item.id;
}

/* What a chunk of g counts against the next victim of a group that jobs read, too: by the means of
 * both, since what one chunk cost is too noisy a measure to take from a job what it reads. */
static double cost_among_jobs(const struct group *g, const struct group *victim)
{
    double mean = (double)victim->item.size * cost_of_byte(victim);
    double cheap = mean > 0 ? DLC_MIN(victim->item.cost / mean, 1.0) : 1.0;

    return (double)victim->item.size * cost_of_byte(g) * cheap / WORTH_IT;
}

/*
 * The newcomer's worth per byte against the victim's. Policies weigh whole items, so what is asked
 * is: would a chunk of g as large as the victim be worth more?
 */
static bool worth_more(struct groups *gs, const struct group *g, double byte_cost,
                       const struct group *victim, enum life_pressure pressure, double now)
{
    struct policy_item it = g->item;

    it.resident = false;
    it.size = victim->item.size;
    it.cost = pressure == LIFE_DIRE
                  ? cost_among_jobs(g, victim)
                  : (double)it.size * (byte_cost > 0 ? byte_cost : cost_of_byte(g));
    return policy_admit(gs->order[pressure], &it, 1, now);
}

bool groups_admit(struct groups *gs, const struct group *g, double byte_cost,
                  const struct group *victim, enum life_pressure pressure, double now)
{
    if (pressure_of(g) > pressure && gs->ops->admit != NULL && g->item.expected != POLICY_UNKNOWN)
        return worth_more(gs, g, byte_cost, victim, pressure, now); /* its runs are known */
    if (pressure_of(g) != pressure)
        return pressure_of(g) > pressure; /* jobs are served before those who only may come again */
    if (gs->ops->admit == NULL)
        return true; /* a policy that keeps whatever comes */
    if (g == victim)
        return pressure != LIFE_DIRE; /* what is there will be read as soon as what would come */
    return worth_more(gs, g, byte_cost, victim, pressure, now);
}
