// SPDX-License-Identifier: Apache-2.0
/* What the tests of draws share: weights and residents that are kept in arrays. */
#ifndef DLC_TESTS_DRAWING_H
#define DLC_TESTS_DRAWING_H

#include <math.h>

#include "base/rng.h"
#include "importance/sample.h"

#define DRAWING_MAX 200000 /* samples, and positions of a rank */

struct drawing {
    struct draw_spec spec;
    struct draw_figures figures;
    float weights[DRAWING_MAX];
    bool resident[DRAWING_MAX];
    uint64_t list[DRAWING_MAX], length;
    unsigned count[DRAWING_MAX]; /* of each sample of the spec in the list */
};

static inline float drawing_weight(const void *arg, uint64_t sample)
{
    const struct drawing *d = arg;

    assert_true(sample >= d->spec.first && sample - d->spec.first < d->spec.n);
    return d->weights[sample - d->spec.first];
}

static inline bool drawing_resident(const void *arg, uint64_t sample)
{
    const struct drawing *d = arg;

    return d->resident[sample - d->spec.first];
}

/* All weights 0, nobody resident, an epoch of n positions. */
static inline void drawing_init(struct drawing *d, enum draw_mode mode, uint64_t n)
{
    assert_true(n <= DRAWING_MAX);
    memset(d->weights, 0, n * sizeof(*d->weights));
    memset(d->resident, 0, n * sizeof(*d->resident));
    d->spec = (struct draw_spec){.mode = mode,
                                 .n = n,
                                 .length = n,
                                 .seed = 11,
                                 .world = 1,
                                 .every = 4,
                                 .replication = 1,
                                 .prefer = 1,
                                 .weight = drawing_weight,
                                 .resident = drawing_resident,
                                 .arg = d};
}

static inline void drawing_weigh(struct drawing *d, uint64_t seed)
{
    struct rng r = {seed};

    for (uint64_t s = 0; s < d->spec.n; s++)
        d->weights[s] = (float)log(10 + 200 * rng_unit(&r));
}

/* About one in `of` is resident. */
static inline void drawing_reside(struct drawing *d, uint64_t seed, uint64_t of)
{
    struct rng r = {seed};

    for (uint64_t s = 0; s < d->spec.n; s++)
        d->resident[s] = rng_below(&r, of) == 0;
}

/* Draw, count, and see that the figures tell the truth. */
static inline void drawing_run(struct drawing *d)
{
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t distinct = 0, resident = 0;

    d->length = draw_length(&d->spec);
    assert_true(d->length <= DRAWING_MAX);
    if (draw_epoch(&d->spec, d->list, &d->figures, &err) < 0)
        fail_msg("%s", err.text);
    memset(d->count, 0, d->spec.n * sizeof(*d->count));
    for (uint64_t k = 0; k < d->length; k++) {
        uint64_t s = d->list[k] - d->spec.first;

        assert_true(d->list[k] >= d->spec.first && s < d->spec.n);
        distinct += d->count[s]++ == 0;
        resident += d->spec.resident != NULL && d->resident[s];
    }
    assert_int_equal(d->figures.distinct, distinct);
    assert_int_equal(d->figures.resident, resident);
}

/* How many standard deviations a count of `draws` of chance p is off. */
static inline double drawing_off(double count, double draws, double p)
{
    return fabs(count - draws * p) / sqrt(draws * p * (1 - p));
}

/* The same of a chi-square, in either direction (Wilson and Hilferty). */
static inline double drawing_off_chi2(double chi2, double freedom)
{
    double variance = 2 / (9 * freedom);

    return fabs(cbrt(chi2 / freedom) - (1 - variance)) / sqrt(variance);
}

#endif
