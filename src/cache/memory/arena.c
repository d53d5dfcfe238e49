// SPDX-License-Identifier: Apache-2.0
#include "cache/memory/arena_i.h"

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

/* (ARENA-5) Of small ones the one that was freed last comes first: it is warm. */
static void bin_insert(struct arena *a, struct arena_block *b)
{
    struct bin at = bin_of(b->size / ARENA_GRAIN);

    if (b->size >= WORTH_PUNCHING && !b->dirty)
        dlc_list_push_tail(&a->bins[at.fl][at.sl], &b->node);
    else
        dlc_list_push_head(&a->bins[at.fl][at.sl], &b->node);
    a->fl_map |= (uint64_t)1 << at.fl;
    a->sl_map[at.fl] |= 1u << at.sl;
    a->free += b->size;
}

/* Another block will begin or end elsewhere. */
static void forget_drained(struct arena *a, const struct arena_block *b)
{
    if (a->drained == b)
        a->drained = NULL;
}

static void bin_remove(struct arena *a, struct arena_block *b)
{
    struct bin at = bin_of(b->size / ARENA_GRAIN);

    dlc_list_remove(&b->node);
    forget_drained(a, b);
    a->free -= b->size;
    if (!dlc_list_empty(&a->bins[at.fl][at.sl]))
        return;
    a->sl_map[at.fl] &= ~(1u << at.sl);
    if (a->sl_map[at.fl] == 0)
        a->fl_map &= ~((uint64_t)1 << at.fl);
}

/* The first of the bins from `at` on that is not empty; NULL when all are. */
static struct dlc_list *bin_from(struct arena *a, struct bin at)
{
    uint32_t sl = a->sl_map[at.fl] & ~0u << at.sl;

    if (sl == 0) {
        uint64_t fl = at.fl + 1 < ARENA_FL ? a->fl_map & ~(uint64_t)0 << (at.fl + 1) : 0;

        if (fl == 0)
            return NULL;
        at.fl = (unsigned)__builtin_ctzll(fl);
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
    if (a->top == b && rest->off < a->ceiling)
        a->top = rest;
    return rest;
}

static void gone_remove(struct arena *a, struct arena_block *b)
{
    dlc_list_remove(&b->node);
    forget_drained(a, b);
}

/* Let b swallow its neighbour n. */
static void absorb(struct arena *a, struct arena_block *b, struct arena_block *n)
{
    if (n->kind == ARENA_FREE)
        bin_remove(a, n);
    else
        gone_remove(a, n);
    if (a->top == n)
        a->top = b;
    b->off = DLC_MIN(b->off, n->off);
    b->size += n->size;
    b->dirty |= n->dirty;
    block_unlink(a, n);
    mem_free(&n);
}

/* b is not USED, in no bin and does not cross the ceiling: give it its kind and restore
 * (ARENA-3). */
static void settle(struct arena *a, struct arena_block *b)
{
    b->kind = b->off >= a->ceiling ? ARENA_OUT : ARENA_FREE;
    if (b->next != NULL && b->next->kind == b->kind)
        absorb(a, b, b->next);
    if (b->prev != NULL && b->prev->kind == b->kind)
        absorb(a, b, b->prev);
    if (b->kind == ARENA_FREE)
        bin_insert(a, b);
    else if (b->dirty)
        dlc_list_push_tail(&a->gone, &b->node);
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

void arena_init(struct arena *a, uint64_t base, uint64_t ceiling, uint64_t end, uint64_t page,
                size_t block_size)
{
    dlc_check(base % ARENA_GRAIN == 0 && ceiling % ARENA_GRAIN == 0 && end % ARENA_GRAIN == 0);
    dlc_check(base < ceiling && ceiling <= end && end <= ARENA_MAX);
    dlc_check(block_size >= sizeof(struct arena_block));
    *a = (struct arena){
        .base = base, .ceiling = ceiling, .end = end, .page = page, .block_size = block_size};
    dlc_list_init(&a->gone);
    for (unsigned f = 0; f < ARENA_FL; f++)
        for (unsigned s = 0; s < ARENA_SL; s++)
            dlc_list_init(&a->bins[f][s]);
    a->first = a->last = a->top = block_new(a, base, end - base);
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
    if (b->size - size > size >> SLACK_SHIFT)
        settle(a, cut(a, b, size)); /* as dirty as the whole was */
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
    fl = msb(a->fl_map);
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

/* The blocks between two ceilings change their kind: from the higher one down. Settling b leaves
 * what lies above it alone, and may absorb what is below. */
static void resettle(struct arena *a, struct arena_block *b, uint64_t from, arena_above_f *above)
{
    for (; b != NULL && arena_block_end(b) > from; b = b->prev) {
        if (b->kind == ARENA_USED) {
            if (above != NULL)
                above(b);
            continue;
        }
        if (b->kind == ARENA_FREE)
            bin_remove(a, b);
        else
            gone_remove(a, b);
        settle_cut(a, b);
    }
}

static bool move_down(struct arena *a, uint64_t wanted, arena_above_f *above)
{
    struct arena_block *top = a->top, *b = top, *low;
    uint64_t to = wanted;

    for (unsigned n = 0; b->off > wanted && b->prev != NULL; b = b->prev) {
        to = DLC_ALIGN_UP(b->off, a->page);
        if (++n >= ARENA_STEP && to < a->ceiling)
            break;
    }
    to = b->off > wanted ? to : wanted;
    low = b->prev != NULL ? b->prev : b; /* not settled: it stays what it is */
    a->ceiling = to;
    resettle(a, top, to, above);
    a->top = low == b ? a->first : low;
    while (a->top->next != NULL && a->top->next->off < to)
        a->top = a->top->next;
    return to == wanted;
}

static bool move_up(struct arena *a, uint64_t wanted)
{
    struct arena_block *b = a->top;
    uint64_t from = a->ceiling, to = wanted;

    for (unsigned n = 0; b->next != NULL && b->next->off < wanted; b = b->next) {
        if (++n >= ARENA_STEP && b->next->off / a->page * a->page > from) {
            to = b->next->off / a->page * a->page;
            break;
        }
    }
    a->ceiling = to;
    resettle(a, b, from, NULL);
    while (a->top->next != NULL && a->top->next->off < to)
        a->top = a->top->next;
    return to == wanted;
}

bool arena_move_ceiling(struct arena *a, uint64_t wanted, arena_above_f *above)
{
    dlc_check(wanted % ARENA_GRAIN == 0 && wanted > a->base && wanted <= a->end);
    if (wanted == a->ceiling)
        return true;
    return wanted < a->ceiling ? move_down(a, wanted, above) : move_up(a, wanted);
}

/* A dirty FREE block that is worth it. (ARENA-5) */
static struct arena_block *dirty_free(struct arena *a)
{
    struct bin at = bin_of(WORTH_PUNCHING / ARENA_GRAIN);

    for (uint64_t fl = a->fl_map >> at.fl << at.fl; fl != 0; fl &= fl - 1) {
        unsigned f = (unsigned)__builtin_ctzll(fl);

        for (uint32_t sl = a->sl_map[f]; sl != 0; sl &= sl - 1) {
            struct arena_block *b = block_of(a->bins[f][__builtin_ctz(sl)].next);

            if (b->dirty && b->size >= WORTH_PUNCHING)
                return b;
        }
    }
    return NULL;
}

static void drained(struct arena *a, struct arena_block *b)
{
    struct bin at = bin_of(b->size / ARENA_GRAIN);

    b->dirty = false;
    dlc_list_remove(&b->node);
    if (b->kind == ARENA_FREE)
        dlc_list_push_tail(&a->bins[at.fl][at.sl], &b->node);
}

bool arena_drain(struct arena *a, bool free_too, unsigned calls, arena_punch_f *punch, void *arg)
{
    struct arena_block *b = NULL;

    while (calls-- > 0) {
        uint64_t got;

        b = !dlc_list_empty(&a->gone) ? block_of(a->gone.next) : free_too ? dirty_free(a) : NULL;
        if (b == NULL)
            return false;
        if (a->drained != b) {
            a->drained = b;
            a->drained_to = b->off;
        }
        got = punch(arg, a->drained_to, arena_block_end(b) - a->drained_to);
        if (got == 0)
            return false;
        a->drained_to += got;
        if (a->drained_to >= arena_block_end(b)) {
            drained(a, b);
            a->drained = NULL;
        }
    }
    return !dlc_list_empty(&a->gone) || (free_too && dirty_free(a) != NULL);
}

uint64_t arena_largest(const struct arena *a)
{
    uint64_t largest = 0;

    if (a->fl_map == 0)
        return 0;
    unsigned fl = msb(a->fl_map);
    unsigned sl = 31u - (unsigned)__builtin_clz(a->sl_map[fl]);
    dlc_list_each (n, (struct dlc_list *)(uintptr_t)&a->bins[fl][sl])
        largest = DLC_MAX(largest, block_of(n)->size);
    return largest;
}

/* ---- self-check ---- */

static void check_block(const struct arena *a, const struct arena_block *b)
{
    uint64_t end = arena_block_end(b);
    bool listed = !dlc_list_empty((struct dlc_list *)&b->node);

    dlc_check(b->size > 0 && b->size % ARENA_GRAIN == 0);
    dlc_check(b->off == (b->prev == NULL ? a->base : arena_block_end(b->prev)));     /* (ARENA-1) */
    dlc_check(b->next == NULL ? a->last == b && end == a->end : b->next->prev == b); /* (ARENA-1) */
    dlc_check(b->kind != ARENA_FREE || end <= a->ceiling);                           /* (ARENA-2) */
    dlc_check(b->kind != ARENA_OUT || b->off >= a->ceiling);                         /* (ARENA-2) */
    dlc_check(b->kind != ARENA_OUT || b->dirty == listed);                           /* (ARENA-5) */
    dlc_check(b->kind == ARENA_USED || b->next == NULL || b->next->kind != b->kind); /* (ARENA-3) */
    dlc_check(b->kind != ARENA_FREE || listed);                                      /* (ARENA-2) */
}

void arena_check(const struct arena *a)
{
    uint64_t used = 0, free_bytes = 0, n_free = 0, n_binned = 0;

    dlc_check(a->first != NULL && a->first->prev == NULL);
    dlc_check(a->top->off < a->ceiling);
    dlc_check(a->top->next == NULL || a->top->next->off >= a->ceiling);
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
