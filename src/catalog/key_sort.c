// SPDX-License-Identifier: Apache-2.0
/*
 * Multikey quicksort over cached characters.
 *
 * Keys of a dataset share long prefixes, so comparing whole keys would read the same bytes of far
 * memory again and again. Each reference carries eight bytes of its key from the current depth on;
 * partitioning looks at those alone. Only what is equal in all eight goes to the next eight.
 * A key has no NUL inside, so the zeros that pad a short key sort it before its extensions.
 *
 * The larger part is handled by the loop, the others by recursion: the stack stays logarithmic.
 */
#include "catalog/key_sort_i.h"

#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"

#define SMALL 12 /* below: insertion */

struct sorter {
    const unsigned char *arena;
    struct rng rng; /* pivots that no order of keys can predict */
};

static uint64_t load(const unsigned char *arena, const struct record_ref *r, size_t depth)
{
    const unsigned char *p = arena + r->off;
    size_t len = RECORD_KEY_LEN(p);
    unsigned char raw[8] = {0};
    uint64_t v;

    if (len > depth)
        memcpy(raw, RECORD_KEY(p) + depth, DLC_MIN(len - depth, sizeof(raw)));
    memcpy(&v, raw, sizeof(v));
    return __builtin_bswap64(v);
}

static void load_all(const struct sorter *s, struct record_ref *r, size_t n, size_t depth)
{
    for (size_t i = 0; i < n; i++) {
        if (i + 8 < n)
            __builtin_prefetch(s->arena + r[i + 8].off + RECORD_HEAD + depth);
        r[i].cache = load(s->arena, &r[i], depth);
    }
}

/* Is a before b, both equal in all before depth? */
static bool before(const struct sorter *s, const struct record_ref *a, const struct record_ref *b,
                   size_t depth)
{
    uint64_t x = a->cache, y = b->cache;

    while (x == y && (x & 0xff) != 0) {
        depth += 8;
        x = load(s->arena, a, depth);
        y = load(s->arena, b, depth);
    }
    return x < y;
}

static void insertion(const struct sorter *s, struct record_ref *r, size_t n, size_t depth)
{
    for (size_t i = 1; i < n; i++) {
        struct record_ref x = r[i];
        size_t k = i;

        for (; k > 0 && before(s, &x, &r[k - 1], depth); k--)
            r[k] = r[k - 1];
        r[k] = x;
    }
}

static uint64_t pivot_of(struct sorter *s, const struct record_ref *r, size_t n)
{
    uint64_t a = r[rng_below(&s->rng, n)].cache, b = r[rng_below(&s->rng, n)].cache;
    uint64_t c = r[rng_below(&s->rng, n)].cache;
    uint64_t lo = DLC_MIN(a, b), hi = DLC_MAX(a, b);

    return DLC_CLAMP(c, lo, hi);
}

struct parts {
    size_t lt, gt; /* [0, lt) less, [lt, gt) equal, [gt, n) greater */
};

static struct parts partition(struct record_ref *r, size_t n, uint64_t pivot)
{
    struct parts p = {0, n};

    for (size_t i = 0; i < p.gt;) {
        struct record_ref x = r[i];

        if (x.cache < pivot) {
            r[i++] = r[p.lt];
            r[p.lt++] = x;
        } else if (x.cache > pivot) {
            r[i] = r[--p.gt];
            r[p.gt] = x;
        } else {
            i++;
        }
    }
    return p;
}

static void sort_part(struct sorter *s, struct record_ref *r, size_t n, size_t depth)
{
    while (n > SMALL) {
        uint64_t pivot = pivot_of(s, r, n);
        struct parts p = partition(r, n, pivot);
        size_t equal = p.gt - p.lt, greater = n - p.gt;
        bool ended = (pivot & 0xff) == 0;

        if (!ended)
            load_all(s, r + p.lt, equal, depth + 8);
        if (!ended && equal >= p.lt && equal >= greater) {
            sort_part(s, r, p.lt, depth);
            sort_part(s, r + p.gt, greater, depth);
            r += p.lt;
            n = equal;
            depth += 8;
            continue;
        }
        if (!ended)
            sort_part(s, r + p.lt, equal, depth + 8);
        if (p.lt >= greater) {
            sort_part(s, r + p.gt, greater, depth);
            n = p.lt;
        } else {
            sort_part(s, r, p.lt, depth);
            r += p.gt;
            n = greater;
        }
    }
    insertion(s, r, n, depth);
}

void catalog_sort(const unsigned char *arena, struct record_ref *refs, size_t n)
{
    struct sorter s = {arena, {n}};

    load_all(&s, refs, n, 0);
    sort_part(&s, refs, n, 0);
}
