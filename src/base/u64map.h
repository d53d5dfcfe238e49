// SPDX-License-Identifier: Apache-2.0
/* Hash map from 64-bit keys to pointers: open addressing, linear probing, deletion by shifting
 * back. */
#ifndef DLC_BASE_U64MAP_H
#define DLC_BASE_U64MAP_H

#include <stddef.h>
#include <stdint.h>

struct map_entry {
    uint64_t key;
    void *value; /* NULL: free */
};

struct map {
    struct map_entry *entries;
    size_t n, cap; /* cap is 0 or a power of two */
};

#define MAP_INIT                                                                                   \
    {                                                                                              \
        NULL, 0, 0                                                                                 \
    }

void *map_get(const struct map *m, uint64_t key);       /* NULL when absent */
void map_set(struct map *m, uint64_t key, void *value); /* value is not NULL */
void *map_remove(struct map *m, uint64_t key);          /* what was there, or NULL */
void map_release(struct map *m);

#define map_each(e, m)                                                                             \
    for (struct map_entry *e = (m)->entries; e != NULL && e < (m)->entries + (m)->cap; e++)        \
        if (e->value != NULL)

#endif
