// SPDX-License-Identifier: Apache-2.0
#include "cache/disk/eviction_groups_i.h"

#include "base/check.h"
#include "base/mem.h"

#define COST_UNKNOWN 1e-8 /* of a byte, before anything was fetched: 100 MB a second */
#define WORTH_IT     2.0  /* what jobs read goes only for what is worth so many times as much */

/* After a change of its life or its chunks. relaxed: figures */
static void publish(const struct groups *gs, const struct group *g)
{
    struct group_seen *s = &gs->seen[g->number];

    atomic_store_explicit(&s->chunks, g->n, memory_order_relaxed);
    atomic_store_explicit(&s->bytes, g->item.size, memory_order_relaxed);
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

void groups_init(struct groups *gs, double cool_down)
{
    *gs = (struct groups){.cool_down = cool_down};
    gs->seen = mem_zero((GROUPS_MAX + 1) * sizeof(*gs->seen));
    for (int i = 0; i <= LIFE_DIRE; i++)
        gs->order[i] = policy_new(&policy_worth, NULL);
    dlc_list_init(&gs->cooling);
    life_tick(&group_new(gs, "what is left of earlier runs", 0)->life, 0, 0); /* INACTIVE */
    publish(gs, gs->v[GROUP_UNKNOWN]);
}

void groups_release(struct groups *gs)
{
    for (int i = 0; i <= LIFE_DIRE; i++)
        policy_free(&gs->order[i]);
    for (size_t i = 0; i < gs->n; i++) {
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

static void resize(struct groups *gs, struct group *g, uint64_t size)
{
    policy_resize(order_of(gs, g), &g->item, size, (double)size * cost_of_byte(g));
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
    if (g->n > 0)
        policy_insert(order_of(gs, g), &g->item);
    publish(gs, g);
}

/* ---- lives ---- */

void groups_join(struct groups *gs, struct group *g, double now)
{
    if (g->number == GROUP_UNKNOWN)
        return;
    leave_order(gs, g);
    if (g->life.jobs == 0) /* those who join it are ranks of the run, or share its reads */
        policy_access(order_of(gs, g), &g->item, now);
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
    resize(gs, g, g->item.size);
}

/* ---- chunks ---- */

static struct group *group_of(struct groups *gs, struct chunks *t, uint32_t slot)
{
    return groups_get(gs, t->chunks[slot].group);
}

static void linked(struct groups *gs, struct group *g, uint64_t size)
{
    resize(gs, g, g->item.size + size);
    if (g->n++ == 0)
        policy_insert(order_of(gs, g), &g->item);
    publish(gs, g);
}

void groups_link_newest(struct groups *gs, struct chunks *t, uint32_t slot)
{
    struct group *g = group_of(gs, t, slot);

    chunks_link_newest(t, &g->chunks, slot);
    linked(gs, g, t->chunks[slot].size);
}

void groups_link_oldest(struct groups *gs, struct chunks *t, uint32_t slot)
{
    struct group *g = group_of(gs, t, slot);

    chunks_link_oldest(t, &g->chunks, slot);
    linked(gs, g, t->chunks[slot].size);
}

void groups_unlink(struct groups *gs, struct chunks *t, uint32_t slot)
{
    struct group *g = group_of(gs, t, slot);

    chunks_unlink(t, &g->chunks, slot);
    if (--g->n == 0)
        policy_remove(order_of(gs, g), &g->item);
    resize(gs, g, g->item.size - t->chunks[slot].size);
    publish(gs, g);
}

void groups_touch(struct groups *gs, struct chunks *t, uint32_t slot)
{
    struct group *g = group_of(gs, t, slot);

    chunks_unlink(t, &g->chunks, slot);
    chunks_link_newest(t, &g->chunks, slot);
}

void groups_claim(struct groups *gs, struct chunks *t, uint32_t slot, uint32_t number)
{
    const struct group *g = group_of(gs, t, slot);

    if (number == GROUP_UNKNOWN || number == g->number || g->life.jobs > 0)
        return;
    groups_unlink(gs, t, slot);
    t->chunks[slot].group = groups_get(gs, number)->number;
    groups_link_newest(gs, t, slot);
}

/* ---- who goes ---- */

struct group *groups_victim(struct groups *gs, double now, enum life_pressure *pressure)
{
    struct policy_item *it = NULL;

    groups_tick(gs, now);
    for (enum life_pressure p = LIFE_CALM; it == NULL && p <= LIFE_DIRE; p++) {
        *pressure = p;
        it = policy_victim(gs->order[p], now, false);
    }
    return it == NULL ? NULL : dlc_container(it, struct group, item);
}

/*
 * The newcomer's worth per byte against the victim's. Policies weigh whole items, so what is asked
 * is: were as much of g as there is of the victim worth more?
 */
static bool worth_more(struct groups *gs, const struct group *g, const struct group *victim,
                       enum life_pressure pressure, double now)
{
    struct policy_item it = g->item;

    it.resident = false;
    it.size = victim->item.size;
    it.cost = (double)it.size * cost_of_byte(g) / (pressure == LIFE_DIRE ? WORTH_IT : 1);
    return policy_admit(gs->order[pressure], &it, 1, now);
}

bool groups_admit(struct groups *gs, const struct group *g, const struct group *victim,
                  enum life_pressure pressure, double now)
{
    if (g == victim)
        return pressure != LIFE_DIRE; /* what is there will be read as soon as what would come */
    if (pressure_of(g) != pressure)
        return pressure_of(g) > pressure; /* jobs are served before those who only may come again */
    return worth_more(gs, g, victim, pressure, now);
}
