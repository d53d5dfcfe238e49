// SPDX-License-Identifier: Apache-2.0
#include "cache/disk/block_sums_i.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"

struct block_sums {
    _Atomic uint32_t refs;
    struct chunk_name chunk;
    uint64_t n;
    uint64_t sum[];
};

struct block_sums *block_sums_new(const struct chunk_name *chunk)
{
    uint64_t n = chunk->size / DISK_BLOCK + (chunk->size % DISK_BLOCK != 0);
    struct block_sums *s = mem_try_alloc(sizeof(*s) + n * sizeof(s->sum[0]));

    if (s == NULL)
        return NULL;
    atomic_init(&s->refs, 1);
    s->chunk = *chunk;
    s->n = n;
    return s;
}

static struct block_sums *ref(struct block_sums *s)
{
    atomic_fetch_add_explicit(&s->refs, 1,
                              memory_order_relaxed); /* who calls has one, or the map */
    return s;
}

void block_sums_put(struct block_sums **sp)
{
    struct block_sums *s = *sp;

    *sp = NULL;
    /* acq_rel: the last one frees after all others have read */
    if (s != NULL && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
        mem_free(&s);
}

void block_sums_set(struct block_sums *s, uint64_t off, const char *data, size_t n)
{
    uint64_t first = off / DISK_BLOCK;

    dlc_check(off % DISK_BLOCK == 0);
    for (size_t at = 0; at < n; at += DISK_BLOCK) {
        dlc_check(first + at / DISK_BLOCK < s->n);
        s->sum[first + at / DISK_BLOCK] = hash64(data + at, DLC_MIN(n - at, DISK_BLOCK));
    }
}

bool block_sums_match(const struct block_sums *s, uint64_t off, const void *block, size_t n)
{
    dlc_check(off % DISK_BLOCK == 0 && off / DISK_BLOCK < s->n);
    return s->sum[off / DISK_BLOCK] == hash64(block, n);
}

static uint64_t key_of(struct chunk_id id)
{
    return id.hi ^ id.lo;
}

static bool same(const struct chunk_name *a, const struct chunk_name *b)
{
    return a->id.hi == b->id.hi && a->id.lo == b->id.lo && a->size == b->size &&
           a->checksum == b->checksum;
}

struct block_sums *block_sums_get(const struct map *m, const struct chunk_name *n)
{
    struct block_sums *s = map_get(m, key_of(n->id));

    return s != NULL && same(&s->chunk, n) ? ref(s) : NULL;
}

void block_sums_keep(struct map *m, struct block_sums *s)
{
    block_sums_forget(m, s->chunk.id);
    map_set(m, key_of(s->chunk.id), ref(s));
}

void block_sums_forget(struct map *m, struct chunk_id id)
{
    struct block_sums *s = map_remove(m, key_of(id));

    block_sums_put(&s);
}

void block_sums_release(struct map *m)
{
    map_each(e, m)
    {
        struct block_sums *s = e->value;

        block_sums_put(&s);
    }
    map_release(m);
}
