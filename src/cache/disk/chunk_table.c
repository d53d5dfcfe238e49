// SPDX-License-Identifier: Apache-2.0
#include "cache/disk/chunk_table_i.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

#define FIRST_SLOTS 64u

void chunks_release(struct chunks *t)
{
    mem_free(&t->chunks);
    mem_free(&t->buckets);
    *t = (struct chunks)CHUNKS_INIT;
}

/* Ids are hashes already. */
static uint32_t *bucket_of(const struct chunks *t, uint64_t lo)
{
    return &t->buckets[lo & (t->n_buckets - 1)];
}

uint32_t chunks_find(const struct chunks *t, struct chunk_id id)
{
    uint32_t slot = t->n_buckets == 0 ? CHUNK_NONE : *bucket_of(t, id.lo);

    while (slot != CHUNK_NONE && (t->chunks[slot].lo != id.lo || t->chunks[slot].hi != id.hi))
        slot = t->chunks[slot].chain;
    return slot;
}

uint32_t chunks_find_idle(const struct chunks *t, struct chunk_id id)
{
    uint32_t slot = chunks_find(t, id);

    return slot != CHUNK_NONE && (t->chunks[slot].flags & CHUNK_BUSY) != 0 ? CHUNK_NONE : slot;
}

static bool grow_slots(struct chunks *t)
{
    uint32_t cap = t->cap == 0 ? FIRST_SLOTS : t->cap + t->cap / 2;
    struct chunk *p;

    if (cap <= t->cap || cap >= CHUNK_NONE)
        return false;
    p = mem_try_grow(t->chunks, cap * sizeof(*p));
    if (p == NULL)
        return false;
    t->chunks = p;
    t->cap = cap;
    return true;
}

static bool grow_buckets(struct chunks *t)
{
    uint32_t n = t->n_buckets == 0 ? FIRST_SLOTS : t->n_buckets * 2;
    uint32_t *p;

    if (n < t->n_buckets)
        return true; /* longer chains */
    p = mem_try_alloc(n * sizeof(*p));
    if (p == NULL)
        return false;
    memset(p, 0xff, n * sizeof(*p)); /* CHUNK_NONE */
    mem_free(&t->buckets);
    t->buckets = p;
    t->n_buckets = n;
    for (uint32_t i = 0; i < t->n_slots; i++) {
        struct chunk *c = &t->chunks[i];

        if ((c->flags & CHUNK_USED) == 0)
            continue;
        c->chain = *bucket_of(t, c->lo);
        *bucket_of(t, c->lo) = i;
    }
    return true;
}

static uint32_t take_slot(struct chunks *t)
{
    uint32_t slot = t->free;

    if (slot != CHUNK_NONE) {
        t->free = t->chunks[slot].chain;
        return slot;
    }
    if (t->n_slots == t->cap && !grow_slots(t))
        return CHUNK_NONE;
    return t->n_slots++;
}

uint32_t chunks_add(struct chunks *t, struct chunk_id id, uint64_t size, uint64_t checksum)
{
    uint32_t slot;

    if (t->n >= t->n_buckets && !grow_buckets(t))
        return CHUNK_NONE;
    slot = take_slot(t);
    if (slot == CHUNK_NONE)
        return CHUNK_NONE;
    t->chunks[slot] = (struct chunk){
        .hi = id.hi,
        .lo = id.lo,
        .size = size,
        .checksum = checksum,
        .older = CHUNK_NONE,
        .newer = CHUNK_NONE,
        .chain = *bucket_of(t, id.lo),
        .flags = CHUNK_USED,
    };
    *bucket_of(t, id.lo) = slot;
    t->n++;
    return slot;
}

void chunks_remove(struct chunks *t, uint32_t slot)
{
    struct chunk *c = &t->chunks[slot];
    uint32_t *link = bucket_of(t, c->lo);

    dlc_check((c->flags & CHUNK_USED) != 0);
    while (*link != slot)
        link = &t->chunks[*link].chain;
    *link = c->chain;
    c->flags = 0;
    c->chain = t->free;
    t->free = slot;
    t->n--;
}

void chunks_link_newest(struct chunks *t, struct chunk_list *l, uint32_t slot)
{
    struct chunk *c = &t->chunks[slot];

    c->older = l->newest;
    c->newer = CHUNK_NONE;
    if (l->newest == CHUNK_NONE)
        l->oldest = slot;
    else
        t->chunks[l->newest].newer = slot;
    l->newest = slot;
}

void chunks_link_oldest(struct chunks *t, struct chunk_list *l, uint32_t slot)
{
    struct chunk *c = &t->chunks[slot];

    c->newer = l->oldest;
    c->older = CHUNK_NONE;
    if (l->oldest == CHUNK_NONE)
        l->newest = slot;
    else
        t->chunks[l->oldest].older = slot;
    l->oldest = slot;
}

void chunks_unlink(struct chunks *t, struct chunk_list *l, uint32_t slot)
{
    struct chunk *c = &t->chunks[slot];

    if (c->older == CHUNK_NONE)
        l->oldest = c->newer;
    else
        t->chunks[c->older].newer = c->newer;
    if (c->newer == CHUNK_NONE)
        l->newest = c->older;
    else
        t->chunks[c->newer].older = c->older;
    c->older = c->newer = CHUNK_NONE;
}
