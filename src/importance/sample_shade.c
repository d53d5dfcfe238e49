// SPDX-License-Identifier: Apache-2.0
/*
 * Draws with replacement: as many uniform points as positions, sorted, against the running sum of
 * the weights. Sorted points come one after another, as the running sum of exponential numbers over
 * its end; until there are samples in it, the list holds them.
 *
 * The sum of the weights is kept with what each addition rounds off (Neumaier), so that many small
 * weights behind a large one are not lost.
 */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "importance/sample_i.h"

struct shade {
    struct part part;
    uint64_t length;
    uint32_t *drawn; /* places of the part: residents from the front, others from behind */
    uint64_t hits;   /* how many of them are resident */
    uint64_t heads;  /* the first so many of those have one copy more */
    uint64_t *seen;  /* a bit per place */
};

struct sum {
    double high, low;
};

static inline void add(struct sum *s, double w)
{
    double high = s->high + w;

    s->low += s->high >= w ? (s->high - high) + w : (w - high) + s->high;
    s->high = high;
}

static int set_up(struct shade *h, const struct draw_spec *s)
{
    struct part *p = &h->part;

    p->n = draw_share(s, s->n);
    p->w = mem_try_alloc(p->n * sizeof(*p->w));
    h->drawn = mem_try_alloc(h->length * sizeof(*h->drawn));
    h->seen = mem_try_zero((p->n + 63) / 64 * sizeof(*h->seen));
    if (s->world > 1)
        p->at = mem_try_alloc(p->n * sizeof(*p->at));
    return p->w == NULL || h->drawn == NULL || h->seen == NULL || (s->world > 1 && p->at == NULL)
               ? DLC_ENOMEM
               : 0;
}

static void release(struct shade *h)
{
    part_release(&h->part);
    mem_free(&h->drawn);
    mem_free(&h->seen);
}

/* The samples of this rank; alone it has them all, in their own order. */
static void deal(struct part *p, const struct draw_spec *s)
{
    struct order o;

    if (p->at == NULL)
        return;
    draw_deal(&o, s, DRAW_DEAL, s->n);
    for (uint64_t k = 0; k < p->n; k++)
        p->at[k] = (uint32_t)order_at(&o, k);
}

/* Sorted points, as doubles in the list. Gives what they are to be divided by. */
static double make_points(const struct draw_spec *s, uint64_t *list, uint64_t length)
{
    struct rng r = {draw_number(draw_stream(s, DRAW_POINTS), s->rank)};
    double sum = 0;

    for (uint64_t k = 0; k < length; k++) {
        sum -= log(1 - rng_unit(&r));
        memcpy(&list[k], &sum, sizeof(sum));
    }
    return sum - log(1 - rng_unit(&r));
}

/* Which weight is each point in? */
static void draw(struct shade *h, const uint64_t *list, double end)
{
    const struct part *p = &h->part;
    struct sum total = {0, 0}, sum = {0, 0};
    uint64_t last = p->n - 1, misses = 0, at = 0;
    double per;

    for (uint64_t k = 0; k < p->n; k++)
        add(&total, part_weight(p, k));
    per = (total.high + total.low) / end;
    add(&sum, part_weight(p, 0));
    for (uint64_t k = 0; k < h->length; k++) {
        double point;

        memcpy(&point, &list[k], sizeof(point));
        point *= per;
        while ((sum.high - point) + sum.low <= 0 && at < last)
            add(&sum, part_weight(p, ++at));
        if (part_resident(p, at))
            h->drawn[h->hits++] = (uint32_t)at;
        else
            h->drawn[h->length - ++misses] = (uint32_t)at;
    }
}

/* Residents with the coin's head to the front. */
static void toss(struct shade *h, const struct draw_spec *s)
{
    uint64_t base = draw_stream(s, DRAW_COIN);

    if (floor(s->replication) == s->replication)
        return;
    for (uint64_t k = 0; k < h->hits; k++) {
        uint32_t place = h->drawn[k];

        if (draw_number(base, part_place(&h->part, place)) >> 63 == 0)
            continue;
        h->drawn[k] = h->drawn[h->heads];
        h->drawn[h->heads++] = place;
    }
}

/* Residents in front, each so many times, and the others behind, again if they do not suffice. */
static void compose(const struct shade *h, const struct draw_spec *s, uint64_t *list,
                    struct draw_figures *out)
{
    uint64_t copies = h->hits * (uint64_t)s->replication + h->heads;
    uint64_t front = DLC_MIN(copies, h->length), misses = h->length - h->hits;
    struct draw_source hits = {h->drawn, h->hits, copies, h->part.at};
    struct draw_source others =
        misses == 0 ? hits : (struct draw_source){h->drawn + h->hits, misses, 0, hits.at};
    uint64_t rest = h->length - front, again = rest % others.n;

    out->resident = misses == 0 ? h->length : front;
    draw_spread(s, DRAW_SPREAD, &hits, list, front, h->seen);
    others.total = rest - again;
    draw_spread(s, DRAW_SPREAD_REST, &others, list + front, rest - again, h->seen);
    others.total = others.n;
    draw_spread(s, DRAW_SPREAD_AGAIN, &others, list + h->length - again, again, h->seen);
}

int draw_shade(const struct draw_spec *s, uint64_t *list, struct draw_figures *out)
{
    struct shade h = {.length = draw_length(s)};
    int rc = set_up(&h, s);

    if (rc < 0)
        goto out;
    deal(&h.part, s);
    part_load(&h.part, s);
    out->effective = part_fill(&h.part, 1, 1);
    draw(&h, list, make_points(s, list, h.length));
    toss(&h, s);
    compose(&h, s, list, out);
    out->part = h.part.n;
    for (uint64_t k = 0; k < (h.part.n + 63) / 64; k++)
        out->distinct += (unsigned)__builtin_popcountll(h.seen[k]);
out:
    release(&h);
    return rc;
}
