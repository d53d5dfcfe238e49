// SPDX-License-Identifier: Apache-2.0
#include "catalog/name_table_i.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"

/* Equal hashes of different names go to the next number. */
static uint64_t slot_of(const struct name_table *t, const char *s, size_t len, uint32_t *number)
{
    uint64_t h = hash64(s, len);
    uintptr_t at;

    while ((at = (uintptr_t)map_get(&t->map, h)) != 0) {
        const char *have = t->v[at - 1];

        if (strncmp(have, s, len) == 0 && have[len] == '\0') {
            *number = (uint32_t)(at - 1);
            break;
        }
        h++;
    }
    return h;
}

bool name_table_find(const struct name_table *t, const char *s, size_t len, uint32_t *number)
{
    *number = UINT32_MAX;
    slot_of(t, s, len, number);
    return *number != UINT32_MAX;
}

uint32_t name_table_add(struct name_table *t, const char *s, size_t len)
{
    uint32_t number = UINT32_MAX;
    uint64_t slot = slot_of(t, s, len, &number);

    if (number != UINT32_MAX)
        return number;
    mem_reserve(t->v, t->n, t->cap);
    t->v[t->n++] = mem_strn(s, len);
    map_set(&t->map, slot, (void *)(uintptr_t)t->n);
    return (uint32_t)(t->n - 1);
}

int name_table_by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void name_table_sort(struct name_table *t, int (*cmp)(const void *, const void *), uint32_t *order)
{
    char **old = mem_alloc(DLC_MAX(t->n, 1u) * sizeof(*old));

    if (t->n > 0) {
        memcpy(old, t->v, t->n * sizeof(*old));
        qsort(t->v, t->n, sizeof(*t->v), cmp);
    }
    map_release(&t->map);
    t->map = (struct map)MAP_INIT;
    for (size_t i = 0; i < t->n; i++) {
        uint32_t none;

        map_set(&t->map, slot_of(t, t->v[i], strlen(t->v[i]), &none), (void *)(uintptr_t)(i + 1));
    }
    for (size_t i = 0; order != NULL && i < t->n; i++)
        dlc_check(name_table_find(t, old[i], strlen(old[i]), &order[i]));
    mem_free(&old);
}

void name_table_release(struct name_table *t)
{
    for (size_t i = 0; i < t->n; i++)
        mem_free(&t->v[i]);
    mem_free(&t->v);
    map_release(&t->map);
    *t = (struct name_table){.n = 0};
}
