// SPDX-License-Identifier: Apache-2.0
/* A table of names, numbered from 0 in order of arrival: classes, splits. */
#ifndef DLC_CATALOG_NAME_TABLE_I_H
#define DLC_CATALOG_NAME_TABLE_I_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/u64map.h"

struct name_table {
    struct map map; /* hash of a name to its number + 1 */
    char **v;
    size_t n, cap;
};

uint32_t name_table_add(struct name_table *t, const char *s, size_t len); /* its number */
bool name_table_find(const struct name_table *t, const char *s, size_t len, uint32_t *number);
/* Sort; order (n numbers) gets where each one went, may be NULL. */
void name_table_sort(struct name_table *t, int (*cmp)(const void *, const void *), uint32_t *order);
int name_table_by_bytes(const void *a, const void *b); /* both const char *const * */
void name_table_release(struct name_table *t);

#endif
