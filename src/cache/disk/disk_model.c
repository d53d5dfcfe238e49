// SPDX-License-Identifier: Apache-2.0
#include "cache/disk/disk_model.h"

#include "base/check.h"
#include "base/mem.h"
#include "cache/disk/eviction_groups_i.h"

struct disk_model {
    struct chunks table;
    struct groups groups;
    uint64_t limit, bytes;
};

struct disk_model *disk_model_new(uint64_t limit, double cool_down, const struct policy_ops *ops,
                                  const struct policy_options *o)
{
    struct disk_model *m = mem_new(struct disk_model);

    m->table = (struct chunks)CHUNKS_INIT;
    m->limit = limit;
    groups_init(&m->groups, cool_down, ops, o);
    return m;
}

void disk_model_free(struct disk_model **mp)
{
    struct disk_model *m = *mp;

    *mp = NULL;
    if (m == NULL)
        return;
    groups_release(&m->groups);
    chunks_release(&m->table);
    mem_free(&m);
}

uint32_t disk_model_group(struct disk_model *m, uint64_t key, double now)
{
    return groups_find(&m->groups, key, "", now);
}

void disk_model_join(struct disk_model *m, uint32_t group, double now)
{
    groups_join(&m->groups, groups_get(&m->groups, group), now);
}

void disk_model_leave(struct disk_model *m, uint32_t group, double now)
{
    groups_leave(&m->groups, groups_get(&m->groups, group), now);
}

void disk_model_expect(struct disk_model *m, uint32_t group, int32_t runs)
{
    groups_expect(&m->groups, groups_get(&m->groups, group), runs);
}

/* As evict_locked() of space.c. False: nothing can go, or what could is worth more. */
static bool model_evict(struct disk_model *m, uint32_t group, double byte_cost, double now)
{
    enum life_pressure pressure;
    struct group *victim = groups_victim(&m->groups, now, &pressure);
    uint32_t slot;

    if (victim == NULL ||
        !groups_admit(&m->groups, groups_get(&m->groups, group), byte_cost, victim, pressure, now))
        return false;
    slot = groups_victim_chunk(victim);
    groups_unlink(&m->groups, &m->table, slot);
    groups_forget(&m->groups, slot);
    m->bytes -= m->table.chunks[slot].size;
    chunks_remove(&m->table, slot);
    return true;
}

static enum disk_model_outcome model_store(struct disk_model *m, struct chunk_id id, uint64_t size,
                                           double cost, double now)
{
    uint32_t slot = chunks_add(&m->table, id, size, 0);

    if (slot == CHUNK_NONE)
        return DISK_MODEL_REFUSED;
    m->table.chunks[slot].group = (uint16_t)id.group;
    groups_chunk_cost(&m->groups, &m->table, slot, cost);
    groups_link_newest(&m->groups, &m->table, slot, now);
    m->bytes += size;
    return DISK_MODEL_STORED;
}

enum disk_model_outcome disk_model_read(struct disk_model *m, uint32_t group, uint64_t chunk,
                                        uint64_t size, double cost, double now, uint64_t *evicted)
{
    struct chunk_id id = {.hi = chunk, .lo = chunk, .group = group};
    uint32_t slot = chunks_find(&m->table, id);

    if (slot != CHUNK_NONE) {
        groups_claim(&m->groups, &m->table, slot, group);
        groups_touch(&m->groups, &m->table, slot, now);
        return DISK_MODEL_HIT;
    }
    groups_cost(&m->groups, groups_get(&m->groups, group), cost, size);
    if (size > m->limit)
        return DISK_MODEL_REFUSED;
    for (; m->bytes + size > m->limit; ++*evicted)
        if (!model_evict(m, group, size > 0 ? cost / (double)size : 0, now))
            return DISK_MODEL_REFUSED;
    return model_store(m, id, size, cost, now);
}
