// SPDX-License-Identifier: Apache-2.0
/*
 * Draws without replacement, above a floor.
 *
 * The floor: a permutation of the seed alone puts all samples in a row, which is cut into `every`
 * classes; epoch e takes class e % every. The class and the rest are dealt to the ranks separately,
 * so that all ranks have equally many of both.
 *
 *     row     | class 0 | class 1 | class 2 | class 3 |        every = 4, epoch 5: class 1
 *                rest     forced       rest
 *
 * The rest: each sample runs for -log(u) / w, u of (seed, epoch, sample), and the first ones win:
 * that is drawing one by one, by weight among those that are left. The times are kept as numbers of
 * 32 bits in the same order, and counts of their bytes find the last one that wins.
 */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "importance/sample_i.h"

struct coverage {
    struct part part;    /* those of the class first */
    uint64_t forced;     /* how many of the class there are */
    uint64_t begin, end; /* of the class, in the row */
    struct permutation row;
    uint32_t *times; /* of the rest */
    uint64_t *taken; /* alone: a bit per sample, those of the class */
};

static int set_up(struct coverage *c, const struct draw_spec *s)
{
    uint64_t class = s->epoch % s->every, size = s->n / s->every, more = s->n % s->every;
    struct part *p = &c->part;

    c->begin = class * size + DLC_MIN(class, more);
    c->end = c->begin + size + (class < more);
    c->forced = draw_share(s, c->end - c->begin);
    p->n = c->forced + draw_share(s, s->n - (c->end - c->begin));
    permutation_init(&c->row, s->n, draw_seed(s, DRAW_CLASS), 0);
    p->at = mem_try_alloc(p->n * sizeof(*p->at));
    p->w = mem_try_alloc(p->n * sizeof(*p->w));
    c->times = mem_try_alloc((p->n - c->forced + 1) * sizeof(*c->times));
    c->taken = mem_try_zero((s->n + 63) / 64 * sizeof(*c->taken));
    return p->at != NULL && p->w != NULL && c->times != NULL && c->taken != NULL ? 0 : DLC_ENOMEM;
}

static void release(struct coverage *c)
{
    part_release(&c->part);
    mem_free(&c->times);
    mem_free(&c->taken);
}

/* This rank's samples of the class and of the rest. */
static void deal(struct coverage *c, const struct draw_spec *s)
{
    uint64_t size = c->end - c->begin;
    uint32_t *at = c->part.at;
    struct order o;

    if (size > 0) {
        draw_deal(&o, s, DRAW_DEAL_CLASS, size);
        for (uint64_t k = 0; k < o.length; k++)
            *at++ = (uint32_t)permutation_at(&c->row, c->begin + order_at(&o, k));
    }
    if (size < s->n) {
        draw_deal(&o, s, DRAW_DEAL, s->n - size);
        for (uint64_t k = 0; k < o.length; k++) {
            uint64_t place = order_at(&o, k);

            *at++ = (uint32_t)permutation_at(&c->row, place < c->begin ? place : place + size);
        }
    }
}

/* The same for a rank that is alone: it gets all, and the rest in the order of memory. */
static void deal_all(struct coverage *c, const struct draw_spec *s)
{
    uint32_t *at = c->part.at;

    for (uint64_t k = c->begin; k < c->end; k++) {
        uint64_t place = permutation_at(&c->row, k);

        *at++ = (uint32_t)place;
        c->taken[place >> 6] |= (uint64_t)1 << (place & 63);
    }
    for (uint64_t place = 0; place < s->n; place++)
        if ((c->taken[place >> 6] >> (place & 63) & 1) == 0)
            *at++ = (uint32_t)place;
}

/* Times are between 2^-200 and 2^200; 9 bits of the exponent are enough, 23 of the rest are left.
 */
static uint32_t as_number(double time)
{
    uint64_t bits;

    memcpy(&bits, &time, sizeof(bits));
    return (uint32_t)((bits - ((uint64_t)(1023 - 256) << 52)) >> 29);
}

static void run(struct coverage *c, const struct draw_spec *s)
{
    const struct part *p = &c->part;
    uint64_t stream = draw_stream(s, DRAW_RACE);

    for (uint64_t k = c->forced; k < p->n; k++) {
        double u = ((double)(draw_number(stream, p->at[k]) >> 12) + 0.5) * 0x1p-52;
        double w = part_weight(p, k) * (part_resident(p, k) ? s->prefer : 1);

        c->times[k - c->forced] = as_number(-log(u) / w);
    }
}

/* The time that has `rank` times before it when they are sorted, byte by byte from the highest.
 * *ties: how many of those before it are equal to it. */
static uint32_t select_time(const uint32_t *times, uint64_t n, uint64_t rank, uint64_t *ties)
{
    uint32_t found = 0;

    for (unsigned shift = 32; shift > 0;) {
        uint64_t counts[256] = {0};
        unsigned byte = 0;

        shift -= 8;
        for (uint64_t k = 0; k < n; k++)
            if (((uint64_t)(times[k] ^ found) >> shift) >> 8 == 0)
                counts[times[k] >> shift & 255]++;
        while (rank >= counts[byte])
            rank -= counts[byte++];
        found |= byte << shift;
    }
    *ties = rank;
    return found;
}

/* Leave in the part, behind the class, only the `room` winners of the rest. */
static void choose(struct coverage *c, const struct draw_spec *s, uint64_t room)
{
    struct part *p = &c->part;
    uint64_t ties = 0, to = c->forced;
    uint32_t limit;

    if (c->forced + room == p->n)
        return;
    run(c, s);
    limit = select_time(c->times, p->n - c->forced, room, &ties);
    for (uint64_t k = c->forced; k < p->n; k++) {
        uint32_t time = c->times[k - c->forced];

        if (time > limit || (time == limit && ties == 0))
            continue;
        ties -= time == limit;
        p->at[to] = p->at[k];
        p->w[to++] = p->w[k];
    }
    dlc_check(to == c->forced + room);
    p->n = to;
}

int draw_coverage(const struct draw_spec *s, uint64_t *list, struct draw_figures *out)
{
    uint64_t length = draw_length(s);
    struct coverage c = {.part = PART_INIT};
    struct part *p = &c.part;
    double mean;
    int rc = set_up(&c, s);

    if (rc < 0)
        goto out;
    if (s->world == 1)
        deal_all(&c, s);
    else
        deal(&c, s);
    mean = part_load(p, s);
    out->effective = part_fill(p, mean > 0 ? (float)mean : 1, s->prefer);
    out->part = p->n;
    out->forced = c.forced;
    out->distinct = length;
    choose(&c, s, length - c.forced);
    for (uint64_t k = 0; k < p->n; k++)
        out->resident += part_resident(p, k);
    draw_spread(s, DRAW_SPREAD, &(struct draw_source){p->at, p->n, p->n, NULL}, list, length, NULL);
out:
    release(&c);
    return rc;
}
