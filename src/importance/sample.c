// SPDX-License-Identifier: Apache-2.0
#include "importance/sample.h"

#include <float.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/mem.h"
#include "importance/sample_i.h"

#define AHEAD 64 /* positions that are filled together, while memory is waited for */

/* ---- the spec ---- */

static int check_samples(const struct draw_spec *s, struct dlc_err *err)
{
    uint32_t world = s->world == 0 ? 1 : s->world;

    if (s->n == 0 || s->n > UINT32_MAX || s->first > PERMUTATION_MAX - s->n)
        return dlc_err_set(err, DLC_EINVAL,
                           "draw of %" PRIu64 " samples from %" PRIu64 " on: 1 to 2^32 - 1 are "
                           "possible, with numbers below 2^40",
                           s->n, s->first);
    if (s->rank >= world)
        return dlc_err_set(err, DLC_EINVAL,
                           "draw for rank %" PRIu32 " of world size %" PRIu32
                           ": ranks count from 0 to world size - 1",
                           s->rank, world);
    if (s->length == 0 || (s->length - 1) / world >= UINT32_MAX)
        return dlc_err_set(err, DLC_EINVAL,
                           "draw of length %" PRIu64 " for %" PRIu32
                           " ranks: 1 to 2^32 - 1 positions each are possible",
                           s->length, world);
    if (s->weight == NULL)
        return dlc_err_set(err, DLC_EINVAL, "draw without weights: give a function for them");
    return 0;
}

static int check_coverage(const struct draw_spec *s, struct dlc_err *err)
{
    uint64_t least;

    if (s->every == 0)
        return dlc_err_set(err, DLC_EINVAL,
                           "draw with every = 0: a sample can be due every 1 epoch or more");
    least = s->n / s->every + (s->n % s->every != 0);
    if (s->length < least || s->length > s->n)
        return dlc_err_set(err, DLC_EINVAL,
                           "draw of length %" PRIu64 " from %" PRIu64
                           " samples, each once in %" PRIu32 " epochs: the length may be %" PRIu64
                           " to %" PRIu64,
                           s->length, s->n, s->every, least, s->n);
    if (!(s->prefer >= 1 && s->prefer <= DRAW_PREFER_MAX))
        return dlc_err_set(err, DLC_EINVAL, "draw with prefer = %g: it may be 1 to %d", s->prefer,
                           DRAW_PREFER_MAX);
    return 0;
}

static int check_shade(const struct draw_spec *s, struct dlc_err *err)
{
    double twice = 2 * s->replication;

    if (!(twice >= 1 && twice <= 2 * DRAW_REPLICATION_MAX && twice == floor(twice)))
        return dlc_err_set(err, DLC_EINVAL,
                           "draw with replication = %g: it may be 0.5 to %d in steps of 0.5",
                           s->replication, DRAW_REPLICATION_MAX);
    return 0;
}

int draw_check(const struct draw_spec *s, struct dlc_err *err)
{
    int rc = check_samples(s, err);

    if (rc < 0)
        return rc;
    if (s->mode == DRAW_COVERAGE)
        return check_coverage(s, err);
    if (s->mode == DRAW_SHADE)
        return check_shade(s, err);
    return dlc_err_set(err, DLC_EINVAL, "draw of mode %d: it may be %d (coverage) or %d (shade)",
                       (int)s->mode, DRAW_COVERAGE, DRAW_SHADE);
}

uint64_t draw_length(const struct draw_spec *s)
{
    uint64_t world = s->world == 0 ? 1 : s->world;

    return s->length / world + (s->length % world != 0);
}

/* ---- random numbers ---- */

uint64_t draw_seed(const struct draw_spec *s, enum draw_purpose purpose)
{
    struct rng r = {s->seed};

    r.state = rng_next(&r) ^ (uint64_t)purpose;
    return rng_next(&r);
}

uint64_t draw_stream(const struct draw_spec *s, enum draw_purpose purpose)
{
    struct rng r = {draw_seed(s, purpose) ^ s->epoch};

    return rng_next(&r);
}

/* ---- the part ---- */

void draw_deal(struct order *o, const struct draw_spec *s, enum draw_purpose purpose, uint64_t n)
{
    struct order_spec spec = {.kind = ORDER_SHUFFLED,
                              .n = n,
                              .seed = draw_seed(s, purpose),
                              .rank = s->rank,
                              .world = s->world};
    int rc = order_init(o, &spec, s->epoch, NULL);

    dlc_check(rc == 0);
}

void part_release(struct part *p)
{
    mem_free(&p->at);
    mem_free(&p->w);
    *p = (struct part)PART_INIT;
}

double part_load(struct part *p, const struct draw_spec *s)
{
    double sum = 0;
    uint64_t known = 0;

    for (uint64_t k = 0; k < p->n; k++) {
        uint64_t sample = s->first + part_place(p, k);
        float w = s->weight(s->arg, sample);

        if (w > 0 && w <= FLT_MAX) {
            sum += (double)w;
            known++;
        } else {
            w = 0;
        }
        p->w[k] = s->resident != NULL && s->resident(s->arg, sample) ? -w : w;
    }
    return known > 0 ? sum / (double)known : 0;
}

double part_fill(struct part *p, float unlearnt, double prefer)
{
    double sum = 0, squares = 0;

    for (uint64_t k = 0; k < p->n; k++) {
        double w;

        if (p->w[k] == 0)
            p->w[k] = copysignf(unlearnt, p->w[k]);
        w = part_weight(p, k) * (part_resident(p, k) ? prefer : 1);
        sum += w;
        squares += w * w;
    }
    return sum * sum / squares;
}

/* ---- the list ---- */

/* Some positions in steps, each of which tells the processor what the next one will read. */
static void spread_some(const struct draw_spec *s, const struct permutation *perm,
                        const struct draw_source *f, uint64_t from, uint64_t to, uint64_t *list,
                        uint64_t *seen)
{
    for (uint64_t k = from; k < to; k++) {
        uint64_t i = permutation_at(perm, k);

        list[k] = i < f->n ? i : i % f->n;
        __builtin_prefetch(&f->drawn[list[k]]);
    }
    for (uint64_t k = from; k < to; k++) {
        list[k] = f->drawn[list[k]];
        if (seen != NULL)
            __builtin_prefetch(&seen[list[k] >> 6], 1);
        if (f->at != NULL)
            __builtin_prefetch(&f->at[list[k]]);
    }
    for (uint64_t k = from; k < to; k++) {
        uint64_t i = list[k];

        if (seen != NULL)
            seen[i >> 6] |= (uint64_t)1 << (i & 63);
        list[k] = s->first + (f->at != NULL ? f->at[i] : i);
    }
}

void draw_spread(const struct draw_spec *s, enum draw_purpose purpose, const struct draw_source *f,
                 uint64_t *list, uint64_t length, uint64_t *seen)
{
    struct permutation perm;

    if (length == 0)
        return;
    dlc_check(f->n > 0 && length <= f->total);
    permutation_init(&perm, f->total, draw_seed(s, purpose), s->epoch);
    for (uint64_t from = 0; from < length; from += AHEAD)
        spread_some(s, &perm, f, from, DLC_MIN(from + AHEAD, length), list, seen);
}

int draw_epoch(const struct draw_spec *spec, uint64_t *list, struct draw_figures *out,
               struct dlc_err *err)
{
    struct draw_figures figures = {0};
    struct draw_spec s = *spec;
    int rc = draw_check(spec, err);

    if (rc < 0)
        return rc;
    s.world = s.world == 0 ? 1 : s.world;
    rc = s.mode == DRAW_SHADE ? draw_shade(&s, list, &figures) : draw_coverage(&s, list, &figures);
    if (rc < 0)
        return dlc_err_set(err, rc,
                           "no memory to draw %" PRIu64 " positions from %" PRIu64 " samples",
                           draw_length(&s), s.n);
    if (out != NULL)
        *out = figures;
    return 0;
}
