// SPDX-License-Identifier: Apache-2.0
#include "storage/memory/arena_i.h"

#include "base/check.h"
#include "base/mem.h"

/* How many blocks of the request's own bin are tried before a larger bin is split: with 32 bins in
 * a power of two those fit at least half the time, and waste less. */
#define OWN_BIN_TRIES 8

/* A remainder smaller than 1/128 of the request stays with it: a hole nobody could use. */
#define SLACK_SHIFT 7

/* A hole below the ceiling is given back from this size on: smaller ones are filled again soon. */
#define WORTH_PUNCHING (1u << 20)

struct bin {
    unsigned fl, sl;
};

/* ---- bins ---- */

static unsigned msb(uint64_t x)
{
    return 63u - (unsigned)__builtin_clzll(x);
}

/* The bin whose blocks are at least as large as its lower bound, which is <= grains. */
static struct bin bin_of(uint64_t grains)
{
    if (grains < ARENA_SL)
        return (struct bin){0, (unsigned)grains};
    unsigned top = msb(grains);
    return (struct bin){top - ARENA_SL_BITS + 1,
                        (unsigned)(grains >> (top - ARENA_SL_BITS)) & (ARENA_SL - 1)};
}

static struct arena_block *block_of(struct dlc_list *n)
{
    return dlc_container(n, struct arena_block, node);
}

static void bin_insert(struct arena *a, struct arena_block *b)
{
    struct bin at = bin_of(b->size / ARENA_GRAIN);

    dlc_list_push_head(&a->bins[at.fl][at.sl], &b->node);
    a->fl_map |= 1u << at.fl;
    a->sl_map[at.fl] |= 1u << at.sl;
    a->free += b->size;
}

static void bin_remove(struct arena *a, struct arena_block *b)
{
    struct bin at = bin_of(b->size / ARENA_GRAIN);

    dlc_list_remove(&b->node);
    a->free -= b->size;
    if (!dlc_list_empty(&a->bins[at.fl][at.sl]))
        return;
    a->sl_map[at.fl] &= ~(1u << at.sl);
    if (a->sl_map[at.fl] == 0)
        a->fl_map &= ~(1u << at.fl);
}

/* The first of the bins from `at` on that is not empty; NULL when all are. */
static struct dlc_list *bin_from(struct arena *a, struct bin at)
{
    uint32_t sl = a->sl_map[at.fl] & ~0u << at.sl;

    if (sl == 0) {
        uint32_t fl = at.fl + 1 < ARENA_FL ? a->fl_map & ~0u << (at.fl + 1) : 0;

        if (fl == 0)
            return NULL;
        at.fl = (unsigned)__builtin_ctz(fl);
        sl = a->sl_map[at.fl];
    }
    return &a->bins[at.fl][__builtin_ctz(sl)];
}

static struct arena_block *fit_in(struct dlc_list *bin, uint64_t size, unsigned tries)
{
    dlc_list_each (n, bin) {
        if (block_of(n)->size >= size)
            return block_of(n);
        if (--tries == 0)
            break;
    }
    return NULL;
}

/* Good fit: a few of the request's own bin, then any of a larger one, then all of its own. */
static struct arena_block *find_fit(struct arena *a, uint64_t size)
{
    uint64_t grains = size / ARENA_GRAIN;
    struct bin own = bin_of(grains), next = own;
    struct arena_block *b = fit_in(&a->bins[own.fl][own.sl], size, OWN_BIN_TRIES);

    if (b != NULL)
        return b;
    if (++next.sl == ARENA_SL) {
        next.sl = 0;
        next.fl++;
    }
    struct dlc_list *bin = next.fl < ARENA_FL ? bin_from(a, next) : NULL;
    if (bin != NULL)
        return block_of(bin->next);
    return fit_in(&a->bins[own.fl][own.sl], size, 1024); /* bounded: the last resort */
}

/* ---- blocks ---- */

static struct arena_block *block_new(const struct arena *a, uint64_t off, uint64_t size)
{
    struct arena_block *b = mem_zero(a->block_size);

    dlc_list_init(&b->node);
    b->off = off;
    b->size = size;
    return b;
}

static void block_link_after(struct arena *a, struct arena_block *b, struct arena_block *after)
{
    b->prev = after;
    b->next = after->next;
    after->next = b;
    if (b->next != NULL)
        b->next->prev = b;
    else
        a->last = b;
}

static void block_unlink(struct arena *a, struct arena_block *b)
{
    if (b->prev != NULL)
        b->prev->next = b->next;
    else
        a->first = b->next;
    if (b->next != NULL)
        b->next->prev = b->prev;
    else
        a->last = b->prev;
}

/* Cut b, which is in no bin, to `size` bytes; the rest is a new block behind it, in no bin. */
static struct arena_block *cut(struct arena *a, struct arena_block *b, uint64_t size)
{
    struct arena_block *rest = block_new(a, b->off + size, b->size - size);

    rest->kind = b->kind;
    rest->dirty = b->dirty;
    b->size = size;
    block_link_after(a, rest, b);
    return rest;
}

/* Let b swallow its neighbour n. */
static void absorb(struct arena *a, struct arena_block *b, struct arena_block *n)
{
    if (n->kind == ARENA_FREE)
        bin_remove(a, n);
    b->off = DLC_MIN(b->off, n->off);
    b->size += n->size;
    b->dirty |= n->dirty;
    block_unlink(a, n);
    mem_free(&n);
}

/* b is not USED, in no bin and does not cross the ceiling: give it its kind and restore (A3). */
static void settle(struct arena *a, struct arena_block *b)
{
    b->kind = b->off >= a->ceiling ? ARENA_OUT : ARENA_FREE;
    if (b->next != NULL && b->next->kind == b->kind)
        absorb(a, b, b->next);
    if (b->prev != NULL && b->prev->kind == b->kind)
        absorb(a, b, b->prev);
    if (b->kind == ARENA_FREE)
        bin_insert(a, b);
    else
        a->dirty |= b->dirty;
}

/* The same for a block that may cross the ceiling. */
static void settle_cut(struct arena *a, struct arena_block *b)
{
    if (b->off < a->ceiling && arena_block_end(b) > a->ceiling) {
        struct arena_block *above = cut(a, b, a->ceiling - b->off);

        b->kind = above->kind = ARENA_USED; /* neither absorbs the other while half settled */
        settle(a, above);
    }
    settle(a, b);
}

/* ---- public ---- */

uint64_t arena_rounded(uint64_t len)
{
    return len == 0 ? ARENA_GRAIN : DLC_ALIGN_UP(len, ARENA_GRAIN);
}

void arena_init(struct arena *a, uint64_t base, uint64_t ceiling, uint64_t end, size_t block_size)
{
    dlc_check(base % ARENA_GRAIN == 0 && ceiling % ARENA_PAGE == 0 && end % ARENA_PAGE == 0);
    dlc_check(base < ceiling && ceiling <= end && end <= ARENA_MAX);
    dlc_check(block_size >= sizeof(struct arena_block));
    *a = (struct arena){.base = base, .ceiling = ceiling, .end = end, .block_size = block_size};
    for (unsigned f = 0; f < ARENA_FL; f++)
        for (unsigned s = 0; s < ARENA_SL; s++)
            dlc_list_init(&a->bins[f][s]);
    a->first = a->last = block_new(a, base, end - base);
    settle_cut(a, a->first);
}

void arena_release(struct arena *a)
{
    while (a->first != NULL) {
        struct arena_block *b = a->first;

        block_unlink(a, b);
        mem_free(&b);
    }
    *a = (struct arena){0};
}

struct arena_block *arena_alloc(struct arena *a, uint64_t len)
{
    if (len > a->free)
        return NULL;
    uint64_t size = arena_rounded(len);
    struct arena_block *b = find_fit(a, size);

    if (b == NULL)
        return NULL;
    bin_remove(a, b);
    b->kind = ARENA_USED;
    b->dirty = false;
    if (b->size - size > size >> SLACK_SHIFT)
        settle(a, cut(a, b, size));
    a->used += b->size;
    return b;
}

/* The highest of a few of the largest bin. */
static struct arena_block *find_high(const struct arena *a)
{
    unsigned fl, sl, tries = OWN_BIN_TRIES;
    struct arena_block *high = NULL;

    if (a->fl_map == 0)
        return NULL;
    fl = 31u - (unsigned)__builtin_clz(a->fl_map);
    sl = 31u - (unsigned)__builtin_clz(a->sl_map[fl]);
    dlc_list_each (n, &a->bins[fl][sl]) {
        if (high == NULL || block_of(n)->off > high->off)
            high = block_of(n);
        if (--tries == 0)
            break;
    }
    return high;
}

struct arena_block *arena_alloc_high(struct arena *a, uint64_t len)
{
    uint64_t size = arena_rounded(len);
    struct arena_block *b = find_high(a), *low;

    if (b == NULL || b->size < size)
        return arena_alloc(a, len); /* the bin's others may be larger */
    bin_remove(a, b);
    if (b->size - size > size >> SLACK_SHIFT) {
        low = b;
        b = cut(a, low, low->size - size);
        b->kind = ARENA_USED; /* first: low must not absorb it */
        settle(a, low);
    }
    b->kind = ARENA_USED;
    b->dirty = false;
    a->used += b->size;
    return b;
}

void arena_free(struct arena *a, struct arena_block **bp)
{
    struct arena_block *b = *bp;

    *bp = NULL;
    dlc_check(b->kind == ARENA_USED && dlc_list_empty(&b->node));
    a->used -= b->size;
    b->dirty = true;
    settle_cut(a, b);
}

void arena_set_ceiling(struct arena *a, uint64_t ceiling)
{
    uint64_t from = DLC_MIN(a->ceiling, ceiling);

    dlc_check(ceiling % ARENA_PAGE == 0 && ceiling > a->base && ceiling <= a->end);
    a->ceiling = ceiling;
    /* From the end down; settling b leaves what lies above it alone and may absorb what is below.
     */
    for (struct arena_block *b = a->last; b != NULL && arena_block_end(b) > from; b = b->prev) {
        if (b->kind == ARENA_USED)
            continue;
        if (b->kind == ARENA_FREE) {
            bin_remove(a, b);
            b->dirty = true;
        }
        settle_cut(a, b);
    }
}

void arena_drain(struct arena *a, bool (*punch)(void *arg, uint64_t off, uint64_t len), void *arg)
{
    if (!a->dirty)
        return;
    a->dirty = false;
    for (struct arena_block *b = a->last; b != NULL && b->off >= a->ceiling; b = b->prev) {
        if (b->kind != ARENA_OUT || !b->dirty)
            continue;
        b->dirty = !punch(arg, b->off, b->size);
        a->dirty |= b->dirty;
    }
}

void arena_drain_free(struct arena *a, bool (*punch)(void *arg, uint64_t off, uint64_t len),
                      void *arg)
{
    for (unsigned f = bin_of(WORTH_PUNCHING / ARENA_GRAIN).fl; f < ARENA_FL; f++)
        for (unsigned s = 0; s < ARENA_SL; s++)
            dlc_list_each (n, &a->bins[f][s])
                if (block_of(n)->size >= WORTH_PUNCHING)
                    punch(arg, block_of(n)->off, block_of(n)->size);
}

uint64_t arena_largest(const struct arena *a)
{
    uint64_t largest = 0;

    if (a->fl_map == 0)
        return 0;
    unsigned fl = 31u - (unsigned)__builtin_clz(a->fl_map);
    unsigned sl = 31u - (unsigned)__builtin_clz(a->sl_map[fl]);
    dlc_list_each (n, (struct dlc_list *)(uintptr_t)&a->bins[fl][sl])
        largest = DLC_MAX(largest, block_of(n)->size);
    return largest;
}

/* ---- self-check ---- */

static void check_block(const struct arena *a, const struct arena_block *b)
{
    uint64_t end = arena_block_end(b);

    dlc_check(b->size > 0 && b->size % ARENA_GRAIN == 0);
    dlc_check(b->off == (b->prev == NULL ? a->base : arena_block_end(b->prev)));      /* (A1) */
    dlc_check(b->next == NULL ? a->last == b && end == a->end : b->next->prev == b);  /* (A1) */
    dlc_check(b->kind != ARENA_FREE || end <= a->ceiling);                            /* (A2) */
    dlc_check(b->kind != ARENA_OUT || b->off >= a->ceiling);                          /* (A2) */
    dlc_check(b->kind != ARENA_OUT || !b->dirty || a->dirty);                         /* (A4) */
    dlc_check(b->kind == ARENA_USED || b->next == NULL || b->next->kind != b->kind);  /* (A3) */
    dlc_check(b->kind != ARENA_FREE || !dlc_list_empty((struct dlc_list *)&b->node)); /* (A2) */
}

void arena_check(const struct arena *a)
{
    uint64_t used = 0, free_bytes = 0, n_free = 0, n_binned = 0;

    dlc_check(a->first != NULL && a->first->prev == NULL);
    for (const struct arena_block *b = a->first; b != NULL; b = b->next) {
        check_block(a, b);
        used += b->kind == ARENA_USED ? b->size : 0;
        free_bytes += b->kind == ARENA_FREE ? b->size : 0;
        n_free += b->kind == ARENA_FREE;
    }
    dlc_check(used == a->used && free_bytes == a->free);
    for (unsigned f = 0; f < ARENA_FL; f++) {
        dlc_check((a->fl_map >> f & 1) == (a->sl_map[f] != 0));
        for (unsigned s = 0; s < ARENA_SL; s++) {
            struct dlc_list *bin = (struct dlc_list *)(uintptr_t)&a->bins[f][s];

            dlc_check((a->sl_map[f] >> s & 1) == !dlc_list_empty(bin));
            dlc_list_each (n, bin) {
                struct bin at = bin_of(block_of(n)->size / ARENA_GRAIN);

                dlc_check(block_of(n)->kind == ARENA_FREE && at.fl == f && at.sl == s);
                n_binned++;
            }
        }
    }
    dlc_check(n_binned == n_free);
}
