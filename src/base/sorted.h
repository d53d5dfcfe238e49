// SPDX-License-Identifier: Apache-2.0
/* Sorted arrays: small tables that are read in order more often than they change. */
#ifndef DLC_BASE_SORTED_H
#define DLC_BASE_SORTED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"

/* Where the element is that compare(element, key) calls equal, or where it would be: before the
 * first greater one. */
static inline size_t sorted_find(const void *array, size_t n, size_t size,
                                 int (*compare)(const void *element, const void *key),
                                 const void *key, bool *found)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (compare((const char *)array + mid * size, key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    *found = lo < n && compare((const char *)array + lo * size, key) == 0;
    return lo;
}

/* Make a gap at `at`, for the caller to fill. */
#define sorted_insert(array, n, cap, at)                                                           \
    do {                                                                                           \
        mem_reserve((array), (n), (cap));                                                          \
        memmove(&(array)[(at) + 1], &(array)[at], ((n) - (at)) * sizeof(*(array)));                \
        (n)++;                                                                                     \
    } while (0)

#define sorted_remove(array, n, at)                                                                \
    do {                                                                                           \
        (n)--;                                                                                     \
        memmove(&(array)[at], &(array)[(at) + 1], ((n) - (at)) * sizeof(*(array)));                \
    } while (0)

#endif
