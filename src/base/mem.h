// SPDX-License-Identifier: Apache-2.0
/*
 * Memory allocation. mem_*: small objects; the process ends with one line when memory is exhausted.
 * mem_try_*: data; NULL when memory is exhausted, and swept by fault injection. Everything is freed
 * by mem_free, which takes a pointer to the pointer.
 */
#ifndef DLC_BASE_MEM_H
#define DLC_BASE_MEM_H

#include <stddef.h>
#include <stdlib.h>

void *mem_alloc(size_t n);               /* uninitialised */
void *mem_zero(size_t n);                /* zeroed */
void *mem_grow(void *p, size_t n);       /* realloc */
char *mem_str(const char *s);            /* strdup; NULL stays NULL */
char *mem_strn(const char *s, size_t n); /* first n bytes, NUL added */
char *mem_fmt(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void *mem_try_alloc(size_t n);
void *mem_try_zero(size_t n);
void *mem_try_grow(void *p, size_t n);

#define mem_new(type) ((type *)mem_zero(sizeof(type)))

#define mem_free(pp)                                                                               \
    do {                                                                                           \
        __typeof__(pp) mem_free_pp = (pp); /* once: it may count */                                \
        free((void *)*mem_free_pp);                                                                \
        *mem_free_pp = NULL;                                                                       \
    } while (0)

/* Make room for one more element in a growing array. */
#define mem_reserve(array, n, cap)                                                                 \
    do {                                                                                           \
        if ((n) == (cap)) {                                                                        \
            (cap) = (cap) == 0 ? 16 : (cap)*2;                                                     \
            (array) = mem_grow((array), (cap) * sizeof(*(array)));                                 \
        }                                                                                          \
    } while (0)

#endif
