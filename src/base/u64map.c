// SPDX-License-Identifier: Apache-2.0
#include "base/u64map.h"

#include "base/check.h"
#include "base/mem.h"

static size_t home(const struct map *m, uint64_t key)
{
    key ^= key >> 32;
    key *= 0x9e3779b97f4a7c15u;
    return (size_t)(key >> 32 ^ key) & (m->cap - 1);
}

/* The entry of key, or the free one where it belongs. */
static struct map_entry *probe(const struct map *m, uint64_t key)
{
    size_t i = home(m, key);

    while (m->entries[i].value != NULL && m->entries[i].key != key)
        i = (i + 1) & (m->cap - 1);
    return &m->entries[i];
}

static void grow(struct map *m)
{
    struct map old = *m;

    m->cap = old.cap == 0 ? 16 : old.cap * 2;
    m->entries = mem_zero(m->cap * sizeof(*m->entries));
    map_each(e, &old) * probe(m, e->key) = *e;
    mem_free(&old.entries);
}

void *map_get(const struct map *m, uint64_t key)
{
    return m->cap == 0 ? NULL : probe(m, key)->value;
}

void map_set(struct map *m, uint64_t key, void *value)
{
    struct map_entry *e;

    dlc_check(value != NULL);
    if (m->n * 4 >= m->cap * 3)
        grow(m);
    e = probe(m, key);
    m->n += e->value == NULL;
    *e = (struct map_entry){key, value};
}

void *map_remove(struct map *m, uint64_t key)
{
    struct map_entry *e;
    size_t hole, i;
    void *value;

    if (m->cap == 0)
        return NULL;
    e = probe(m, key);
    value = e->value;
    if (value == NULL)
        return NULL;
    m->n--;
    hole = (size_t)(e - m->entries);
    for (i = (hole + 1) & (m->cap - 1); m->entries[i].value != NULL; i = (i + 1) & (m->cap - 1)) {
        size_t h = home(m, m->entries[i].key);

        /* Move back what could not be found past the hole. */
        if (((i - h) & (m->cap - 1)) >= ((i - hole) & (m->cap - 1))) {
            m->entries[hole] = m->entries[i];
            hole = i;
        }
    }
    m->entries[hole].value = NULL;
    return value;
}

void map_release(struct map *m)
{
    mem_free(&m->entries);
    m->n = m->cap = 0;
}
