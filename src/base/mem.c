// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"

static void *or_die(void *p, size_t n)
{
    if (p == NULL) {
        fprintf(stderr, "dlcache: no memory for %zu bytes\n", n);
        abort();
    }
    return p;
}

void *mem_alloc(size_t n)
{
    return or_die(malloc(n == 0 ? 1 : n), n);
}

void *mem_zero(size_t n)
{
    return or_die(calloc(1, n == 0 ? 1 : n), n);
}

void *mem_grow(void *p, size_t n)
{
    return or_die(realloc(p, n == 0 ? 1 : n), n);
}

char *mem_strn(const char *s, size_t n)
{
    char *p = mem_alloc(n + 1);

    memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

char *mem_str(const char *s)
{
    return s == NULL ? NULL : mem_strn(s, strlen(s));
}

char *mem_fmt(const char *fmt, ...)
{
    va_list ap, again;
    char *p;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    p = mem_alloc((size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(ap);
    return p;
}

void *mem_try_alloc(size_t n)
{
    return fault_hit(FAULT_ALLOC) ? NULL : malloc(n == 0 ? 1 : n);
}

void *mem_try_zero(size_t n)
{
    return fault_hit(FAULT_ALLOC) ? NULL : calloc(1, n == 0 ? 1 : n);
}

void *mem_try_grow(void *p, size_t n)
{
    return fault_hit(FAULT_ALLOC) ? NULL : realloc(p, n == 0 ? 1 : n);
}
