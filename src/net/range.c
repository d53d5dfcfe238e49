// SPDX-License-Identifier: Apache-2.0
#include "net/range_i.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"

/* Digits, at least one; what is too large is the largest. NULL: there are none. */
static const char *take_number(const char *s, uint64_t *v)
{
    bool over = false;

    if (!isdigit((unsigned char)*s))
        return NULL;
    for (*v = 0; isdigit((unsigned char)*s); s++)
        over = over || __builtin_mul_overflow(*v, 10u, v) ||
               __builtin_add_overflow(*v, (uint64_t)(*s - '0'), v);
    if (over)
        *v = UINT64_MAX;
    return s;
}

/* "-N": the last N bytes. */
static enum range take_suffix(const char *s, uint64_t size, uint64_t *first, uint64_t *last)
{
    uint64_t n;

    s = take_number(s, &n);
    if (s == NULL || *s != '\0')
        return RANGE_WHOLE;
    if (n == 0 || size == 0)
        return RANGE_BEYOND;
    *first = size - DLC_MIN(n, size);
    *last = size - 1;
    return RANGE_PART;
}

enum range range_parse(const char *text, uint64_t size, uint64_t *first, uint64_t *last)
{
    const char *s = text;

    if (strncasecmp(s, "bytes=", 6) != 0)
        return RANGE_WHOLE;
    s += 6;
    if (*s == '-')
        return take_suffix(s + 1, size, first, last);
    *last = UINT64_MAX;
    s = take_number(s, first);
    if (s == NULL || *s++ != '-')
        return RANGE_WHOLE;
    if (*s != '\0')
        s = take_number(s, last);
    if (s == NULL || *s != '\0' || *last < *first)
        return RANGE_WHOLE;
    if (*first >= size)
        return RANGE_BEYOND;
    *last = DLC_MIN(*last, size - 1);
    return RANGE_PART;
}
