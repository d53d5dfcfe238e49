// SPDX-License-Identifier: Apache-2.0
/* What both ways of drawing share. */
#ifndef DLC_IMPORTANCE_SAMPLE_I_H
#define DLC_IMPORTANCE_SAMPLE_I_H

#include <math.h>

#include "base/rng.h"
#include "importance/sample.h"
#include "order/order.h"

/* What random numbers are for: no two purposes share them. */
enum draw_purpose {
    DRAW_DEAL = 1,   /* which samples are whose */
    DRAW_DEAL_CLASS, /* coverage: which of the class */
    DRAW_CLASS,      /* coverage: which class a sample is in */
    DRAW_RACE,       /* coverage: who wins */
    DRAW_POINTS,     /* shade: the draws */
    DRAW_COIN,       /* shade: the half of a replication */
    DRAW_SPREAD,     /* shuffling what was drawn */
    DRAW_SPREAD_REST,
    DRAW_SPREAD_AGAIN,
};

/* The samples a rank draws from, as places from 0 on: sample = first + at[k]. */
struct part {
    uint64_t n;
    uint32_t *at; /* NULL: k itself */
    float *w;     /* positive once part_fill() has been there; with a minus: resident */
};

#define PART_INIT                                                                                  \
    {                                                                                              \
        0, NULL, NULL                                                                              \
    }

void part_release(struct part *p);

/* How many a rank gets of n that are dealt. */
static inline uint64_t draw_share(const struct draw_spec *s, uint64_t n)
{
    return n / s->world + (n % s->world != 0);
}

static inline uint64_t part_place(const struct part *p, uint64_t k)
{
    return p->at != NULL ? p->at[k] : k;
}

static inline bool part_resident(const struct part *p, uint64_t k)
{
    return signbit(p->w[k]) != 0;
}

static inline double part_weight(const struct part *p, uint64_t k)
{
    return fabs((double)p->w[k]);
}

/* Ask for weights and residence. Gives the mean of the weights that are known; 0: none is. */
double part_load(struct part *p, const struct draw_spec *s);
/* What was never learnt gets weight w; residents count `prefer` times. Gives the effective size. */
double part_fill(struct part *p, float w, double prefer);

/* n things are dealt to the ranks: order_at() of those of this one. */
void draw_deal(struct order *o, const struct draw_spec *s, enum draw_purpose purpose, uint64_t n);

/* A seed of its own for each purpose, and a stream for each epoch. */
uint64_t draw_seed(const struct draw_spec *s, enum draw_purpose purpose);
uint64_t draw_stream(const struct draw_spec *s, enum draw_purpose purpose);
/* The random number at `place` in a stream. */
static inline uint64_t draw_number(uint64_t stream, uint64_t place)
{
    struct rng r = {stream + place * 0x9e3779b97f4a7c15u};

    return rng_next(&r);
}

/* What a list is filled from. */
struct draw_source {
    const uint32_t *drawn;
    uint64_t n;         /* how many there are in it */
    uint64_t total;     /* and with copies: those in front have one more while total % n lasts */
    const uint32_t *at; /* place of a drawn one; NULL: it is the place */
};

/* Fill list[0..length), length <= total, in random order. seen: a bit for each that may be drawn,
 * set for what is listed; may be NULL. */
void draw_spread(const struct draw_spec *s, enum draw_purpose purpose, const struct draw_source *f,
                 uint64_t *list, uint64_t length, uint64_t *seen);

int draw_shade(const struct draw_spec *s, uint64_t *list, struct draw_figures *out);
int draw_coverage(const struct draw_spec *s, uint64_t *list, struct draw_figures *out);

#endif
